//! The fifteen faults that users reported of other schedulers, c01 to c15, each under its name. Short forms of at
//! most 10 s; LIVE_LENGTH=full for the full length. On one CPU a case is what is left of it there.

use crate::guest::*;
use crate::harness::*;
use crate::observer::assert_no_wait_beside_idle;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NICEST: i32 = 19;

/// Waits until a kernel thread that is pinned to it has run on every CPU.
fn every_pinned_kworker_runs() {
    let flush = std::thread::spawn(|| std::fs::write("/proc/sys/vm/stat_refresh", "1").is_ok());
    wait_until("each CPU's kworker has run", || flush.is_finished());
    assert!(flush.join().expect("no panic"));
}

#[test]
fn c01_pinned_task_behind_a_shared_queue() {
    let cpus = nr_cpus();
    for nice in [0, -20] {
        let trial = Trial::start(&[]);
        let hogs = Hogs::same(3 * cpus, Hog { nice, ..Hog::default() });
        let pinned = Sleeper::start(Hog { cpus: 1, ..Hog::default() }, || (ms(10), ms(1)));
        std::thread::sleep(ms(length(3_000, 30_000)));
        every_pinned_kworker_runs();
        hogs.assert_alive();
        let (longest, bound) = (pinned.late_us(100) / 1000, bound_ms(3 * cpus + 1, cpus, 0));
        assert!(
            longest <= bound,
            "hogs at nice {nice}: the pinned task was {longest} ms late, the bound is {bound} ms"
        );
        assert!(pinned.rounds() > length(30, 300), "it ran {} times", pinned.rounds());
        drop(hogs); // the kernel's own scheduler would leave scx_vrq next to nothing beside them
        trial.pass_within(bound_ms(3 * cpus + 1, cpus, NICEST));
    }
}

#[test]
fn c02_migration_disabled_task() {
    let cpus = nr_cpus();
    let preempt = "/sys/kernel/debug/sched/preempt";
    let _preemptible = std::path::Path::new(preempt).exists().then(|| Setting::new(preempt, "full"));
    let trial = Trial::start(&[]);
    // Its old CPU is busy: hogs that may run nowhere else. Others go idle and come back.
    let busy = Hogs::same(2, Hog { nice: -20, cpus: 1, ..Hog::default() });
    let _shakers: Vec<Sleeper> =
        (0..cpus).map(|_| Sleeper::start(Hog { nice: -20, ..Hog::default() }, || (ms(3), ms(2)))).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let disabled: Vec<_> = (0..cpus).map(|_| migration_disabled_hog(stop.clone())).collect();
    std::thread::sleep(ms(length(2_000, 20_000)));
    stop.store(true, Ordering::Relaxed);
    assert!(disabled.into_iter().all(|d| d.join().expect("no panic") > 0));

    // Set to one CPU while it is queued, or runs.
    let (moved, numbers) = (Hogs::same(cpus, Hog::default()), online());
    for round in 0..length(100, 1000) {
        let (tid, cpu) = (moved.tids()[round % cpus], numbers[round / cpus % cpus]);
        set_affinity(tid, 1 << cpu);
        assert_eq!(cpu_of(tid), cpu as u32, "a task on a CPU that it may not use");
    }
    moved.tids().iter().for_each(|tid| set_affinity(*tid, all_cpus()));
    moved.assert_alive();
    busy.assert_alive();
    trial.pass();
}

#[test]
fn c03_starvation_of_the_weakest() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let mut all = vec![Hog { nice: -20, ..Hog::default() }; 2 * cpus];
    all.push(Hog { nice: NICEST, ..Hog::default() });
    all.push(Hog { policy: libc::SCHED_BATCH, ..Hog::default() });
    all.push(Hog { policy: libc::SCHED_IDLE, ..Hog::default() });
    let hogs = Hogs::start(&all);
    let before = hogs.progress();
    std::thread::sleep(ms(length(8_000, 60_000)));
    let did: Vec<u64> = hogs.progress().iter().zip(before).map(|(now, then)| now - then).collect();
    assert!(did.iter().all(|d| *d > 0), "somebody starved: {did:?}");
    let counted = counters();
    assert!(counted["nr_aged"] > 0 && counted["longest_wait_ms"] >= AGEING_MS - 100, "{counted:?}");
    drop(hogs); // as in c01
    trial.pass_within(AGEING_MS + bound_ms(all.len(), cpus, NICEST));
}

