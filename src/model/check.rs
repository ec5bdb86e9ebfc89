//! The invariants, checked at every event. They are a second opinion: order is said by class and
//! deadline and not by the key, and nothing here asks [`super::rule::Rule`].

use super::event::{Cause, Event, Log, What};
use super::task::{Place, TaskId};
use super::world::World;
use crate::policy::{self, Class, VRQ_POLICY_BATCH, VRQ_RESCHED_NS};
use laws::*;
use std::fmt;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The law, by name.
    pub law: &'static str,
    /// When (ns), and what was seen instead.
    pub seen: String,
    /// The last events, oldest first.
    pub events: String,
}

impl Violation {
    pub(super) fn with_events(mut self, log: &Log) -> Self {
        self.events = log.events.iter().map(|event| format!("{:>14} {:?}\n", event.niffies, event.what)).collect();
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} does not hold: {}\nthe last events (ns):\n{}", self.law, self.seen, self.events)
    }
}

impl std::error::Error for Violation {}

/// The laws, by name.
#[allow(missing_docs)]
pub mod laws {
    pub const ONE_PLACE: &str = "a task is in exactly one place";
    pub const NO_IDLE: &str = "no CPU is idle while a task that it may run is queued";
    pub const LEAST_KEY: &str =
        "the task taken has the least class and deadline of those allowed, and the queue wins ties";
    pub const DEADLINE: &str = "a deadline changes only on expiry, fork, renice and BATCH";
    pub const FORK: &str = "fork conserves the slice and halves it, and the child has its parent's deadline";
    pub const PREEMPT: &str = "the worst running task is preempted if it is strictly worse than the one that woke";
    pub const WAIT: &str = "every wait is within the bound";
}

/// What the invariants need to remember.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// The deadlines as they must be, task by task.
    deadlines: Vec<u64>,
    /// The task that woke in this step and was queued, as long as nothing was preempted.
    woken: Option<TaskId>,
    first: Option<Violation>,
}

impl Check {
    fn expect(&mut self, holds: bool, law: &'static str, world: &World, seen: impl FnOnce() -> String) {
        if !holds && self.first.is_none() {
            let seen = format!("at {} ns {}", world.niffies, seen());
            self.first = Some(Violation { law, seen, events: String::new() });
        }
    }

    /// An event that has just happened, except a take, which is about to.
    pub fn see(&mut self, world: &World, event: Event) {
        match event.what {
            What::Start { id } | What::Renice { id, .. } => self.deadline_is_now(world, id),
            What::Take { id, cpu, prev } => self.taken(world, id, cpu, prev),
            What::Keep { id, cpu } => self.kept(world, id, cpu),
            What::Refill { id, left_ns } => self.refilled(world, id, left_ns),
            What::Fork { parent, child, before_ns } => self.forked(world, parent, child, before_ns),
            What::Wake { id } => self.woken = Some(id),
            What::Preempt { victim, cpu, by, cause } => self.preempted(world, victim, cpu, by, cause),
            _ => {}
        }
    }

    /// After all that happens at one point of time because of one thing.
    pub fn settled(&mut self, world: &World) -> Result<(), Violation> {
        self.places(world);
        for id in world.queued() {
            let task = &world.tasks[id];
            let idle = task.allowed & world.idle_map;
            self.expect(idle == 0, NO_IDLE, world, || {
                format!("task {id} waits and CPU {} is idle", idle.trailing_zeros())
            });
            self.waited(world, id);
        }
        if let Some(id) = self.woken.take() {
            self.nobody_worse_runs(world, id);
        }
        for (id, task) in world.tasks.iter().enumerate().filter(|(_, task)| task.place != Place::Away) {
            let wanted = self.deadlines[id];
            self.expect(task.deadline == wanted, DEADLINE, world, || {
                format!("task {id} has the deadline {} and not {wanted}", task.deadline)
            });
        }
        self.first.take().map_or(Ok(()), Err)
    }

    fn deadline_is_now(&mut self, world: &World, id: TaskId) {
        self.deadlines.resize(world.tasks.len(), 0);
        self.deadlines[id] = world.tasks[id].deadline;
    }

    fn places(&mut self, world: &World) {
        let mut nr_places = vec![0; world.tasks.len()];
        for id in world.queued() {
            nr_places[id] += 1;
            let queued = matches!(world.tasks[id].place, Place::Queued(..));
            self.expect(queued, ONE_PLACE, world, || {
                format!("task {id} is in a queue and {:?}", world.tasks[id].place)
            });
        }
        for (cpu, id) in world.cpus.iter().enumerate().filter_map(|(cpu, c)| c.curr.map(|id| (cpu, id))) {
            nr_places[id] += 1;
            let task = &world.tasks[id];
            let running = task.place == Place::Running(cpu) && task.may_run_on(cpu);
            self.expect(running, ONE_PLACE, world, || format!("task {id} is on CPU {cpu} and {:?}", task.place));
        }
        for (id, task) in world.tasks.iter().enumerate() {
            let wanted = usize::from(matches!(task.place, Place::Queued(..) | Place::Running(_)));
            self.expect(nr_places[id] == wanted, ONE_PLACE, world, || {
                format!("task {id} is {:?} and in {} queues or CPUs", task.place, nr_places[id])
            });
        }
    }

