//! How many CPUs are online, and taking some away for a run (the "nosmp" of document 000).

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const DIR: &str = "/sys/devices/system/cpu";

/// CPUs that are online now, 1 or more.
pub fn online() -> u32 {
    // SAFETY: sysconf takes no pointers.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(n).unwrap_or(1).max(1)
}

/// While this lives, only some CPUs are online; the others come back when it is dropped.
pub struct TakenOffline {
    switches: Vec<PathBuf>,
}

impl TakenOffline {
    /// Leaves `keep` CPUs online, 1 or more, the lowest ones. No sched_ext scheduler may be loaded:
    /// some leave when a CPU does.
    pub fn all_but(keep: u32) -> Result<TakenOffline> {
        TakenOffline::all_but_at(Path::new(DIR), keep)
    }

    fn all_but_at(dir: &Path, keep: u32) -> Result<TakenOffline> {
        let mut taken = TakenOffline { switches: Vec::new() };
        for cpu in online_list(dir)?.into_iter().skip(keep.max(1) as usize) {
            let switch = dir.join(format!("cpu{cpu}/online"));
            fs::write(&switch, "0").with_context(|| format!("CPU {cpu} cannot be taken offline"))?;
            taken.switches.push(switch);
        }
        Ok(taken)
    }
}

impl Drop for TakenOffline {
    fn drop(&mut self) {
        for switch in &self.switches {
            if let Err(error) = fs::write(switch, "1") {
                eprintln!("{} could not be set back to 1: {error}", switch.display());
            }
        }
    }
}

/// The CPUs of a list such as "0-3,8".
fn online_list(dir: &Path) -> Result<Vec<usize>> {
    let path = dir.join("online");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    scx_utils::read_cpulist(&text).with_context(|| format!("{} holds {text:?}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_go_and_come_back() {
        let dir = tempfile::tempdir().expect("tempdir");
        fs::write(dir.path().join("online"), "0-2,4\n").expect("write");
        for cpu in [1, 2, 4] {
            fs::create_dir(dir.path().join(format!("cpu{cpu}"))).expect("mkdir");
            fs::write(dir.path().join(format!("cpu{cpu}/online")), "1").expect("write");
        }
        let state =
            || [1, 2, 4].map(|cpu| fs::read_to_string(dir.path().join(format!("cpu{cpu}/online"))).expect("read"));
        let taken = TakenOffline::all_but_at(dir.path(), 2).expect("taken");
        assert_eq!(state(), ["1", "0", "0"]);
        drop(taken);
        assert_eq!(state(), ["1", "1", "1"]);
    }
}
