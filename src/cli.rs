//! The command line: clap types, and the validated [`Config`] made of them. A flag's doc comment is
//! its only documentation.

use crate::bench::{BenchArgs, ReportArgs};
use crate::check::CheckArgs;
use crate::client::{StatusArgs, SwitchArgs, TuneArgs};
use crate::config;
use crate::docs::{CompletionsArgs, ManArgs};
use crate::failure::{self, Status, failure};
use crate::model::SimArgs;
use crate::policy::{
    VRQ_MAX_WAIT_MAX_MS, VRQ_MAX_WAIT_MIN_MS, VRQ_RBI_CORRECTED, VRQ_RBI_NEXT_NE_PREV, VRQ_RR_INTERVAL_MAX_MS,
    VRQ_RR_INTERVAL_MIN_MS,
};
use crate::tune::Tunables;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// BFS's and VRQ's one global queue, earliest virtual deadline first, on sched_ext.
///
/// Without a subcommand: make scx_vrq the live scheduler until Ctrl-C, SIGTERM, SIGHUP or `scx_vrq stop`.
#[derive(Debug, Parser)]
#[command(name = "scx_vrq", version = version(), after_help = failure::HELP, disable_help_subcommand = true,
          args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Without one: schedule this machine.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Do not schedule: print the statistics of the scx_vrq that does, every SEC seconds.
    #[arg(long, value_name = "SEC", value_parser = seconds)]
    pub monitor: Option<Duration>,

    /// Describe the statistics and end.
    #[arg(long)]
    pub help_stats: bool,

    /// What it is loaded with.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// What a load takes, with `run` and without.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// These can be in the configuration file, too.
    #[command(flatten)]
    pub settings: Settings,

    /// Take what is not on the command line from this file; without the flag from /etc/scx_vrq.toml, if it is there.
    /// TOML; a key is a flag's long name with `_` for `-`, such as `rr_interval_ms = 3`.
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,

    /// Say more: what libbpf does, and the whole of the verifier's log if it refuses.
    #[arg(short, long)]
    pub verbose: bool,

    /// Options of libbpf.
    #[command(flatten, next_help_heading = "Libbpf options")]
    pub libbpf: LibbpfOpts,
}

/// What the configuration file can hold. `None`: not said.
#[derive(Clone, Debug, Default, Args)]
pub struct Settings {
    /// Time slice in ms; deadlines scale with it. Smaller: lower latency, more switches. [default: 6]
    #[arg(long, value_name = "MS",
          value_parser = clap::value_parser!(u32).range(VRQ_RR_INTERVAL_MIN_MS as i64..=VRQ_RR_INTERVAL_MAX_MS as i64))]
    pub rr_interval_ms: Option<u32>,

    /// No runnable task waits longer than this, in ms, as long as the bound (see `--stats`) allows
    /// it. With more tasks than that slices are shortened, to a tick at the least. [default: 4000]
    #[arg(long, value_name = "MS",
          value_parser = clap::value_parser!(u32).range(VRQ_MAX_WAIT_MIN_MS as i64..=VRQ_MAX_WAIT_MAX_MS as i64))]
    pub max_wait_ms: Option<u32>,

    /// When an idle CPU is woken for the task that leaves this one: the corrected condition, or the
    /// old one (next != prev), kept so that the two can be compared. [default: corrected]
    #[arg(long, value_enum)]
    pub resched_best_idle: Option<ReschedBestIdle>,

    /// Look whether anything is queued before taking the queue's lock; off: walk the queue under
    /// its lock at each pick, kept so that the two can be compared. [default: on]
    #[arg(long, value_enum)]
    pub idle_fast_path: Option<Switch>,

    /// Print what happened every SEC seconds.
    #[arg(long, value_name = "SEC", value_parser = seconds)]
    pub stats: Option<Duration>,

    /// Bytes of the kernel's report kept for an exit by error; 0: the kernel's default of 32768.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(..=16 << 20))]
    pub exit_dump_len: Option<u32>,

    /// Let every user read the statistics and `scx_vrq status`, not only root. Changes stay with root. [default: off]
    #[arg(long, value_enum)]
    pub public_status: Option<Switch>,

    /// Write what `scx_vrq metrics` prints into this file every 10 s, for the textfile collector of node_exporter.
    #[arg(long, value_name = "PATH")]
    pub metrics_file: Option<PathBuf>,
}

#[derive(Parser)]
struct SettingsOnly {
    #[command(flatten)]
    settings: Settings,
}

impl Settings {
    /// Each setting's key in the configuration file, and its flag's documentation.
    pub fn docs() -> Vec<(String, String)> {
        let command = SettingsOnly::command();
        let doc = |arg: &clap::Arg| Some((arg.get_long()?.replace('-', "_"), arg.get_help()?.to_string()));
        command.get_arguments().filter_map(doc).filter(|(name, _)| name != "help").collect()
    }

    /// From flags that another text than the command line holds.
    ///
    /// # Errors
    /// What clap says is wrong, in one line.
    pub fn from_flags<S: AsRef<str>>(flags: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let words = std::iter::once("scx_vrq".to_string()).chain(flags.into_iter().map(|f| f.as_ref().to_string()));
        SettingsOnly::try_parse_from(words).map(|only| only.settings).map_err(|e| {
            let text = e.render().to_string();
            // Its first paragraph, without "error: " and without the usage.
            let said: Vec<&str> = text.lines().take_while(|l| !l.is_empty()).map(str::trim).collect();
            said.join(" ").trim_start_matches("error: ").to_string()
        })
    }

