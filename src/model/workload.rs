//! A workload: how many CPUs, which tasks, for how long. From flags, a TOML file, or both; checked
//! before anything runs.

pub use super::text::{CpuList, Renice, Span, Spread, Tick, Whole};
use crate::failure::{Status, failure};
use crate::policy::{VRQ_MAX_WAIT_DFL_MS, VRQ_RESCHED_NS, VRQ_RR_INTERVAL_DFL_MS};
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;
use toml::Spanned;

/// Bytes.
const MAX_FILE: u64 = 1 << 20;
const MAX_TASKS: u64 = 10_000;
const MAX_CHILDREN: u64 = 100_000;
const MAX_EVENTS: u64 = 100_000_000;
/// With a timeline all events are kept in memory.
const MAX_DRAWN_EVENTS: u64 = 2_000_000;

/// What is run in the model; see `scx_vrq sim --help` for the units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct Workload {
    pub cpus: Whole<1, 64>,
    pub time: Span,
    pub tick: Tick,
    pub seed: Whole<0, { i64::MAX }>,
    pub rr_interval_ms: Whole<1, 1000>,
    pub max_wait_ms: Whole<100, 15000>,
    pub resched_best_idle: Condition,
    pub task: Vec<TaskSpec>,
}

/// When an idle CPU is woken for the task that leaves a CPU (section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Only for a task that is runnable and was not picked again
    Corrected,
    /// Also for a task that blocked, as it was in Baseline and VRQ before the fix
    NextNePrev,
}

/// A task, or `count` of the same kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TaskSpec {
    pub name: String,
    #[serde(default = "one")]
    pub count: Whole<1, 10_000>,
    #[serde(default = "nice_0")]
    pub nice: Whole<-20, 19>,
    #[serde(default)]
    pub policy: Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<Spread>,
    #[serde(rename = "yield", skip_serializing_if = "Option::is_none")]
    pub yields: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renice: Option<Renice>,
}

/// Policies of sched(7) that the scheduler has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Policy {
    #[default]
    Other = 0,
    Batch = 3,
    Idle = 5,
}

fn one() -> Whole<1, 10_000> {
    Whole(1)
}

fn nice_0() -> Whole<-20, 19> {
    Whole(0)
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            cpus: Whole(1),
            time: Span(10_000_000_000),
            tick: Tick(0),
            seed: Whole(1),
            rr_interval_ms: Whole(VRQ_RR_INTERVAL_DFL_MS.into()),
            max_wait_ms: Whole(VRQ_MAX_WAIT_DFL_MS.into()),
            resched_best_idle: Condition::Corrected,
            task: Vec::new(),
        }
    }
}

/// One of `scx_vrq sim --task`: a name, KEY=VALUE, and xN for N of the same. The keys are those of a file.
impl std::str::FromStr for TaskSpec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut table = toml::Table::new();
        let mut set = |key: &str, value: &str| match table.insert(key.into(), value.into()) {
            Some(_) => Err(format!("{key} is given twice")),
            None => Ok(()),
        };
        let words = shlex::split(text).ok_or("a quote is not closed")?;
        for (i, word) in words.iter().enumerate() {
            match (word.split_once('='), word.strip_prefix('x').filter(|count| !count.is_empty())) {
                (Some((key, value)), _) => set(key, value)?,
                _ if i == 0 => set("name", word)?,
                (None, Some(count)) => set("count", count)?,
                _ => return Err(format!("{word:?} is neither KEY=VALUE nor xN")),
            }
        }
        TaskSpec::deserialize(table).map_err(|error| error.message().to_string())
    }
}

impl TaskSpec {
    /// How long a child runs.
    pub fn child_run(&self) -> Spread {
        self.child.unwrap_or(Spread { min: Span(1_000_000), max: Span(1_000_000) })
    }

    /// One sentence if the parts do not fit each other or `whole`.
    fn contradiction(&self, whole: &Workload) -> Option<String> {
        let cpus = whole.cpus.0;
        let late = |at: Option<Span>| at.is_some_and(|at| at >= whole.time);
        match self {
            _ if self.name.is_empty() => Some("has an empty name".into()),
            _ if self.sleep.is_some() && self.run.is_none() => {
                Some("sleeps but never stops running: give run, too".into())
            }
            _ if self.child.is_some() && self.fork.is_none() => {
                Some("has a run time for children but never forks: give fork, too".into())
            }
            _ if self.cpus.is_some_and(|list| cpus < 64 && list.0 >> cpus != 0) => {
                Some(format!("may run on CPUs that are not there: with {cpus} CPUs they are 0 to {}", cpus - 1))
            }
            _ if late(self.start) || late(self.renice.map(|renice| renice.at)) => {
                Some(format!("has a time after the end at {}", whole.time))
            }
            _ => None,
        }
    }

