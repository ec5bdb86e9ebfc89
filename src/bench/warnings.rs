//! Reasons to doubt the figures, each with what to do about it.

use super::counters::Counters;
use super::record::{Measure, RunRecord};
use super::results::Results;
use super::stats::Spread;
use super::summary::{MIN_PAIRS, Metric};

/// Share of the machine's time that steal or others may take before it is said.
const STEAL_SHARE: f64 = 0.01;
const OTHERS_SHARE: f64 = 0.10;
/// Standard deviation over median beyond which runs of one scheduler disagree.
const SPREAD_SHARE: f64 = 0.10;
const CLOCK_SHARE: f64 = 0.05;
/// How far two counts of nearly the same thing may lie apart.
const COUNT_SHARE: f64 = 0.10;
/// What the samples themselves may add to one of them.
const COUNT_SLACK: u64 = 100;

/// All that apply, the gravest first.
pub fn warnings(results: &Results) -> Vec<String> {
    let worked: Vec<(&RunRecord, &Measure)> =
        results.runs.iter().filter(|run| !run.warmup).filter_map(|run| Some((run, run.measure.as_ref()?))).collect();
    let mut warnings = Vec::new();
    warnings.extend(failed(results));
    warnings.extend(counters_disagree(&worked));
    warnings.extend(emulated(&results.facts.accel));
    if results.facts.accel != "icount" {
        warnings.extend(disturbed(&worked));
    }
    warnings.extend(clock_changes(&worked));
    warnings.extend(spread(results));
    if worked.len() > 1 && results.asked.rounds < MIN_PAIRS as u32 {
        warnings.push(format!(
            "{} round{} cannot carry a statement about times: use --rounds {MIN_PAIRS} or more",
            results.asked.rounds,
            if results.asked.rounds == 1 { "" } else { "s" }
        ));
    }
    warnings
}

fn emulated(accel: &str) -> Option<String> {
    let what = match accel {
        "tcg" => {
            "the CPUs are emulated in software: times are the emulator's, and only large differences mean anything"
        }
        "icount" => {
            "the emulated CPUs share one clock, which counts their instructions: times show what the work costs, not how \
             well the CPUs work side by side"
        }
        _ => return None,
    };
    Some(format!("{what}; believe the counts, and measure speed with --host on a machine that has sched_ext"))
}

fn failed(results: &Results) -> Option<String> {
    let nr_failed = results.nr_failed();
    let first = results.runs.iter().find(|run| run.failure.is_some())?;
    let why = first.failure.as_deref().unwrap_or_default();
    let advice = if why.contains("ejected") {
        "the kernel's log (dmesg) has the report of the scheduler that was ejected"
    } else {
        "run the command by itself to see why"
    };
    Some(format!(
        "{nr_failed} of {} runs failed and do not count, the first because {why}: {advice}",
        results.runs.len()
    ))
}

/// Who else had the CPUs. Says nothing where all CPUs share one clock: there each one's time holds the others' work.
fn disturbed(worked: &[(&RunRecord, &Measure)]) -> Vec<String> {
    let stolen = share("the hypervisor gave the CPUs to others", worked, STEAL_SHARE, |m| m.noise.steal_s)
        .map(|what| format!("{what}: measure on a machine of its own"));
    let others = share("other programs used the CPUs", worked, OTHERS_SHARE, |m| m.noise.other_cpu_s)
        .map(|what| format!("{what}: stop what else runs, and measure again"));
    stolen.into_iter().chain(others).collect()
}

/// The run in which `seconds` took the largest share of the CPUs' time, if that is more than `limit`.
fn share(what: &str, worked: &[(&RunRecord, &Measure)], limit: f64, seconds: fn(&Measure) -> f64) -> Option<String> {
    let share = |(run, m): &(&RunRecord, &Measure)| seconds(m) / (m.elapsed_s * f64::from(run.point.cpus)).max(1e-9);
    let over = worked.iter().filter(|run| share(run) > limit).count();
    let worst = worked.iter().map(share).fold(0.0, f64::max);
    (over > 0)
        .then(|| format!("{what} in {over} of {} runs, for up to {:.0} % of their time", worked.len(), worst * 100.0))
}

fn clock_changes(worked: &[(&RunRecord, &Measure)]) -> Option<String> {
    let mhz: Vec<f64> = worked.iter().filter_map(|(_, measure)| measure.noise.mhz).collect();
    let spread = Spread::of(&mhz)?;
    (spread.max > spread.min * (1.0 + CLOCK_SHARE)).then(|| {
        format!(
            "the CPUs' clock rate moved between {:.0} and {:.0} MHz: set the performance governor, and let the machine cool",
            spread.min, spread.max
        )
    })
}