    fn waited(&mut self, world: &World, id: TaskId) {
        let task = &world.tasks[id];
        // A BATCH task whose nice changes while it is queued gets a new deadline and waits anew: see
        // r01 in tests/model.rs.
        let renewed_at = match task.policy {
            VRQ_POLICY_BATCH => task.deadline - policy::deadline_offset_ns(task.user_prio, world.rr_interval_ms),
            _ => 0,
        };
        let waited_ns = world.niffies - task.queued_at.max(renewed_at);
        let bound_ns = world.bound_ns(task.allowed, policy::class(task.policy) == Class::Idleprio);
        self.expect(waited_ns <= bound_ns, WAIT, world, || {
            format!("task {id} has waited {waited_ns} ns, {bound_ns} are the bound")
        });
    }

    fn taken(&mut self, world: &World, id: TaskId, cpu: usize, prev: Option<TaskId>) {
        self.waited(world, id);
        let order = world.tasks[id].order();
        let rivals = world.queued().chain(prev).filter(|&rival| world.tasks[rival].may_run_on(cpu));
        for rival in rivals {
            let better = world.tasks[rival].order() < order;
            self.expect(!better, LEAST_KEY, world, || format!("CPU {cpu} takes task {id}, and {rival} is better"));
        }
    }

    fn kept(&mut self, world: &World, id: TaskId, cpu: usize) {
        for rival in world.queued().filter(|&rival| world.tasks[rival].may_run_on(cpu)) {
            let better = world.tasks[id].order() < world.tasks[rival].order();
            self.expect(better, LEAST_KEY, world, || format!("CPU {cpu} keeps task {id}, and {rival} is queued"));
        }
    }

    fn refilled(&mut self, world: &World, id: TaskId, left_ns: u64) {
        let task = &world.tasks[id];
        let due = left_ns < u64::from(VRQ_RESCHED_NS) || task.policy == VRQ_POLICY_BATCH;
        self.expect(due, DEADLINE, world, || format!("task {id} is refilled with {left_ns} ns left"));
        self.deadlines[id] = world.niffies + policy::deadline_offset_ns(task.user_prio, world.rr_interval_ms);
    }

    fn forked(&mut self, world: &World, parent: TaskId, child: TaskId, before_ns: u64) {
        self.deadline_is_now(world, child);
        let (parent_ns, child_ns) = (world.tasks[parent].slice_left_ns(), world.tasks[child].slice_left_ns());
        let halved = parent_ns + child_ns == before_ns && parent_ns.abs_diff(child_ns) <= 1;
        let inherited = world.tasks[parent].deadline == world.tasks[child].deadline;
        // With less than two shares that are worth a switch, both start anew.
        let holds = before_ns < 2 * u64::from(VRQ_RESCHED_NS) || (halved && inherited);
        self.expect(holds, FORK, world, || {
            format!("task {parent} had {before_ns} ns and has {parent_ns}, its child {child} {child_ns}")
        });
    }

    fn preempted(&mut self, world: &World, victim: TaskId, cpu: usize, by: TaskId, cause: Cause) {
        self.woken = None;
        if cause == Cause::New && world.pinned(by).is_none() {
            return; // the child goes first: it has its parent's deadline, and wins the tie
        }
        let order = world.tasks[victim].order();
        self.expect(order > world.tasks[by].order(), PREEMPT, world, || {
            format!("{by} preempts {victim} on CPU {cpu}, which is no worse")
        });
        for (other, curr) in world.cpus.iter().enumerate() {
            let worse = curr.curr.is_some_and(|curr| world.tasks[curr].order() > order);
            let holds = !worse || !world.tasks[by].may_run_on(other);
            self.expect(holds, PREEMPT, world, || format!("{by} preempts on CPU {cpu}, and CPU {other} is worse"));
        }
    }

    /// A task that woke and preempted nobody: IDLEPRIO, taken at once, or worse than all that run.
    fn nobody_worse_runs(&mut self, world: &World, id: TaskId) {
        let task = &world.tasks[id];
        if task.class == Class::Idleprio || !matches!(task.place, Place::Queued(..)) {
            return;
        }
        for (cpu, curr) in world.cpus.iter().enumerate().filter(|&(cpu, _)| task.may_run_on(cpu)) {
            let worse = curr.curr.is_some_and(|curr| world.tasks[curr].order() > task.order());
            self.expect(!worse, PREEMPT, world, || format!("task {id} woke and waits, and CPU {cpu} runs a worse one"));
        }
    }
}