    /// Acts at most, and children of these.
    fn acts(&self, whole: &Workload) -> (u64, u64) {
        // They share the CPUs, so not more of them can be running at once.
        let busy_ns = whole.time.0 * self.count.0.min(whole.cpus.0) as u64;
        let every = |ns: Option<u64>| ns.map_or(0, |ns| busy_ns / ns);
        let stop_ns = self.run.map(|run| run.min.0);
        let stops = match (stop_ns, self.sleep) {
            (Some(run), Some(sleep)) => every(Some(run)).min(self.count.0 as u64 * whole.time.0 / (run + sleep.min.0)),
            _ => 0,
        };
        let children = every(self.fork.map(|every| every.0));
        (2 * stops + every(self.yields.map(|every| every.0)) + 2 * children, children)
    }
}

/// A TOML file, kept to say where in it something is wrong.
pub struct Source<'a> {
    path: &'a Path,
    text: String,
}

impl<'a> Source<'a> {
    pub fn read(path: &'a Path) -> Result<Self> {
        let refuse = |why: String| failure(Status::Usage, format!("{} cannot be read: {why}", path.display()));
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
            .map_err(|error| refuse(error.to_string()))?;
        if text.len() as u64 > MAX_FILE {
            return Err(refuse(format!("a workload has {MAX_FILE} bytes at most")));
        }
        Ok(Self { path, text })
    }

    pub fn workload(&self) -> Result<Workload> {
        toml::from_str(&self.text)
            .map_err(|error| self.wrong(error.span().map_or(0, |span| span.start), error.message()))
    }

    /// Refuses the first of its tasks that contradicts itself, or `whole`.
    pub fn check(&self, whole: &Workload) -> Result<()> {
        whole.task.iter().zip(self.places()).try_for_each(|(task, place)| match task.contradiction(whole) {
            Some(what) => Err(self.wrong(place, &format!("task {:?} {what}", task.name))),
            None => Ok(()),
        })
    }

    /// Where in the text each [[task]] begins.
    fn places(&self) -> Vec<usize> {
        #[derive(Deserialize)]
        struct Places {
            #[serde(default)]
            task: Vec<Spanned<serde::de::IgnoredAny>>,
        }
        toml::from_str::<Places>(&self.text)
            .map_or_else(|_| Vec::new(), |places| places.task.iter().map(|task| task.span().start).collect())
    }

    fn wrong(&self, offset: usize, what: &str) -> anyhow::Error {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        let line = before.matches('\n').count() + 1;
        let what = what.replace('\n', ", ");
        failure(Status::Usage, format!("{}:{line}:{column}: {what}", self.path.display()))
    }
}

impl Workload {
    /// Can it be run, and with `drawn` be kept for a timeline?
    ///
    /// # Errors
    /// Status 2 and one sentence if parts contradict each other or a size is absurd.
    pub fn check(&self, drawn: bool) -> Result<()> {
        let refuse = |why: String| Err(failure(Status::Usage, why));
        if self.task.is_empty() {
            return refuse("there is nothing to run: give at least one --task or a file with [[task]]".into());
        }
        for task in &self.task {
            if let Some(what) = task.contradiction(self) {
                return refuse(format!("task {:?} {what}", task.name));
            }
        }
        let tasks: u64 = self.task.iter().map(|task| task.count.0 as u64).sum();
        let slices = self.cpus.0 as u64 * self.time.0 / u64::from(self.tick.0).max(u64::from(VRQ_RESCHED_NS) * 10);
        let (acts, children) = self
            .task
            .iter()
            .map(|task| task.acts(self))
            .fold((slices, 0u64), |sum, more| (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1)));
        let (most, what) = if drawn { (MAX_DRAWN_EVENTS, " that can be drawn") } else { (MAX_EVENTS, "") };
        for (number, most, what) in
            [(tasks, MAX_TASKS, "tasks"), (children, MAX_CHILDREN, "children"), (acts, most, &format!("events{what}"))]
        {
            if number > most {
                return refuse(format!(
                    "that may be {number} {what} and {most} are the most: make it shorter or fewer"
                ));
            }
        }
        Ok(())
    }
}
