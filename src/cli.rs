//! The command line: clap types, and the validated [`Config`] made of them. A flag's doc comment is
//! its only documentation.

use crate::bench::{BenchArgs, ReportArgs};
use crate::check::CheckArgs;
use crate::failure::{self, Status, failure};
use crate::model::SimArgs;
use crate::policy::{
    VRQ_MAX_WAIT_DFL_MS, VRQ_MAX_WAIT_MAX_MS, VRQ_MAX_WAIT_MIN_MS, VRQ_RBI_CORRECTED, VRQ_RBI_NEXT_NE_PREV,
    VRQ_RR_INTERVAL_DFL_MS, VRQ_RR_INTERVAL_MAX_MS, VRQ_RR_INTERVAL_MIN_MS,
};
use clap::{Parser, Subcommand, ValueEnum};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use std::time::Duration;

/// BFS's and VRQ's one global queue, earliest virtual deadline first, on sched_ext.
///
/// Without a subcommand: make scx_vrq the live scheduler until Ctrl-C, SIGTERM or SIGHUP.
#[derive(Debug, Parser)]
#[command(name = "scx_vrq", version = version(), after_help = failure::HELP, disable_help_subcommand = true)]
pub struct Cli {
    /// Without one: schedule this machine.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Time slice in ms; deadlines scale with it. Smaller: lower latency, more switches.
    #[arg(long, value_name = "MS", default_value_t = VRQ_RR_INTERVAL_DFL_MS,
          value_parser = clap::value_parser!(u32).range(VRQ_RR_INTERVAL_MIN_MS as i64..=VRQ_RR_INTERVAL_MAX_MS as i64))]
    pub rr_interval_ms: u32,

    /// No runnable task waits longer than this, in ms, as long as the bound (see `--stats`) allows
    /// it. With more tasks than that slices are shortened, to a tick at the least.
    #[arg(long, value_name = "MS", default_value_t = VRQ_MAX_WAIT_DFL_MS,
          value_parser = clap::value_parser!(u32).range(VRQ_MAX_WAIT_MIN_MS as i64..=VRQ_MAX_WAIT_MAX_MS as i64))]
    pub max_wait_ms: u32,

    /// When an idle CPU is woken for the task that leaves this one: the corrected condition, or the
    /// old one (next != prev), kept so that the two can be compared.
    #[arg(long, value_enum, default_value_t = ReschedBestIdle::Corrected)]
    pub resched_best_idle: ReschedBestIdle,

    /// Look whether anything is queued before taking the queue's lock; off: walk the queue under
    /// its lock at each pick, kept so that the two can be compared.
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub idle_fast_path: Switch,

    /// Print what happened every SEC seconds.
    #[arg(long, value_name = "SEC", value_parser = seconds)]
    pub stats: Option<Duration>,

    /// Do not schedule: print the statistics of the scx_vrq that does, every SEC seconds.
    #[arg(long, value_name = "SEC", value_parser = seconds)]
    pub monitor: Option<Duration>,

    /// Describe the statistics and end.
    #[arg(long)]
    pub help_stats: bool,

    /// Bytes of the kernel's report kept for an exit by error; 0: the kernel's default of 32768.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=16 << 20))]
    pub exit_dump_len: u32,

    /// Say more: what libbpf does, and the whole of the verifier's log if it refuses.
    #[arg(short, long)]
    pub verbose: bool,

    /// Options of libbpf.
    #[command(flatten, next_help_heading = "Libbpf options")]
    pub libbpf: LibbpfOpts,
}

/// What to do instead of scheduling this machine.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure schedulers against each other: the throughput test at a job/core ratio.
    Bench(Box<BenchArgs>),
    /// Make the page of `bench --report` again from what `bench --export-json` wrote.
    Report(ReportArgs),
    /// Would a load work on this machine, and if not, what is to be done?
    Check(CheckArgs),
    /// See the rule at work: simulate tasks under the policy, without root and without a kernel
    Sim(Box<SimArgs>),
}

