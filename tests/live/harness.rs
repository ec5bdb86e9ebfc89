//! scx_vrq as a child process, and what the kernel says.

pub use crate::load::*;
use scx_vrq::policy;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub const BIN: &str = env!("CARGO_BIN_EXE_scx_vrq");
const LIMIT: Duration = Duration::from_secs(30);

pub fn read(path: &str) -> String {
    fs::read_to_string(path).map(|s| s.trim().to_string()).unwrap_or_default()
}

pub fn state() -> String {
    read("/sys/kernel/sched_ext/state")
}

pub fn ops() -> String {
    read("/sys/kernel/sched_ext/root/ops")
}

/// The CPUs that are online by their numbers, which may have holes. CPU 0 is the first.
pub fn online() -> Vec<usize> {
    scx_utils::read_cpulist(&read("/sys/devices/system/cpu/online")).expect("a list of CPUs")
}

pub fn nr_cpus() -> usize {
    online().len()
}

/// Bit n: CPU n.
pub fn mask_of(cpus: &[usize]) -> u64 {
    cpus.iter().map(|cpu| 1 << cpu).sum()
}

pub fn all_cpus() -> u64 {
    mask_of(&online())
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// From 7.0 on the kernel leaves our class 5 % of a CPU that real-time tasks hold.
pub fn has_ext_server() -> bool {
    std::path::Path::new("/sys/kernel/debug/sched/ext_server").exists()
}

/// LIVE_LENGTH=full chooses the full length of a case; else it is short, for `make test`.
pub fn is_full() -> bool {
    std::env::var("LIVE_LENGTH").is_ok_and(|l| l == "full")
}

/// `short` or `full`, by LIVE_LENGTH.
pub fn length<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}

/// The ageing of IDLEPRIO, with the period of its timer, in ms. Add it to `bound_ms`.
pub const AGEING_MS: u64 = policy::VRQ_AGEING_MS as u64 + 100;

/// The longest wait by the rule, in ms, where `runnable` tasks share `cpus` CPUs and the worst has `nice`: its
/// deadline's offset, then one slice of each task before it. The slack is for the kernel's threads and the test's, and,
/// with more than one CPU, for the emulator: it runs one CPU after the other and lets one wait for 100 ms and more.
pub fn bound_ms(runnable: usize, cpus: usize, nice: i32) -> u64 {
    const SLICE_MS: u64 = 8; // 6 ms, rounded up to ticks of 4
    let offset_ns = policy::deadline_offset_ns((nice + 20) as u32, policy::VRQ_RR_INTERVAL_DFL_MS);
    offset_ns.div_ceil(1_000_000) + runnable.div_ceil(cpus) as u64 * SLICE_MS + slack_ms()
}

pub fn slack_ms() -> u64 {
    60 + 125 * if nr_cpus() > 1 { nr_cpus() as u64 } else { 0 }
}

/// Poll until `what` holds; panics with `name` after a while.
pub fn wait_until(name: &str, mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < LIMIT, "waited in vain until {name}; state {}, ops {}", state(), ops());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The build that can have faults.
pub fn with_faults() -> Command {
    Command::new(std::env::var("VRQ_FAULTS_BIN").expect("VRQ_FAULTS_BIN names the build that can have faults"))
}

/// A thread of that `name` that sleeps once.
pub fn sleeper_named(name: &'static std::ffi::CStr) -> std::thread::JoinHandle<()> {
    std::thread::spawn(|| {
        // SAFETY: a NUL-terminated name for this thread.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        std::thread::sleep(ms(50));
    })
}

/// A scx_vrq that has the machine. Dropped: killed, and the machine given back.
pub struct Vrq {
    child: Child,
}

/// How a scx_vrq ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Vrq {
    pub fn start(args: &[&str]) -> Self {
        // mutants.rs runs a test with a fault in it
        let mut program = if std::env::var_os("VRQ_FAULT").is_some() { with_faults() } else { Command::new(BIN) };
        Self::spawn(program.args(args))
    }

    /// Spawn and wait until it has the machine.
    pub fn spawn(command: &mut Command) -> Self {
        let vrq = Self::spawn_as_it_is(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        wait_until("its statistics are served", || request("counters").is_ok());
        vrq
    }

    /// The same with stdin, stdout and stderr as `command` has them, and perhaps without statistics.
    pub fn spawn_as_it_is(command: &mut Command) -> Self {
        wait_until("the machine is free", || state() == "disabled");
        let mut vrq = Self { child: command.spawn().expect("scx_vrq starts") };
        wait_until("scx_vrq has the machine", || {
            if let Ok(Some(status)) = vrq.child.try_wait() {
                panic!("scx_vrq ended with {status}: {}", read_all(vrq.child.stderr.take()));
            }
            state() == "enabled"
        });
        assert!(ops().starts_with("vrq_"), "{} has the machine", ops());
        vrq
    }

    /// Has it not ended?
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Wait until it has ended, whoever has the machine then.
    pub fn end_of_process(mut self) -> ExitStatus {
        self.wait()
    }

    fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status;
            }
            assert!(start.elapsed() < LIMIT, "scx_vrq does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Wait until it has ended and the machine is given back.
    pub fn end(mut self) -> Ended {
        let status = self.wait();
        wait_until("the machine is given back", || state() == "disabled");
        let (stdout, stderr) = (read_all(self.child.stdout.take()), read_all(self.child.stderr.take()));
        Ended { status, stdout, stderr }
    }

    pub fn stop(self) -> Ended {
        self.signal(libc::SIGINT);
        self.end()
    }
}

