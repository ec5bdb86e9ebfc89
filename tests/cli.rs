//! The command line as a user meets it, on a machine without sched_ext: refused before anything is
//! opened, with one sentence and a status.

use std::process::{Command, Stdio};

fn run(args: &[&str]) -> (i32, String, String) {
    let out =
        Command::new(env!("CARGO_BIN_EXE_scx_vrq")).args(args).stdin(Stdio::null()).output().expect("scx_vrq runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

#[test]
fn version_names_the_program() {
    let (status, out, _) = run(&["-V"]);
    assert_eq!(status, 0);
    assert!(out.starts_with(concat!("scx_vrq ", env!("CARGO_PKG_VERSION"))), "{out}");
}

#[test]
fn help_lists_every_status_and_the_ranges() {
    let (status, out, _) = run(&["--help"]);
    assert_eq!(status, 0);
    for wanted in ["  0  ", "  1  ", "  2  ", " 69  ", " 70  ", " 75  ", " 77  ", "rr-interval-ms", "default: 6"] {
        assert!(out.contains(wanted), "no {wanted:?} in {out}");
    }
}

#[test]
fn help_stats_describes_every_counter() {
    let (status, out, _) = run(&["--help-stats"]);
    assert_eq!(status, 0);
    for wanted in ["nr_dispatches", "nr_goidle_deactivate", "nr_kicks_empty", "longest_wait_ms"] {
        assert!(out.contains(wanted), "no {wanted} in {out}");
    }
}

#[test]
fn wrong_use_is_status_2_and_names_what_is_wrong() {
    for (args, wanted) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--rr-interval-ms", "0"], "1..=1000"),
        (&["--rr-interval-ms", "1001"], "1..=1000"),
        (&["--rr-interval-ms", "six"], "six"),
        (&["--stats", "-1"], "-1"),
        (&["--monitor", "nan"], "nan"),
        (&["--exit-dump-len", "99999999999"], "99999999999"),
        (&["--kconfig", "/no/such/file"], "/no/such/file"),
        (&["--btf-custom-path", "/no/such/file"], "/no/such/file"),
        (&["no-such-subcommand"], "no-such-subcommand"),
        (&["bench", "--ratio", "0"], "0"),
    ] {
        let (status, _, err) = run(args);
        assert_eq!(status, 2, "{args:?}: {err}");
        assert!(err.contains(wanted), "{args:?}: {err}");
    }
}

#[test]
fn a_kernel_without_sched_ext_is_status_69_and_names_make_run() {
    if std::path::Path::new("/sys/kernel/sched_ext").exists() {
        println!("not run: this kernel has sched_ext");
        return;
    }
    let (status, _, err) = run(&[]);
    assert_eq!(status, 69, "{err}");
    assert!(err.contains("sched_ext") && err.contains("make run"), "{err}");
    assert_eq!(err.trim().lines().count(), 1, "{err}");
}

#[test]
fn check_names_what_is_missing_and_is_no_success_here() {
    if std::path::Path::new("/sys/kernel/sched_ext").exists() {
        println!("not run: this kernel has sched_ext");
        return;
    }
    let (status, out, _) = run(&["check"]);
    assert_eq!(status, 69, "{out}");
    assert!(out.lines().any(|l| l.starts_with("FAIL  sched_ext")), "{out}");
    let (status, out, _) = run(&["check", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, &json["ok"]), (69, &serde_json::Value::Bool(false)), "{out}");
}

#[test]
fn a_full_disk_behind_stdout_is_no_panic() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let out = Command::new(env!("CARGO_BIN_EXE_scx_vrq")).stdout(full).output().expect("scx_vrq runs");
    assert!(!String::from_utf8_lossy(&out.stderr).contains("panicked"));
}
