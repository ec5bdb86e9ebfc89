//! What the kernel says of sched_ext in /sys/kernel/sched_ext: whether a scheduler is in charge, and which.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// The kernel's view of sched_ext.
#[derive(Clone, Debug)]
pub struct SchedExt {
    pub(super) dir: PathBuf,
}

impl Default for SchedExt {
    fn default() -> Self {
        SchedExt { dir: PathBuf::from("/sys/kernel/sched_ext") }
    }
}

impl SchedExt {
    pub fn present(&self) -> bool {
        self.dir.is_dir()
    }

    /// `disabled`, `enabling`, `enabled` or `disabling`.
    pub fn state(&self) -> Result<String> {
        self.read("state").context("this kernel has no sched_ext: Debian's cloud kernels from 6.16 on have it")
    }

    /// Name of the scheduler in charge; None while there is none.
    pub fn ops(&self) -> Option<String> {
        self.read("root/ops").ok().filter(|name| !name.is_empty())
    }

    /// Rises each time a scheduler is attached: tells a scheduler from its successor.
    pub fn enable_seq(&self) -> Result<u64> {
        self.read("enable_seq")?.parse().context("/sys/kernel/sched_ext/enable_seq is no number")
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(text.trim().to_string())
    }

    /// Refuses to measure while somebody else's scheduler is in charge.
    pub fn ensure_disabled(&self) -> Result<()> {
        let state = self.state()?;
        ensure!(
            state == "disabled",
            "sched_ext is {state} with {}: stop that scheduler first",
            self.ops().unwrap_or_else(|| "a scheduler without a name".to_string())
        );
        Ok(())
    }

    /// Waits until the kernel's own scheduler is back.
    pub fn wait_disabled(&self) -> Result<()> {
        let start = Instant::now();
        while self.state()? != "disabled" {
            ensure!(
                start.elapsed() < STOP_TIMEOUT,
                "sched_ext is still {} after {} s",
                self.state()?,
                STOP_TIMEOUT.as_secs()
            );
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}
