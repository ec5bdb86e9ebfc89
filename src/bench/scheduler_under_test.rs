//! Puts a sched_ext scheduler in charge of the machine for one run, and takes it away again.
//!
//! What the kernel says in /sys/kernel/sched_ext decides, never the command's own word. Whatever
//! happens, Drop leaves the kernel's own scheduler in charge; if this process is killed, the kernel
//! sends the scheduler SIGINT for it.

use super::execute::{failure, spawn_error};
use super::interrupt;
use super::sched_ext::SchedExt;
use super::scheduler_spec::{SchedulerKind, SchedulerSpec};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ATTACH_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LAST_WORDS: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(10);
/// Lines of a scheduler's own output that an error repeats.
const TAIL_LINES: usize = 3;

/// A scheduler that is in charge; the kernel's own is one without a process.
pub struct SchedulerUnderTest {
    sched_ext: SchedExt,
    name: String,
    log_file: PathBuf,
    running: Option<Running>,
}

struct Running {
    child: Child,
    ops: String,
    enable_seq: u64,
}

impl SchedulerUnderTest {
    /// Starts the scheduler and waits until the kernel says that it is in charge.
    pub fn start(spec: &SchedulerSpec, sched_ext: SchedExt, log_file: &Path) -> Result<SchedulerUnderTest> {
        sched_ext.ensure_disabled()?;
        let mut this =
            SchedulerUnderTest { sched_ext, name: spec.name.clone(), log_file: log_file.to_path_buf(), running: None };
        if let Some(mut command) = command_of(spec)? {
            let log = File::create(log_file).with_context(|| format!("{} cannot be written", log_file.display()))?;
            let enable_seq = this.sched_ext.enable_seq()?;
            // From here on Drop stops the child, whatever fails.
            this.running = Some(Running { child: spawn(&mut command, log)?, ops: String::new(), enable_seq });
            this.wait_enabled(spec)?;
        }
        Ok(this)
    }

    fn wait_enabled(&mut self, spec: &SchedulerSpec) -> Result<()> {
        let start = Instant::now();
        let Some(running) = &mut self.running else { return Ok(()) };
        loop {
            // The kernel counts an enable a moment after it has set the state: only then is it done.
            let enable_seq = self.sched_ext.enable_seq()?;
            if self.sched_ext.state()? == "enabled"
                && enable_seq != running.enable_seq
                && let Some(ops) = self.sched_ext.ops()
            {
                if let SchedulerKind::Vrq { .. } = spec.kind {
                    ensure!(ops.contains("vrq"), "{} was started, but the kernel names {ops}", self.name);
                }
                running.ops = ops;
                running.enable_seq = enable_seq;
                return Ok(());
            }
            if let Some(status) = running.child.try_wait()? {
                let how = failure(status).unwrap_or_else(|| "ended".to_string());
                bail!("scheduler {} {how} before it attached: {}", self.name, tail(&self.log_file));
            }
            ensure!(!interrupt::requested(), "stopped while scheduler {} was attaching", self.name);
            ensure!(
                start.elapsed() < ATTACH_TIMEOUT,
                "scheduler {} did not attach within {} s: {}",
                self.name,
                ATTACH_TIMEOUT.as_secs(),
                tail(&self.log_file)
            );
            std::thread::sleep(POLL);
        }
    }

    /// Name in the kernel's root/ops; None for the kernel's own scheduler.
    pub fn ops(&self) -> Option<&str> {
        self.running.as_ref().map(|running| running.ops.as_str())
    }

    /// Fails if another scheduler than the one that was started is in charge now, or was in between.
    pub fn ensure_still_in_charge(&mut self) -> Result<()> {
        let state = self.sched_ext.state()?;
        let Some(running) = &mut self.running else {
            ensure!(state == "disabled", "a sched_ext scheduler took over while the kernel's own was measured");
            return Ok(());
        };
        let same = self.sched_ext.enable_seq()? == running.enable_seq;
        if state == "enabled" && same {
            return Ok(());
        }
        // It knows why, and says so when it ends.
        let start = Instant::now();
        while running.child.try_wait()?.is_none() && start.elapsed() < LAST_WORDS {
            std::thread::sleep(POLL);
        }
        bail!("scheduler {} was ejected during the run: {}", self.name, tail(&self.log_file))
    }

    /// Stops the scheduler and waits until the kernel's own is back.
    pub fn stop(mut self) -> Result<()> {
        self.stop_now()
    }

