//! From runs to statements: the spread of each scheduler, and how it compares to the reference.
//!
//! Schedulers are compared pair by pair: the two runs of one round stood next to each other in time,
//! so what disturbs the machine for longer than a round is in both and cancels.

use super::record::{Measure, Point};
use super::results::Results;
use super::stats::{Interval, Spread, bootstrap_median};

/// Fewer pairs cannot carry a statement of 95 %: with five, all on one side is chance once in sixteen.
pub const MIN_PAIRS: usize = 6;

/// A figure of a run that is better when it is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Seconds for the whole.
    Elapsed,
    /// Microseconds of the whole for one round trip, message or request.
    PerRequest,
    /// Latency percentiles in microseconds.
    P50,
    P99,
    P999,
}

impl Metric {
    /// What the results can be judged by; the first is what the bench is about.
    pub fn of(results: &Results) -> Vec<Metric> {
        let any = |has: fn(&Measure) -> bool| results.runs.iter().flat_map(|run| &run.measure).any(has);
        let mut metrics = vec![if any(|m| m.outcome.requests > 0) { Metric::PerRequest } else { Metric::Elapsed }];
        if any(|m| m.outcome.latency.is_some()) {
            metrics.extend([Metric::P50, Metric::P99, Metric::P999]);
        }
        metrics
    }

    pub fn get(self, measure: &Measure) -> Option<f64> {
        let outcome = &measure.outcome;
        match self {
            Metric::Elapsed => Some(measure.elapsed_s),
            Metric::PerRequest => (outcome.requests > 0).then(|| measure.elapsed_s * 1e6 / outcome.requests as f64),
            Metric::P50 => outcome.latency.as_ref().map(|latency| latency.p50_us),
            Metric::P99 => outcome.latency.as_ref().map(|latency| latency.p99_us),
            Metric::P999 => outcome.latency.as_ref().map(|latency| latency.p999_us),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Metric::Elapsed => "elapsed",
            Metric::PerRequest => "time per request",
            Metric::P50 => "latency p50",
            Metric::P99 => "latency p99",
            Metric::P999 => "latency p99.9",
        }
    }

    /// The name as a title begins.
    pub fn title(self) -> String {
        let (first, rest) = self.name().split_at(1);
        first.to_uppercase() + rest
    }

    pub fn unit(self) -> &'static str {
        if self == Metric::Elapsed { "s" } else { "us" }
    }
}

/// One scheduler at one point, by one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub scheduler: String,
    pub point: Point,
    pub metric: Metric,
    pub failed: usize,
    /// None if every run failed or none was done yet.
    pub spread: Option<Spread>,
    pub verdict: Verdict,
}

/// How a scheduler stands to the reference; intervals are of the ratio of paired runs, below 1 is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It is what the others are compared to.
    Reference,
    /// Fewer than `MIN_PAIRS` pairs; the interval is shown but states nothing.
    TooFew(Option<Interval>),
    /// The interval holds 1.
    NoDifference(Interval),
    Better(Interval),
    Worse(Interval),
}

impl Verdict {
    fn of(ratios: &[f64]) -> Verdict {
        match bootstrap_median(ratios) {
            Some(interval) if ratios.len() >= MIN_PAIRS => match interval {
                Interval { high, .. } if high < 1.0 => Verdict::Better(interval),
                Interval { low, .. } if low > 1.0 => Verdict::Worse(interval),
                _ => Verdict::NoDifference(interval),
            },
            interval => Verdict::TooFew(interval),
        }
    }

    pub fn interval(&self) -> Option<Interval> {
        match *self {
            Verdict::Reference => None,
            Verdict::TooFew(interval) => interval,
            Verdict::NoDifference(interval) | Verdict::Better(interval) | Verdict::Worse(interval) => Some(interval),
        }
    }

