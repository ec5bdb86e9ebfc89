//! A queue by key: the grq, or the own queue of a CPU for tasks that only it can run.

use super::task::{Task, TaskId};
use std::collections::BTreeSet;

/// Least key first; of equal ones, first come first.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    tasks: BTreeSet<(u64, u64, TaskId)>,
    nr_inserted: u64,
}

impl Queue {
    /// Returns the place of the task, which [`Queue::remove`] wants back.
    pub fn insert(&mut self, key: u64, id: TaskId) -> (u64, u64) {
        self.nr_inserted += 1;
        self.tasks.insert((key, self.nr_inserted, id));
        (key, self.nr_inserted)
    }

    pub fn remove(&mut self, at: (u64, u64), id: TaskId) -> bool {
        self.tasks.remove(&(at.0, at.1, id))
    }

    /// Tasks queued and not running, BFS's qnr.
    pub fn qnr(&self) -> usize {
        self.tasks.len()
    }

    /// Key and task of the first that `cpu` may run.
    pub fn first(&self, tasks: &[Task], cpu: usize) -> Option<(u64, TaskId)> {
        self.tasks.iter().find(|&&(.., id)| tasks[id].may_run_on(cpu)).map(|&(key, _, id)| (key, id))
    }

    pub fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().map(|&(.., id)| id)
    }
}
