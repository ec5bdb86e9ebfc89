//! Latencies: recorded in an HDR histogram, kept as its buckets, read as percentiles.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Values differ by less than 1 % from what was measured.
const SIGNIFICANT_DIGITS: u8 = 2;
/// A minute; what takes longer counts as a minute.
const MAX_NS: u64 = 60_000_000_000;

pub struct Recorder(Histogram<u64>);

impl Recorder {
    pub fn new() -> Result<Recorder> {
        Histogram::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS).map(Recorder).context("histogram")
    }

    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(MAX_NS));
    }

    pub fn finish(&self) -> Latency {
        Latency::from_histogram(&self.0)
    }
}

/// A distribution of latencies, in microseconds unless the name says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// Every bucket that is not empty: its upper end in ns, and how many fell into it.
    pub buckets_ns: Vec<(u64, u64)>,
}

impl Latency {
    /// All of them together. The buckets are the recorder's, so nothing is lost by merging.
    pub fn merge<'a>(parts: impl IntoIterator<Item = &'a Latency>) -> Result<Latency> {
        let mut all = Recorder::new()?.0;
        for part in parts {
            for &(ns, count) in &part.buckets_ns {
                all.record_n(ns.min(MAX_NS), count).context("histogram")?;
            }
        }
        Ok(Latency::from_histogram(&all))
    }

    /// The latency in us that `percent` of all (0 to 100) do not exceed.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let want = (percent / 100.0 * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for &(ns, count) in &self.buckets_ns {
            seen += count;
            if seen >= want {
                return ns as f64 / 1e3;
            }
        }
        self.max_us
    }

    fn from_histogram(histogram: &Histogram<u64>) -> Latency {
        let us = |percentile| histogram.value_at_percentile(percentile) as f64 / 1e3;
        Latency {
            count: histogram.len(),
            p50_us: us(50.0),
            p99_us: us(99.0),
            p999_us: us(99.9),
            max_us: histogram.max() as f64 / 1e3,
            buckets_ns: histogram
                .iter_recorded()
                .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values_us: impl IntoIterator<Item = u64>) -> Latency {
        let mut recorder = Recorder::new().expect("recorder");
        values_us.into_iter().for_each(|us| recorder.record(Duration::from_micros(us)));
        recorder.finish()
    }

    #[test]
    fn percentiles_are_within_one_percent() {
        let latency = of(1..=10_000);
        assert_eq!(latency.count, 10_000);
        for (got, want) in [(latency.p50_us, 5_000.0), (latency.p99_us, 9_900.0), (latency.p999_us, 9_990.0)] {
            assert!((got / want - 1.0).abs() < 0.01, "{got} for {want}");
        }
        for percent in [1.0, 50.0, 99.0, 99.9, 100.0] {
            let (got, want) = (latency.percentile_us(percent), percent * 100.0);
            assert!((got / want - 1.0).abs() < 0.01, "{got} for {want}");
        }
    }

    #[test]
    fn parts_make_the_whole() {
        let (low, high) = (of(1..=500), of(501..=1_000));
        assert_eq!(Latency::merge([&low, &high]).expect("merges"), of(1..=1_000));
        assert_eq!(Latency::merge([]).expect("merges").count, 0);
    }

    #[test]
    fn a_latency_beyond_the_scale_is_kept_at_its_end() {
        let latency = of([120_000_000]);
        assert!(latency.max_us >= 60e6 * 0.99);
    }
}
