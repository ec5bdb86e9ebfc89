//! What else broke other schedulers: affinity, higher classes, changes of policy, stopped and frozen tasks, bombs,
//! scarce memory, jumps of the clock. LIVE_LENGTH=full for the full length.

use crate::guest::*;
use crate::harness::*;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NICEST: i32 = 19;

#[test]
fn hotplug_keeps_the_statistics_and_fills_the_cpus_that_are_left() {
    let cpus = nr_cpus();
    if cpus == 1 {
        return;
    }
    let trial = Trial::start(&[]);
    let hotplug = Hotplug::new();
    let sleepers: Vec<_> = (0..cpus).map(|_| Sleeper::start(Hog::default(), || (ms(5), ms(1)))).collect();
    let hogs = Hogs::same(cpus, Hog::default());
    let mut before = counters();
    for cpu in hotplug.cpus() {
        hotplug.set(*cpu, false);
        let rounds: Vec<usize> = sleepers.iter().map(Sleeper::rounds).collect();
        hogs.assert_alive();
        wait_until("every sleeper has run", || sleepers.iter().zip(&rounds).all(|(s, r)| s.rounds() > *r));
        let after = counters();
        assert!(before.iter().all(|(name, n)| after[name] >= *n), "a counter went back: {before:?} {after:?}");
        assert!(delta(&before, &after, "nr_dispatches") > 0);
        before = after;
    }
    hotplug.cpus().iter().for_each(|cpu| hotplug.set(*cpu, true));
    hogs.assert_alive();
    // One hog for each CPU again: none may share.
    hogs.longest_gap_ms();
    drop(sleepers);
    let shares = hogs.shares(ms(2_000));
    let fair = 100.0 / cpus as f64;
    assert!(shares.iter().all(|s| (s - fair).abs() < fair / 3.0), "a CPU that came back is not used: {shares:.1?}");
    trial.pass_but_for(&Dmesg::MOVED);
}

#[test]
fn affinity_changes_of_running_queued_and_sleeping_tasks() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(2 * cpus, Hog::default()); // half of them run, half are queued
    let sleepers: Vec<_> = (0..cpus).map(|_| Sleeper::start(Hog::default(), || (ms(2), ms(1)))).collect();
    let tids: Vec<i32> = hogs.tids().iter().copied().chain(sleepers.iter().map(Sleeper::tid)).collect();
    let all = all_cpus();
    for round in 0..length(300, 5000) {
        let tid = tids[round % tids.len()];
        let mask = match fastrand::u64(..) & all {
            0 => all,
            some => some,
        };
        set_affinity(tid, mask);
        let sleeper = round % tids.len() >= 2 * cpus; // where it sleeps is where it last ran
        assert!(sleeper || mask >> cpu_of(tid) & 1 == 1, "a task on CPU {}, allowed {mask:#x}", cpu_of(tid));
    }
    for tid in &tids {
        set_affinity(*tid, all);
    }
    hogs.assert_alive();
    trial.pass();
}

#[test]
fn cpuset_moves_take_the_tasks_along() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let group = Cgroup::new("vrq-cpuset");
    let procs: Vec<Proc> = (0..2 * cpus).map(|_| Proc::hog()).collect();
    procs.iter().for_each(|p| group.add(p));
    let numbers = online();
    for round in 0..length(3 * cpus, 100 * cpus) {
        let cpu = numbers[round % cpus];
        group.set("cpuset.cpus", &cpu.to_string());
        for process in &procs {
            assert_eq!(cpu_of(process.pid()), cpu as u32, "a task outside of its cpuset");
        }
    }
    procs.iter().for_each(Proc::assert_alive);
    group.set("cpuset.cpus", &read("/sys/devices/system/cpu/online"));
    procs.iter().for_each(Proc::assert_alive);
    trial.pass();
}