/// Points where one scheduler's own runs lie far apart.
fn spread(results: &Results) -> Option<String> {
    let rows = super::summary::rows(results);
    let metric = *Metric::of(results).first()?;
    let (worst, share) = rows
        .iter()
        .filter(|row| row.metric == metric)
        .filter_map(|row| Some((row, row.spread.map(|spread| spread.sd / spread.median.max(1e-9))?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share > SPREAD_SHARE).then(|| {
        format!(
            "runs of the same scheduler lie far apart (up to {:.0} %, {} at {}): use more --rounds on a quieter machine",
            share * 100.0,
            worst.scheduler,
            worst.point.label()
        )
    })
}

/// What holds for scx_vrq's counters against the kernel's in the same run.
fn counters_disagree(worked: &[(&RunRecord, &Measure)]) -> Option<String> {
    let found: Vec<String> = worked
        .iter()
        .filter_map(|(run, measure)| {
            Some(format!("{} in round {}: {}", run.scheduler, run.round + 1, disagreement(measure)?))
        })
        .collect();
    let first = found.first()?;
    Some(format!(
        "counters do not add up in {} of {} runs ({first}): another scheduler's tasks may have run in between, or it is a \
         bug of scx_vrq's worth reporting",
        found.len(),
        worked.len()
    ))
}

fn disagreement(measure: &Measure) -> Option<String> {
    let own = |name: &str| get(&measure.counters, name);
    let kernel = |name: &str| get(&measure.schedstat, name);
    let (dispatches, sched_count) = (own("nr_dispatches")?, kernel("sched_count")?);
    if dispatches > sched_count {
        return Some(format!("{dispatches} dispatches, but the kernel scheduled {sched_count} times"));
    }
    // The kernel counts a CPU that turns idle, not one that looks again and stays so (the idle path).
    let entries = own("nr_goidle_deactivate")? + own("nr_goidle_needother")? + own("nr_goidle_other")?;
    let sched_goidle = kernel("sched_goidle")?;
    let apart = entries.abs_diff(sched_goidle);
    (apart > COUNT_SLACK && apart as f64 > sched_goidle as f64 * COUNT_SHARE)
        .then(|| format!("{entries} ways into idle, but the kernel went idle {sched_goidle} times"))
}

fn get(counters: &Counters, name: &str) -> Option<u64> {
    counters.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::super::mock;
    use super::*;

    fn quiet() -> Results {
        mock::results(&[("default", &|_| 10.0), ("vrq", &|_| 10.0)], 10)
    }

    fn each(results: &mut Results, change: impl Fn(&mut Measure)) {
        results.runs.iter_mut().filter_map(|run| run.measure.as_mut()).for_each(change);
    }

    /// The one warning of results that are quiet but for a change.
    fn only(change: impl Fn(&mut Results)) -> String {
        let mut results = quiet();
        assert_eq!(warnings(&results), [""; 0]);
        change(&mut results);
        let warnings = warnings(&results);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        warnings[0].clone()
    }

    #[test]
    fn each_doubt_is_said_with_advice() {
        assert!(
            only(|r| each(r, |m| m.noise.steal_s = 2.0))
                .contains("for up to 5 % of their time: measure on a machine of its own")
        );
        assert!(only(|r| each(r, |m| m.noise.other_cpu_s = 20.0)).contains("stop what else runs"));
        assert!(only(|r| r.asked.rounds = 2).contains("use --rounds 6 or more"));
        assert!(only(|r| r.facts.accel = "icount".into()).contains("believe the counts"));
    }

    #[test]
    fn a_clock_that_moves_is_said() {
        let text = only(|results| {
            for (i, run) in results.runs.iter_mut().enumerate() {
                if let Some(measure) = &mut run.measure {
                    measure.noise.mhz = Some(2000.0 + 50.0 * i as f64);
                }
            }
        });
        assert!(text.contains("performance governor"), "{text}");
    }

    #[test]
    fn runs_far_apart_are_said() {
        let results = mock::results(&[("default", &|round| 10.0 + 3.0 * f64::from(round % 2))], 10);
        assert!(warnings(&results)[0].contains("runs of the same scheduler lie far apart"));
    }

    #[test]
    fn an_ejected_scheduler_is_said() {
        let text = only(|results| {
            results.runs[3].failure = Some("scheduler vrq was ejected during the run".into());
            results.runs[3].measure = None;
        });
        assert!(
            text.starts_with("1 of 20 runs failed and do not count, the first because scheduler vrq was ejected"),
            "{text}"
        );
        assert!(text.contains("dmesg"));
    }

    #[test]
    fn counters_that_do_not_add_up_are_said() {
        let set = |name: &'static str, value| {
            move |m: &mut Measure| m.counters.insert(name.into(), value).map(drop).unwrap_or(())
        };
        let vrq = |results: &mut Results, change: &dyn Fn(&mut Measure)| {
            results
                .runs
                .iter_mut()
                .filter(|run| run.scheduler == "vrq")
                .filter_map(|run| run.measure.as_mut())
                .for_each(change);
        };
        assert!(only(|r| vrq(r, &set("nr_dispatches", 10_000_000))).contains("dispatches, but the kernel scheduled"));
        assert!(only(|r| vrq(r, &set("nr_goidle_deactivate", 7))).contains("ways into idle, but the kernel went idle"));
    }
}
