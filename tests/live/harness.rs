//! scx_vrq as a child process, loads to schedule, and what the kernel says.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
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

pub fn nr_cpus() -> usize {
    std::thread::available_parallelism().expect("CPUs").get()
}

/// Poll until `what` holds; panics with `name` after a while.
pub fn wait_until(name: &str, mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < LIMIT, "waited in vain until {name}; state {}, ops {}", state(), ops());
        std::thread::sleep(Duration::from_millis(10));
    }
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
        Self::spawn(Command::new(BIN).args(args))
    }

    /// Spawn and wait until it has the machine.
    pub fn spawn(command: &mut Command) -> Self {
        wait_until("the machine is free", || state() == "disabled");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("scx_vrq starts");
        let mut vrq = Self { child };
        wait_until("scx_vrq has the machine", || {
            if let Ok(Some(status)) = vrq.child.try_wait() {
                let mut err = String::new();
                vrq.child.stderr.take().expect("stderr").read_to_string(&mut err).expect("utf-8");
                panic!("scx_vrq ended with {status}: {err}");
            }
            state() == "enabled"
        });
        assert!(ops().starts_with("vrq_"), "{} has the machine", ops());
        wait_until("its statistics are served", || request("counters").is_ok());
        vrq
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Wait until it has ended and the machine is given back.
    pub fn end(mut self) -> Ended {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(start.elapsed() < LIMIT, "scx_vrq does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        wait_until("the machine is given back", || state() == "disabled");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child.stdout.take().expect("stdout").read_to_string(&mut stdout).expect("utf-8");
        self.child.stderr.take().expect("stderr").read_to_string(&mut stderr).expect("utf-8");
        Ended { status, stdout, stderr }
    }

    pub fn stop(self) -> Ended {
        self.signal(libc::SIGINT);
        self.end()
    }
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

/// Threads that never sleep. Joined when dropped.
pub struct Hogs {
    stop: Arc<AtomicBool>,
    rounds: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

/// How a hog is set up, in its own thread.
#[derive(Clone, Copy, Default)]
pub struct Hog {
    pub nice: i32,
    pub policy: i32,
    /// Bit n: CPU n is allowed; 0: all.
    pub cpus: u64,
}

impl Hogs {
    pub fn start(hogs: &[Hog]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tx, rx) = std::sync::mpsc::channel();
        let mut all = Self { stop: stop.clone(), rounds: Vec::new(), threads: Vec::new() };
        for &hog in hogs {
            let (stop, rounds, tx) = (stop.clone(), Arc::new(AtomicU64::new(0)), tx.clone());
            all.rounds.push(rounds.clone());
            all.threads.push(std::thread::spawn(move || {
                hog.apply();
                tx.send(()).expect("the test listens");
                while !stop.load(Ordering::Relaxed) {
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            }));
            rx.recv().expect("the hog started");
        }
        all
    }

    pub fn same(n: usize, hog: Hog) -> Self {
        Self::start(&vec![hog; n])
    }

    /// Each hog's part of what they did together over `time`, in percent.
    pub fn shares(&self, time: Duration) -> Vec<f64> {
        let before = self.progress();
        std::thread::sleep(time);
        let did: Vec<u64> = self.progress().iter().zip(&before).map(|(a, b)| a - b).collect();
        let all: u64 = did.iter().sum();
        did.iter().map(|n| *n as f64 * 100.0 / all as f64).collect()
    }

    pub fn progress(&self) -> Vec<u64> {
        self.rounds.iter().map(|r| r.load(Ordering::Relaxed)).collect()
    }

    /// Every hog gets further: none is lost.
    pub fn assert_alive(&self) {
        let before = self.progress();
        wait_until("every task has run again", || self.progress().iter().zip(&before).all(|(a, b)| a > b));
    }
}

impl Hog {
    pub fn apply(&self) {
        // SAFETY: calls that change this thread only, with valid arguments.
        unsafe {
            let tid = libc::gettid();
            if self.policy != libc::SCHED_OTHER {
                let param: libc::sched_param = std::mem::zeroed();
                assert_eq!(libc::sched_setscheduler(tid, self.policy, &param), 0);
            }
            if self.nice != 0 {
                assert_eq!(libc::setpriority(libc::PRIO_PROCESS, tid as u32, self.nice), 0);
            }
            if self.cpus != 0 {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                for cpu in (0..64).filter(|c| self.cpus >> c & 1 == 1) {
                    libc::CPU_SET(cpu, &mut set);
                }
                assert_eq!(libc::sched_setaffinity(tid, size_of_val(&set), &set), 0);
            }
        }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
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

    /// After one has gone. On its way out the kernel runs tasks by itself ("bypass"), and 6.17 and
    /// 6.18 go idle past pending softirqs there.
    pub fn assert_clean_after_detach(&self) {
        self.assert_only(&["NOHZ tick-stop error"]);
    }

    fn assert_only(&self, allowed: &[&str]) {
        // The emulated machine is slow and the kernel says so: that is no fault of a scheduler.
        let noise = ["hrtimer: interrupt took", "clocksource", "perf: interrupt took", "workqueue:"];
        let new: Vec<String> = Self::lines().split_off(self.before);
        let bad: Vec<&String> = new.iter().filter(|l| !noise.iter().chain(allowed).any(|n| l.contains(n))).collect();
        assert!(bad.is_empty(), "the kernel complains: {bad:#?}");
    }
}
