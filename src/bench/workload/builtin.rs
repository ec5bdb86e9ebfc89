//! The workloads that this program does itself: `pipe`, `messages`, `wakeup`.
//!
//! They run in a process of their own, this program again with `--worker`, so that what they use is
//! accounted like any command's; it prints its outcome as JSON in its last line.

use super::{Outcome, Workload, last_line, messages, pipe, wakeup};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::path::Path;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Builtin {
    Pipe,
    Messages,
    Wakeup,
}

impl Builtin {
    fn name(self) -> &'static str {
        match self {
            Builtin::Pipe => "pipe",
            Builtin::Messages => "messages",
            Builtin::Wakeup => "wakeup",
        }
    }
}

/// What `--worker` does: the work, and one line about it.
pub fn work(which: Builtin, jobs: u32, scale: u32) -> Result<()> {
    let outcome = match which {
        Builtin::Pipe => pipe::run(jobs, scale)?,
        Builtin::Messages => messages::run(jobs, scale)?,
        Builtin::Wakeup => wakeup::run(jobs, scale)?,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

pub struct BuiltinWorkload {
    pub which: Builtin,
    pub scale: u32,
}

impl Workload for BuiltinWorkload {
    fn command(&self, jobs: u32) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("this program cannot find itself")?);
        command.args(["bench", "--worker", self.which.name()]);
        command.args(["--jobs", &jobs.to_string(), "--scale", &self.scale.to_string()]);
        Ok(command)
    }

    fn check(&self, output: &Path) -> Result<Outcome> {
        let line = last_line(output);
        serde_json::from_str(&line)
            .with_context(|| format!("{} printed {line:?} instead of its outcome", self.which.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakeup_counts_what_it_times() {
        let outcome = wakeup::run(2, 1).expect("runs");
        let latency = outcome.latency.expect("latency");
        assert!(outcome.requests > 10, "{}", outcome.requests);
        assert_eq!(latency.count, outcome.requests);
        assert!(latency.p50_us <= latency.p99_us && latency.p99_us <= latency.max_us);
    }

    // pipe and messages fork, which a test's many threads forbid: tests/bench_workloads.rs runs them.
}
