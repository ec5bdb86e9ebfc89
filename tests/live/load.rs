//! Loads to schedule: threads that never sleep, threads that sleep and work, and what is done to them.

use crate::harness::{read, wait_until};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that never sleep. Joined when dropped.
pub struct Hogs {
    stop: Arc<AtomicBool>,
    rounds: Vec<Arc<AtomicU64>>,
    gaps: Vec<Arc<AtomicU64>>,
    tids: Vec<i32>,
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
        // They run when all are there: each of thousands would have to be started beside those before it.
        let gate = Arc::new(RwLock::new(()));
        let closed = gate.write();
        let mut all = Self { stop: stop.clone(), rounds: vec![], gaps: vec![], tids: vec![], threads: vec![] };
        for &hog in hogs {
            let (stop, tx, gate) = (stop.clone(), tx.clone(), gate.clone());
            let (rounds, gap_us) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            all.rounds.push(rounds.clone());
            all.gaps.push(gap_us.clone());
            let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
                hog.apply();
                tx.send(gettid()).expect("the test listens");
                drop(gate.read());
                let mut last = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    rounds.fetch_add(1, Ordering::Relaxed);
                    let now = Instant::now();
                    gap_us.fetch_max((now - last).as_micros() as u64, Ordering::Relaxed);
                    last = now;
                }
            });
            all.threads.push(thread.expect("a thread"));
            all.tids.push(rx.recv().expect("the hog started"));
        }
        drop(closed);
        all
    }

    pub fn tids(&self) -> &[i32] {
        &self.tids
    }

    /// The longest time that a hog did not run, in ms, since the last call.
    pub fn longest_gap_ms(&self) -> u64 {
        self.gaps.iter().map(|g| g.swap(0, Ordering::Relaxed)).max().unwrap_or(0) / 1000
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

    /// Has every hog got further since `before`?
    pub fn all_since(&self, before: &[u64]) -> bool {
        self.progress().iter().zip(before).all(|(now, then)| now > then)
    }

    /// Every hog gets further: none is lost.
    pub fn assert_alive(&self) {
        let before = self.progress();
        wait_until("every task has run again", || self.all_since(&before));
    }
}

impl Hog {
    pub fn apply(&self) {
        let tid = gettid();
        if self.policy != libc::SCHED_OTHER {
            set_policy(tid, self.policy);
        }
        if self.nice != 0 {
            set_nice(tid, self.nice);
        }
        if self.cpus != 0 {
            set_affinity(tid, self.cpus);
        }
    }
}

/// How long a thread has run, in ms.
pub fn run_time_ms(tid: i32) -> u64 {
    let text = read(&format!("/proc/{tid}/schedstat"));
    text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).expect("a run time in ns") / 1_000_000
}

pub fn gettid() -> i32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Real-time policies get priority 50.
pub fn set_policy(tid: i32, policy: i32) {
    let real_time = matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR);
    let param = libc::sched_param { sched_priority: if real_time { 50 } else { 0 } };
    // SAFETY: a valid pointer; changes a thread of ours only.
    assert_eq!(unsafe { libc::sched_setscheduler(tid, policy, &param) }, 0, "policy {policy}");
}

pub fn set_nice(tid: i32, nice: i32) {
    // SAFETY: changes a thread of ours only.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as u32, nice) }, 0, "nice {nice}");
}

/// Bit n of `cpus`: CPU n is allowed.
pub fn set_affinity(tid: i32, cpus: u64) {
    // SAFETY: zero is a value of a cpu_set_t, the pointer is valid, and a thread of ours only is changed.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in (0..64).filter(|c| cpus >> c & 1 == 1) {
            libc::CPU_SET(cpu, &mut set);
        }
        assert_eq!(libc::sched_setaffinity(tid, size_of_val(&set), &set), 0, "affinity {cpus:#x}");
    }
}

