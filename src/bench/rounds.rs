//! The order of the runs, and one run from attaching to detaching.
//!
//! A round runs every scheduler once at every point; every other round goes through the schedulers
//! backwards (A B B A), so that a machine that slowly warms up or fills favours none of them.

use super::counters::since;
use super::interrupt;
use super::machine::{Edge, Machine};
use super::record::{Measure, Point, RunRecord};
use super::scheduler_spec::SchedulerSpec;
use anyhow::{Result, bail};

/// What is to be measured; all of it is known to be valid.
#[derive(Clone, Debug)]
pub struct Plan {
    pub schedulers: Vec<SchedulerSpec>,
    pub points: Vec<Point>,
    pub rounds: u32,
    /// Rounds before those that count, at the first point only: they warm caches, and every point shares them.
    pub warmup_rounds: u32,
}

/// One run to do: places in `Plan::schedulers` and `Plan::points`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Told of every run when it starts and when it ends.
pub trait Watcher {
    fn starts(&mut self, turn: &Turn) -> Result<()>;
    fn ended(&mut self, record: RunRecord) -> Result<()>;
}

/// Does every run of the plan. Stops early, without an error, when the user asks for it.
///
/// A scheduler that cannot be attached ends the bench: without it there is nothing to compare. A
/// run that fails is handed on as failed; if it is the first of all, nothing else will work either.
pub fn run(plan: &Plan, machine: &mut dyn Machine, watcher: &mut dyn Watcher) -> Result<()> {
    let mut any_worked = false;
    for turn in plan.turns() {
        if interrupt::requested() {
            return Ok(());
        }
        watcher.starts(&turn)?;
        let record = run_once(plan, &turn, machine)?;
        if interrupt::requested() {
            return Ok(());
        }
        match &record.failure {
            Some(failure) if !any_worked => bail!("{failure}"),
            Some(_) => {}
            None => any_worked = true,
        }
        watcher.ended(record)?;
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
    machine.check()?;
    Ok(Measure::new(&usage, after.schedstat.since(&before.schedstat), since(&before.counters, &after.counters)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(schedulers: &[&str], jobs: &[u32], rounds: u32, warmup_rounds: u32) -> Plan {
        use super::super::scheduler_spec::SchedulerKind;
        let spec = |name: &&str| SchedulerSpec { name: name.to_string(), kind: SchedulerKind::KernelDefault };
        Plan {
            schedulers: schedulers.iter().map(spec).collect(),
            points: jobs.iter().map(|&jobs| Point::from_jobs(jobs, 4)).collect(),
            rounds,
            warmup_rounds,
        }
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
}
