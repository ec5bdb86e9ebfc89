//! The state of the machine: CPUs, queues and tasks. It changes only through [`super::sim`].

use super::grq::Queue;
use super::rule::Rule;
use super::task::{Acts, Place, Task, TaskId};
use super::workload::{Condition, TaskSpec, Workload};
use crate::policy::{self, Class};

#[derive(Clone, Debug, Default)]
pub struct Cpu {
    pub curr: Option<TaskId>,
    /// Tasks that only this CPU can run.
    pub own: Queue,
    /// Up to when the running task's time is counted.
    pub charged_to: u64,
    /// Tells the agenda's entries for this CPU that no longer hold.
    pub generation: u64,
}

/// What the report says of a task, and of all its children together.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub name: String,
    pub nice: i64,
    pub allowed: u64,
    pub idleprio: bool,
    pub run_ns: u64,
    pub nr_waits: u64,
    pub waited_ns: u64,
    pub longest_wait_ns: u64,
    pub nr_wakeups: u64,
    pub nr_preemptions: u64,
    pub nr_refills: u64,
    /// Waits that began before the deadline and ended after it.
    pub nr_late: u64,
}

/// Tasks that may run on the same CPUs: how many are alive, and were at most.
#[derive(Clone, Copy, Debug)]
struct Load {
    allowed: u64,
    nr_alive: u64,
    most_alive: u64,
}

#[derive(Clone, Debug)]
pub struct World {
    pub rule: Rule,
    pub niffies: u64,
    pub cpus: Vec<Cpu>,
    pub grq: Queue,
    /// Idle CPUs, bit by bit.
    pub idle_map: u64,
    pub tasks: Vec<Task>,
    pub rows: Vec<Row>,
    pub tick_ns: u32,
    pub rr_interval_ms: u32,
    pub max_wait_ms: u32,
    pub condition: u32,
    /// Ways to idle (document 001): from idle, blocked, another CPU needed, other.
    pub goidle: [u64; 4],
    loads: Vec<Load>,
}

impl World {
    pub fn new(from: &Workload, rule: Rule) -> Self {
        let nr_cpus = from.cpus.0 as usize;
        let mut world = Self {
            rule,
            niffies: 0,
            cpus: vec![Cpu::default(); nr_cpus],
            grq: Queue::default(),
            idle_map: u64::MAX >> (64 - nr_cpus),
            tasks: Vec::new(),
            rows: Vec::new(),
            tick_ns: from.tick.0,
            rr_interval_ms: from.rr_interval_ms.0 as u32,
            max_wait_ms: from.max_wait_ms.0 as u32,
            condition: match from.resched_best_idle {
                Condition::Corrected => policy::VRQ_RBI_CORRECTED,
                Condition::NextNePrev => policy::VRQ_RBI_NEXT_NE_PREV,
            },
            goidle: [0; 4],
            loads: Vec::new(),
        };
        let count = |name: &str, specs: &[TaskSpec]| -> i64 {
            specs.iter().filter(|spec| spec.name == name).map(|spec| spec.count.0).sum()
        };
        for (i, spec) in from.task.iter().enumerate() {
            let before = count(&spec.name, &from.task[..i]);
            for nr in before + 1..=before + spec.count.0 {
                let name = match count(&spec.name, &from.task) {
                    1 => spec.name.clone(),
                    _ => format!("{}.{nr}", spec.name),
                };
                world.add(name, spec, from.seed.0 as u64);
            }
        }
        world
    }

