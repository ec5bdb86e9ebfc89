//! One command from start to end: its time, and what the kernel says it and its children used.

use super::interrupt::EndOnRequest;
use anyhow::{Context, Result, bail};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Resources of a command with every descendant that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub elapsed: Duration,
    pub user: Duration,
    pub system: Duration,
    /// Switches because the task slept.
    pub voluntary_switches: u64,
    /// Switches because the scheduler took the CPU away.
    pub involuntary_switches: u64,
    /// Largest resident set of any one process, in KiB.
    pub max_rss_kib: u64,
}

/// A command that runs, in a process group of its own that a request to stop ends.
pub struct Started {
    pub child: Child,
    pid: i32,
    start: Instant,
    _end_on_request: EndOnRequest,
}

/// Starts the command. Where its output goes is the caller's business.
pub fn start(command: &mut Command) -> Result<Started> {
    let program = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    // SAFETY: prctl is async-signal-safe and touches no memory. A command does not outlive a bench that was killed.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    let child = command.process_group(0).spawn().map_err(|error| spawn_error(&program, error))?;
    let pid = i32::try_from(child.id()).context("process id out of range")?;
    Ok(Started { child, pid, start, _end_on_request: EndOnRequest::new(pid) })
}

impl Started {
    /// Waits until the command ends.
    pub fn wait(self) -> Result<(ExitStatus, Usage)> {
        let (status, rusage) = wait4(self.pid)?;
        let usage = Usage {
            elapsed: self.start.elapsed(),
            user: duration(rusage.ru_utime),
            system: duration(rusage.ru_stime),
            voluntary_switches: unsigned(rusage.ru_nvcsw),
            involuntary_switches: unsigned(rusage.ru_nivcsw),
            max_rss_kib: unsigned(rusage.ru_maxrss),
        };
        Ok((status, usage))
    }
}

/// Starts the command and waits for it.
pub fn run(command: &mut Command) -> Result<(ExitStatus, Usage)> {
    start(command)?.wait()
}

/// "command not found" and its kin, as a sentence.
pub fn spawn_error(program: &str, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!("{program} cannot be found: install it, or give its full path"),
        _ => anyhow::Error::new(error).context(format!("{program} cannot be started")),
    }
}

/// How a command ended, as the rest of a sentence; None if it ended well.
pub fn failure(status: ExitStatus) -> Option<String> {
    match (status.success(), status.signal()) {
        (true, _) => None,
        (_, Some(signal)) => Some(format!("was ended by signal {signal}")),
        _ => Some(format!("ended with status {}", status.code().unwrap_or(-1))),
    }
}

fn wait4(pid: i32) -> Result<(ExitStatus, libc::rusage)> {
    loop {
        let mut status = 0;
        // SAFETY: rusage is a plain struct of integers, for which all zeroes is a value.
        let mut rusage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live locals of the right type.
        let got = unsafe { libc::wait4(pid, &mut status, 0, &mut rusage) };
        if got == pid {
            return Ok((ExitStatus::from_raw(status), rusage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            bail!("waiting for process {pid} failed: {error}");
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(unsigned(time.tv_sec)) + Duration::from_micros(unsigned(time.tv_usec))
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_and_its_children_are_accounted() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "i=0; while [ $i -lt 20 ]; do sleep 0.001; i=$((i+1)); done; exit 3"]);
        let (status, usage) = run(&mut shell).expect("runs");
        assert_eq!(failure(status).expect("fails"), "ended with status 3");
        assert!(usage.elapsed >= Duration::from_millis(20));
        assert!(usage.voluntary_switches >= 20, "{usage:?}");
        assert!(usage.max_rss_kib > 100);
    }

    #[test]
    fn a_missing_command_is_named() {
        let error = run(&mut Command::new("no-such-command-here")).expect_err("cannot run");
        assert!(error.to_string().starts_with("no-such-command-here cannot be found"));
    }
}