/// The CPU that a task runs on, or has run on.
pub fn cpu_of(tid: i32) -> u32 {
    let stat = read(&format!("/proc/{tid}/stat"));
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(36).and_then(|f| f.parse().ok()).expect("field 39 of stat")
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A thread that sleeps and works in turn, and notes how late it gets the CPU. Ends when dropped.
pub struct Sleeper {
    stop: Arc<AtomicBool>,
    late_us: Arc<Mutex<Vec<u64>>>,
    tid: i32,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// `plan` gives the next time to sleep and the next to work.
    pub fn start(setup: Hog, plan: impl Fn() -> (Duration, Duration) + Send + 'static) -> Self {
        let (stop, late_us) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (tx, rx) = std::sync::mpsc::channel();
        let (stopped, late) = (stop.clone(), late_us.clone());
        let thread = std::thread::spawn(move || {
            setup.apply();
            tx.send(gettid()).expect("the test listens");
            while !stopped.load(Ordering::Relaxed) {
                let (sleep, work) = plan();
                let due = Instant::now() + sleep;
                std::thread::sleep(sleep);
                let woke = Instant::now();
                late.lock().expect("no panic").push(woke.saturating_duration_since(due).as_micros() as u64);
                while woke.elapsed() < work {}
            }
        });
        Self { stop, late_us, tid: rx.recv().expect("the sleeper started"), thread: Some(thread) }
    }

    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// How often it has woken up so far.
    pub fn rounds(&self) -> usize {
        self.late_us.lock().expect("no panic").len()
    }

    /// The delay in us that `percent` of its wake-ups did not exceed; 100: the longest.
    pub fn late_us(&self, percent: usize) -> u64 {
        let mut all = self.late_us.lock().expect("no panic").clone();
        all.sort_unstable();
        all.get((all.len() * percent / 100).min(all.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A thread that is migration-disabled nearly all of its time: the kernel runs a seccomp filter so, and this one is
/// long. Where kernel code is preemptible it leaves the CPU in the middle of one.
pub fn migration_disabled_hog(stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let add = libc::sock_filter { code: (libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K) as u16, jt: 0, jf: 0, k: 1 };
        let allow = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, k: libc::SECCOMP_RET_ALLOW, ..add };
        let mut filter = vec![add; 4000];
        filter.push(allow);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: a valid filter, for this thread only.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            for _ in 0..5 {
                assert_eq!(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program), 0);
            }
        }
        let mut rounds = 0;
        while !stop.load(Ordering::Relaxed) {
            // SAFETY: takes no arguments.
            unsafe { libc::syscall(libc::SYS_getppid) };
            rounds += 1;
        }
        rounds
    })
}

/// Make the calling thread a SCHED_DEADLINE task that may run 10 of every 100 ms.
pub fn become_deadline_task() {
    #[repr(C)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: 6,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: 10_000_000,
        deadline: 100_000_000,
        period: 100_000_000,
    };
    // SAFETY: a valid struct sched_attr; changes this thread only.
    assert_eq!(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) }, 0, "sched_setattr");
}

/// A mutex whose holder inherits the priority of who waits for it.
pub struct PiMutex(std::cell::UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: it is a mutex, made for more than one thread.
unsafe impl Sync for PiMutex {}

impl PiMutex {
    pub fn new() -> &'static Self {
        let mutex = Box::leak(Box::new(Self(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))));
        // SAFETY: the attributes are initialised before they are used, and nobody has the mutex yet.
        unsafe {
            let mut attr = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&mut attr), 0);
            assert_eq!(libc::pthread_mutexattr_setprotocol(&mut attr, libc::PTHREAD_PRIO_INHERIT), 0);
            assert_eq!(libc::pthread_mutex_init(mutex.0.get(), &attr), 0);
        }
        mutex
    }

    pub fn with<T>(&self, run: impl FnOnce() -> T) -> T {
        // SAFETY: an initialised mutex, locked and unlocked by the same thread.
        unsafe {
            assert_eq!(libc::pthread_mutex_lock(self.0.get()), 0);
            let result = run();
            assert_eq!(libc::pthread_mutex_unlock(self.0.get()), 0);
            result
        }
    }
}
