//! Looks from outside, by what the kernel counts: does a task wait beside an idle CPU?

use crate::harness::*;
use std::time::{Duration, Instant};

/// Long enough for the kernel's idle times, which come in steps of 10 ms.
const INTERVAL: Duration = Duration::from_millis(50);

/// What the kernel counts of a task: is it runnable, where may it run, for how long has it run, how often?
#[derive(PartialEq)]
struct Task {
    runnable: bool,
    allowed: Vec<usize>,
    ran: String,
    slices: String,
}

/// Of a CPU: its number, how often it has scheduled, and for how long it was idle.
struct Cpu {
    number: usize,
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
            let status = read(&format!("/proc/{tid}/status"));
            let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
            Task {
                allowed: scx_utils::read_cpulist(allowed.trim()).unwrap_or_default(),
                runnable: stat.rsplit(')').next().is_some_and(|s| s.trim().starts_with('R')),
                ran: times.first().copied().unwrap_or_default().into(),
                slices: times.get(2).copied().unwrap_or_default().into(),
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
            .map(|(l, idle)| Cpu {
                number: number(fields(l)[0].trim_start_matches("cpu")) as usize,
                schedules: number(fields(l)[3]),
                idle_ms: idle * 10,
            })
            .collect();
        Self { at, tasks: tids.iter().map(task).collect(), cpus }
    }

    /// A task that has waited from `before` until now, and a CPU that it may use, which was idle all that time and
    /// did not schedule.
    fn waits_beside_idle(&self, before: &Self) -> Option<(usize, usize)> {
        let time_ms = (self.at - before.at).as_millis() as u64;
        let was_idle =
            |(now, then): &(&Cpu, &Cpu)| now.schedules == then.schedules && now.idle_ms - then.idle_ms + 20 >= time_ms;
        let idle: Vec<usize> = self.cpus.iter().zip(&before.cpus).filter(was_idle).map(|(cpu, _)| cpu.number).collect();
        let mut waiting =
            self.tasks.iter().zip(&before.tasks).enumerate().filter(|(_, (now, then))| now.runnable && now == then);
        waiting.find_map(|(task, (now, _))| Some((task, *idle.iter().find(|cpu| now.allowed.contains(cpu))?)))
    }
}

/// None of the tasks waits beside an idle CPU that it may use in two samples without an event in between.
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
