//! `make install` and `make uninstall` into a scratch root.

use std::path::{Path, PathBuf};
use std::process::Command;

fn make(target: &str, root: &Path) {
    let out = Command::new("make")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), target])
        .arg(format!("BUILT={}", env!("CARGO_BIN_EXE_scx_vrq")))
        .arg(format!("PREFIX={}/usr", root.display()))
        .output()
        .expect("make");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder").flatten().map(|e| e.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_is_installed_works_and_is_removed_without_a_trace() {
    let root = tempfile::tempdir().expect("a folder");
    make("install", root.path());
    let usr = root.path().join("usr");
    let installed = files(&usr);
    for wanted in ["bin/scx_vrq", "share/man/man8/scx_vrq.8", "share/man/man8/scx_vrq-tune.8"] {
        assert!(installed.contains(&usr.join(wanted)), "no {wanted} in {installed:?}");
    }
    assert_eq!(
        installed.iter().filter(|p| p.ends_with("scx_vrq") || p.ends_with("_scx_vrq")).count(),
        3,
        "{installed:?}"
    );
    let version = Command::new(usr.join("bin/scx_vrq")).arg("-V").output().expect("it runs");
    assert!(version.status.success());
    let unit = usr.join("lib/systemd/system/scx_vrq.service");
    // Without systemd only its being there was looked at.
    if let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output() {
        let said = String::from_utf8_lossy(&verified.stderr);
        let ours: Vec<&str> = said.lines().filter(|l| l.contains("scx_vrq")).collect();
        assert!(verified.status.success() && ours.is_empty(), "{said}");
    }
    assert!(
        std::fs::read_to_string(unit)
            .is_ok_and(|text| text.contains(&format!("ExecStart={}/bin/scx_vrq", usr.display())))
    );
    make("uninstall", root.path());
    assert_eq!(files(root.path()), Vec::<PathBuf>::new());
}