    pub fn words(&self) -> String {
        match self {
            Verdict::Reference => "reference".to_string(),
            Verdict::TooFew(_) => "too few rounds to say".to_string(),
            Verdict::NoDifference(_) => "no difference shown".to_string(),
            Verdict::Better(interval) => format!("{:.1} % less", (1.0 - interval.median) * 100.0),
            Verdict::Worse(interval) => format!("{:.1} % more", (interval.median - 1.0) * 100.0),
        }
    }
}

/// A row for each metric, point and scheduler, in this order.
pub fn rows(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for metric in Metric::of(results) {
        for point in &results.asked.points {
            rows.extend(results.asked.schedulers.iter().filter_map(|scheduler| row(results, metric, point, scheduler)));
        }
    }
    rows
}

fn row(results: &Results, metric: Metric, point: &Point, scheduler: &str) -> Option<Row> {
    let values = values_by_round(results, metric, point, scheduler);
    let failed = results.counting(scheduler, point).filter(|run| run.failure.is_some()).count();
    if values.is_empty() && failed == 0 {
        return None;
    }
    let reference = results.asked.reference();
    let verdict = if scheduler == reference {
        Verdict::Reference
    } else {
        let against = values_by_round(results, metric, point, reference);
        let ratio = |&(round, value): &(u32, f64)| {
            let (_, other) = against.iter().find(|(other_round, other)| *other_round == round && *other > 0.0)?;
            Some(value / other)
        };
        Verdict::of(&values.iter().filter_map(ratio).collect::<Vec<_>>())
    };
    let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
    Some(Row {
        scheduler: scheduler.to_string(),
        point: point.clone(),
        metric,
        failed,
        spread: Spread::of(&values),
        verdict,
    })
}

/// Round and value of each run that worked.
fn values_by_round(results: &Results, metric: Metric, point: &Point, scheduler: &str) -> Vec<(u32, f64)> {
    results.counting(scheduler, point).filter_map(|run| Some((run.round, metric.get(run.measure.as_ref()?)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::mock;
    use super::*;

    #[test]
    fn runs_are_compared_pair_by_pair() {
        // Every round is slower than the one before, on both sides alike: unpaired, nothing would show.
        let results = mock::results(
            &[("default", &|round| 10.0 + f64::from(round)), ("vrq", &|round| 9.0 + 0.9 * f64::from(round))],
            10,
        );
        let rows = rows(&results);
        assert_eq!(rows[0].verdict, Verdict::Reference);
        let Verdict::Better(interval) = rows[1].verdict else { panic!("{:?}", rows[1]) };
        assert!((interval.median - 0.9).abs() < 1e-9 && (interval.high - 0.9).abs() < 1e-9);
        assert_eq!(rows[1].verdict.words(), "10.0 % less");
    }

    #[test]
    fn an_interval_with_one_in_it_shows_no_difference() {
        let results =
            mock::results(&[("default", &|_| 10.0), ("vrq", &|round| if round % 2 == 0 { 9.5 } else { 10.6 })], 10);
        assert_eq!(rows(&results)[1].verdict.words(), "no difference shown");
    }

    #[test]
    fn few_rounds_state_nothing_however_far_apart() {
        let results = mock::results(&[("default", &|_| 10.0), ("vrq", &|_| 5.0)], 5);
        assert_eq!(rows(&results)[1].verdict.words(), "too few rounds to say");
        let results = mock::results(&[("default", &|_| 10.0), ("vrq", &|_| 5.0)], 6);
        assert_eq!(rows(&results)[1].verdict.words(), "50.0 % less");
    }

    #[test]
    fn a_failed_run_is_counted_as_failed_and_never_averaged_in() {
        let mut results = mock::results(&[("default", &|_| 10.0), ("vrq", &|_| 8.0)], 7);
        for run in results.runs.iter_mut().filter(|run| run.scheduler == "vrq" && run.round == 3) {
            run.failure = Some("ejected".into());
            run.measure = None;
        }
        let row = &rows(&results)[1];
        assert_eq!((row.failed, row.spread.expect("six left").count), (1, 6));
    }
}
