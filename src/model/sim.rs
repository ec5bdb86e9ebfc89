//! The simulation: the callbacks of `src/bpf/main.bpf.c`, one for one, on a machine whose kicks take no
//! time and whose picks do not race.

use super::check::{Check, Violation};
use super::event::{Cause, Event, Log, What};
use super::rule::Rule;
use super::task::{Act, Place, TaskId};
use super::trace;
use super::workload::{Renice, Workload};
use super::world::{World, user_prio};
use crate::policy::{self, Class, GoIdle, VRQ_AGEING_PERIOD_MS};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due at a point of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Start(TaskId),
    Renice(TaskId, u32),
    Wake(TaskId),
    /// A slice or an act of what a CPU runs ends, if it is still that generation.
    Cpu(usize, u64),
    Ageing,
}

/// What leaves the CPU at a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prev {
    Idle,
    Blocked,
    Runnable(TaskId),
}

/// A workload at work.
pub struct Sim {
    pub(super) world: World,
    pub(super) log: Log,
    pub(super) nr_events: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, Due)>>,
    nr_due: u64,
    ageing_armed: bool,
    check: Option<Check>,
    end: u64,
}

impl Sim {
    /// `keep`: how many of the last events to keep for a timeline or a failure.
    pub fn new(workload: &Workload, rule: Rule, check: bool, keep: usize) -> Self {
        let mut sim = Self {
            world: World::new(workload, rule),
            log: Log::last(keep),
            nr_events: 0,
            agenda: BinaryHeap::new(),
            nr_due: 0,
            ageing_armed: false,
            check: check.then(Check::default),
            end: workload.time.0,
        };
        let mut id = 0;
        for spec in &workload.task {
            for _ in 0..spec.count.0 {
                sim.at(spec.start.map_or(0, |start| start.0), Due::Start(id));
                if let Some(Renice { nice, at }) = spec.renice {
                    sim.at(at.0, Due::Renice(id, user_prio(nice.0)));
                }
                id += 1;
            }
        }
        sim
    }

    /// To the end of the workload's time.
    ///
    /// # Errors
    /// The first invariant that did not hold, if they are checked.
    pub fn run(&mut self) -> Result<(), Box<Violation>> {
        while let Some(&Reverse((niffies, _, due))) = self.agenda.peek() {
            if niffies > self.end {
                break;
            }
            self.agenda.pop();
            self.world.niffies = niffies;
            self.step(due);
            if let Some(check) = &mut self.check {
                check.settled(&self.world).map_err(|violation| Box::new(violation.with_events(&self.log)))?;
            }
        }
        self.world.niffies = self.end;
        (0..self.world.cpus.len()).for_each(|cpu| self.charge(cpu));
        let waiting: Vec<TaskId> = self.world.queued().collect();
        for id in waiting {
            // A wait that is not over is a wait, or a task that starves would have none.
            let waited_ns = self.end - self.world.tasks[id].queued_at;
            let row = &mut self.world.rows[self.world.tasks[id].row];
            row.longest_wait_ns = row.longest_wait_ns.max(waited_ns);
        }
        Ok(())
    }

    /// The events that were kept, as a trace for ui.perfetto.dev.
    pub fn trace(&self) -> serde_json::Value {
        trace::chrome(&self.world, self.log.events.iter())
    }

    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    fn step(&mut self, due: Due) {
        match due {
            Due::Cpu(cpu, generation) if self.world.cpus[cpu].generation != generation => return,
            Due::Cpu(cpu, _) => self.act(cpu),
            Due::Start(id) => self.start(id),
            Due::Wake(id) => self.wake(id),
            Due::Renice(id, user_prio) => self.renice(id, user_prio),
            Due::Ageing => self.age(),
        }
        self.nr_events += 1;
    }

    fn at(&mut self, niffies: u64, due: Due) {
        self.nr_due += 1;
        self.agenda.push(Reverse((niffies, self.nr_due, due)));
    }

    fn tell(&mut self, what: What) {
        let event = Event { niffies: self.world.niffies, what };
        self.log.push(event);
        if let Some(check) = &mut self.check {
            check.see(&self.world, event);
        }
    }

