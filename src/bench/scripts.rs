//! The scripts that make a virtual machine: those of the checkout that this program was built in, or,
//! where it stands alone, as installed, those that were built into it.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Names boot.sh, or the folder that the scripts are in, in place of both.
const VARIABLE: &str = "SCX_VRQ_VM";
pub const BOOT: &str = "boot.sh";
pub const COST: &str = "cost.sh";

macro_rules! built_in {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("../../vm/", $name)))),*] };
}
const BUILT_IN: [(&str, &str); 7] =
    built_in!["boot.sh", "deps.sh", "kernel.sh", "cost.sh", "cost-init.sh", "cost-table.py", "work.c"];

/// Where a script is; the others are beside it.
pub fn find(name: &str) -> Result<PathBuf> {
    let found = match std::env::var_os(VARIABLE).map(PathBuf::from) {
        Some(path) if path.is_dir() => path.join(name),
        Some(path) if name != BOOT => path.with_file_name(name),
        Some(path) => path,
        None => {
            let program = std::env::current_exe().context("this program cannot find itself")?;
            let checkout = program.ancestors().map(|dir| dir.join("vm")).find(|dir| dir.join(name).is_file());
            return Ok(checkout.map_or_else(unpack, Ok)?.join(name));
        }
    };
    anyhow::ensure!(found.is_file(), "there is no {}: {VARIABLE} has to name the folder of boot.sh", found.display());
    Ok(found)
}

/// Into the cache that the scripts themselves use, for this version; a newer one does not meet older files.
fn unpack() -> Result<PathBuf> {
    let cache = std::env::var_os("SCX_VRQ_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("XDG_CACHE_HOME").map(|dir| Path::new(&dir).join("scx_vrq")));
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|dir| Path::new(&dir).join(".cache/scx_vrq")));
    let dir =
        cache.context("there is no HOME: name a folder in SCX_VRQ_CACHE")?.join("scripts").join(crate::cli::version());
    BUILT_IN.iter().try_for_each(|(name, content)| put(&dir, name, content)).with_context(|| {
        format!(
            "the scripts of the virtual machine cannot be written to {}: name another folder in SCX_VRQ_CACHE",
            dir.display()
        )
    })?;
    Ok(dir)
}

/// Whole or not at all: another scx_vrq may be running the file that is there.
fn put(dir: &Path, name: &str, content: &str) -> Result<()> {
    let path = dir.join(name);
    if fs::read_to_string(&path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    let new = dir.join(format!("{name}.{}", std::process::id()));
    fs::write(&new, content)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    Ok(fs::rename(&new, &path)?)
}
