//! `scx_vrq bench`: which scheduler is faster, how sure is that, and what did the scheduler do meanwhile?
//!
//! The throughput test of the two origin documents: a compile at a job/core ratio under each
//! scheduler in turn, with /proc/schedstat and scx_vrq's own counters beside the times.

mod args;
mod counters;
mod execute;
mod interrupt;
mod machine;
mod record;
mod rounds;
mod schedstat;
mod scheduler_spec;
mod scheduler_under_test;
mod table;
mod workload;

pub use args::BenchArgs;

use crate::failure::{Status, failure};
use anyhow::{Context, Result, ensure};
use machine::ThisMachine;
use record::{Point, RunRecord};
use rounds::{Plan, Turn, Watcher};
use scheduler_spec::SchedulerSpec;
use workload::{Compile, Workload};

/// Measures what the command line asks for, prints and exports it.
///
/// # Errors
/// Errors carry the exit status: see [`crate::failure::Status`].
pub fn run(args: BenchArgs) -> Result<()> {
    let plan = plan(&args)?;
    if !args.host {
        return Err(failure(
            Status::Usage,
            "without --host the bench runs in a virtual machine, which this build cannot start",
        ));
    }
    interrupt::install()?;
    let mut machine = ThisMachine::new(workload(&args))?;
    let mut results = Results { plan: &plan, runs: Vec::new() };
    println!("on this machine: {}", kernel_release());
    let outcome = rounds::run(&plan, &mut machine, &mut results);
    if !results.runs.is_empty() {
        println!("{}", table::vrq(&results.runs));
    }
    outcome?;
    ensure!(!interrupt::requested(), "stopped by the user after {} runs", results.runs.len());
    let failed = results.runs.iter().filter(|run| run.failure.is_some()).count();
    ensure!(failed == 0, "{failed} of {} runs failed", results.runs.len());
    Ok(())
}

/// Refuses what is wrong before anything is run.
fn plan(args: &BenchArgs) -> Result<Plan> {
    let cpus = machine::online_cpus();
    let points = if args.jobs.is_empty() {
        args.ratio.iter().map(|&ratio| Point::from_ratio(ratio, cpus)).collect()
    } else {
        args.jobs.iter().map(|&jobs| Point::from_jobs(jobs, cpus)).collect()
    };
    let schedulers = args
        .schedulers
        .iter()
        .map(|text| SchedulerSpec::parse(text).map_err(|error| failure(Status::Usage, format!("{error:#}"))))
        .collect::<Result<_, _>>()?;
    Ok(Plan { schedulers, points, rounds: args.rounds, warmup_rounds: args.warmup })
}

fn workload(args: &BenchArgs) -> Box<dyn Workload> {
    match args.workload {
        args::WorkloadKind::Compile => Box::new(Compile::new(args.scale.unwrap_or(workload::DEFAULT_SCALE))),
    }
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|release| format!("Linux {}", release.trim()))
        .unwrap_or_default()
}

struct Results<'a> {
    plan: &'a Plan,
    runs: Vec<RunRecord>,
}

impl Watcher for Results<'_> {
    fn starts(&mut self, turn: &Turn) -> Result<()> {
        let what = if turn.warmup { "warm-up" } else { "round" };
        let scheduler = &self.plan.schedulers.get(turn.scheduler).context("no such scheduler")?.name;
        eprintln!("{what} {}: {scheduler}, {}", turn.round + 1, self.plan.points[turn.point].label());
        Ok(())
    }

    fn ended(&mut self, record: RunRecord) -> Result<()> {
        if let Some(failure) = &record.failure {
            eprintln!("  failed: {failure}");
        }
        self.runs.push(record);
        Ok(())
    }
}
