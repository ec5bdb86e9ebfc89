//! What is run under each scheduler: a command, what has to be done before it, and how its result is checked.

mod builtin;
mod command;
mod compile;
mod fork;
mod messages;
mod pipe;
mod wakeup;

pub use builtin::{Builtin, BuiltinWorkload, work};
pub use command::UserCommand;
pub use compile::Compile;

use super::latency::Latency;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub trait Workload {
    /// Once, before anything is measured: writes files, refuses if a tool is missing.
    fn set_up(&mut self, _dir: &Path) -> Result<()> {
        Ok(())
    }
    /// Before each run, not timed.
    fn prepare(&mut self, _jobs: u32) -> Result<()> {
        Ok(())
    }
    /// The command that is timed.
    fn command(&self, jobs: u32) -> Result<Command>;
    /// After each run, not timed: refuses a run whose result is wrong. `output` is what it printed.
    fn check(&self, output: &Path) -> Result<Outcome>;
}

/// What a workload says of itself, beside what the kernel says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Round trips, messages or requests done; 0 for a workload that is one piece.
    pub requests: u64,
    pub latency: Option<Latency>,
}

/// A folder on tmpfs that goes away with this value: a disk or a shared folder would be what is measured.
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    pub fn new() -> Result<Scratch> {
        let base = Some(PathBuf::from("/dev/shm")).filter(|dir| dir.is_dir()).unwrap_or_else(std::env::temp_dir);
        let dir = base.join(format!("scx_vrq-bench.{}", std::process::id()));
        fs::create_dir(&dir)
            .with_context(|| format!("{} cannot be made: is {} full?", dir.display(), base.display()))?;
        Ok(Scratch { dir })
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{} could not be removed: {error}", self.dir.display());
        }
    }
}

/// Sends what the command prints, both streams, to a file.
pub fn output_to(command: &mut Command, path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    Ok(())
}

/// Last line of a file, for an error.
pub fn last_line(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing").trim().to_string()
}