    fn add(&mut self, name: String, spec: &TaskSpec, seed: u64) {
        let allowed = spec.cpus.map_or(u64::MAX, |list| list.0) & (u64::MAX >> (64 - self.cpus.len()));
        // Far apart, so that the seeds 1 and 2 share no task's random numbers.
        let acts = Acts::new(spec, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.tasks.len() as u64));
        let policy = spec.policy as u32;
        self.tasks.push(Task {
            row: self.rows.len(),
            policy,
            user_prio: user_prio(spec.nice.0),
            allowed,
            class: policy::class(policy),
            deadline: 0,
            slice_end_ns: 0,
            run_ns: 0,
            place: Place::Away,
            last_cpu: allowed.trailing_zeros() as usize,
            queued_at: 0,
            acts,
        });
        let idleprio = policy::class(policy) == Class::Idleprio;
        let row = Row { name, nice: spec.nice.0, allowed, idleprio, ..Row::default() };
        self.rows.push(row.clone());
        if spec.fork.is_some() {
            // The row after the parent's: see `child`.
            self.rows.push(Row { name: format!("{} (children)", row.name), ..row });
        }
    }

    /// A child of `parent`, nowhere yet.
    pub fn child(&mut self, parent: TaskId) -> TaskId {
        let parent = &mut self.tasks[parent];
        let acts = parent.acts.child();
        let child = Task { row: parent.row + 1, run_ns: 0, place: Place::Away, acts, ..parent.clone() };
        self.tasks.push(child);
        self.tasks.len() - 1
    }

    /// Only one CPU can run it, so it has that CPU's own queue. With a single CPU the grq is that queue.
    pub fn pinned(&self, id: TaskId) -> Option<usize> {
        let allowed = self.tasks[id].allowed;
        (self.cpus.len() > 1 && allowed.is_power_of_two()).then_some(allowed.trailing_zeros() as usize)
    }

    pub fn key(&self, id: TaskId) -> u64 {
        let (class, deadline) = self.tasks[id].order();
        (self.rule.key)(class, deadline)
    }

    /// The queue that a task waits in.
    pub fn queue_of(&mut self, id: TaskId) -> &mut Queue {
        match self.pinned(id) {
            Some(cpu) => &mut self.cpus[cpu].own,
            None => &mut self.grq,
        }
    }

    /// The task with the least key that `cpu` may take; its own queue wins ties, as in vrq_dispatch.
    pub fn first(&self, cpu: usize) -> Option<(u64, TaskId)> {
        let head = self.grq.first(&self.tasks, cpu);
        let own = self.cpus[cpu].own.first(&self.tasks, cpu);
        match (own, head) {
            (Some(own), Some(head)) if head.0 < own.0 => Some(head),
            (own, head) => own.or(head),
        }
    }

    /// The CPU it last ran on if that is idle, else the lowest idle one. All distances are alike here.
    pub fn idle_pick(&self, id: TaskId) -> Option<usize> {
        let task = &self.tasks[id];
        let idle = task.allowed & self.idle_map;
        let near = idle & 1 << task.last_cpu;
        let found = if near != 0 { near } else { idle };
        (found != 0).then_some(found.trailing_zeros() as usize)
    }

    /// All queued tasks.
    pub fn queued(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.grq.iter().chain(self.cpus.iter().flat_map(|cpu| cpu.own.iter()))
    }

    /// The slice that a task gets now, as in slice_now_ns() of task_ctx.bpf.h.
    pub fn slice_now_ns(&self, id: TaskId) -> u64 {
        let own = self.pinned(id).map_or(0, |cpu| self.cpus[cpu].own.qnr());
        let queued = self.grq.qnr() / self.cpus.len() + own;
        policy::loaded_slice_ns(queued as u64, self.rr_interval_ms, self.tick_ns, self.max_wait_ms)
    }

    /// When a slice ends that has `left_ns` from now: exactly then, or at the next tick.
    pub fn slice_end(&self, left_ns: u64) -> u64 {
        policy::slice_in_ticks_ns(self.niffies + left_ns, self.tick_ns)
    }

    /// A task comes to life, or ends.
    pub fn alive(&mut self, id: TaskId, alive: bool) {
        let allowed = self.tasks[id].allowed;
        let at = self.loads.iter().position(|load| load.allowed == allowed).unwrap_or_else(|| {
            self.loads.push(Load { allowed, nr_alive: 0, most_alive: 0 });
            self.loads.len() - 1
        });
        let load = &mut self.loads[at];
        if alive {
            load.nr_alive += 1
        } else {
            load.nr_alive -= 1
        }
        load.most_alive = load.most_alive.max(load.nr_alive);
    }

    /// The longest that a task may wait (wait.h). r: other tasks that were alive at once and may run on
    /// one of its CPUs, for each of its CPUs.
    pub fn bound_ns(&self, allowed: u64, idleprio: bool) -> u64 {
        let rivals: u64 = self.loads.iter().filter(|load| load.allowed & allowed != 0).map(|l| l.most_alive).sum();
        let r = rivals.saturating_sub(1).div_ceil(allowed.count_ones().into());
        match idleprio {
            true => policy::idleprio_wait_bound_ns(r, self.rr_interval_ms, self.tick_ns),
            false => policy::wait_bound_ns(r, self.rr_interval_ms, self.tick_ns),
        }
    }
}

pub fn user_prio(nice: i64) -> u32 {
    policy::user_prio((120 + nice) as u32)
}