#[test]
fn tasks_come_back_from_under_real_time_deadline_and_stop_tasks() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(cpus + 1, Hog::default());
    hogs.assert_alive();
    let numbers = online();
    let fifo = Hog { policy: libc::SCHED_FIFO, ..Hog::default() };
    let real_time: Vec<_> =
        numbers.iter().map(|cpu| Sleeper::start(Hog { cpus: 1 << cpu, ..fifo }, || (ms(50), ms(10)))).collect();
    let first = AtomicBool::new(true);
    let deadline = Sleeper::start(Hog::default(), move || {
        if first.swap(false, Ordering::Relaxed) {
            become_deadline_task();
        }
        (ms(20), ms(1))
    });
    // A stop task runs where a running task loses its CPU.
    for round in 0..length(40, 4000) {
        set_affinity(hogs.tids()[0], 1 << numbers[round % cpus]);
        std::thread::sleep(ms(5));
    }
    set_affinity(hogs.tids()[0], all_cpus());
    hogs.assert_alive();
    let all = || real_time.iter().chain([&deadline]);
    wait_until("each of the higher ones has come and gone", || all().all(|s| s.rounds() > 3));
    hogs.assert_alive();
    // No bound in ms here: timers on one CPU can make the emulator forget the others, for seconds. The kernel charges
    // a deadline task for that and throttles it, or complains.
    trial.pass_but_for(&["DL replenish lagged too much"]);
}

#[test]
fn policy_changes_while_running_and_queued() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(2 * cpus, Hog::default());
    let policies = [libc::SCHED_BATCH, libc::SCHED_IDLE, libc::SCHED_OTHER, libc::SCHED_FIFO, libc::SCHED_OTHER];
    for round in 0..length(5, 400) {
        for tid in hogs.tids() {
            set_policy(*tid, policies[round % policies.len()]);
            // At most one of them is real-time at a time, or this thread would wait for ever.
            if policies[round % policies.len()] == libc::SCHED_FIFO {
                std::thread::sleep(ms(1));
                set_policy(*tid, libc::SCHED_OTHER);
            }
            set_nice(*tid, fastrand::i32(-20..20));
        }
    }
    for tid in hogs.tids() {
        set_policy(*tid, libc::SCHED_OTHER);
    }
    hogs.assert_alive();
    trial.pass_within(AGEING_MS + bound_ms(2 * cpus, cpus, NICEST));
}

#[test]
fn a_holder_that_inherits_a_real_time_priority_is_let_through() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(3 * cpus, Hog { nice: -20, ..Hog::default() });
    let mutex = PiMutex::new();
    // Holds it for 3 ms of each 4 and is weaker than the hogs; so it is held, and its holder queued, most of the time.
    let holder = Sleeper::start(Hog::default(), move || {
        mutex.with(|| spin(ms(3)));
        (ms(1), ms(0))
    });
    let waiter = Sleeper::start(Hog { policy: libc::SCHED_FIFO, ..Hog::default() }, move || {
        mutex.with(|| ());
        (ms(10), ms(0))
    });
    std::thread::sleep(ms(length(3_000, 30_000)));
    // By itself the holder would get there some 15 times a second; with the waiter's priority whenever that comes.
    assert!(waiter.rounds() > length(80, 800), "the real-time task got the mutex {} times", waiter.rounds());
    assert!(holder.rounds() > 10, "{} rounds", holder.rounds());
    hogs.assert_alive();
    drop((waiter, holder, hogs));
    trial.pass_within(AGEING_MS + bound_ms(3 * cpus + 1, cpus, NICEST));
}

#[test]
fn a_stopped_loader_changes_nothing_for_anybody() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(2 * cpus, Hog::default());
    trial.vrq.signal(libc::SIGSTOP);
    for _ in 0..length(3, 60) {
        std::thread::sleep(ms(1_000));
        hogs.assert_alive();
        assert_eq!(state(), "enabled");
    }
    trial.vrq.signal(libc::SIGCONT);
    trial.pass_within(bound_ms(2 * cpus, cpus, NICEST));
}