#[test]
fn c04_real_time_hog() {
    let cpus = nr_cpus();
    for runtime in ["950000", "-1"] {
        if cpus == 1 && !(has_ext_server() && runtime == "950000") {
            continue; // nothing but the real-time hog would run, and nobody could end it
        }
        let _throttle = Setting::new("/proc/sys/kernel/sched_rt_runtime_us", runtime);
        let trial = Trial::start(&[]);
        let hogs = Hogs::same(2 * cpus, Hog::default());
        hogs.assert_alive();
        hogs.longest_gap_ms();
        let last = *online().last().expect("a CPU");
        let real_time = Hogs::start(&[Hog { policy: libc::SCHED_FIFO, cpus: 1 << last, ..Hog::default() }]);
        std::thread::sleep(ms(length(2_000, 8_000)));
        hogs.assert_alive();
        real_time.assert_alive();
        let (gap, bound) = (hogs.longest_gap_ms(), bound_ms(2 * cpus, (cpus - 1).max(1), 0));
        assert!(cpus == 1 || gap <= bound, "a task waited {gap} ms behind the real-time hog, the bound is {bound} ms");
        drop(real_time);
        hogs.assert_alive();
        trial.pass();
    }
}

#[test]
fn c04_from_under_a_real_time_task_to_a_free_cpu() {
    let cpus = nr_cpus();
    if cpus < 4 {
        return; // no CPU is free
    }
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(cpus - 2, Hog::default());
    hogs.assert_alive();
    hogs.longest_gap_ms();
    for cpu in online() {
        let setup = Hog { policy: libc::SCHED_FIFO, cpus: 1 << cpu, ..Hog::default() };
        let real_time = Sleeper::start(setup, || (ms(50), ms(length(1_200, 8_000))));
        wait_until("it has come", || real_time.rounds() > 0); // and it stays until it has done its work
    }
    let (gap, bound) = (hogs.longest_gap_ms(), 6 + 4 + slack_ms());
    assert!(gap <= bound, "a task waited {gap} ms under a real-time task beside a free CPU, the bound is {bound} ms");
    trial.pass();
}

fn assert_refused(name_of_the_first: &str) {
    let enabled = read("/sys/kernel/sched_ext/enable_seq");
    let second = Command::new(BIN).stdin(Stdio::null()).output().expect("scx_vrq runs");
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(75), "{said}");
    assert_eq!(said.lines().count(), 1, "one sentence: {said}");
    assert!(said.contains(name_of_the_first) && second.stdout.is_empty(), "{said}");
    assert_eq!((state().as_str(), read("/sys/kernel/sched_ext/enable_seq")), ("enabled", enabled));
    assert!(ops().starts_with(name_of_the_first), "{}", ops());
    let (before, now) = (counters(), counters());
    assert!(now["nr_dispatches"] >= before["nr_dispatches"], "the first one's statistics still answer");
}

