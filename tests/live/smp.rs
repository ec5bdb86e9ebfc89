//! On several CPUs: global fairness, no idle CPU beside a queued task, counters against the kernel's.

use crate::harness::*;
use std::fs;
use std::process::Command;
use std::time::Duration;

#[test]
fn n_plus_1_equal_hogs_on_n_cpus_get_equal_shares() {
    let _vrq = Vrq::start(&[]);
    let n = nr_cpus() + 1;
    let hogs = Hogs::same(n, Hog::default());
    hogs.assert_alive();
    // By the time that the kernel counts, not by what was done: the emulator runs one CPU after the other, not evenly.
    let times = || hogs.tids().iter().map(|tid| run_time_ms(*tid)).collect::<Vec<u64>>();
    let before = times();
    std::thread::sleep(Duration::from_secs(8));
    let ran: Vec<u64> = times().iter().zip(before).map(|(now, then)| now - then).collect();
    let all: u64 = ran.iter().sum();
    let shares: Vec<f64> = ran.iter().map(|ms| *ms as f64 * 100.0 / all as f64).collect();
    let fair = 100.0 / n as f64;
    assert!(shares.iter().all(|s| (s - fair).abs() < fair * 0.15), "fair is {fair:.1} %: {shares:.1?}");
}

/// Ticks that CPUs were idle, from /proc/stat.
fn idle_ticks() -> u64 {
    let line = read("/proc/stat").lines().next().expect("cpu line").to_string();
    let fields: Vec<u64> = line.split_whitespace().skip(1).map(|f| f.parse().expect("a number")).collect();
    fields[3] + fields[4]
}

fn assert_never_idle(hogs: &[Hog]) {
    let _vrq = Vrq::start(&[]);
    let hogs = Hogs::start(hogs);
    hogs.assert_alive();
    let before = idle_ticks();
    std::thread::sleep(Duration::from_secs(3));
    let idle = idle_ticks() - before;
    // Of 100 ticks (USER_HZ) a second for each CPU.
    assert!(idle < 6 * nr_cpus() as u64, "CPUs were idle for {idle} ticks of {}", 300 * nr_cpus());
    hogs.assert_alive();
}

#[test]
fn no_cpu_is_idle_while_tasks_are_queued() {
    assert_never_idle(&vec![Hog::default(); nr_cpus() + 2]);
}

#[test]
fn no_cpu_is_idle_while_tasks_that_it_may_run_are_queued() {
    let cpus = online();
    let (low, high) = cpus.split_at(cpus.len() / 2);
    let half = low.len();
    let (low, high) = [low, high].map(|cpus| Hog { cpus: mask_of(cpus), ..Hog::default() }).into();
    let mut hogs = vec![low; half + 1];
    hogs.extend(vec![high; half + 1]);
    assert_never_idle(&hogs);
}

#[test]
fn pinned_tasks_and_the_others_both_run() {
    let _vrq = Vrq::start(&[]);
    let mut hogs = vec![Hog::default(); 3 * nr_cpus()];
    hogs.push(Hog { cpus: 1, ..Hog::default() });
    let hogs = Hogs::start(&hogs);
    hogs.assert_alive();
    let shares = hogs.shares(Duration::from_secs(8));
    // 13 hogs on 4 CPUs: a pinned one is one of them, by its deadline, wherever it waits.
    let fair = 100.0 / shares.len() as f64;
    let pinned = shares[shares.len() - 1];
    assert!((pinned - fair).abs() < fair * 0.4, "fair is {fair:.1} %, the pinned one got {pinned:.1} %");
}

/// Counts switches to the idle task, exactly, without reading the trace.
struct IdleEntries;

const TRACE: &str = "/sys/kernel/tracing";

impl IdleEntries {
    fn start() -> Self {
        let _ = Command::new("mount").args(["-t", "tracefs", "tracefs", TRACE]).output();
        let put = |file: &str, what: &str| fs::write(format!("{TRACE}/{file}"), what).expect("tracefs");
        put("tracing_on", "0");
        put("trace", "");
        put("events/sched/sched_switch/filter", "next_pid==0");
        put("events/sched/sched_switch/enable", "1");
        put("tracing_on", "1");
        Self
    }

    fn count(&self) -> u64 {
        let field = |text: &str, name: &str| -> u64 {
            text.lines().find_map(|l| l.strip_prefix(name)).map_or(0, |n| n.trim().parse().expect("a number"))
        };
        (0..nr_cpus())
            .map(|cpu| read(&format!("{TRACE}/per_cpu/cpu{cpu}/stats")))
            .map(|text| field(&text, "entries:") + field(&text, "overrun:"))
            .sum()
    }
}

impl Drop for IdleEntries {
    fn drop(&mut self) {
        let _ = fs::write(format!("{TRACE}/events/sched/sched_switch/enable"), "0");
        let _ = fs::write(format!("{TRACE}/events/sched/sched_switch/filter"), "0");
    }
}

/// Column `n` of the cpu lines of /proc/schedstat, summed: 1 sched_count, 2 sched_goidle, 3 ttwu_count.
fn schedstat(n: usize) -> u64 {
    read("/proc/schedstat")
        .lines()
        .filter(|l| l.starts_with("cpu"))
        .map(|l| l.split_whitespace().nth(n + 2).expect("a column").parse::<u64>().expect("a number"))
        .sum()
}

#[test]
fn counters_hold_against_the_kernels() {
    fs::write("/proc/sys/kernel/sched_schedstats", "1").expect("schedstats");
    let _vrq = Vrq::start(&[]);
    let trace = IdleEntries::start();
    let (before, kernel) = (counters(), [schedstat(1), schedstat(2)]);
    let entries = trace.count();
    for _ in 0..20 {
        let out = Command::new("sh").args(["-c", "for i in 1 2 3 4 5 6 7 8; do /bin/true | /bin/true; done"]).output();
        assert!(out.expect("sh").status.success());
        std::thread::sleep(Duration::from_millis(20));
    }
    let (after, entries) = (counters(), trace.count() - entries);
    let [sched_count, sched_goidle] = [schedstat(1) - kernel[0], schedstat(2) - kernel[1]];
    let of = |name: &str| delta(&before, &after, name);

    assert!(of("nr_dispatches") <= sched_count, "{} dispatches, {sched_count} schedules", of("nr_dispatches"));
    assert!(of("nr_dispatches") > 100 && of("nr_wakeups") > 100, "{before:?} {after:?}");
    // Each way to idle but idle -> idle is a switch to the idle task, as the trace and the kernel count it.
    let ours = of("nr_goidle_deactivate") + of("nr_goidle_needother") + of("nr_goidle_other");
    let close = |a: u64, b: u64| a.abs_diff(b) <= 20 + b / 20;
    assert!(close(ours, entries), "{ours} by our counters, {entries} in the trace");
    assert!(close(ours, sched_goidle), "{ours} by our counters, {sched_goidle} by sched_goidle");
    assert!(of("nr_goidle_idle") <= sched_count.saturating_sub(entries));
    fs::write("/proc/sys/kernel/sched_schedstats", "0").expect("schedstats");
}
