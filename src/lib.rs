//! scx_vrq: the one global queue of BFS (0.46x) and VRQ (up to 0.88), earliest virtual deadline
//! first, as a sched_ext scheduler.
//!
//! ```text
//!   wakes up ──► select_cpu ── an idle CPU is claimed ─────────► queued, that CPU wakes
//!                    │ none idle                                      │
//!                    ▼                                                ▼
//!                 enqueue ── queued; worst running task worse? ──► dispatch: prev, grq head,
//!                    ▲        then it is preempted                    own head: least key
//!                    │ picked over                                    │
//!                 stopping ◄────────── runs, slice counts down ◄──────┘
//!                    │ sleeps: slice used up? new slice, new deadline
//!                    ▼
//!                 dispatch finds nothing ──► update_idle: into the idle map, one more look
//! ```
//!
//! Where to look: `src/bpf/{prio,deadline,slice,preempt}.h` the policy's arithmetic (pure, called
//! from both sides, [`policy`] for Rust); `src/bpf/*.bpf.h` one concept each; `src/bpf/main.bpf.c`
//! the callbacks; [`scheduler`] loads, watches and detaches; [`host`] looks at the kernel before
//! anything is opened; [`control`] and [`client`] are the two ends of its socket, [`session`] is what
//! outlives a load; [`mod@bench`] the throughput test; [`model`] the policy without a kernel.
#![warn(missing_docs)]

pub mod bench;
#[allow(missing_docs)]
mod bpf_skel;
pub mod cgroups;
pub mod check;
pub mod cli;
pub mod client;
pub mod config;
pub mod control;
pub mod docs;
pub mod failure;
pub mod host;
pub mod job;
mod libbpf_log;
pub mod metrics;
pub mod model;
pub mod policy;
pub mod scheduler;
pub mod session;
pub mod stats;
pub mod topology;
pub mod tune;

use cli::{Cli, Command, LoadArgs};
use job::Job;
use std::process::ExitCode;

/// Run what the command line says.
///
/// # Errors
/// Errors carry the exit status, see [`failure::Status`].
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    cli::init_log(cli.is_verbose());
    libbpf_log::keep();
    match cli.command {
        Some(Command::Sim(args)) => model::run(*args)?,
        Some(Command::Bench(args)) => bench::run(*args)?,
        Some(Command::Report(args)) => bench::report(args)?,
        Some(Command::Check(args)) => check::run(&args)?,
        Some(Command::Status(args)) => client::status(&args)?,
        Some(Command::Metrics) => client::metrics()?,
        Some(Command::Stop) => client::stop()?,
        Some(Command::Switch(args)) => client::switch(&args)?,
        Some(Command::Tune(args)) => client::tune(&args)?,
        Some(Command::Completions(args)) => docs::completions(&args)?,
        Some(Command::Man(args)) => docs::man(&args)?,
        Some(Command::Run(args)) => return schedule(args.load, Job::new(args.time, args.command)?),
        None if cli.help_stats => stats::describe()?,
        None => match cli.monitor {
            Some(every) => client::monitor(every)?,
            None => return schedule(cli.load, Job::default()),
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn schedule(load: LoadArgs, job: Job) -> anyhow::Result<ExitCode> {
    scheduler::run(&load.config()?, job).map_err(failure::with_hint)
}