    /// A task enters: enable, then enqueue.
    fn start(&mut self, id: TaskId) {
        self.world.alive(id, true);
        self.refill(id);
        self.tell(What::Start { id });
        self.enqueue(id, Cause::Wake);
    }

    fn wake(&mut self, id: TaskId) {
        let row = self.world.tasks[id].row;
        self.world.rows[row].nr_wakeups += 1;
        self.tell(What::Wake { id });
        self.enqueue(id, Cause::Wake);
    }

    /// New slice, new deadline: task_refill.
    fn refill(&mut self, id: TaskId) {
        let (slice_ns, niffies) = (self.world.slice_now_ns(id), self.world.niffies);
        let rr_interval_ms = self.world.rr_interval_ms;
        let task = &mut self.world.tasks[id];
        task.slice_end_ns = task.run_ns + slice_ns;
        task.deadline = policy::deadline(niffies, task.user_prio, rr_interval_ms);
        task.class = policy::class(task.policy);
    }

    /// Refill if used up: task_settle, BFS's check_deadline.
    fn settle(&mut self, id: TaskId) {
        let task = &self.world.tasks[id];
        let (left_ns, row) = (task.slice_left_ns(), task.row);
        if (self.world.rule.must_refill)(left_ns, task.policy) {
            self.refill(id);
            self.world.rows[row].nr_refills += 1;
            self.tell(What::Refill { id, left_ns });
        }
    }

    fn insert(&mut self, id: TaskId, cause: Cause) {
        let niffies = self.world.niffies;
        let task = &mut self.world.tasks[id];
        task.class = policy::class(task.policy);
        if cause != Cause::Moved {
            task.queued_at = niffies;
        }
        let idleprio = task.class == Class::Idleprio;
        let key = self.world.key(id);
        let (key, nr) = self.world.queue_of(id).insert(key, id);
        self.world.tasks[id].place = Place::Queued(key, nr);
        if idleprio && !self.ageing_armed {
            self.ageing_armed = true;
            self.at(niffies + u64::from(VRQ_AGEING_PERIOD_MS) * 1_000_000, Due::Ageing);
        }
        self.tell(What::Queue { id, cause });
    }

    fn remove(&mut self, id: TaskId) {
        if let Place::Queued(key, nr) = self.world.tasks[id].place {
            self.world.queue_of(id).remove((key, nr), id);
        }
        self.world.tasks[id].place = Place::Away;
    }

    /// select_cpu and enqueue: an idle CPU, else the queue, and the worst running task is preempted.
    fn enqueue(&mut self, id: TaskId, cause: Cause) {
        let pinned = self.world.pinned(id);
        // select_cpu, which the kernel skips for a task that has no choice.
        if pinned.is_none() && matches!(cause, Cause::Wake | Cause::New) && self.go_to_idle(id, cause) {
            return;
        }
        self.settle(id);
        if self.go_to_idle(id, cause) {
            return;
        }
        self.insert(id, cause);
        if cause == Cause::Displaced || self.world.tasks[id].policy == policy::VRQ_POLICY_IDLEPRIO {
            return;
        }
        let parent_cpu = self.world.tasks[id].last_cpu;
        match pinned {
            None if cause == Cause::New => self.preempt(parent_cpu, id, cause),
            _ => {
                if let Some(cpu) = self.worst(id) {
                    self.preempt(cpu, id, cause);
                }
            }
        }
    }

    /// To the nearest idle CPU, which takes what is first for it.
    fn go_to_idle(&mut self, id: TaskId, cause: Cause) -> bool {
        let Some(cpu) = self.world.idle_pick(id) else { return false };
        self.insert(id, cause);
        self.pick(cpu, Prev::Idle);
        true
    }

