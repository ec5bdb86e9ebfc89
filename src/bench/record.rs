//! One run as it is kept: written to every export, read back by `report`. Raw values only.

use super::counters::Counters;
use super::execute::Usage;
use super::noise::Noise;
use super::workload::Outcome;
use serde::{Deserialize, Serialize};

/// How hard the machine is driven: one setting of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Job/core ratio in percent; None if the jobs were given as such.
    pub ratio_percent: Option<u32>,
    /// Jobs at once, 1 or more.
    pub jobs: u32,
    /// CPUs online during the run.
    pub cpus: u32,
}

impl Point {
    /// `jobs = max(1, round(ratio * online CPUs / 100))`
    pub fn from_ratio(ratio_percent: u32, cpus: u32) -> Point {
        let jobs = (f64::from(ratio_percent) * f64::from(cpus) / 100.0).round().max(1.0);
        // A ratio is at most 10,000 % and CPUs at most 8,192: the product fits.
        Point { ratio_percent: Some(ratio_percent), jobs: jobs as u32, cpus }
    }

    pub fn from_jobs(jobs: u32, cpus: u32) -> Point {
        Point { ratio_percent: None, jobs, cpus }
    }

    /// "50 %, -j 2 on 4 CPUs"
    pub fn label(&self) -> String {
        let ratio = self.ratio_percent.map(|ratio| format!("{ratio} %, ")).unwrap_or_default();
        let plural = if self.cpus == 1 { "" } else { "s" };
        format!("{ratio}-j {} on {} CPU{plural}", self.jobs, self.cpus)
    }
}

/// What one run measured. Seconds are wall or CPU seconds as named; counts are over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    pub elapsed_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    /// 100 * (user + system) / elapsed, as kernbench has it.
    pub percent_cpu: f64,
    /// Involuntary switches: kernbench's "Context Switches".
    pub context_switches: u64,
    /// Voluntary switches: kernbench's "Sleeps".
    pub sleeps: u64,
    pub max_rss_kib: u64,
    /// Differences of /proc/schedstat, over all CPUs and everything that ran on them.
    pub schedstat: Counters,
    /// Differences of scx_vrq's own counters; empty for another scheduler.
    pub counters: Counters,
    pub noise: Noise,
    /// What the workload says of itself: requests and their latency.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Measure {
    /// What the kernel accounts to the workload; the rest is left at zero for the caller to fill in.
    pub fn of_usage(usage: &Usage) -> Measure {
        let (elapsed_s, user_s, system_s) =
            (usage.elapsed.as_secs_f64(), usage.user.as_secs_f64(), usage.system.as_secs_f64());
        Measure {
            elapsed_s,
            user_s,
            system_s,
            percent_cpu: 100.0 * (user_s + system_s) / elapsed_s.max(1e-9),
            context_switches: usage.involuntary_switches,
            sleeps: usage.voluntary_switches,
            max_rss_kib: usage.max_rss_kib,
            ..Measure::default()
        }
    }
}

/// One run: where it stands in the plan, and what it measured or why it failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The name that the user gave.
    pub scheduler: String,
    /// The kernel's name for it (root/ops); None for the kernel's own.
    pub ops: Option<String>,
    pub point: Point,
    /// From 0; warm-up rounds are kept apart and never in a summary.
    pub round: u32,
    pub warmup: bool,
    /// Why this run does not count.
    pub failure: Option<String>,
    #[serde(flatten)]
    pub measure: Option<Measure>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_the_rounded_share_but_never_none() {
        for (ratio, cpus, jobs) in
            [(50, 4, 2), (50, 1, 1), (25, 4, 1), (50, 3, 2), (150, 4, 6), (300, 2, 6), (1, 64, 1)]
        {
            assert_eq!(Point::from_ratio(ratio, cpus).jobs, jobs, "{ratio} % of {cpus}");
        }
        assert_eq!(Point::from_ratio(50, 4).label(), "50 %, -j 2 on 4 CPUs");
        assert_eq!(Point::from_jobs(8, 1).label(), "-j 8 on 1 CPU");
    }

    #[test]
    fn a_failed_run_has_no_numbers_and_survives_json() {
        let record = RunRecord {
            scheduler: "vrq".into(),
            ops: None,
            point: Point::from_jobs(2, 4),
            round: 1,
            warmup: false,
            failure: Some("ejected".into()),
            measure: None,
        };
        let text = serde_json::to_string(&record).expect("json");
        assert!(!text.contains("elapsed_s"));
        assert_eq!(serde_json::from_str::<RunRecord>(&text).expect("back"), record);
    }
}
