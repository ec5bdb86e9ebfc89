//! What a run came to: a table for people, JSON for scripts.

use super::sim::Sim;
use super::workload::Workload;
use crate::bench::grid::Grid;
use serde::Serialize;

/// The figures of a run. Times in ms of model time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was run, seed included.
    pub workload: Workload,
    /// Whether the invariants were checked. They held, or there would be no report.
    pub checked: bool,
    /// Scheduling events that were simulated.
    pub nr_events: u64,
    /// CPUs' time in which none had anything to run, of all their time.
    pub idle_percent: f64,
    /// Ways to idle, as counted by the scheduler: from idle to idle.
    pub goidle_idle: u64,
    /// A task blocked and nothing was queued.
    pub goidle_deactivate: u64,
    /// The longest wait of all tasks.
    pub max_wait_ms: f64,
    /// The tasks in the workload's order; children of one that forks are one row after it.
    pub tasks: Vec<TaskReport>,
}

/// A task's line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    /// From the workload; of several with one name `name.1`, `name.2` and so on.
    pub name: String,
    /// At the start.
    pub nice: i64,
    /// Of all CPUs' time.
    pub share_percent: f64,
    /// From queued to taken.
    pub mean_wait_ms: f64,
    /// The longest of these, or of those that are not over at the end.
    pub max_wait_ms: f64,
    /// The longest that is possible by the rule, `src/bpf/wait.h`.
    pub bound_ms: f64,
    /// Waits that began before the deadline and ended after it.
    pub late: u64,
    /// Wake-ups from sleep.
    pub wakeups: u64,
    /// How often it was preempted.
    pub preemptions: u64,
    /// How often its slice was used up: new slice, new deadline.
    pub refills: u64,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Report {
    /// Of a run that is over.
    pub fn new(workload: &Workload, sim: &Sim) -> Self {
        let world = &sim.world;
        let percent = |ns: u64| ns as f64 * 100.0 / (workload.time.0 * workload.cpus.0 as u64) as f64;
        let tasks = world.rows.iter().map(|row| TaskReport {
            name: row.name.clone(),
            nice: row.nice,
            share_percent: percent(row.run_ns),
            mean_wait_ms: ms(row.waited_ns) / row.nr_waits.max(1) as f64,
            max_wait_ms: ms(row.longest_wait_ns),
            bound_ms: ms(world.bound_ns(row.allowed, row.idleprio)),
            late: row.nr_late,
            wakeups: row.nr_wakeups,
            preemptions: row.nr_preemptions,
            refills: row.nr_refills,
        });
        Self {
            workload: workload.clone(),
            checked: sim.is_checked(),
            nr_events: sim.nr_events,
            idle_percent: 100.0 - percent(world.rows.iter().map(|row| row.run_ns).sum()),
            goidle_idle: world.goidle[0],
            goidle_deactivate: world.goidle[1],
            max_wait_ms: world.rows.iter().map(|row| ms(row.longest_wait_ns)).fold(0.0, f64::max),
            tasks: tasks.collect(),
        }
    }

    /// The table.
    pub fn table(&self) -> String {
        let w = &self.workload;
        let title = format!(
            "{} CPU{}, {}, rr_interval {} ms, tick {}, seed {}: {} events",
            w.cpus,
            if w.cpus.0 == 1 { "" } else { "s" },
            w.time,
            w.rr_interval_ms,
            w.tick,
            w.seed,
            self.nr_events
        );
        let columns =
            ["task", "nice", "share %", "mean wait ms", "max", "bound", "late", "wake-ups", "preempted", "refills"];
        let mut grid = Grid::new(title, &columns, 1);
        for task in &self.tasks {
            let mut cells = vec![task.name.clone(), task.nice.to_string(), format!("{:.2}", task.share_percent)];
            cells.extend([task.mean_wait_ms, task.max_wait_ms].map(|ms| format!("{ms:.2}")));
            cells.push(format!("{:.1}", task.bound_ms));
            cells.extend([task.late, task.wakeups, task.preemptions, task.refills].map(|count| count.to_string()));
            grid.rows.push(cells);
        }
        format!(
            "{}idle {:.2} %; goidle: idle {}, deactivate {}{}\n",
            grid.terminal(None),
            self.idle_percent.abs(),
            self.goidle_idle,
            self.goidle_deactivate,
            if self.checked { "; every invariant held at every event" } else { "" }
        )
    }
}
