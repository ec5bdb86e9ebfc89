//! The command line of `scx_vrq sim`. A flag's doc comment is its only documentation.

use super::workload::{Condition, Source, Span, TaskSpec, Tick, Whole, Workload};
use super::{Report, Rule, Sim, svg};
use crate::bench::export::{check_different, check_writable, write_whole};
use crate::failure::{Status, failure};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

const KEYS: &str = "\
Columns: waits are from queued to running; bound is the longest wait that the rule allows; late counts waits that
began before the task's deadline and ended after it.

Keys of a task, in --task as KEY=VALUE, in FILE as KEY = \"VALUE\" under [[task]] with name and count:
  nice=N          nice level, -20 to 19 [default: 0]
  policy=WHICH    other, batch or idle (SCHED_IDLE) [default: other]
  cpus=LIST       CPUs that it may run on, such as 0,2-3 [default: all]
  start=TIME      when it comes to life [default: at once]
  run=TIME        runs for so long, then sleeps; without sleep it ends [default: for ever]
  sleep=TIME      sleeps for so long after each run; needs run
  fork=TIME       forks a child each time it has run for so long
  child=TIME      run time of a child, which then ends [default: 1ms]; needs fork
  yield=TIME      yields each time it has run for so long
  renice=N@TIME   has nice N from then on
TIME is 1us to 1h, such as 500us, 10ms or \"1s 500ms\"; run, sleep and child also take a range to choose from
at random, 1ms..5ms. Keys of FILE outside [[task]]: cpus, time, tick, seed, rr_interval_ms, max_wait_ms,
resched_best_idle; as the flags, which come before the file's.

  scx_vrq sim --task 'hog x2' --task 'nice5 nice=5' --task 'sleeper run=1ms sleep=10ms' --svg out.svg";

/// See the rule at work: simulate tasks under the policy, without root and without a kernel
///
/// The policy's own arithmetic in a discrete-event model of its callbacks. Prints for each task its
/// share of all CPUs' time, its waits and their bound, wake-ups, preemptions and refills.
#[derive(Clone, Debug, Args)]
#[command(after_help = KEYS)]
pub struct SimArgs {
    /// A workload in TOML
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// A task, or N of the same; several are several tasks, beside those of FILE (10000 at most)
    #[arg(long = "task", value_name = "NAME [KEY=VALUE]... [xN]")]
    pub tasks: Vec<TaskSpec>,

    /// CPUs of the model (1 to 64) [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cpus: Option<Whole<1, 64>>,

    /// For how long, in time of the model (1us to 1h) [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub time: Option<Span>,

    /// Slices end on a tick of this length (100us to 100ms; 4ms is HZ 250), or exactly: none [default: none]
    #[arg(long, value_name = "TIME")]
    pub tick: Option<Tick>,

    /// Seed of what is at random: one seed, one run (0 to 2^63 - 1) [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Whole<0, { i64::MAX }>>,

    /// Time slice in ms; deadlines scale with it (1 to 1000) [default: 6]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub rr_interval_ms: Option<Whole<1, 1000>>,

    /// With a bound above this, in ms, slices are shortened, as in the scheduler (100 to 15000) [default: 4000]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub max_wait_ms: Option<Whole<100, 15000>>,

    /// When an idle CPU is woken for the task that leaves one [default: corrected]
    #[arg(long, value_enum)]
    pub resched_best_idle: Option<Condition>,

    /// Check the model's invariants at every event, and end with status 1 and the last events if one does not hold
    #[arg(long)]
    pub check: bool,

    /// Print JSON: workload with seed, nr_events, tasks[] with name, share_percent, max_wait_ms and the rest
    #[arg(long)]
    pub json: bool,

    /// Write a trace for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Draw a timeline: who has which CPU, who waits, how many are queued
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Where the drawing begins (1us to 1h) [default: at once]
    #[arg(long, value_name = "TIME", requires = "svg")]
    pub svg_from: Option<Span>,

    /// How much of the run the drawing shows (1us to 1h)
    #[arg(long, value_name = "TIME", requires = "svg", default_value = "200ms")]
    pub svg_time: Span,
}

/// Events kept to explain a violation.
const LAST_EVENTS: usize = 24;

impl SimArgs {
    /// What FILE and the flags come to.
    ///
    /// # Errors
    /// Status 2 and one sentence for what makes no sense.
    pub fn workload(&self) -> Result<Workload> {
        let file = self.file.as_deref().map(Source::read).transpose()?;
        let mut whole = file.as_ref().map_or_else(|| Ok(Workload::default()), Source::workload)?;
        fn set<T: Copy>(to: &mut T, from: Option<T>) {
            *to = from.unwrap_or(*to);
        }
        set(&mut whole.cpus, self.cpus);
        set(&mut whole.time, self.time);
        set(&mut whole.tick, self.tick);
        set(&mut whole.seed, self.seed);
        set(&mut whole.rr_interval_ms, self.rr_interval_ms);
        set(&mut whole.max_wait_ms, self.max_wait_ms);
        set(&mut whole.resched_best_idle, self.resched_best_idle);
        file.map_or(Ok(()), |file| file.check(&whole))?;
        whole.task.extend(self.tasks.iter().cloned());
        whole.check(self.trace.is_some() || self.svg.is_some())?;
        if self.svg_from.is_some_and(|from| from >= whole.time) {
            let why = format!("the drawing would begin after the end at {}: choose an earlier --svg-from", whole.time);
            return Err(failure(Status::Usage, why));
        }
        check_different([&self.file, &self.trace, &self.svg].into_iter().flatten())?;
        [&self.trace, &self.svg].into_iter().flatten().try_for_each(|path| check_writable(path))?;
        Ok(whole)
    }
}

/// Simulates what the command line asks for, prints and draws it.
///
/// # Errors
/// Status 2 for a workload that makes no sense, 1 for an invariant that does not hold.
pub fn run(args: SimArgs) -> Result<()> {
    let whole = args.workload()?;
    let drawn = args.trace.is_some() || args.svg.is_some();
    let keep = match (drawn, args.check) {
        (true, _) => usize::MAX,
        (false, check) => usize::from(check) * LAST_EVENTS,
    };
    let mut sim = Sim::new(&whole, Rule::default(), args.check, keep);
    sim.run().map_err(|violation| anyhow::anyhow!("{violation}seed {}", whole.seed))?;
    if let Some(path) = &args.trace {
        write_whole(path, &sim.trace().to_string())?;
    }
    if let Some(path) = &args.svg {
        let from = args.svg_from.map_or(0, |from| from.0);
        let to = whole.time.0.min(from + args.svg_time.0);
        write_whole(path, &svg::draw(&sim.world, sim.log.events.iter(), from..to)?)?;
    }
    let report = Report::new(&whole, &sim);
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.table() };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| anyhow::anyhow!("stdout cannot be written: {error}"))
}
