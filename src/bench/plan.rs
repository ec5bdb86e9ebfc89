//! From the command line to a plan in which everything is valid. Every refusal has status 2.

use super::args::{BenchArgs, Preset, WorkloadKind};
use super::record::Point;
use super::rounds::Plan;
use super::scheduler_spec::SchedulerSpec;
use super::workload::{Builtin, BuiltinWorkload, Compile, UserCommand, Workload};
use crate::failure::{Status, failure};
use anyhow::Result;

/// The plan for a machine with `cpus` CPUs, and the workload that its runs execute.
pub fn plan(args: &BenchArgs, cpus: u32) -> Result<(Plan, Box<dyn Workload>)> {
    let (name, workload) = workload(args).map_err(wrong_use)?;
    let schedulers = schedulers(args)?;
    let points = points(args, cpus);
    refuse_twins("the list of loads", points.iter().map(Point::label))?;
    let plan = Plan { workload: name, schedulers, points, rounds: args.rounds, warmup_rounds: args.warmup };
    Ok((plan, workload))
}

fn wrong_use(error: anyhow::Error) -> anyhow::Error {
    failure(Status::Usage, format!("{error:#}"))
}

/// What --scheduler and --preset name, each once.
pub fn schedulers(args: &BenchArgs) -> Result<Vec<SchedulerSpec>> {
    let names: Vec<&str> = match args.preset {
        _ if !args.schedulers.is_empty() => args.schedulers.iter().map(String::as_str).collect(),
        None => vec!["default", "vrq"],
        Some(Preset::Origin) => vec!["default", "vrq", "vrq:resched_best_idle=next-ne-prev", "vrq:idle_fast_path=off"],
        Some(Preset::Kernbench) => vec!["default", "vrq", "vrq:idle_fast_path=off"],
    };
    let schedulers: Vec<_> = names.into_iter().map(SchedulerSpec::parse).collect::<Result<_>>().map_err(wrong_use)?;
    refuse_twins("--scheduler", schedulers.iter().map(|spec| &spec.name))?;
    Ok(schedulers)
}

fn points(args: &BenchArgs, cpus: u32) -> Vec<Point> {
    let ratios = |ratios: &[u32]| ratios.iter().map(|&ratio| Point::from_ratio(ratio, cpus)).collect();
    match args.preset {
        _ if !args.jobs.is_empty() => args.jobs.iter().map(|&jobs| Point::from_jobs(jobs, cpus)).collect(),
        _ if !args.ratio.is_empty() => ratios(&args.ratio),
        Some(Preset::Kernbench) => kernbench(cpus),
        None | Some(Preset::Origin) => ratios(&[50]),
    }
}

/// Document 000's runs; its "nosmp" is one CPU online.
fn kernbench(cpus: u32) -> Vec<Point> {
    let mut points: Vec<Point> = [2, 4, 6, 8].map(|jobs| Point::from_jobs(jobs, cpus)).into();
    points.push(Point::from_jobs(1, 1));
    points
}

fn workload(args: &BenchArgs) -> Result<(String, Box<dyn Workload>)> {
    if !args.command.is_empty() {
        let name = args.command.join(" ");
        return Ok((name, Box::new(UserCommand::new(&args.command, args.prepare.as_deref())?)));
    }
    let kind = args.workload.unwrap_or(WorkloadKind::Compile);
    let scale = scale(args);
    let builtin = |which| Box::new(BuiltinWorkload { which, scale });
    let (name, workload): (_, Box<dyn Workload>) = match kind {
        WorkloadKind::Compile => ("compile", Box::new(Compile::new(scale))),
        WorkloadKind::Pipe => ("pipe", builtin(Builtin::Pipe)),
        WorkloadKind::Messages => ("messages", builtin(Builtin::Messages)),
        WorkloadKind::Wakeup => ("wakeup", builtin(Builtin::Wakeup)),
    };
    Ok((format!("{name}, scale {scale}"), workload))
}

/// Size of the workload: some seconds on a machine of 2024, fewer of them in a virtual machine, whose
/// CPU is usually emulated.
pub fn scale(args: &BenchArgs) -> u32 {
    let (host, vm) = match args.workload.unwrap_or(WorkloadKind::Compile) {
        WorkloadKind::Compile => (6, 2),
        WorkloadKind::Pipe => (100, 10),
        WorkloadKind::Messages => (10, 1),
        WorkloadKind::Wakeup => (10, 10),
    };
    args.scale.unwrap_or(if args.host { host } else { vm })
}

/// Runs are told apart by scheduler and load: the same one twice would be one.
fn refuse_twins<T: PartialEq + std::fmt::Display>(what: &str, items: impl Iterator<Item = T>) -> Result<()> {
    let items: Vec<T> = items.collect();
    match items.iter().enumerate().find(|(i, item)| items[..*i].contains(item)) {
        Some((_, twin)) => Err(failure(Status::Usage, format!("{what} names {twin} twice"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn planned(line: &str) -> Result<Plan> {
        let words = shlex::split(line).expect("a line");
        let args = Cli::parse_from(std::iter::once("bench".to_string()).chain(words)).bench;
        plan(&args, 4).map(|(plan, _)| plan)
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.schedulers.iter().map(|spec| spec.name.as_str()).collect()
    }

    #[test]
    fn without_a_word_it_is_default_against_vrq_at_half_the_cores() {
        let plan = planned("").expect("a plan");
        assert_eq!(names(&plan), ["default", "vrq"]);
        assert_eq!((plan.points.len(), plan.points[0].jobs), (1, 2));
        assert_eq!((plan.rounds, plan.warmup_rounds, plan.workload.as_str()), (10, 1, "compile, scale 2"));
        assert_eq!(planned("--host").expect("a plan").workload, "compile, scale 6");
    }

    #[test]
    fn presets_are_the_documents_comparisons() {
        let origin = planned("--preset origin").expect("a plan");
        assert_eq!(names(&origin), ["default", "vrq", "vrq:resched_best_idle=next-ne-prev", "vrq:idle_fast_path=off"]);
        assert_eq!(origin.points, [Point::from_ratio(50, 4)]);
        let kernbench = planned("--preset kernbench --scheduler default").expect("a plan");
        let shape: Vec<(u32, u32)> = kernbench.points.iter().map(|point| (point.jobs, point.cpus)).collect();
        assert_eq!(shape, [(2, 4), (4, 4), (6, 4), (8, 4), (1, 1)]);
        assert_eq!(names(&kernbench), ["default"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_status_2() {
        for (line, reason) in [
            ("--scheduler vrq --scheduler vrq", "--scheduler names vrq twice"),
            ("--ratio 50,50", "the list of loads names 50 %, -j 2 on 4 CPUs twice"),
            ("--scheduler scx_nowhere", "scheduler \"scx_nowhere\" is neither"),
            ("-- no-such-command -j{jobs}", "the command no-such-command cannot be found"),
        ] {
            let error = planned(line).expect_err(line);
            let failure = error.downcast_ref::<crate::failure::Failure>().expect("carries a status");
            assert_eq!(failure.status, Status::Usage);
            assert!(failure.why.starts_with(reason), "{}", failure.why);
        }
    }
}
