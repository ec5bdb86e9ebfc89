//! A machine that does nothing, at once, and results made up by a formula: statistics, order and
//! exports are tested without timing anything.

use super::counters::Counters;
use super::execute::Usage;
use super::facts::Facts;
use super::latency::Recorder;
use super::machine::{Edge, Machine, Sample};
use super::record::{Measure, Point, RunRecord};
use super::results::{Asked, Results};
use super::rounds::Plan;
use super::scheduler_spec::{SchedulerKind, SchedulerSpec};
use super::workload::Outcome;
use anyhow::{Result, bail};
use std::time::Duration;

pub fn plan(schedulers: &[&str], points: &[Point], rounds: u32, warmup_rounds: u32) -> Plan {
    let spec = |name: &&str| SchedulerSpec { name: name.to_string(), kind: SchedulerKind::KernelDefault };
    Plan {
        workload: "compile, scale 6".to_string(),
        schedulers: schedulers.iter().map(spec).collect(),
        points: points.to_vec(),
        rounds,
        warmup_rounds,
    }
}

pub fn facts() -> Facts {
    Facts {
        place: "this machine".into(),
        date: "2026-11-30T12:00:00Z".into(),
        kernel: "7.3.4".into(),
        cpu_model: "Mock CPU <fast & \"cheap\">".into(),
        cpus: 4,
        topology: "1 socket, 4 cores, 1 thread".into(),
        memory_mib: 4096,
        accel: String::new(),
        scx_vrq: "0.1.0".into(),
        compiler: "cc 12.2.0".into(),
        command: ["scx_vrq", "bench", "--host"].map(String::from).into(),
    }
}

/// Elapsed seconds of a scheduler in a round.
pub type Elapsed<'a> = &'a dyn Fn(u32) -> f64;

/// Complete results at -j 2 on 4 CPUs with the elapsed times given; all else follows from the names.
pub fn results(schedulers: &[(&str, Elapsed)], rounds: u32) -> Results {
    let names: Vec<&str> = schedulers.iter().map(|(name, _)| *name).collect();
    let plan = plan(&names, &[Point::from_ratio(50, 4)], rounds, 0);
    let mut results = Results::new(facts(), Asked::new(&plan));
    results.complete = true;
    for turn in plan.turns() {
        let (name, elapsed) = schedulers[turn.scheduler];
        results.runs.push(RunRecord {
            scheduler: name.to_string(),
            ops: name.starts_with("vrq").then(|| "vrq_0.1.0".to_string()),
            point: plan.points[turn.point].clone(),
            round: turn.round,
            warmup: turn.warmup,
            failure: None,
            measure: Some(measure(name, elapsed(turn.round))),
        });
    }
    results
}

/// A run that took that long, with counts that add up.
pub fn measure(scheduler: &str, elapsed_s: f64) -> Measure {
    let usage = Usage {
        elapsed: Duration::from_secs_f64(elapsed_s),
        user: Duration::from_secs_f64(elapsed_s * 1.25),
        system: Duration::from_secs_f64(elapsed_s * 0.25),
        voluntary_switches: 12_000,
        involuntary_switches: 800,
        max_rss_kib: 54_321,
    };
    let mut measure = Measure { elapsed_s, schedstat: schedstat(), ..Measure::of_usage(&usage) };
    if scheduler.starts_with("vrq") {
        measure.counters = counters(if scheduler.contains("next-ne-prev") { 27_764 } else { 9_727 });
    }
    measure
}

/// With latencies, as the workloads `pipe` and `wakeup` have them: 1,000 around `p50_us`.
pub fn with_latency(measure: Measure, p50_us: u64) -> Measure {
    let mut recorder = Recorder::new().expect("recorder");
    (0..1_000u64).for_each(|i| recorder.record(Duration::from_nanos(p50_us * (500 + i))));
    Measure { outcome: Outcome { requests: 1_000, latency: Some(recorder.finish()) }, ..measure }
}

fn schedstat() -> Counters {
    named(&[
        ("yld_count", 12),
        ("sched_count", 200_751),
        ("sched_goidle", 56_106),
        ("ttwu_count", 85_490),
        ("ttwu_local", 39_002),
    ])
}

fn counters(goidle_idle: u64) -> Counters {
    named(&[
        ("nr_dispatches", 150_000),
        ("nr_goidle_idle", goidle_idle),
        ("nr_goidle_deactivate", 56_000),
        ("nr_goidle_needother", 6),
        ("nr_goidle_other", 100),
        ("longest_wait_ms", 12),
    ])
}

fn named(pairs: &[(&str, u64)]) -> Counters {
    pairs.iter().map(|&(name, value)| (name.to_string(), value)).collect()
}

/// Writes down what it is asked to do; each run takes a second of its own clock.
#[derive(Default)]
pub struct MockMachine {
    pub log: Vec<String>,
    pub attached: Option<String>,
    pub nr_executed: usize,
    /// The execution, from 0, at which the scheduler is ejected or the command fails.
    pub ejected_at: Option<usize>,
    pub fails_at: Option<usize>,
    pub cannot_attach: Option<&'static str>,
}

impl Machine for MockMachine {
    fn prepare(&mut self, point: &Point) -> Result<()> {
        self.log.push(format!("prepare {}", point.jobs));
        Ok(())
    }

    fn attach(&mut self, spec: &SchedulerSpec) -> Result<Option<String>> {
        if self.cannot_attach == Some(&spec.name) {
            bail!("scheduler {} did not attach within 30 s: it said nothing", spec.name);
        }
        assert_eq!(self.attached, None, "one at a time");
        self.attached = Some(spec.name.clone());
        self.log.push(format!("attach {}", spec.name));
        Ok(None)
    }

    fn sample(&mut self, edge: Edge) -> Result<Sample> {
        self.log.push(format!("sample {edge:?}"));
        Ok(Sample::default())
    }

    fn execute(&mut self, _point: &Point) -> Result<Usage> {
        self.log.push("execute".to_string());
        self.nr_executed += 1;
        if self.fails_at == Some(self.nr_executed - 1) {
            bail!("make ended with status 2: no rule");
        }
        Ok(Usage { elapsed: Duration::from_secs(1), ..Usage::default() })
    }

    fn ensure_in_charge(&mut self) -> Result<()> {
        if self.ejected_at.is_some_and(|at| at + 1 == self.nr_executed) {
            bail!("scheduler {} was ejected during the run", self.attached.clone().unwrap_or_default());
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Outcome> {
        self.log.push("check".to_string());
        Ok(Outcome::default())
    }

    fn detach(&mut self) -> Result<()> {
        self.attached = None;
        self.log.push("detach".to_string());
        Ok(())
    }
}
