//! All that a bench found out: the JSON export is exactly this, and `report` reads it back.
//!
//! RESULTS.md beside this file documents every field.

use super::facts::Facts;
use super::record::{Point, RunRecord};
use super::rounds::{Plan, Turn};
use crate::failure::{Status, failure};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read;
use std::path::Path;

/// Rises when a reader of older files could misread a newer one.
pub const FORMAT: u32 = 1;
/// Of a file that holds results.
const MAX_BYTES: u64 = 1 << 30;

/// The plan as far as it explains the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// What is run, with its size or its command: "compile, scale 6".
    pub workload: String,
    /// In the order given; differences are taken to `reference`.
    pub schedulers: Vec<String>,
    pub points: Vec<Point>,
    pub rounds: u32,
    pub warmup_rounds: u32,
}

impl Asked {
    pub fn new(plan: &Plan) -> Asked {
        Asked {
            workload: plan.workload.clone(),
            schedulers: plan.schedulers.iter().map(|spec| spec.name.clone()).collect(),
            points: plan.points.clone(),
            rounds: plan.rounds,
            warmup_rounds: plan.warmup_rounds,
        }
    }

    /// What the others are compared to: the kernel's own, or else the first one named.
    pub fn reference(&self) -> &str {
        let default = self.schedulers.iter().find(|name| *name == "default");
        default.or(self.schedulers.first()).map_or("", String::as_str)
    }

    pub fn nr_runs(&self) -> usize {
        self.schedulers.len() * (self.rounds as usize * self.points.len() + self.warmup_rounds as usize)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub format: u32,
    pub facts: Facts,
    pub asked: Asked,
    /// False while the bench runs, and for good if it was stopped or failed.
    pub complete: bool,
    pub runs: Vec<RunRecord>,
    /// What a reader should know before believing the figures, each with advice.
    pub warnings: Vec<String>,
}

impl Results {
    pub fn new(facts: Facts, asked: Asked) -> Results {
        Results { format: FORMAT, facts, asked, complete: false, runs: Vec::new(), warnings: Vec::new() }
    }

    pub fn read(path: &Path) -> Result<Results> {
        let refuse = |why: String| failure(Status::Usage, format!("{} {why}", path.display()));
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| refuse(format!("cannot be read: {error}")))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(refuse(format!("is larger than a result can be, {} MiB", MAX_BYTES >> 20)));
        }
        let results: Results = serde_json::from_str(&text)
            .map_err(|error| refuse(format!("is not what --export-json of scx_vrq bench writes: {error}")))?;
        ensure!(
            results.format == FORMAT,
            "{} has format {}; this scx_vrq reads format {FORMAT}: use the scx_vrq that wrote it ({})",
            path.display(),
            results.format,
            results.facts.scx_vrq
        );
        Ok(results)
    }

    /// Runs that count of one scheduler at one point, in the order of their rounds.
    pub fn counting<'a>(&'a self, scheduler: &'a str, point: &'a Point) -> impl Iterator<Item = &'a RunRecord> {
        self.runs.iter().filter(move |run| !run.warmup && run.scheduler == scheduler && run.point == *point)
    }

    pub fn nr_failed(&self) -> usize {
        self.runs.iter().filter(|run| run.failure.is_some()).count()
    }
}

/// What a bench says while it runs, in one process or out of a virtual machine as a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Begin(Box<(Facts, Asked)>),
    Starts(Turn),
    Ended(Box<RunRecord>),
}

/// Before each event in the output of a bench in a virtual machine: all else is somebody's message.
const MARK: &str = "@scx_vrq-bench ";

impl Event {
    pub fn to_line(&self) -> Result<String> {
        Ok(format!("{MARK}{}", serde_json::to_string(self)?))
    }

    /// None for a line that is no event.
    pub fn from_line(line: &str) -> Option<Event> {
        serde_json::from_str(line.strip_prefix(MARK)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_their_line_and_nothing_else_is_taken_for_one() {
        let asked = Asked { schedulers: vec!["default".into(), "vrq".into()], rounds: 3, ..Asked::default() };
        for event in [
            Event::Begin(Box::new((Facts::default(), asked))),
            Event::Starts(Turn { round: 1, warmup: false, point: 0, scheduler: 1 }),
        ] {
            assert_eq!(Event::from_line(&event.to_line().expect("line")), Some(event));
        }
        assert_eq!(Event::from_line("[    3.14] sched_ext: BPF scheduler \"vrq\" enabled"), None);
    }

    #[test]
    fn the_reference_is_the_kernels_own_if_it_runs() {
        let asked =
            |names: &[&str]| Asked { schedulers: names.iter().map(|n| n.to_string()).collect(), ..Asked::default() };
        assert_eq!(asked(&["vrq", "default"]).reference(), "default");
        assert_eq!(asked(&["vrq", "scx_flash"]).reference(), "vrq");
        assert_eq!(asked(&[]).reference(), "");
    }

    #[test]
    fn what_is_no_result_is_refused_in_a_sentence() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("r.json");
        fs::write(&path, "{}").expect("write");
        assert!(Results::read(&path).expect_err("refused").to_string().contains("is not what --export-json"));
        let mut newer = Results::new(Facts::default(), Asked::default());
        newer.format = 2;
        fs::write(&path, serde_json::to_string(&newer).expect("json")).expect("write");
        assert!(Results::read(&path).expect_err("refused").to_string().contains("has format 2"));
        assert!(Results::read(&dir.path().join("none")).expect_err("refused").to_string().contains("cannot be read"));
    }
}