/// When an idle CPU is woken for prev (section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReschedBestIdle {
    /// Only for a prev that is runnable, not idle, and was not picked again.
    Corrected,
    /// As it was in Baseline and VRQ before the fix.
    NextNePrev,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Switch {
    On,
    Off,
}

/// What the scheduler is loaded with; everything in it is in range.
#[derive(Clone, Debug)]
pub struct Config {
    /// 1..=1000.
    pub rr_interval_ms: u32,
    /// 100..=15000.
    pub max_wait_ms: u32,
    /// VRQ_RBI_CORRECTED or VRQ_RBI_NEXT_NE_PREV.
    pub resched_best_idle: u32,
    /// Whether a pick looks at the queue without its lock first.
    pub idle_fast_path: bool,
    /// How often to print statistics.
    pub stats: Option<Duration>,
    /// Bytes of the kernel's exit report, 0: its default.
    pub exit_dump_len: u32,
    /// Passed to libbpf as they are.
    pub libbpf: LibbpfOpts,
}

impl Cli {
    /// The validated configuration.
    ///
    /// # Errors
    /// Status 2 if a file that was named cannot be read.
    pub fn config(self) -> anyhow::Result<Config> {
        for path in [&self.libbpf.kconfig, &self.libbpf.btf_custom_path].into_iter().flatten() {
            std::fs::File::open(path)
                .map_err(|e| failure(Status::Usage, format!("{path} cannot be read ({e}): name a readable file")))?;
        }
        Ok(Config {
            rr_interval_ms: self.rr_interval_ms,
            max_wait_ms: self.max_wait_ms,
            resched_best_idle: match self.resched_best_idle {
                ReschedBestIdle::Corrected => VRQ_RBI_CORRECTED,
                ReschedBestIdle::NextNePrev => VRQ_RBI_NEXT_NE_PREV,
            },
            idle_fast_path: self.idle_fast_path == Switch::On,
            stats: self.stats,
            exit_dump_len: self.exit_dump_len,
            libbpf: self.libbpf,
        })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.1..=86400.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("a number of seconds from 0.1 to 86400".into()),
    }
}

/// Version, commit and target, for `-V` and the line at start.
pub fn version() -> &'static str {
    match env!("VRQ_GIT_SHA") {
        "" => env!("CARGO_PKG_VERSION"),
        _ => concat!(env!("CARGO_PKG_VERSION"), "-g", env!("VRQ_GIT_SHA")),
    }
}

/// Log lines go to stderr, without time stamps: the journal has its own.
pub fn init_log(verbose: bool) {
    use simplelog::{ColorChoice, ConfigBuilder, LevelFilter, TermLogger, TerminalMode};
    let level = if verbose { LevelFilter::Debug } else { LevelFilter::Info };
    let mut config = ConfigBuilder::new();
    if !verbose {
        // What it finds out about the kernel is for its developers.
        config.add_filter_ignore_str("scx_utils");
    }
    let config = config
        .set_time_level(LevelFilter::Off)
        .set_thread_level(LevelFilter::Off)
        .set_target_level(LevelFilter::Off)
        .build();
    // Fails only if a logger is set already, as in tests.
    let _ = TermLogger::init(level, config, TerminalMode::Stderr, ColorChoice::Never);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use proptest::prelude::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    proptest! {
        #[test]
        fn rr_interval_is_taken_in_its_range_and_refused_outside(ms in any::<i64>()) {
            let parsed = Cli::try_parse_from(["scx_vrq".to_string(), format!("--rr-interval-ms={ms}")]);
            prop_assert_eq!(parsed.is_ok(), (1..=1000).contains(&ms));
        }

        #[test]
        fn any_command_line_is_parsed_or_refused(args in proptest::collection::vec(".{0,20}", 0..6)) {
            let _ = Cli::try_parse_from(std::iter::once("scx_vrq".to_string()).chain(args));
        }
    }
}
