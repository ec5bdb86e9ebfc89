//! The order of the runs, and one run from attaching to detaching.
//!
//! A round runs every scheduler once at every point; every other round goes through the schedulers
//! backwards (A B B A), so that a machine that slowly warms up or fills favours none of them.

use super::counters::since;
use super::interrupt;
use super::machine::{Edge, Machine};
use super::noise::Noise;
use super::record::{Measure, Point, RunRecord};
use super::results::Event;
use super::scheduler_spec::SchedulerSpec;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// What is to be measured; all of it is known to be valid.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is run, in words: "compile, scale 6".
    pub workload: String,
    pub schedulers: Vec<SchedulerSpec>,
    pub points: Vec<Point>,
    pub rounds: u32,
    /// Rounds before those that count, at the first point only: they warm caches, and every point shares them.
    pub warmup_rounds: u32,
}

/// One run to do: places in `Plan::schedulers` and `Plan::points`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub round: u32,
    pub warmup: bool,
    pub point: usize,
    pub scheduler: usize,
}

impl Plan {
    /// Every run in its order.
    pub fn turns(&self) -> Vec<Turn> {
        let mut turns = Vec::new();
        for round in 0..self.warmup_rounds {
            turns.extend(self.turns_at(0, round, true));
        }
        for round in 0..self.rounds {
            for point in 0..self.points.len() {
                turns.extend(self.turns_at(point, round, false));
            }
        }
        turns
    }

    fn turns_at(&self, point: usize, round: u32, warmup: bool) -> Vec<Turn> {
        let forth = (0..self.schedulers.len()).map(|scheduler| Turn { round, warmup, point, scheduler });
        if round.is_multiple_of(2) { forth.collect() } else { forth.rev().collect() }
    }
}

/// Takes what happens as it happens.
pub type Tell<'a> = &'a mut dyn FnMut(Event) -> Result<()>;

/// Does every run of the plan. Stops early, without an error, when the user asks for it.
///
/// A scheduler that cannot be attached ends the bench: without it there is nothing to compare. A
/// run that fails is handed on as failed; if it is the first of all, nothing else will work either.
pub fn run(plan: &Plan, machine: &mut dyn Machine, tell: Tell) -> Result<()> {
    let mut any_worked = false;
    for turn in plan.turns() {
        if interrupt::requested() {
            return Ok(());
        }
        tell(Event::Starts(turn))?;
        let record = run_once(plan, &turn, machine)?;
        if interrupt::requested() {
            return Ok(());
        }
        match &record.failure {
            Some(failure) if !any_worked => bail!("{failure}"),
            Some(_) => {}
            None => any_worked = true,
        }
        tell(Event::Ended(Box::new(record)))?;
    }
    Ok(())
}

