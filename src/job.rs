//! What `scx_vrq run` schedules for: a time, or a command.

use crate::failure::{Status, failure};
use anyhow::{Context, Result};
use log::info;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// Without time and command it is never over.
#[derive(Default)]
pub struct Job {
    limit: Option<Duration>,
    command: Vec<String>,
    started: Option<Instant>,
    child: Option<Child>,
    ended: Option<ExitStatus>,
}

impl Job {
    /// To be started later.
    ///
    /// # Errors
    /// Status 2 if there is no such command.
    pub fn new(limit: Option<Duration>, command: Vec<String>) -> Result<Self> {
        if let Some(name) = command.first()
            && !exists(name)
        {
            return Err(failure(Status::Usage, format!("there is no command \"{name}\" to run")));
        }
        Ok(Self { limit, command, ..Self::default() })
    }

    /// Start time and command, the first time this is called. `nice`: what the command is to have.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start(&mut self, nice: i32) -> Result<()> {
        if self.started.is_some() {
            return Ok(());
        }
        self.started = Some(Instant::now());
        let Some((name, args)) = self.command.split_first() else { return Ok(()) };
        let mut command = Command::new(name);
        // SAFETY: a plain system call.
        unsafe {
            command.args(args).pre_exec(move || {
                libc::setpriority(libc::PRIO_PROCESS, 0, nice);
                Ok(())
            })
        };
        self.child = Some(command.spawn().with_context(|| format!("{name} cannot be started"))?);
        Ok(())
    }

    /// Why it is over, if it is.
    pub fn over(&mut self) -> Option<&'static str> {
        if let (Some(limit), Some(started)) = (self.limit, self.started)
            && started.elapsed() >= limit
        {
            return Some("the time of --for is over");
        }
        self.poll().then_some("the command has ended")
    }

    /// Has the command ended?
    fn poll(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            (self.child, self.ended) = (None, Some(status));
        }
        self.ended.is_some()
    }

    /// The machine is given back: wait for the command, and end as it does. `stopped`: was scx_vrq told to end? Then the
    /// command is told, too.
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn end(mut self, result: Result<()>, stopped: impl Fn() -> bool) -> Result<ExitCode> {
        if self.child.is_some() && !self.poll() && !stopped() {
            info!("the command goes on under the kernel's own scheduler");
        }
        let mut told = false;
        while let Some(child) = &self.child
            && !told
        {
            if stopped() {
                // SAFETY: a child of ours that was not waited for.
                unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
                told = true;
            }
            std::thread::sleep(Duration::from_millis(20));
            self.poll();
        }
        if let Some(mut child) = self.child.take() {
            self.ended = Some(child.wait().context("the command cannot be waited for")?);
        }
        result?;
        Ok(self.ended.map_or(ExitCode::SUCCESS, exit_code))
    }
}

/// As a shell has it: the status, or 128 and the signal.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}

fn exists(name: &str) -> bool {
    let can_run = |path: &Path| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return can_run(Path::new(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    !name.is_empty() && std::env::split_paths(&path).any(|dir| can_run(&dir.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &[&str], stopped: bool) -> String {
        let mut job = Job::new(None, command.iter().map(|s| s.to_string()).collect()).expect("it exists");
        job.start(0).expect("it starts");
        format!("{:?}", job.end(Ok(()), || stopped).expect("no error"))
    }

    #[test]
    fn it_ends_with_the_status_of_the_command() {
        let code = |n: u8| format!("{:?}", ExitCode::from(n));
        assert_eq!(run(&["true"], false), code(0));
        assert_eq!(run(&["sh", "-c", "exit 7"], false), code(7));
        assert_eq!(run(&["sh", "-c", "kill -9 $$"], false), code(137));
        assert_eq!(run(&["sleep", "60"], true), code(143), "a stop is passed on");
    }

    #[test]
    fn a_command_that_is_not_there_is_refused() {
        for name in ["no-such-command", "/no/such/command", "", "/etc/passwd", "/tmp"] {
            assert!(Job::new(None, vec![name.into()]).is_err(), "{name}");
        }
    }

    #[test]
    fn a_time_is_over_when_it_is_over_and_nothing_is_never() {
        let mut job = Job::new(Some(Duration::from_millis(20)), vec![]).expect("right");
        assert!(job.over().is_none(), "not started");
        job.start(0).expect("right");
        assert!(job.over().is_none());
        std::thread::sleep(Duration::from_millis(30));
        assert!(job.over().is_some());
        assert!(Job::default().over().is_none());
    }
}
