//! The command line of `scx_vrq bench`. A flag's doc comment is its only documentation.

use clap::{Args, ValueEnum};

/// What is run under each scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadKind {
    /// Compile a real C program with make and cc
    Compile,
}

/// What `scx_vrq bench` is asked for.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Measure on this machine instead of in a virtual one: needs root and a kernel with sched_ext
    #[arg(long)]
    pub host: bool,

    /// Jobs at once as a share of the online CPUs, in percent (1 to 10000); several, with commas, make a sweep
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_values_t = [50], conflicts_with = "jobs",
          allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub ratio: Vec<u32>,

    /// Jobs at once (1 to 10000), in place of a ratio; several, with commas, make a sweep
    #[arg(long, value_name = "N", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub jobs: Vec<u32>,

    /// A scheduler to measure; give it several times. `default` is the kernel's own, `vrq` this one,
    /// `vrq:rr_interval=2` this one with settings, anything else the command of another one
    #[arg(long = "scheduler", value_name = "WHICH", default_values_t = ["default".to_string(), "vrq".to_string()])]
    pub schedulers: Vec<String>,

    /// What to run under each scheduler
    #[arg(long, value_enum, default_value_t = WorkloadKind::Compile)]
    pub workload: WorkloadKind,

    /// Size of the workload (1 to 1000): for compile, translation units divided by eight [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub scale: Option<u32>,

    /// Rounds, in each of which every scheduler runs once (1 to 1000)
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,

    /// Rounds before those, which do not count (0 to 100)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub warmup: u32,
}