fn run_once(plan: &Plan, turn: &Turn, machine: &mut dyn Machine) -> Result<RunRecord> {
    let (spec, point) = (&plan.schedulers[turn.scheduler], &plan.points[turn.point]);
    machine.prepare(point)?;
    let ops = machine.attach(spec)?;
    let measured = measure(machine, point);
    // Back to the kernel's own scheduler first, whatever the run has come to.
    machine.detach()?;
    let (measure, failure) = match measured {
        Ok(measure) => (Some(measure), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    Ok(RunRecord {
        scheduler: spec.name.clone(),
        ops,
        point: point.clone(),
        round: turn.round,
        warmup: turn.warmup,
        failure,
        measure,
    })
}

fn measure(machine: &mut dyn Machine, point: &Point) -> Result<Measure> {
    let before = machine.sample(Edge::Start)?;
    let usage = machine.execute(point);
    // An ejected scheduler explains a failed command and unreadable counters, so it is looked at first.
    machine.ensure_in_charge()?;
    let usage = usage?;
    let after = machine.sample(Edge::End)?;
    machine.ensure_in_charge()?;
    let outcome = machine.check()?;
    let workload_s = (usage.user + usage.system).as_secs_f64();
    let noise = after.cpu_times.noise_since(&before.cpu_times, workload_s);
    Ok(Measure {
        schedstat: after.schedstat.since(&before.schedstat),
        counters: since(&before.counters, &after.counters),
        noise: Noise { mhz: after.mhz, ..noise },
        outcome,
        ..Measure::of_usage(&usage)
    })
}

#[cfg(test)]
mod tests {
    use super::super::mock::{self, MockMachine};
    use super::*;

    fn plan(schedulers: &[&str], jobs: &[u32], rounds: u32, warmup_rounds: u32) -> Plan {
        let points: Vec<Point> = jobs.iter().map(|&jobs| Point::from_jobs(jobs, 4)).collect();
        mock::plan(schedulers, &points, rounds, warmup_rounds)
    }

    /// What a plan comes to on a machine: how many runs started, and the records.
    fn outcome(plan: &Plan, machine: &mut MockMachine) -> (Result<()>, usize, Vec<RunRecord>) {
        let (mut started, mut records) = (0, Vec::new());
        let result = run(plan, machine, &mut |event| {
            match event {
                Event::Starts(_) => started += 1,
                Event::Ended(record) => records.push(*record),
                Event::Begin(_) => {}
            }
            Ok(())
        });
        (result, started, records)
    }

    #[test]
    fn every_other_round_goes_backwards() {
        let order = |plan: &Plan| -> String {
            plan.turns().iter().map(|turn| plan.schedulers[turn.scheduler].name.clone()).collect()
        };
        assert_eq!(order(&plan(&["A", "B"], &[2], 4, 0)), "ABBAABBA");
        assert_eq!(order(&plan(&["A", "B", "C"], &[1, 2], 2, 1)), "ABC".to_owned() + "ABCABC" + "CBACBA");
    }

    #[test]
    fn each_scheduler_runs_once_a_round_at_each_point() {
        let plan = plan(&["A", "B", "C"], &[1, 2, 4], 5, 1);
        for (round, point, scheduler) in (0..5).flat_map(|r| (0..3).flat_map(move |p| (0..3).map(move |s| (r, p, s)))) {
            let turn = Turn { round, warmup: false, point, scheduler };
            assert_eq!(plan.turns().iter().filter(|&&t| t == turn).count(), 1);
        }
        assert_eq!(plan.turns().iter().filter(|turn| turn.warmup).count(), 3);
    }

    #[test]
    fn only_the_command_lies_between_the_samples() {
        let mut machine = MockMachine::default();
        let (result, _, records) = outcome(&plan(&["A"], &[3], 1, 0), &mut machine);
        result.expect("runs");
        let steps = ["prepare 3", "attach A", "sample Start", "execute", "sample End", "check", "detach"];
        assert_eq!(machine.log, steps);
        assert_eq!(records[0].measure.as_ref().expect("measured").elapsed_s, 1.0);
    }

    #[test]
    fn a_run_that_fails_is_handed_on_without_figures_and_the_rest_goes_on() {
        for (machine, why) in [
            (MockMachine { fails_at: Some(2), ..MockMachine::default() }, "make ended with status 2: no rule"),
            (MockMachine { ejected_at: Some(2), ..MockMachine::default() }, "scheduler B was ejected during the run"),
        ] {
            let mut machine = machine;
            let (result, _, records) = outcome(&plan(&["A", "B"], &[3], 3, 0), &mut machine);
            result.expect("goes on");
            assert_eq!(records.len(), 6);
            let failed: Vec<&RunRecord> = records.iter().filter(|record| record.measure.is_none()).collect();
            assert_eq!(failed.len(), 1);
            assert_eq!((failed[0].round, failed[0].failure.as_deref()), (1, Some(why)));
            assert_eq!(machine.log.iter().filter(|step| *step == "detach").count(), 6);
        }
    }

    #[test]
    fn a_first_run_that_fails_ends_the_bench_with_its_reason() {
        let mut machine = MockMachine { fails_at: Some(0), ..MockMachine::default() };
        let (result, started, _) = outcome(&plan(&["A", "B"], &[3], 3, 1), &mut machine);
        assert_eq!(result.expect_err("ends").to_string(), "make ended with status 2: no rule");
        assert_eq!((started, machine.log.last().map(String::as_str)), (1, Some("detach")));
    }

    #[test]
    fn a_scheduler_that_does_not_attach_ends_the_bench() {
        let mut machine = MockMachine { cannot_attach: Some("B"), ..MockMachine::default() };
        let (result, _, records) = outcome(&plan(&["A", "B"], &[3], 3, 0), &mut machine);
        assert!(result.expect_err("ends").to_string().contains("did not attach within 30 s"));
        assert_eq!(records.len(), 1);
    }
}