#[test]
fn a_frozen_cgroup_waits_and_goes_on() {
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(nr_cpus(), Hog::default());
    let group = Cgroup::new("vrq-frozen");
    let procs = [Proc::hog(), Proc::hog()];
    procs.iter().for_each(|p| group.add(p));
    for _ in 0..length(5, 100) {
        group.set("cgroup.freeze", "1");
        wait_until("the cgroup is frozen", || group.get("cgroup.events").contains("frozen 1"));
        procs[0].assert_still(ms(100));
        group.set("cgroup.freeze", "0");
        procs.iter().for_each(Proc::assert_alive);
    }
    hogs.assert_alive();
    // What is frozen does not count as waiting.
    trial.pass_within(bound_ms(nr_cpus() + 2, nr_cpus(), NICEST));
}

#[test]
fn ptrace_stops_and_continues() {
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(nr_cpus(), Hog::default());
    let traced = Proc::hog();
    let ptrace = |request: u32| {
        // SAFETY: a request without data for our own child.
        assert_eq!(unsafe { libc::ptrace(request, traced.pid(), 0, 0) }, 0, "ptrace {request}");
    };
    ptrace(libc::PTRACE_SEIZE);
    for round in 0..length(100, 2000) {
        ptrace(libc::PTRACE_INTERRUPT);
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(traced.pid(), std::ptr::null_mut(), libc::__WALL) }, traced.pid());
        if round % 50 == 0 {
            traced.assert_still(ms(100));
        }
        ptrace(libc::PTRACE_CONT);
    }
    traced.assert_alive();
    hogs.assert_alive();
    trial.pass_within(bound_ms(nr_cpus() + 1, nr_cpus(), NICEST));
}

#[test]
fn a_fork_bomb_in_a_cgroup_with_a_limit() {
    const LIMIT: usize = 100;
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(cpus, Hog::default());
    let group = Cgroup::new("vrq-bomb");
    group.set("pids.max", &LIMIT.to_string());
    let bomb = Proc::fork(|forked| {
        // SAFETY: system calls only.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            libc::raise(libc::SIGSTOP); // until it is in its cgroup
            loop {
                if libc::fork() >= 0 {
                    forked.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    group.add(&bomb);
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::kill(bomb.pid(), libc::SIGCONT) }, 0);
    wait_until("the limit is reached", || group.get("pids.events").split(' ').nth(1).is_some_and(|n| n != "0"));
    std::thread::sleep(ms(length(2_000, 20_000)));
    hogs.assert_alive();
    assert!(bomb.rounds() >= LIMIT as u64 - 1, "{} forks", bomb.rounds());
    let longest = counters()["longest_wait_ms"];
    group.kill();
    hogs.assert_alive();
    let bound = bound_ms(cpus + LIMIT, cpus, NICEST);
    assert!(longest <= bound, "a task has waited {longest} ms, the bound is {bound} ms");
    trial.pass();
}

#[test]
fn five_thousand_runnable_threads() {
    const THREADS: usize = 5000;
    let cpus = nr_cpus();
    // Slices of one tick: on four CPUs it takes 5 s until each of them has run once.
    let trial = Trial::start(&["--rr-interval-ms", "1"]);
    // Or this thread had to wait for its turn among them again and again.
    set_policy(gettid(), libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
    let hogs = Hogs::same(length(THREADS.min(1250 * cpus), THREADS), Hog::default());
    let before = hogs.progress();
    wait_until("every task has run, or scx_vrq has ended", || hogs.all_since(&before) || state() != "enabled");
    drop(hogs); // the kernel's own scheduler would leave scx_vrq next to nothing beside them
    set_policy(gettid(), libc::SCHED_OTHER);
    if cpus == 1 {
        trial.pass_within(bound_ms(THREADS, cpus, NICEST));
    } else {
        trial.pass(); // no bound in ms: among several busy CPUs the emulator forgets one for seconds
    }
}

/// Ask for `bytes` and touch all of them.
fn take_memory(bytes: usize) {
    // SAFETY: the pages are ours, if we get them.
    unsafe {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0);
        if at != libc::MAP_FAILED {
            (0..bytes).step_by(4096).for_each(|i| at.cast::<u8>().add(i).write_volatile(1));
        }
    }
}

#[test]
fn memory_runs_out() {
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(nr_cpus(), Hog::default());
    let group = Cgroup::new("vrq-memory");
    group.set("memory.max", "32M");
    for _ in 0..length(2, 50) {
        let eater = Proc::fork(|rounds| {
            // SAFETY: a system call only.
            unsafe { libc::raise(libc::SIGSTOP) };
            take_memory(128 << 20);
            rounds.fetch_add(1, Ordering::Relaxed);
        });
        group.add(&eater);
        let killed = group.get("memory.events");
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::kill(eater.pid(), libc::SIGCONT) }, 0);
        wait_until("the kernel kills it for memory", || {
            group.get("memory.events") != killed && !group.get("memory.events").contains("oom_kill 0")
        });
        assert_eq!(eater.rounds(), 0);
        hogs.assert_alive();
    }
    assert!(Command::new("true").status().is_ok_and(|s| s.success()));
    assert_eq!(state(), "enabled");
    assert_eq!(trial.vrq.stop().status.code(), Some(0));
}

