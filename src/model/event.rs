//! What happened, in order: for the invariants, the timeline, and whoever has to understand a failure.

use super::task::TaskId;
use crate::policy::GoIdle;
use std::collections::VecDeque;

/// Why a task is put into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Wake,
    /// Forked.
    New,
    /// It ran, and another task was picked.
    Displaced,
    /// Its nice changed while it was queued.
    Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Start {
        id: TaskId,
    },
    Fork {
        parent: TaskId,
        child: TaskId,
        before_ns: u64,
    },
    Wake {
        id: TaskId,
    },
    Queue {
        id: TaskId,
        cause: Cause,
    },
    /// Said before it is done: the queue as it is when the task is picked.
    Take {
        id: TaskId,
        cpu: usize,
        prev: Option<TaskId>,
    },
    /// The running task goes on.
    Keep {
        id: TaskId,
        cpu: usize,
    },
    Preempt {
        victim: TaskId,
        cpu: usize,
        by: TaskId,
        cause: Cause,
    },
    Refill {
        id: TaskId,
        left_ns: u64,
    },
    Renice {
        id: TaskId,
        user_prio: u32,
    },
    Age {
        id: TaskId,
    },
    Yield {
        id: TaskId,
    },
    Sleep {
        id: TaskId,
        cpu: usize,
    },
    End {
        id: TaskId,
        cpu: usize,
    },
    GoIdle {
        cpu: usize,
        path: GoIdle,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub niffies: u64,
    pub what: What,
}

/// The last events, or all of them.
#[derive(Clone, Debug)]
pub struct Log {
    pub events: VecDeque<Event>,
    keep: usize,
}

impl Log {
    pub fn last(keep: usize) -> Self {
        Self { events: VecDeque::new(), keep }
    }

    pub fn push(&mut self, event: Event) {
        if self.events.len() >= self.keep {
            self.events.pop_front();
        }
        if self.keep > 0 {
            self.events.push_back(event);
        }
    }
}