    /// These, and where they say nothing, the others.
    fn or(self, other: Self) -> Self {
        Self {
            rr_interval_ms: self.rr_interval_ms.or(other.rr_interval_ms),
            max_wait_ms: self.max_wait_ms.or(other.max_wait_ms),
            resched_best_idle: self.resched_best_idle.or(other.resched_best_idle),
            idle_fast_path: self.idle_fast_path.or(other.idle_fast_path),
            stats: self.stats.or(other.stats),
            exit_dump_len: self.exit_dump_len.or(other.exit_dump_len),
            public_status: self.public_status.or(other.public_status),
            metrics_file: self.metrics_file.or(other.metrics_file),
        }
    }
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
    /// Schedule this machine for a time, or as long as a command runs; end with the command's status, 128 + N if
    /// signal N killed it.
    Run(Box<RunArgs>),
    /// Who schedules now, since when, with what; and how scx_vrq ended last.
    Status(StatusArgs),
    /// Print the statistics as OpenMetrics text; without a scx_vrq that is loaded only that it is not.
    Metrics,
    /// Give the machine back to the kernel's own scheduler, and end the scx_vrq that is loaded.
    Stop,
    /// Change who schedules, back and forth; the scx_vrq that is loaded stays, with its counters and tunables.
    Switch(SwitchArgs),
    /// Change the scx_vrq that is loaded while it schedules, or list what can be changed.
    Tune(TuneArgs),
    /// Print the completions for a shell.
    Completions(CompletionsArgs),
    /// Write the man pages.
    Man(ManArgs),
}

/// Options of `scx_vrq run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Give the machine back after this time, such as 30s, 5min or 1h 30min.
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "command")]
    pub time: Option<Duration>,

    /// Run this, and give the machine back when it has ended.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,

    /// What scx_vrq is loaded with.
    #[command(flatten)]
    pub load: LoadArgs,
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
    /// The values at the start of what can be changed later.
    pub tunables: Tunables,
    /// VRQ_RBI_CORRECTED or VRQ_RBI_NEXT_NE_PREV.
    pub resched_best_idle: u32,
    /// Whether a pick looks at the queue without its lock first.
    pub idle_fast_path: bool,
    /// How often to print statistics.
    pub stats: Option<Duration>,
    /// Bytes of the kernel's exit report, 0: its default.
    pub exit_dump_len: u32,
    /// Whether every user may read the status and the statistics.
    pub public_status: bool,
    /// Where to write metrics.
    pub metrics_file: Option<PathBuf>,
    /// Passed to libbpf as they are.
    pub libbpf: LibbpfOpts,
}

impl Cli {
    /// Was `--verbose` given to what loads?
    pub fn is_verbose(&self) -> bool {
        match &self.command {
            Some(Command::Run(args)) => args.load.verbose,
            _ => self.load.verbose,
        }
    }
}

impl LoadArgs {
    /// The validated configuration.
    ///
    /// # Errors
    /// Status 2 if a file that was named cannot be read, or the configuration file is wrong.
    pub fn config(self) -> anyhow::Result<Config> {
        for path in [&self.libbpf.kconfig, &self.libbpf.btf_custom_path].into_iter().flatten() {
            std::fs::File::open(path)
                .map_err(|e| failure(Status::Usage, format!("{path} cannot be read ({e}): name a readable file")))?;
        }
        let set = self.settings.or(config::read(self.config.as_deref())?);
        let default = Tunables::default();
        if let Some(path) = &set.metrics_file {
            can_be_written(path).map_err(|e| failure(Status::Usage, format!("{} {e}", path.display())))?;
        }
        Ok(Config {
            tunables: Tunables {
                rr_interval_ms: set.rr_interval_ms.unwrap_or(default.rr_interval_ms),
                max_wait_ms: set.max_wait_ms.unwrap_or(default.max_wait_ms),
            },
            resched_best_idle: match set.resched_best_idle {
                None | Some(ReschedBestIdle::Corrected) => VRQ_RBI_CORRECTED,
                Some(ReschedBestIdle::NextNePrev) => VRQ_RBI_NEXT_NE_PREV,
            },
            idle_fast_path: set.idle_fast_path != Some(Switch::Off),
            stats: set.stats,
            exit_dump_len: set.exit_dump_len.unwrap_or(0),
            public_status: set.public_status == Some(Switch::On),
            metrics_file: set.metrics_file,
            libbpf: self.libbpf,
        })
    }
}

/// Is there a folder for it, and no folder in its place?
fn can_be_written(path: &Path) -> Result<(), &'static str> {
    let folder = path.parent().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
    match folder {
        _ if path.is_dir() => Err("is a folder: name a file in it"),
        Some(folder) if folder.is_dir() => Ok(()),
        _ => Err("cannot be written: its folder does not exist"),
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
    use proptest::prelude::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_in_the_help_are_those_of_the_code() {
        let docs = Settings::docs();
        for tunable in &crate::tune::TUNABLES {
            let (_, doc) = docs.iter().find(|(name, _)| name == tunable.name).expect("a flag of that name");
            assert!(doc.ends_with(&format!("[default: {}]", tunable.default)), "{doc}");
        }
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "rr_interval_ms = 3\nmax_wait_ms = 200\n").expect("a file");
        let path = path.to_str().expect("a path");
        let cli = Cli::try_parse_from(["scx_vrq", "--rr-interval-ms", "9", "--config", path]).expect("right");
        let config = cli.load.config().expect("right");
        assert_eq!(config.tunables, Tunables { rr_interval_ms: 9, max_wait_ms: 200 });
    }

    #[test]
    fn a_flag_of_the_load_before_a_subcommand_is_refused_and_not_ignored() {
        assert!(Cli::try_parse_from(["scx_vrq", "--rr-interval-ms", "3", "check"]).is_err());
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