#[test]
fn c05_two_instances() {
    let trial = Trial::start(&[]);
    assert_refused("vrq_");
    trial.pass();

    let other = stranger(b"abc");
    let mut first = Command::new(&other).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the other one");
    wait_until("the other scheduler has the machine", || state() == "enabled" && ops().starts_with("abc_"));
    std::thread::sleep(ms(300));
    assert_refused("abc_");
    // SAFETY: our own child, not waited for yet.
    assert_eq!(unsafe { libc::kill(first.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(first.wait().expect("a child").code(), Some(0));
    std::fs::remove_file(other).expect("the copy");
}

#[test]
fn c06_emergency_stop() {
    // What a unit with Restart=on-failure does: start it again until it ends with 0.
    let mut starts = 0;
    loop {
        let vrq = Vrq::start(&[]);
        starts += 1;
        let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
        std::fs::write("/proc/sysrq-trigger", "S").expect("SysRq");
        let ended = vrq.end();
        hogs.assert_alive();
        if ended.status.success() {
            break;
        }
        assert!(starts < 3, "started again and again: {}", ended.stderr);
    }
    assert_eq!((starts, state().as_str()), (1, "disabled"));
}

#[test]
fn c07_no_kernel_config() {
    let release = read("/proc/sys/kernel/osrelease");
    let modules = format!("/lib/modules/{release}");
    let vrq = Vrq::spawn(&mut without(&["/boot", &modules]));
    assert!(!std::path::Path::new("/proc/config.gz").exists(), "the kernel itself has its config");
    assert_eq!(vrq.stop().status.code(), Some(0));
    let facts = [
        ("/sys/kernel/btf", "CONFIG_DEBUG_INFO_BTF=y"),
        ("/sys/kernel/sched_ext", "CONFIG_SCHED_CLASS_EXT=y"),
        ("/proc/sys/kernel", "CONFIG_FUNCTION_TRACER=y"),
    ];
    for (path, remedy) in facts {
        let out = without(&[path]).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(69), "without {path}: {said}");
        assert!(said.contains(remedy) && said.lines().count() == 1, "without {path}: {said}");
    }
    assert_eq!(state(), "disabled");
}

#[test]
fn c08_killed_loader() {
    let vrq = Vrq::start(&[]);
    let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    vrq.signal(libc::SIGKILL);
    let killed = Instant::now();
    assert_eq!(vrq.end().status.code(), None);
    assert!(killed.elapsed() < Duration::from_secs(10), "at once");
    hogs.assert_alive();
    drop(hogs);

    let dmesg = Dmesg::start();
    let hogs = Hogs::same(length(1, 2 * nr_cpus()), Hog::default());
    for round in 0..length(3, 40) {
        let mut child = Command::new(BIN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // In the last ones while the kernel switches every task over, before that while it loads.
        match round % 4 {
            0 => wait_until("it attaches", || state() != "disabled"),
            n => std::thread::sleep(ms(n * 400 + round)),
        }
        // SAFETY: our own child, not waited for yet.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
        wait_until("it ends", || matches!(child.try_wait(), Ok(Some(_))));
        wait_until("the kernel's own scheduler is back", || state() == "disabled");
        hogs.assert_alive();
    }
    dmesg.assert_clean_after_detach();
    assert_eq!(Vrq::start(&[]).stop().status.code(), Some(0));
}

#[test]
fn c09_cpu_goes_away_and_comes_back() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let enabled = read("/sys/kernel/sched_ext/enable_seq");
    let hogs = Hogs::same(2 * cpus, Hog::default());
    if cpus > 1 {
        let hotplug = Hotplug::new();
        let others = hotplug.cpus();
        let last = others[others.len() - 1];
        for _ in 0..length(3, 20) {
            let pinned = Hogs::same(2, Hog { cpus: 1 << last, ..Hog::default() });
            hotplug.set(last, false);
            pinned.assert_alive(); // the kernel lets them run elsewhere
            hogs.assert_alive();
            hotplug.set(last, true);
        }
        others.iter().for_each(|cpu| hotplug.set(*cpu, false));
        hogs.assert_alive();
        others.iter().for_each(|cpu| hotplug.set(*cpu, true));
        // Those that came back are used again.
        for cpu in others {
            Hogs::same(1, Hog { cpus: 1 << cpu, ..Hog::default() }).assert_alive();
        }
    }
    hogs.assert_alive();
    assert_eq!(read("/sys/kernel/sched_ext/enable_seq"), enabled, "no restart");
    trial.pass_but_for(&Dmesg::MOVED);
}

fn forks(parents: usize, each: usize) {
    let parents: Vec<_> = (0..parents)
        .map(|_| {
            std::thread::spawn(move || {
                (0..each).all(|_| Command::new("/bin/true").status().is_ok_and(|status| status.success()))
            })
        })
        .collect();
    assert!(parents.into_iter().all(|p| p.join().expect("no panic")), "a child got lost");
}

#[test]
fn c10_many_short_tasks() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let hogs = Hogs::same(cpus, Hog::default());
    forks(8, length(20, 2500));
    hogs.assert_alive();
    drop(hogs);
    // Without hogs, and here the clock counts instructions; on one CPU those of forking only.
    let time = |n: usize| {
        let start = Instant::now();
        forks(1, n);
        start.elapsed()
    };
    let n = if cpus > 1 { 10 } else { length(100, 500) };
    time(10);
    let ours = time(n);
    trial.pass_within(bound_ms(cpus + 16, cpus, NICEST));
    let theirs = time(n);
    assert!(cpus > 1 || ours < theirs * 110 / 100, "{n} forks: {ours:?}, under the kernel's scheduler {theirs:?}");
}

#[test]
fn c11_yield_storm() {
    let cpus = nr_cpus();
    let trial = Trial::start(&[]);
    let stop = Arc::new(AtomicBool::new(false));
    let storm: Vec<_> = (0..2 * cpus)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut yields = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                    yields += 1;
                }
                yields
            })
        })
        .collect();
    let interactive = Sleeper::start(Hog::default(), || (ms(5), Duration::from_micros(500)));
    std::thread::sleep(ms(length(4_000, 30_000)));
    let (median, p99) = (interactive.late_us(50), interactive.late_us(99));
    stop.store(true, Ordering::Relaxed);
    let yields: Vec<u64> = storm.into_iter().map(|s| s.join().expect("no panic")).collect();
    assert!(yields.iter().all(|y| *y > 10), "a live-lock: {yields:?}");
    assert!(interactive.rounds() > length(100, 1000), "{} rounds", interactive.rounds());
    // By the rule one wake-up in twelve comes with a new deadline, as 12 times 0.5 ms are a slice: that one waits.
    let bound = bound_ms(2 * cpus + 1, cpus, 0);
    assert!(p99 < 1000 * bound, "99 % of its wake-ups were at most {p99} us late, the bound is {bound} ms");
    assert!(median < 6_000, "half of its wake-ups were more than {median} us late, rr_interval is 6000 us");
    trial.pass_within(bound_ms(2 * cpus + 1, cpus, NICEST));
}