    fn stop_now(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let pid = i32::try_from(running.child.id()).context("process id out of range")?;
        let start = Instant::now();
        let mut killed = false;
        if running.child.try_wait()?.is_none() {
            signal_group(pid, libc::SIGINT);
        }
        while running.child.try_wait()?.is_none() {
            if !killed && start.elapsed() > STOP_TIMEOUT {
                killed = true;
                signal_group(pid, libc::SIGKILL);
            }
            std::thread::sleep(POLL);
        }
        ensure!(!killed, "scheduler {} did not stop within {} s and was killed", self.name, STOP_TIMEOUT.as_secs());
        self.sched_ext.wait_disabled()
    }
}

impl Drop for SchedulerUnderTest {
    fn drop(&mut self) {
        if let Err(error) = self.stop_now() {
            eprintln!("{error:#}");
        }
    }
}

/// The command line that starts a scheduler; None for the kernel's own.
pub fn command_of(spec: &SchedulerSpec) -> Result<Option<Command>> {
    Ok(match &spec.kind {
        SchedulerKind::KernelDefault => None,
        SchedulerKind::Vrq { flags } => {
            let mut command = Command::new(std::env::current_exe().context("this program cannot find itself")?);
            command.args(flags);
            Some(command)
        }
        SchedulerKind::Command { argv } => {
            let (program, arguments) = argv.split_first().context("a scheduler's command is empty")?;
            let mut command = Command::new(program);
            command.args(arguments);
            Some(command)
        }
    })
}

fn spawn(command: &mut Command, log: File) -> Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    // SAFETY: prctl is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT);
            Ok(())
        });
    }
    command.spawn().map_err(|error| spawn_error(&program, error))
}

fn signal_group(pid: i32, signal: i32) {
    // SAFETY: kill takes no pointers; the group is of our own child, not reaped yet.
    unsafe { libc::kill(-pid, signal) };
}

/// The last words of a scheduler, for an error of one line.
fn tail(log_file: &Path) -> String {
    let bytes = fs::read(log_file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.len() {
        0 => "it said nothing".to_string(),
        n => lines[n.saturating_sub(TAIL_LINES)..].join(" | "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake_kernel(dir: &Path, state: &str) -> SchedExt {
        fs::create_dir_all(dir.join("root")).expect("mkdir");
        for (file, text) in [("state", state), ("enable_seq", "3"), ("root/ops", "")] {
            fs::write(dir.join(file), text).expect("write");
        }
        SchedExt { dir: dir.to_path_buf() }
    }

    /// A shell that does to the fake kernel what a scheduler would do to the real one.
    fn fake_scheduler(dir: &Path, body: &str) -> SchedulerSpec {
        let body = body.replace("DIR", &dir.display().to_string());
        let argv = ["sh", "-c", &body].map(String::from).into();
        SchedulerSpec { name: "fake".to_string(), kind: SchedulerKind::Command { argv } }
    }

    const WELL_BEHAVED: &str = "trap 'echo disabled > DIR/state; exit 0' INT; echo fake_1.0 > DIR/root/ops; \
        echo 4 > DIR/enable_seq; echo enabled > DIR/state; while :; do sleep 0.01; done";

    #[test]
    fn a_scheduler_is_started_watched_and_stopped() {
        let dir = tempfile::tempdir().expect("tempdir");
        let kernel = fake_kernel(dir.path(), "disabled");
        let spec = fake_scheduler(dir.path(), WELL_BEHAVED);
        let mut scheduler = SchedulerUnderTest::start(&spec, kernel.clone(), &dir.path().join("log")).expect("starts");
        assert_eq!(scheduler.ops(), Some("fake_1.0"));
        scheduler.ensure_still_in_charge().expect("in charge");
        fs::write(dir.path().join("enable_seq"), "5").expect("write");
        let error = scheduler.ensure_still_in_charge().expect_err("another one came");
        assert!(error.to_string().contains("ejected"));
        scheduler.stop().expect("stops");
        assert_eq!(kernel.state().expect("state"), "disabled");
    }

    #[test]
    fn a_scheduler_that_ends_early_is_quoted() {
        let dir = tempfile::tempdir().expect("tempdir");
        let spec = fake_scheduler(dir.path(), "echo BPF says no >&2; exit 69");
        let error =
            SchedulerUnderTest::start(&spec, fake_kernel(dir.path(), "disabled"), &dir.path().join("log")).err();
        let text = error.expect("fails").to_string();
        assert_eq!(text, "scheduler fake ended with status 69 before it attached: BPF says no");
    }

    #[test]
    fn another_scheduler_in_charge_is_not_disturbed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let kernel = fake_kernel(dir.path(), "enabled");
        fs::write(dir.path().join("root/ops"), "flash_1.0\n").expect("write");
        let spec = SchedulerSpec { name: "default".to_string(), kind: SchedulerKind::KernelDefault };
        let error = SchedulerUnderTest::start(&spec, kernel, &dir.path().join("log")).err().expect("refused");
        assert_eq!(error.to_string(), "sched_ext is enabled with flash_1.0: stop that scheduler first");
    }
}
