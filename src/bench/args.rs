//! The command line of `scx_vrq bench` and `scx_vrq report`. A flag's doc comment is its only documentation.

use super::workload::Builtin;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const ABSURD: i64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadKind {
    /// A real C program, compiled with make and cc
    Compile,
    /// Pairs of processes that hand a byte back and forth; one pair for each job
    Pipe,
    /// Hackbench's shape: groups of 20 senders and 20 receivers; one group for each job
    Messages,
    /// Schbench's shape: how long workers that are woken wait for a CPU; one worker for each job
    Wakeup,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// The two changes of the origin documents, each as it was and as it is, at a ratio of 50 %
    Origin,
    /// The table of document 000: -j 2, 4, 6 and 8, and -j 1 on one CPU
    Kernbench,
}

/// Measure schedulers against each other
///
/// Rounds in which every scheduler runs once, backwards every other round; times, the kernel's
/// counts and scx_vrq's own; medians with 95 % intervals of the differences, pair by pair.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Measure on this machine instead of in a virtual one: needs root and a kernel with sched_ext
    #[arg(long, conflicts_with_all = ["vm", "kernel", "cpus", "topology"])]
    pub host: bool,

    /// Measure in a virtual machine, which is what happens without --host
    #[arg(long)]
    pub vm: bool,

    /// Kernel of the virtual machine: newest, oldest, a version such as 7.1, or the path of a vmlinuz
    #[arg(long, value_name = "WHICH", default_value = "newest")]
    pub kernel: String,

    /// CPUs of the virtual machine (1 to 64)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cpus: u32,

    /// Shape of the virtual machine's CPUs, as sockets:cores:threads, in place of --cpus
    #[arg(long, value_name = "S:C:T", conflicts_with = "cpus", value_parser = topology)]
    pub topology: Option<Topology>,

    /// Count instructions instead, exactly: for each callback, for a wake-up, and for pieces of work (pipe, messages,
    /// forks), in a virtual machine that is emulated so that two runs are the same
    #[arg(long, conflicts_with_all = ["host", "cpus", "topology", "preset", "ratio", "jobs", "workload", "scale", "prepare",
          "rounds", "warmup", "export_json", "export_csv", "export_markdown", "report", "command"])]
    pub cost: bool,

    /// A comparison that is known beforehand; --scheduler, --ratio and --jobs change its parts
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,

    /// Jobs at once as a share of the online CPUs, in percent (1 to 10000); several, with commas, make a sweep [default: 50]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', conflicts_with = "jobs", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=ABSURD))]
    pub ratio: Vec<u32>,

    /// Jobs at once (1 to 10000), in place of a ratio; several, with commas, make a sweep
    #[arg(long, value_name = "N", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=ABSURD))]
    pub jobs: Vec<u32>,

    /// A scheduler to measure, given once for each: `default` is the kernel's own, `vrq` this one,
    /// `vrq:KEY=VALUE,...` this one with settings (rr_interval=MS, resched_best_idle=corrected|next-ne-prev,
    /// idle_fast_path=on|off), anything else the command of another one [default: default and vrq]
    #[arg(long = "scheduler", value_name = "WHICH")]
    pub schedulers: Vec<String>,

    /// What to run under each scheduler [default: compile]
    #[arg(long, value_enum, conflicts_with = "command")]
    pub workload: Option<WorkloadKind>,

    /// Size of the workload (1 to 1000): translation units / 8 of compile [6, in the virtual machine 2],
    /// thousands of round trips of pipe [100, 10], hundreds of loops of messages [10, 1], seconds of wakeup [10, 10]
    #[arg(long, value_name = "N", conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub scale: Option<u32>,

    /// A line for the shell, run before each run of the command and not timed; {jobs} is the number of jobs
    #[arg(long, value_name = "LINE", requires = "command")]
    pub prepare: Option<String>,

    /// Rounds, in each of which every scheduler runs once (1 to 1000)
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,

    /// Rounds before those, at the first load only, which do not count (0 to 100)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub warmup: u32,

    /// Write everything that was measured, raw, as JSON; again after each run
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,

    /// Write a line for each run, as CSV; again after each run
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,

    /// Write the tables, as Markdown; again after each run
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,

    /// Write a page with plots, complete in itself, as HTML
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Print what happens as events, for the bench outside of the virtual machine
    #[arg(long, hide = true, requires = "host")]
    pub events: bool,

    /// Where this machine is, in words
    #[arg(long, hide = true, requires = "events")]
    pub place: Option<String>,

    /// Be the process of a workload that this program does itself
    #[arg(long, hide = true, value_enum)]
    pub worker: Option<Builtin>,

    /// A command to run in place of a workload; {jobs} in it is the number of jobs
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Make the page again from what --export-json wrote
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// What --export-json of the bench wrote
    #[arg(value_name = "RESULT.json")]
    pub result: PathBuf,

    /// Where the page goes [default: RESULT.html beside it]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the page's plots as SVG files into this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub plots: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    pub sockets: u32,
    pub cores: u32,
    pub threads: u32,
}

impl Topology {
    pub fn cpus(&self) -> u32 {
        self.sockets * self.cores * self.threads
    }
}

fn topology(text: &str) -> Result<Topology, String> {
    let parts: Vec<u32> =
        text.split(':').map_while(|part| part.parse().ok().filter(|n| (1..=64).contains(n))).collect();
    match parts[..] {
        [sockets, cores, threads] if text.split(':').count() == 3 && sockets * cores * threads <= 64 => {
            Ok(Topology { sockets, cores, threads })
        }
        _ => Err("sockets:cores:threads, each 1 or more and at most 64 CPUs together, such as 2:2:1".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(line: &str) -> Result<BenchArgs, clap::Error> {
        let words = shlex::split(line).expect("a line");
        Cli::try_parse_from(std::iter::once("bench".to_string()).chain(words)).map(|cli| cli.bench)
    }

    #[test]
    fn lists_and_commands_are_taken() {
        let args = parse(
            "--ratio 25,50,300 --scheduler default --scheduler 'scx_flash -s 9' --prepare 'make clean' -- make -j{jobs}",
        );
        let args = args.expect("parses");
        assert_eq!(args.ratio, [25, 50, 300]);
        assert_eq!(args.schedulers, ["default", "scx_flash -s 9"]);
        assert_eq!(args.command, ["make", "-j{jobs}"]);
        assert_eq!(parse("--topology 2:4:2").expect("parses").topology.map(|t| t.cpus()), Some(16));
    }

    #[test]
    fn wrong_use_ends_with_status_2_before_anything_is_run() {
        for line in [
            "--ratio 0",
            "--ratio -50",
            "--ratio 10001",
            "--ratio fifty",
            "--jobs 0",
            "--ratio 50 --jobs 2",
            "--workload chess",
            "--rounds 0",
            "--scale 0",
            "--prepare true",
            "--workload pipe -- make",
            "--host --kernel 7.1",
            "--host --cpus 2",
            "--topology 2:2",
            "--topology 64:64:1",
            "--preset other",
            "--cost --host",
            "--cost --cpus 2",
            "--cost --rounds 3",
            "--cost --workload pipe",
        ] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
    }
}