    /// The CPU with the worst running task, if that is strictly worse: kick_worst. The lowest on ties.
    fn worst(&self, id: TaskId) -> Option<usize> {
        let (mut worst, mut worst_key) = (None, self.world.key(id));
        for (cpu, curr) in self.world.cpus.iter().enumerate().filter_map(|(cpu, c)| c.curr.map(|curr| (cpu, curr))) {
            let key = self.world.key(curr);
            if self.world.tasks[id].may_run_on(cpu) && (self.world.rule.can_preempt)(worst_key, key) {
                (worst, worst_key) = (Some(cpu), key);
            }
        }
        worst
    }

    fn preempt(&mut self, cpu: usize, by: TaskId, cause: Cause) {
        let Some(victim) = self.world.cpus[cpu].curr else { return };
        let row = self.world.tasks[victim].row;
        self.world.rows[row].nr_preemptions += 1;
        self.tell(What::Preempt { victim, cpu, by, cause });
        self.pick(cpu, Prev::Runnable(victim));
    }

    /// The pick: dispatch. A runnable prev competes; the queue wins ties.
    fn pick(&mut self, cpu: usize, prev: Prev) {
        self.charge(cpu);
        let first = self.world.first(cpu);
        if let Prev::Runnable(id) = prev {
            self.settle(id);
            if first.is_none_or(|(key, _)| (self.world.rule.prev_wins)(self.world.key(id), key)) {
                self.tell(What::Keep { id, cpu });
                self.arm(cpu);
                return;
            }
        }
        let displaced = if let Prev::Runnable(id) = prev { Some(id) } else { None };
        match first {
            Some((_, id)) => self.take(cpu, id, displaced),
            None => self.go_idle(cpu, prev),
        }
        if let Some(id) = displaced {
            self.enqueue(id, Cause::Displaced);
        }
    }

    fn take(&mut self, cpu: usize, id: TaskId, prev: Option<TaskId>) {
        self.tell(What::Take { id, cpu, prev });
        self.remove(id);
        let task = &mut self.world.tasks[id];
        let waited_ns = self.world.niffies - task.queued_at;
        let row = &mut self.world.rows[task.row];
        row.nr_waits += 1;
        row.waited_ns += waited_ns;
        row.longest_wait_ns = row.longest_wait_ns.max(waited_ns);
        row.nr_late += u64::from(task.deadline > task.queued_at && task.deadline < self.world.niffies);
        task.place = Place::Running(cpu);
        task.last_cpu = cpu;
        self.world.cpus[cpu].curr = Some(id);
        self.world.idle_map &= !(1 << cpu);
        self.arm(cpu);
    }

    fn go_idle(&mut self, cpu: usize, prev: Prev) {
        let path = policy::goidle_path(prev != Prev::Idle, prev == Prev::Idle, true);
        self.world.goidle[path as usize] += 1;
        self.world.cpus[cpu].generation += 1;
        self.world.idle_map |= 1 << cpu;
        self.tell(What::GoIdle { cpu, path });
        debug_assert!(path != GoIdle::Other);
    }

    /// The next thing that happens on `cpu`: the end of the slice, or what the task does before.
    fn arm(&mut self, cpu: usize) {
        let here = &mut self.world.cpus[cpu];
        here.generation += 1;
        here.charged_to = self.world.niffies;
        let (Some(id), generation) = (here.curr, here.generation) else { return };
        let task = &self.world.tasks[id];
        let slice_end = self.world.slice_end(task.slice_left_ns());
        let act_at = self.world.niffies.saturating_add(task.acts.next_ns());
        self.at(slice_end.min(act_at), Due::Cpu(cpu, generation));
    }

    /// Count the time that the task on `cpu` has run.
    fn charge(&mut self, cpu: usize) {
        let here = &mut self.world.cpus[cpu];
        let ran_ns = self.world.niffies - std::mem::replace(&mut here.charged_to, self.world.niffies);
        if let Some(id) = here.curr {
            let task = &mut self.world.tasks[id];
            task.run_ns += ran_ns;
            task.acts.ran(ran_ns);
            self.world.rows[task.row].run_ns += ran_ns;
        }
    }

