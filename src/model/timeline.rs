//! Who was where from when to when, made of the events: what a trace and a picture show.

use super::event::{Event, What};
use super::task::TaskId;
use super::world::World;

/// A stretch of time (ns) that a task ran on a CPU, or waited for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub id: TaskId,
    /// None: it waited.
    pub cpu: Option<usize>,
    pub from: u64,
    pub to: u64,
}

/// All stretches by their ends, and how many tasks were queued from when on.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub stretches: Vec<Stretch>,
    pub qnr: Vec<(u64, usize)>,
}

impl Timeline {
    pub fn new<'a>(world: &World, events: impl Iterator<Item = &'a Event>) -> Self {
        let mut line = Self::default();
        // Since when each task is queued or running, and where.
        let mut open: Vec<Option<Stretch>> = vec![None; world.tasks.len()];
        let mut qnr = 0;
        for event in events {
            let (id, next) = match event.what {
                // A task whose nice changes is still waiting.
                What::Queue { id, .. } if open[id].is_some_and(|stretch| stretch.cpu.is_none()) => continue,
                What::Queue { id, .. } => (id, Some(None)),
                What::Take { id, cpu, .. } => (id, Some(Some(cpu))),
                What::Sleep { id, .. } | What::End { id, .. } => (id, None),
                _ => continue,
            };
            let next = next.map(|cpu| Stretch { id, cpu, from: event.niffies, to: event.niffies });
            let waits = |stretch: Option<Stretch>| usize::from(stretch.is_some_and(|stretch| stretch.cpu.is_none()));
            qnr = qnr + waits(next) - waits(open[id]);
            // What comes and goes at one point of time was never seen waiting.
            match line.qnr.last_mut() {
                Some(last) if last.0 == event.niffies => last.1 = qnr,
                _ => line.qnr.push((event.niffies, qnr)),
            }
            line.close(std::mem::replace(&mut open[id], next), event.niffies);
        }
        open.into_iter().for_each(|stretch| line.close(stretch, world.niffies));
        line
    }

    fn close(&mut self, stretch: Option<Stretch>, to: u64) {
        self.stretches.extend(stretch.filter(|stretch| stretch.from < to).map(|stretch| Stretch { to, ..stretch }));
    }
}
