//! Looks from outside, by what the kernel counts: does a task wait beside an idle CPU?

use crate::harness::*;
use std::time::{Duration, Instant};

/// Long enough for the kernel's idle times, which come in steps of 10 ms.
const INTERVAL: Duration = Duration::from_millis(50);

/// What the kernel counts of a task: is it runnable, for how long has it run, how often?
#[derive(PartialEq)]
struct Task {
    runnable: bool,
    ran: String,
    slices: String,
}

/// Of a CPU: how often it has scheduled, and for how long it was idle.
struct Cpu {
    schedules: u64,
    idle_ms: u64,
}

struct Sample {
    at: Instant,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
}

fn fields(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

impl Sample {
    fn take(tids: &[i32]) -> Self {
        let at = Instant::now();
        let task = |tid: &i32| {
            let (stat, times) = (read(&format!("/proc/{tid}/stat")), read(&format!("/proc/{tid}/schedstat")));
            let times = fields(&times);
            Task {
                runnable: stat.rsplit(')').next().is_some_and(|s| s.trim().starts_with('R')),
                ran: times[0].into(),
                slices: times[2].into(),
            }
        };
        let number = |f: &str| f.parse::<u64>().expect("a number");
        let stat = read("/proc/stat");
        let of_cpu = |l: &&str| l.starts_with("cpu") && !l.starts_with("cpu ");
        let idle: Vec<u64> = stat.lines().filter(of_cpu).map(|l| number(fields(l)[4]) + number(fields(l)[5])).collect();
        let schedstat = read("/proc/schedstat");
        let cpus = schedstat
            .lines()
            .filter(of_cpu)
            .zip(idle)
            .map(|(l, idle)| Cpu { schedules: number(fields(l)[3]), idle_ms: idle * 10 })
            .collect();
        Self { at, tasks: tids.iter().map(task).collect(), cpus }
    }

    /// A task that has waited from `before` until now, and a CPU that was idle all that time and did not schedule.
    fn waits_beside_idle(&self, before: &Self) -> Option<(usize, usize)> {
        let time_ms = (self.at - before.at).as_millis() as u64;
        let waits = self.tasks.iter().zip(&before.tasks).position(|(now, then)| now.runnable && now == then)?;
        let idle =
            self.cpus.iter().zip(&before.cpus).position(|(now, then)| {
                now.schedules == then.schedules && now.idle_ms - then.idle_ms + 20 >= time_ms
            })?;
        Some((waits, idle))
    }
}

/// None of the tasks, which may run anywhere, waits beside an idle CPU in two samples without an event in between.
pub fn assert_no_wait_beside_idle(tids: &[i32], time: Duration) {
    let start = Instant::now();
    let mut last = Sample::take(tids);
    while start.elapsed() < time {
        std::thread::sleep(INTERVAL);
        let now = Sample::take(tids);
        if let Some((task, cpu)) = now.waits_beside_idle(&last) {
            panic!("task {} waits beside CPU {cpu}, which is idle", tids[task]);
        }
        last = now;
    }
}