#[test]
fn c12_noise_taken_for_an_error() {
    let ended = Vrq::start(&[]).stop();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(ended.stderr, "", "a plain start and stop has nothing to complain about");
    assert_eq!(ended.stdout.lines().filter(|l| l.contains("schedules Linux")).count(), 1, "{}", ended.stdout);
}

#[test]
fn c13_broken_names() {
    let vrq = Vrq::spawn(with_faults().env("SCX_TIMEOUT_MS", "2000"));
    // 15 bytes are kept: the last character is cut after one, two or three of its bytes. One of them is withheld.
    let names =
        [c"vrq-withheld\xe2\x82\xac", c"twelve byte \xc3\xa9\xc3\xa9", c"thirteen byte\xf0\x9f\x90\xa2", c"\xff\xfe"];
    let tasks: Vec<_> = names
        .into_iter()
        .map(|name| {
            std::thread::spawn(move || {
                // SAFETY: a NUL-terminated name for this thread.
                unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                let start = Instant::now();
                while start.elapsed() < ms(200) {
                    std::thread::sleep(ms(1));
                }
            })
        })
        .collect();
    let ended = vrq.end();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.stderr);
    assert!(ended.stderr.contains("vrq-withheld") && ended.stderr.contains("grq: qnr="), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    tasks.into_iter().for_each(|t| t.join().expect("the kernel's own scheduler runs it"));
}

#[test]
fn c14_a_lost_kick() {
    let cpus = nr_cpus();
    let _counts = Setting::new("/proc/sys/kernel/sched_schedstats", "1");
    let trial = Trial::start(&[]);
    let pair = PingPong::start();
    let random =
        || (Duration::from_micros(fastrand::u64(200..8_000)), Duration::from_micros(fastrand::u64(100..4_000)));
    // Half of the machine; with the pair never more tasks than CPUs.
    let few: Vec<Sleeper> = (0..cpus.saturating_sub(2)).map(|_| Sleeper::start(Hog::default(), random)).collect();
    let tids = |sleepers: &[Sleeper]| -> Vec<i32> {
        pair.0.iter().map(Proc::pid).chain(sleepers.iter().map(Sleeper::tid)).collect()
    };
    assert_no_wait_beside_idle(&tids(&few), ms(length(4_000, 30_000)));
    // There was an idle CPU for each task: hardly any may have been found late, by a tick. (An emulated machine that
    // is idle takes its time from the host, so what a busy host does to its clock is left out: a tenth.)
    let counted = counters();
    let (late, found) = (few.iter().map(|s| s.late_us(90)).max().unwrap_or(0), counted["nr_third_looks"]);
    assert!(found <= counted["nr_wakeups"] / 100, "{found} tasks found by a tick beside an idle CPU: {counted:?}");
    assert!(late < 10_000, "there was an idle CPU for each task, and yet a tenth of the waits was {late} us or more");
    // More tasks than CPUs, now and then.
    let many: Vec<Sleeper> = (0..2 * cpus).map(|_| Sleeper::start(Hog::default(), random)).collect();
    assert_no_wait_beside_idle(&tids(&many), ms(length(4_000, 30_000)));
    pair.0.iter().for_each(Proc::assert_alive);
    assert!(many.iter().chain(&few).all(|s| s.rounds() > 10));
    trial.pass_within(bound_ms(3 * cpus, cpus, NICEST));
}

#[test]
fn c15_two_wakeups_one_idle_cpu() {
    let rounds = length(50, 500);
    let trial = Trial::start(&[]);
    std::thread::sleep(ms(200));
    let before = counters();
    let barrier = Arc::new(std::sync::Barrier::new(3));
    let sleepers: Vec<_> = (0..2)
        .map(|_| {
            let barrier = barrier.clone();
            std::thread::spawn(move || {
                (0..rounds).for_each(|_| {
                    barrier.wait();
                })
            })
        })
        .collect();
    for _ in 0..rounds {
        std::thread::sleep(ms(5));
        barrier.wait();
    }
    sleepers.into_iter().for_each(|s| s.join().expect("it ran through"));
    let after = counters();
    let (claims, empty) = (delta(&before, &after, "nr_kicks_idle"), delta(&before, &after, "nr_kicks_empty"));
    // With two idle CPUs, two claims in every round; a claim that finds nothing would be a CPU claimed twice.
    assert!(nr_cpus() < 3 || claims >= 2 * rounds, "{claims} idle CPUs claimed in {rounds} rounds");
    // Before 7.1 a task goes to its CPU through the queue, where another CPU may take it first.
    let direct = delta(&before, &after, "nr_direct") > 0;
    assert!(!direct || empty <= claims / 20, "{empty} of {claims} found nothing");
    trial.pass();
}