fn read_all(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).expect("a pipe");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Vrq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let start = Instant::now();
        while state() != "disabled" && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn request(target: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    scx_stats::prelude::StatsClient::new()
        .connect(Some(10_000))?
        .request("stats", vec![("target".into(), target.into())])
}

/// The counters of the scx_vrq that has the machine.
pub fn counters() -> BTreeMap<String, u64> {
    request("counters").expect("counters")
}

/// What was counted between two readings.
pub fn delta(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, name: &str) -> u64 {
    after[name] - before[name]
}

/// A scx_vrq that must come through: it keeps the machine, ends well, and leaves a clean kernel log.
pub struct Trial {
    pub vrq: Vrq,
    dmesg: Dmesg,
}

impl Trial {
    pub fn start(args: &[&str]) -> Self {
        let dmesg = Dmesg::start();
        Self { vrq: Vrq::start(args), dmesg }
    }

    /// To be called with the load still there. Whether the tasks got on is for the test to say.
    pub fn pass(self) {
        self.pass_but_for(&[]);
    }

    /// The same, with lines in the kernel log that the test itself causes.
    pub fn pass_but_for(self, expected: &[&str]) {
        let this = self.still_there();
        this.dmesg.assert_only(expected);
        let ended = this.vrq.stop();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        this.dmesg.assert_only(&[expected, &[Dmesg::DETACH]].concat());
    }

    fn still_there(mut self) -> Self {
        if state() == "enabled" && self.vrq.is_running() {
            return self;
        }
        let ended = self.vrq.end();
        panic!("it has ended with {}: {}", ended.status, ended.stderr);
    }

    /// The same, and nobody has waited longer than `bound` ms.
    pub fn pass_within(self, bound: u64) {
        let this = self.still_there();
        let counted = counters();
        let longest = counted["longest_wait_ms"];
        assert!(bound > 4_000 || counted["nr_broken_promises"] == 0, "--max-wait-ms was not kept: {counted:?}");
        assert!(longest <= bound, "a task has waited {longest} ms, the bound is {bound} ms");
        this.pass();
    }
}

/// Lines of the kernel log at warning level or worse that were written since.
pub struct Dmesg {
    before: usize,
}

impl Dmesg {
    fn lines() -> Vec<String> {
        let out = Command::new("dmesg").args(["-l", "emerg,alert,crit,err,warn"]).output().expect("dmesg");
        String::from_utf8_lossy(&out.stdout).lines().map(str::to_string).collect()
    }

    pub fn start() -> Self {
        Self { before: Self::lines().len() }
    }

    /// While a scheduler runs: nothing.
    pub fn assert_clean(&self) {
        self.assert_only(&[]);
    }

    /// After one has gone.
    pub fn assert_clean_after_detach(&self) {
        self.assert_only(&[Self::DETACH]);
    }

    /// Of tasks whose only CPU was taken away; many at once, and the kernel says that it says no more.
    pub const MOVED: [&str; 2] = ["no longer affine to cpu", "select_fallback_rq: "];

    /// On its way out the kernel runs tasks by itself ("bypass"), and 6.17 and 6.18 go idle past pending softirqs there.
    pub const DETACH: &str = "NOHZ tick-stop error";

    /// `allowed`: parts of lines that the test itself causes.
    pub fn assert_only(&self, allowed: &[&str]) {
        // The emulated machine is slow and the kernel says so: that is no fault of a scheduler.
        let noise = ["hrtimer: interrupt took", "clocksource", "perf: interrupt took", "workqueue:"];
        let new: Vec<String> = Self::lines().split_off(self.before);
        let bad: Vec<&String> = new.iter().filter(|l| !noise.iter().chain(allowed).any(|n| l.contains(n))).collect();
        assert!(bad.is_empty(), "the kernel complains: {bad:#?}");
    }
}
