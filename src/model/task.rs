//! A task: what the scheduler knows of it, and what it does when it runs.

use super::workload::{Span, Spread, TaskSpec};
use crate::policy::{self, Class};
use fastrand::Rng;

/// Index of a task in the world; tasks that ended keep theirs.
pub type TaskId = usize;

/// Where a task is, and it is nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not started yet, or ended.
    Away,
    Asleep,
    /// In the grq, or in the own queue of the only CPU that it can run on; with its key and number there.
    Queued(u64, u64),
    Running(usize),
}

#[derive(Clone, Debug)]
pub struct Task {
    /// The line of the report that it counts for.
    pub row: usize,
    pub policy: u32,
    pub user_prio: u32,
    /// CPUs that it may run on, bit by bit.
    pub allowed: u64,
    /// NORMAL or IDLEPRIO now: a promotion lasts until the task is next queued.
    pub class: Class,
    pub deadline: u64,
    /// The slice is used up when `run_ns` gets here, as in task_ctx.bpf.h.
    pub slice_end_ns: u64,
    pub run_ns: u64,
    pub place: Place,
    pub last_cpu: usize,
    pub queued_at: u64,
    pub acts: Acts,
}

impl Task {
    pub fn may_run_on(&self, cpu: usize) -> bool {
        self.allowed & 1 << cpu != 0
    }

    pub fn slice_left_ns(&self) -> u64 {
        policy::slice_left_ns(self.slice_end_ns, self.run_ns)
    }

    /// What orders tasks, said without the key that the policy makes of it.
    pub fn order(&self) -> (Class, u64) {
        (self.class, self.deadline)
    }
}

/// What a task does next, when it has run for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its slice ended, if anything.
    Nothing,
    Yield,
    Fork,
    /// Sleeps for so long (ns).
    Sleep(u64),
    End,
}

/// What a task does, again and again; None: never.
#[derive(Clone, Copy, Debug)]
struct Habits {
    run: Option<Spread>,
    sleep: Option<Spread>,
    fork: Option<Span>,
    yields: Option<Span>,
    child_run: Spread,
}

/// What a task does when. Its random numbers are its own, so that what it does depends on the seed and
/// not on how it is scheduled.
#[derive(Clone, Debug)]
pub struct Acts {
    habits: Habits,
    rng: Rng,
    to_stop_ns: u64,
    to_fork_ns: u64,
    to_yield_ns: u64,
}

impl Acts {
    pub fn new(spec: &TaskSpec, seed: u64) -> Self {
        let &TaskSpec { run, sleep, fork, yields, .. } = spec;
        Self::of(Habits { run, sleep, fork, yields, child_run: spec.child_run() }, Rng::with_seed(seed))
    }

    /// A child runs for a while and ends.
    pub fn child(&mut self) -> Self {
        let run = Some(self.habits.child_run);
        Self::of(Habits { run, sleep: None, fork: None, yields: None, ..self.habits }, self.rng.fork())
    }

    fn of(habits: Habits, mut rng: Rng) -> Self {
        let to_stop_ns = habits.run.map_or(u64::MAX, |run| run.pick(&mut rng));
        let [to_fork_ns, to_yield_ns] = [habits.fork, habits.yields].map(|every| every.map_or(u64::MAX, |span| span.0));
        Self { habits, rng, to_stop_ns, to_fork_ns, to_yield_ns }
    }

    /// Run time (ns) until the next act; u64::MAX: none ever.
    pub fn next_ns(&self) -> u64 {
        self.to_stop_ns.min(self.to_fork_ns).min(self.to_yield_ns)
    }

    pub fn ran(&mut self, ns: u64) {
        for left in [&mut self.to_stop_ns, &mut self.to_fork_ns, &mut self.to_yield_ns] {
            if *left != u64::MAX {
                *left = left.saturating_sub(ns);
            }
        }
    }

    /// The act that is due. Of several at once, the one after which the others can still be done.
    pub fn take_due(&mut self) -> Act {
        if self.to_fork_ns == 0 {
            self.to_fork_ns = self.habits.fork.map_or(u64::MAX, |every| every.0);
            Act::Fork
        } else if self.to_stop_ns == 0 {
            self.to_stop_ns = self.habits.run.map_or(u64::MAX, |run| run.pick(&mut self.rng));
            self.habits.sleep.map_or(Act::End, |sleep| Act::Sleep(sleep.pick(&mut self.rng)))
        } else if self.to_yield_ns == 0 {
            self.to_yield_ns = self.habits.yields.map_or(u64::MAX, |every| every.0);
            Act::Yield
        } else {
            Act::Nothing
        }
    }
}
