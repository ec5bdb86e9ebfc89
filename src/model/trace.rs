//! The timeline as a trace that chrome://tracing and ui.perfetto.dev open.

use super::event::{Event, What};
use super::timeline::Timeline;
use super::world::World;
use serde_json::{Value, json};

/// The processes of the trace: lanes of CPUs, lanes of tasks.
const CPUS: u32 = 0;
const TASKS: u32 = 1;

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// A lane for each CPU, one for each task, the number of queued tasks, and marks for preemptions,
/// refills and promotions.
pub fn chrome<'a>(world: &World, events: impl Iterator<Item = &'a Event> + Clone) -> Value {
    let line = Timeline::new(world, events.clone());
    let name = |id: usize| &world.rows[world.tasks[id].row].name;
    let lane = |pid: u32, tid: usize, what: &str, name: &str| json!({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}});
    let mut out = vec![lane(CPUS, 0, "process_name", "CPUs"), lane(TASKS, 0, "process_name", "tasks")];
    out.extend((0..world.cpus.len()).map(|cpu| lane(CPUS, cpu, "thread_name", &format!("CPU {cpu}"))));
    out.extend((0..world.tasks.len()).map(|id| lane(TASKS, id, "thread_name", name(id))));
    for stretch in &line.stretches {
        let mut add = |pid: u32, tid: usize, name: &str| {
            out.push(json!({"ph": "X", "pid": pid, "tid": tid, "name": name,
                            "ts": us(stretch.from), "dur": us(stretch.to - stretch.from)}));
        };
        if let Some(cpu) = stretch.cpu {
            add(CPUS, cpu, name(stretch.id));
        }
        add(TASKS, stretch.id, if stretch.cpu.is_some() { "runs" } else { "waits" });
    }
    for &(at, qnr) in &line.qnr {
        out.push(json!({"ph": "C", "pid": CPUS, "name": "qnr", "ts": us(at), "args": {"tasks": qnr}}));
    }
    for event in events {
        let (id, mark) = match event.what {
            What::Preempt { victim, by, .. } => (victim, format!("preempted by {}", name(by))),
            What::Refill { id, .. } => (id, "new slice and deadline".into()),
            What::Age { id } => (id, "promoted".into()),
            What::Yield { id } => (id, "yields".into()),
            What::Fork { parent, .. } => (parent, "forks".into()),
            What::Renice { id, user_prio } => (id, format!("nice {}", i64::from(user_prio) - 20)),
            _ => continue,
        };
        out.push(json!({"ph": "i", "s": "t", "pid": TASKS, "tid": id, "name": mark, "ts": us(event.niffies)}));
    }
    json!({"displayTimeUnit": "ms", "traceEvents": out})
}