    fn act(&mut self, cpu: usize) {
        self.charge(cpu);
        let Some(id) = self.world.cpus[cpu].curr else { return };
        match self.world.tasks[id].acts.take_due() {
            Act::Nothing => self.pick(cpu, Prev::Runnable(id)),
            // yield_type 1: it competes again with what it has.
            Act::Yield => {
                self.tell(What::Yield { id });
                self.pick(cpu, Prev::Runnable(id));
            }
            Act::Fork => self.fork(cpu, id),
            Act::Sleep(ns) => {
                self.at(self.world.niffies + ns, Due::Wake(id));
                self.block(cpu, id, Place::Asleep);
            }
            Act::End => self.block(cpu, id, Place::Away),
        }
    }

    /// stopping, then dispatch: a used up slice is refilled also when the task goes to sleep.
    fn block(&mut self, cpu: usize, id: TaskId, to: Place) {
        self.settle(id);
        self.world.tasks[id].place = to;
        self.world.cpus[cpu].curr = None;
        if to == Place::Asleep {
            self.tell(What::Sleep { id, cpu });
        } else {
            self.world.alive(id, false);
            self.tell(What::End { id, cpu });
        }
        if policy::resched_best_idle(self.world.condition, false, true, false) {
            // The fault of 5.3: another CPU is woken for a task that blocked, and finds nothing.
            if let Some(idle) = self.world.idle_pick(id) {
                self.pick(idle, Prev::Idle);
            }
        }
        self.pick(cpu, Prev::Blocked);
    }

    /// The child gets half of what is left of the slice, and the deadline: task_inherit.
    fn fork(&mut self, cpu: usize, parent: TaskId) {
        let child = self.world.child(parent);
        self.world.alive(child, true);
        let before_ns = self.world.tasks[parent].slice_left_ns();
        let share_ns = (self.world.rule.fork_share_ns)(before_ns);
        if share_ns == 0 {
            let task = &mut self.world.tasks[parent];
            task.slice_end_ns = task.run_ns;
            self.refill(child);
        } else {
            self.world.tasks[parent].slice_end_ns -= share_ns;
            self.world.tasks[child].slice_end_ns = share_ns;
        }
        self.tell(What::Fork { parent, child, before_ns });
        self.arm(cpu);
        self.enqueue(child, Cause::New);
    }

    /// set_weight: a queued task is queued again, a running one competes again if it got worse.
    fn renice(&mut self, id: TaskId, user_prio: u32) {
        let rr_interval_ms = self.world.rr_interval_ms;
        let task = &mut self.world.tasks[id];
        let old_deadline = task.deadline;
        task.deadline = policy::renice_deadline(old_deadline, task.user_prio, user_prio, rr_interval_ms);
        task.user_prio = user_prio;
        let (place, worse) = (task.place, task.deadline > old_deadline);
        match place {
            Place::Queued(..) => {
                self.remove(id);
                self.tell(What::Renice { id, user_prio });
                self.enqueue(id, Cause::Moved);
            }
            Place::Running(cpu) if worse => {
                self.tell(What::Renice { id, user_prio });
                self.pick(cpu, Prev::Runnable(id));
            }
            _ => self.tell(What::Renice { id, user_prio }),
        }
    }

    /// ageing_fire: IDLEPRIO tasks that waited too long are NORMAL until they are next queued.
    fn age(&mut self) {
        let waiting: Vec<TaskId> =
            self.world.queued().filter(|&id| self.world.tasks[id].class == Class::Idleprio).collect();
        self.ageing_armed = !waiting.is_empty();
        if self.ageing_armed {
            self.at(self.world.niffies + u64::from(VRQ_AGEING_PERIOD_MS) * 1_000_000, Due::Ageing);
        }
        for id in waiting {
            if (self.world.rule.aged)(self.world.niffies - self.world.tasks[id].queued_at) {
                self.remove(id);
                self.world.tasks[id].class = Class::Normal;
                let key = self.world.key(id);
                let (key, nr) = self.world.queue_of(id).insert(key, id);
                self.world.tasks[id].place = Place::Queued(key, nr);
                self.tell(What::Age { id });
            }
        }
    }
}
