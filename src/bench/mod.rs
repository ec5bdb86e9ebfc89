//! `scx_vrq bench`: which scheduler is faster, how sure is that, and what did the scheduler do meanwhile?
//!
//! The throughput test of the two origin documents: a compile at a job/core ratio under each
//! scheduler in turn, with /proc/schedstat and scx_vrq's own counters beside the times.
//!
//! Where to look: `args` -> `plan` -> `rounds` (the order, one run) on a `machine` (real or mock),
//! which puts a `scheduler_under_test` in charge and executes a `workload`; events go to a `session`,
//! which keeps the `results` and makes of them a `summary`, `table`s, `export`s and a `report`. In a
//! virtual machine (`vm`, `scripts`) the same events come as lines out of another process of this program.
//! `cost` is another measurement, which vm/cost.sh does.

mod args;
mod cost;
mod counters;
mod cpus;
mod execute;
pub(crate) mod export;
mod facts;
pub(crate) mod grid;
mod interrupt;
mod latency;
mod machine;
#[cfg(test)]
mod mock;
mod noise;
mod plan;
mod progress;
mod record;
mod report;
mod results;
mod rounds;
mod sched_ext;
mod schedstat;
mod scheduler_spec;
mod scheduler_under_test;
mod scripts;
mod session;
mod stats;
mod summary;
mod table;
mod vm;
mod warnings;
mod workload;

pub use args::{BenchArgs, ReportArgs};
pub(crate) use report::chart;

use anyhow::{Context, Result};
use export::Exports;
use facts::Facts;
use machine::ThisMachine;
use results::{Asked, Event, Results};
use rounds::{Plan, Tell};
use session::Session;
use std::io::Write;
use workload::Workload;

/// Measures what the command line asks for, prints and exports it.
///
/// # Errors
/// Errors carry the exit status: see [`crate::failure::Status`].
pub fn run(args: BenchArgs) -> Result<()> {
    if let Some(which) = args.worker {
        return workload::work(which, args.jobs.first().copied().unwrap_or(1), plan::scale(&args));
    }
    if args.cost {
        return cost::become_cost_script(&args);
    }
    let (plan, workload) = plan::plan(&args, if args.host { cpus::online() } else { vm::guest_cpus(&args) })?;
    if args.events {
        interrupt::install()?;
        let place = args.place.as_deref().unwrap_or("this machine");
        return measure(&plan, workload, place, &mut |event| {
            writeln!(std::io::stdout(), "{}", event.to_line()?).context("nobody reads the events any more")
        });
    }
    let exports = Exports {
        json: args.export_json.clone(),
        csv: args.export_csv.clone(),
        markdown: args.export_markdown.clone(),
    };
    let mut session = Session::new(exports, args.report.clone())?;
    interrupt::install()?;
    let outcome = if args.host {
        measure(&plan, workload, "this machine", &mut |event| session.take(event)).map(|()| Vec::new())
    } else {
        vm::measure(&args, &mut |news| match news {
            vm::News::Event(event) => session.take(event),
            vm::News::Accel(accel) => {
                session.set_accel(accel);
                Ok(())
            }
            vm::News::Line(line) => {
                session.line(line);
                Ok(())
            }
        })
    };
    session.finish(outcome)
}

/// Does the runs on the machine that this process is on.
fn measure(plan: &Plan, workload: Box<dyn Workload>, place: &str, tell: Tell) -> Result<()> {
    let mut machine = ThisMachine::new(workload)?;
    tell(Event::Begin(Box::new((Facts::gather(place), Asked::new(plan)))))?;
    rounds::run(plan, &mut machine, tell)
}

/// Makes the page of `--report` again from an exported result.
///
/// # Errors
/// The file is not a result, or the page or a plot cannot be written.
pub fn report(args: ReportArgs) -> Result<()> {
    let results = Results::read(&args.result)?;
    if let Some(dir) = args.plots {
        for (name, svg) in report::plots(&results)? {
            let path = dir.join(name);
            export::write_whole(&path, &svg)?;
            say(&path)?;
        }
        return Ok(());
    }
    let output = args.output.unwrap_or_else(|| args.result.with_extension("html"));
    export::check_different([&args.result, &output])?;
    export::check_writable(&output)?;
    export::write_whole(&output, &report::page(&results)?)?;
    say(&output)
}

fn say(path: &std::path::Path) -> Result<()> {
    writeln!(std::io::stdout(), "{}", path.display()).context("stdout cannot be written")
}
