//! The statistics as OpenMetrics text, for `scx_vrq metrics` and `--metrics-file`.
//!
//! Limits: only types that the older Prometheus text format knows too (no `info`), since node_exporter's textfile
//! collector reads that one: it takes the counters for untyped.

use crate::session::LoaderStatus;
use crate::stats::{Counters, Waits};
use scx_stats::prelude::*;
use std::fmt::Write as _;

/// All metrics of a scx_vrq, or of the lack of one.
pub fn text(status: Option<&LoaderStatus>) -> String {
    let mut text = String::new();
    gauge(&mut text, "scx_vrq_up", "whether scx_vrq is loaded", f64::from(u8::from(status.is_some())));
    if let Some(status) = status {
        loaded(&mut text, status);
    }
    text.push_str("# EOF\n");
    text
}

fn loaded(text: &mut String, s: &LoaderStatus) {
    gauge(text, "scx_vrq_schedules", "whether scx_vrq has the machine", f64::from(u8::from(s.schedules)));
    head(text, "scx_vrq_build_info", "gauge", "the version that is loaded");
    let _ = writeln!(text, "scx_vrq_build_info{{version=\"{}\"}} 1", s.version);
    counter(text, "attachments", "times that scx_vrq got the machine", s.attachments);
    for (name, doc, n) in counters(&s.counters) {
        counter(text, &name, &doc, n);
    }
    let seconds = |ms: u64| ms as f64 / 1e3;
    let c = &s.counters;
    gauge(text, "scx_vrq_longest_wait_seconds", "longest wait of a task that was taken", seconds(c.longest_wait_ms));
    let bound = seconds(c.longest_wait_bound_ms);
    gauge(text, "scx_vrq_longest_wait_bound_seconds", "longest wait that the rule allows", bound);
    gauge(text, "scx_vrq_rr_interval_seconds", "time slice", seconds(s.tunables.rr_interval_ms.into()));
    gauge(text, "scx_vrq_max_wait_seconds", "promised longest wait", seconds(s.tunables.max_wait_ms.into()));
    waits(text, &s.waits);
}

/// The events, by their names without `nr_`, and with their descriptions.
fn counters(counters: &Counters) -> Vec<(String, String, u64)> {
    let values = serde_json::to_value(counters).unwrap_or_default();
    let meta = Counters::meta();
    let of = |(name, value): (&String, &serde_json::Value)| {
        let doc = meta.fields.get(name).and_then(|f| f.attrs.desc.clone()).unwrap_or_default();
        Some((name.strip_prefix("nr_")?.to_string(), doc, value.as_u64()?))
    };
    values.as_object().into_iter().flatten().filter_map(of).collect()
}

fn head(text: &mut String, name: &str, kind: &str, doc: &str) {
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if name.ends_with("_seconds") {
        let _ = writeln!(text, "# UNIT {name} seconds");
    }
    let _ = writeln!(text, "# HELP {name} {}", doc.replace('\\', "\\\\").replace('\n', "\\n"));
}

fn gauge(text: &mut String, name: &str, doc: &str, value: f64) {
    head(text, name, "gauge", doc);
    let _ = writeln!(text, "{name} {value}");
}

fn counter(text: &mut String, name: &str, doc: &str, value: u64) {
    head(text, &format!("scx_vrq_{name}"), "counter", doc);
    let _ = writeln!(text, "scx_vrq_{name}_total {value}");
}

fn waits(text: &mut String, waits: &Waits) {
    let name = "scx_vrq_wait_seconds";
    head(text, name, "histogram", "how long tasks waited that were taken from a queue; the sum is a lower bound");
    let (mut count, mut sum, mut lower) = (0u64, 0.0, 0.0);
    for (bucket, n) in waits.tasks.iter().enumerate() {
        // Bucket b holds waits below 2^b ticks; the last one is open.
        let upper = waits.tick_ns as f64 / 1e9 * f64::from(1u32 << bucket);
        let le = if bucket + 1 == waits.tasks.len() { "+Inf".into() } else { upper.to_string() };
        count = count.wrapping_add(*n);
        // Only the bucket of a wait is known. Without a sum there may be no count either.
        sum += *n as f64 * lower;
        lower = upper;
        let _ = writeln!(text, "{name}_bucket{{le=\"{le}\"}} {count}");
    }
    let _ = writeln!(text, "{name}_count {count}\n{name}_sum {sum}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Queues;

    fn status() -> LoaderStatus {
        LoaderStatus {
            pid: 1,
            version: "0.1.0".into(),
            schedules: true,
            since: 0,
            attachments: 2,
            machine: String::new(),
            queues: Queues { global: 1, pinned: 4 },
            tunables: Default::default(),
            counters: Counters { nr_dispatches: 7, longest_wait_ms: 12, ..Default::default() },
            waits: Waits { tick_ns: 4_000_000, tasks: vec![5, 3, 0, 1] },
            rates: Default::default(),
            last_exit: None,
        }
    }

    #[test]
    fn without_a_scheduler_it_is_down() {
        assert_eq!(
            text(None),
            "# TYPE scx_vrq_up gauge\n# HELP scx_vrq_up whether scx_vrq is loaded\nscx_vrq_up 0\n# EOF\n"
        );
    }

    #[test]
    fn counters_are_totals_and_times_are_seconds() {
        let text = text(Some(&status()));
        for wanted in [
            "# TYPE scx_vrq_dispatches counter\n# HELP scx_vrq_dispatches tasks that got a CPU, from a queue or directly\n\
             scx_vrq_dispatches_total 7\n",
            "# UNIT scx_vrq_longest_wait_seconds seconds\n",
            "scx_vrq_longest_wait_seconds 0.012\n",
            "scx_vrq_rr_interval_seconds 0.006\n",
            "scx_vrq_build_info{version=\"0.1.0\"} 1\n",
        ] {
            assert!(text.contains(wanted), "no {wanted:?} in {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn waits_are_a_cumulative_histogram() {
        let mut text = String::new();
        waits(&mut text, &status().waits);
        let samples: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "scx_vrq_wait_seconds_bucket{le=\"0.004\"} 5",
                "scx_vrq_wait_seconds_bucket{le=\"0.008\"} 8",
                "scx_vrq_wait_seconds_bucket{le=\"0.016\"} 8",
                "scx_vrq_wait_seconds_bucket{le=\"+Inf\"} 9",
                "scx_vrq_wait_seconds_count 9",
                "scx_vrq_wait_seconds_sum 0.028",
            ]
        );
    }

    #[test]
    fn every_metric_is_described_once_and_has_a_valid_name() {
        let text = text(Some(&status()));
        let mut names: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert!(
            names.iter().all(|n| n.starts_with("scx_vrq_") && n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        );
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