#[test]
fn the_clock_jumps() {
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    let sleeper = Sleeper::start(Hog::default(), || (ms(5), ms(1)));
    let jump = |seconds: i64| {
        // SAFETY: valid pointers.
        unsafe {
            let mut now = std::mem::zeroed();
            assert_eq!(libc::clock_gettime(libc::CLOCK_REALTIME, &mut now), 0);
            now.tv_sec += seconds;
            assert_eq!(libc::clock_settime(libc::CLOCK_REALTIME, &now), 0);
        }
    };
    for seconds in [86_400, -86_400, 3_600, -3_600, 1, -1] {
        jump(seconds);
        let rounds = sleeper.rounds();
        hogs.assert_alive();
        wait_until("the sleeper has run", || sleeper.rounds() > rounds);
    }
    trial.pass_within(bound_ms(2 * nr_cpus() + 1, nr_cpus(), NICEST));
}

/// What a suspend does before the devices sleep, which not every virtual machine's can: the kernel tells sched_ext,
/// and freezes every process but this one.
#[test]
fn a_suspend_freezes_and_thaws_everybody() {
    use std::os::fd::AsRawFd;
    const SNAPSHOT_FREEZE: u64 = 0x3301;
    const SNAPSHOT_UNFREEZE: u64 = 0x3302;
    let trial = Trial::start(&[]);
    let hogs: Vec<Proc> = (0..2 * nr_cpus()).map(|_| Proc::hog()).collect();
    for _ in 0..length(3, 30) {
        let snapshot = std::fs::File::open("/dev/snapshot").expect("/dev/snapshot: the kernel has CONFIG_HIBERNATION");
        hogs.iter().for_each(Proc::assert_alive); // the kernel bypasses the scheduler, and that runs them too
        // SAFETY: requests without data, on our descriptor.
        unsafe { assert_eq!(libc::ioctl(snapshot.as_raw_fd(), SNAPSHOT_FREEZE, 0), 0, "freeze") };
        hogs[0].assert_still(ms(200));
        // SAFETY: as before.
        unsafe { assert_eq!(libc::ioctl(snapshot.as_raw_fd(), SNAPSHOT_UNFREEZE, 0), 0, "thaw") };
        drop(snapshot);
        hogs.iter().for_each(Proc::assert_alive);
        assert_eq!(state(), "enabled");
    }
    trial.pass();
}

fn spin(time: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < time {}
}
