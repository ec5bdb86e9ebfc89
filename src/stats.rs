//! Statistics: what was counted (`Counters`, absolute), and what happened in an interval.

use crate::policy::{VRQ_NR_STATS, VRQ_NR_WAIT_BUCKETS, vrq_cpu};
use anyhow::Result;
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};
use std::fmt;

include!(concat!(env!("OUT_DIR"), "/counters.rs"));

impl Counters {
    /// The sum over CPUs. `tick_ns` is the length of a tick, the unit of the longest wait.
    pub fn from_cpus<'a>(cpus: impl IntoIterator<Item = &'a vrq_cpu>, tick_ns: u64) -> Self {
        let mut raw = [0u64; VRQ_NR_STATS as usize];
        let mut longest_ticks = 0;
        for cpu in cpus {
            for (sum, n) in raw.iter_mut().zip(cpu.stats) {
                *sum = sum.wrapping_add(n);
            }
            longest_ticks = longest_ticks.max(cpu.longest_wait_ticks);
        }
        Self { longest_wait_ms: longest_ticks.saturating_mul(tick_ns) / 1_000_000, ..Self::from_raw(&raw) }
    }
}

/// How long tasks waited that were taken from a queue, since the load.
#[stat_doc]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Stats)]
#[stat(top)]
pub struct Waits {
    #[stat(desc = "length of a tick, in ns")]
    pub tick_ns: u64,
    #[stat(desc = "tasks that waited less than a tick, then 1, 2 to 3, 4 to 7, ... ticks")]
    pub tasks: Vec<u64>,
}

impl Waits {
    /// The sum over CPUs.
    pub fn from_cpus<'a>(cpus: impl IntoIterator<Item = &'a vrq_cpu>, tick_ns: u64) -> Self {
        let mut tasks = vec![0u64; VRQ_NR_WAIT_BUCKETS as usize];
        for cpu in cpus {
            for (sum, n) in tasks.iter_mut().zip(cpu.waits) {
                *sum = sum.wrapping_add(n);
            }
        }
        Self { tick_ns, tasks }
    }
}

/// `waits <4ms 120, 4ms 3, 16ms 1`: the buckets that hold something, by their lower end.
impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tick_ms = self.tick_ns as f64 / 1e6;
        let shown: Vec<String> = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(bucket, n)| match bucket {
                0 => format!("<{tick_ms}ms {n}"),
                _ => format!("{}ms {n}", tick_ms * f64::from(1u32 << (bucket - 1))),
            })
            .collect();
        write!(f, "waits {}", shown.join(", "))
    }
}

/// One line for people: what happened since the last one.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dispatches {} (direct {}) wakeups {} preemptions {} | goidle idle {} deactivate {} needother {} other {} | \
             kicks {} empty {} second {} third {} | keeps {} wins {} races {} refills {} aged {} rt {} | \
             overload {} broken {} | longest wait {} ms, bound {} ms",
            self.nr_dispatches,
            self.nr_direct,
            self.nr_wakeups,
            self.nr_preemptions,
            self.nr_goidle_idle,
            self.nr_goidle_deactivate,
            self.nr_goidle_needother,
            self.nr_goidle_other,
            self.nr_kicks_idle,
            self.nr_kicks_empty,
            self.nr_second_looks,
            self.nr_third_looks,
            self.nr_keeps,
            self.nr_wins,
            self.nr_races,
            self.nr_refills,
            self.nr_aged,
            self.nr_rt_displaced,
            self.nr_overload_slices,
            self.nr_broken_promises,
            self.longest_wait_ms,
            self.longest_wait_bound_ms,
        )
    }
}

/// One reading of everything that is counted.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Sums since the load.
    pub counters: Counters,
    /// How long tasks waited.
    pub waits: Waits,
}

impl Sample {
    /// The sum, of loads that follow each other.
    pub fn plus(&self, later: &Self) -> Self {
        let sum = |(a, b): (&u64, &u64)| a.wrapping_add(*b);
        let tasks = match self.waits.tasks.is_empty() {
            true => later.waits.tasks.clone(),
            false => self.waits.tasks.iter().zip(&later.waits.tasks).map(sum).collect(),
        };
        Self { counters: self.counters.plus(&later.counters), waits: Waits { tick_ns: later.waits.tick_ns, tasks } }
    }
}

/// What there is to know about the statistics: the first one describes `top` and `counters`, the second `waits`.
pub fn meta() -> [StatsMeta; 2] {
    [Counters::meta(), Waits::meta()]
}

/// Print what each statistic means.
///
/// # Errors
/// If stdout cannot be written.
pub fn describe() -> Result<()> {
    let data = meta().into_iter().fold(StatsServerData::<(), ()>::new(), StatsServerData::add_meta);
    data.describe_meta(&mut std::io::stdout(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(dispatches: u64, longest_wait_ticks: u64) -> vrq_cpu {
        let mut stats = [0; VRQ_NR_STATS as usize];
        stats[0] = dispatches;
        // SAFETY: a plain struct of integers, for which zero is a value.
        let zero: vrq_cpu = unsafe { std::mem::zeroed() };
        vrq_cpu { longest_wait_ticks, stats, ..zero }
    }

    #[test]
    fn counters_are_summed_and_the_longest_wait_is_the_longest() {
        let total = Counters::from_cpus(&[cpu(3, 2), cpu(4, 7)], 4_000_000);
        assert_eq!(total.nr_dispatches, 7);
        assert_eq!(total.longest_wait_ms, 28);
    }

    #[test]
    fn loads_that_follow_each_other_are_summed() {
        let sample = |n, longest| Sample {
            counters: Counters::from_cpus(&[cpu(n, longest)], 1_000_000),
            waits: Waits { tick_ns: 4, tasks: vec![n, 1] },
        };
        let sum = Sample::default().plus(&sample(3, 9)).plus(&sample(4, 7));
        assert_eq!((sum.counters.nr_dispatches, sum.counters.longest_wait_ms), (7, 9));
        assert_eq!(sum.waits, Waits { tick_ns: 4, tasks: vec![7, 2] });
    }

    #[test]
    fn a_delta_survives_a_wrap() {
        let (before, after) = (Counters::from_cpus(&[cpu(u64::MAX, 0)], 1), Counters::from_cpus(&[cpu(2, 0)], 1));
        assert_eq!(after.since(&before).nr_dispatches, 3);
    }

    #[test]
    fn every_counter_of_the_c_side_has_a_field() {
        let mut raw = [0u64; VRQ_NR_STATS as usize];
        for (i, n) in raw.iter_mut().enumerate() {
            *n = i as u64 + 1;
        }
        let json = serde_json::to_value(Counters::from_raw(&raw)).expect("counters serialize");
        let mut seen: Vec<u64> = json.as_object().expect("a flat object").values().filter_map(|v| v.as_u64()).collect();
        seen.sort_unstable();
        // The two that are no sums are 0.
        let wanted: Vec<u64> = [0].into_iter().chain(0..=VRQ_NR_STATS as u64).collect();
        assert_eq!(seen, wanted);
    }
}
