//! Named counters that only rise: differences of two readings, and scx_vrq's own over its socket.
//!
//! The map is open on purpose: a counter that scx_vrq gains shows up in every report by its name.

use anyhow::{Context, Result};
use scx_stats::prelude::StatsClient;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

pub type Counters = BTreeMap<String, u64>;

const TIMEOUT_MS: u64 = 2_000;
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// Names that are the largest value seen, not a count: a difference of two would mean nothing.
fn is_peak(name: &str) -> bool {
    name.starts_with("longest_") || name.starts_with("max_")
}

/// What `after` counted beyond `before`, by name; a name that only one side has counts from 0.
///
/// A counter that went backwards belongs to a scheduler that was loaded anew: its value since then
/// is what it holds now.
pub fn since(before: &Counters, after: &Counters) -> Counters {
    after
        .iter()
        .map(|(name, &now)| {
            let then = before.get(name).copied().unwrap_or(0);
            let value = if is_peak(name) { now } else { now.checked_sub(then).unwrap_or(now) };
            (name.clone(), value)
        })
        .collect()
}

/// Waits until scx_vrq answers: it serves its statistics a moment after the kernel has put it in charge.
pub fn wait_for_vrq() -> Result<()> {
    let start = Instant::now();
    loop {
        match read_vrq() {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > ANSWERS_WITHIN => return Err(error),
            Err(_) => thread::sleep(POLL),
        }
    }
}

/// scx_vrq's counters since it was loaded, through its scx_stats socket.
pub fn read_vrq() -> Result<Counters> {
    let mut client =
        StatsClient::new().connect(Some(TIMEOUT_MS)).context("scx_vrq's statistics socket does not answer")?;
    let args = vec![("target".to_string(), "counters".to_string())];
    let answer: serde_json::Value =
        client.request("stats", args).context("scx_vrq does not serve the statistics named \"counters\"")?;
    Ok(from_json(&answer))
}

/// The unsigned whole numbers of a flat object; everything else is left out.
fn from_json(value: &serde_json::Value) -> Counters {
    value.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(pairs: &[(&str, u64)]) -> Counters {
        pairs.iter().map(|&(name, value)| (name.to_string(), value)).collect()
    }

    #[test]
    fn since_subtracts_by_name_but_never_below_zero() {
        let before = counters(&[("nr_dispatches", 10), ("nr_kicks_idle", 7), ("longest_wait_ms", 3)]);
        let after = counters(&[("nr_dispatches", 25), ("nr_kicks_idle", 2), ("nr_races", 1), ("longest_wait_ms", 4)]);
        let want = counters(&[("nr_dispatches", 15), ("nr_kicks_idle", 2), ("nr_races", 1), ("longest_wait_ms", 4)]);
        assert_eq!(since(&before, &after), want);
    }

    #[test]
    fn counters_are_the_whole_numbers_of_the_answer() {
        let answer = serde_json::json!({ "nr_keeps": 5, "version": "0.1.0", "share": 0.5, "nr_races": 0 });
        assert_eq!(from_json(&answer), counters(&[("nr_keeps", 5), ("nr_races", 0)]));
        assert_eq!(from_json(&serde_json::json!(null)), Counters::new());
    }
}
