//! `scx_vrq bench --cost`: vm/cost.sh counts the instructions in a machine where two runs are
//! the same; here is only which schedulers it is to measure.

use super::args::BenchArgs;
use super::plan;
use super::scheduler_spec::{SchedulerKind, SchedulerSpec, find_program};
use super::scripts;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Becomes vm/cost.sh; returns only if it cannot.
pub fn become_cost_script(args: &BenchArgs) -> Result<()> {
    let schedulers = plan::schedulers(args)?;
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let mut command = Command::new(scripts::find(scripts::COST)?);
    command.args(arguments(args, &schedulers, &program)?);
    Err(command.exec()).context("vm/cost.sh cannot be run")
}

/// `vrq`: the program that the name stands for.
fn arguments(args: &BenchArgs, schedulers: &[SchedulerSpec], vrq: &Path) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = ["--work", "all", "--kernel", &args.kernel].map(OsString::from).into();
    for spec in schedulers {
        words.extend(["--scheduler".into(), command_line(spec, vrq)?.into(), "--as".into(), spec.name.clone().into()]);
    }
    if schedulers.iter().any(|spec| spec.kind != SchedulerKind::KernelDefault) {
        words.push("--callbacks".into());
    }
    Ok(words)
}

fn command_line(spec: &SchedulerSpec, vrq: &Path) -> Result<String> {
    let (program, options) = match &spec.kind {
        SchedulerKind::KernelDefault => return Ok("default".to_string()),
        SchedulerKind::Vrq { flags } => (vrq.to_path_buf(), &flags[..]),
        SchedulerKind::Command { argv } => {
            let program = argv.first().and_then(|program| find_program(program));
            (program.context("a scheduler has no program")?, argv.get(1..).unwrap_or_default())
        }
    };
    let program = program.to_str().with_context(|| format!("{} is not UTF-8", program.display()))?;
    let words = std::iter::once(program).chain(options.iter().map(String::as_str));
    shlex::try_join(words).with_context(|| format!("scheduler {} cannot be quoted", spec.name))
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

    fn asked_for(line: &str) -> Vec<String> {
        let words = shlex::split(line).expect("a line");
        let args = Cli::parse_from(["bench", "--cost"].map(String::from).into_iter().chain(words)).bench;
        let schedulers = plan::schedulers(&args).expect("schedulers");
        let words = arguments(&args, &schedulers, Path::new("/a b/scx_vrq")).expect("arguments");
        words.into_iter().map(|word| word.into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn the_script_is_asked_for_the_schedulers_by_their_commands() {
        assert_eq!(
            asked_for("--kernel 7.1").join("|"),
            "--work|all|--kernel|7.1|--scheduler|default|--as|default|--scheduler|'/a b/scx_vrq'|--as|vrq|--callbacks"
        );
        let words = asked_for("--scheduler vrq:rr_interval=2 --scheduler \"/bin/sh -c 'a b'\"").join("|");
        assert!(words.contains("|'/a b/scx_vrq' --rr-interval-ms 2|--as|vrq:rr_interval=2|"), "{words}");
        assert!(words.contains("|/bin/sh -c 'a b'|--as|/bin/sh -c 'a b'|"), "{words}");
    }

    #[test]
    fn the_kernels_own_has_no_callbacks() {
        assert!(!asked_for("--scheduler default").contains(&"--callbacks".to_string()));
    }
}
