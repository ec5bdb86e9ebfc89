//! The model: n CPUs and their tasks under the policy, event by event, without a kernel.
//!
//! All arithmetic is the policy headers' own ([`crate::policy`]); the callbacks around it are those of
//! `src/bpf/main.bpf.c`. One seed gives one run. What it leaves out: the time that switches and kicks
//! take, races, distances between CPUs, changes of affinity and policy, sync wake-ups, real-time tasks.
//!
//! Where to look: `workload` (what is asked for) -> `sim` on a `world` of `task`s and their `grq`, by a
//! `rule` -> `event`s, which `check` judges and `timeline`, `trace` and `svg` show; `report`.

mod args;
mod check;
mod event;
mod grq;
mod report;
mod rule;
mod sim;
mod svg;
mod task;
mod text;
mod timeline;
mod trace;
mod workload;
mod world;

pub use args::{SimArgs, run};
pub use check::{Violation, laws};
pub use report::{Report, TaskReport};
pub use rule::Rule;
pub use sim::Sim;
pub use workload::Workload;
