//! Statistics: what was counted (`Counters`, absolute), and what happened in an interval.

use crate::failure::{Status, failure};
use crate::policy::{VRQ_NR_STATS, VRQ_NR_WAIT_BUCKETS, vrq_cpu};
use anyhow::Result;
use crossbeam_channel::{Receiver, Sender};
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::time::Duration;

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

/// The statistics socket of the scheduler that runs: `top` for what happened since the client's last
/// request, `counters` for the sums since the load, `waits` for how long tasks waited.
pub struct Server {
    server: StatsServer<(), Sample>,
}

fn server_data() -> StatsServerData<(), Sample> {
    let fetch = |(req, res): (&Sender<()>, &Receiver<Sample>)| -> Result<Sample> {
        req.send(())?;
        Ok(res.recv()?)
    };
    let open: Box<dyn StatsOpener<(), Sample>> = Box::new(move |channels| {
        let mut last = fetch(channels)?.counters;
        let read: Box<dyn StatsReader<(), Sample>> = Box::new(move |_args, channels| {
            let now = fetch(channels)?.counters;
            let delta = now.since(&last);
            last = now;
            delta.to_json()
        });
        Ok(read)
    });
    StatsServerData::new()
        .add_meta(Counters::meta())
        .add_meta(Waits::meta())
        .add_ops("top", StatsOps { open, close: None })
        .add_stats("counters", Box::new(move |_args, channels| fetch(channels)?.counters.to_json()))
        .add_stats("waits", Box::new(move |_args, channels| fetch(channels)?.waits.to_json()))
}

/// Open the socket. Without one (its directory cannot be made, say) the scheduler runs all the same.
pub fn serve() -> Option<Server> {
    match StatsServer::new(server_data()).launch() {
        Ok(server) => Some(Server { server }),
        Err(e) => {
            log::warn!("no statistics for other programs, the socket cannot be opened: {e:#}");
            None
        }
    }
}

impl Server {
    /// Answer one request if there is one within `wait`.
    pub fn answer(&self, wait: Duration, sample: &mut dyn FnMut() -> Result<Sample>) {
        let (res, req) = self.server.channels();
        if req.recv_timeout(wait).is_ok()
            && let Ok(now) = sample()
        {
            // The client may have gone.
            let _ = res.send(now);
        }
    }
}

/// Print what each statistic means.
///
/// # Errors
/// If stdout cannot be written.
pub fn describe() -> Result<()> {
    server_data().describe_meta(&mut std::io::stdout(), None)
}

/// Print the statistics of the scx_vrq that has the machine, until a signal comes or it ends.
///
/// # Errors
/// If none has, if another scheduler owns the socket, or if this user may not read it.
pub fn monitor(every: Duration) -> Result<()> {
    let mut client = StatsClient::new().connect(Some(5000)).map_err(|e| match e.downcast_ref::<std::io::Error>() {
        Some(io) if io.kind() == std::io::ErrorKind::PermissionDenied => {
            failure(Status::NotRoot, "only root may read the statistics: run it with sudo")
        }
        _ => failure(Status::Failed, format!("no scheduler serves statistics ({e}): start scx_vrq first")),
    })?;
    // Every sched_ext scheduler uses this socket: look whose it is.
    let meta: serde_json::Value = client.request("stats_meta", vec![])?;
    if meta.get(Counters::meta().name).is_none() || !crate::host::ops().is_some_and(|o| o.starts_with("vrq")) {
        let who = crate::host::ops().unwrap_or_else(|| "another scheduler".into());
        return Err(failure(Status::Busy, format!("the statistics are those of {who}, not of scx_vrq")));
    }
    loop {
        let Ok(counters) = client.request::<Counters>("stats", vec![]) else {
            log::info!("scx_vrq has ended");
            return Ok(());
        };
        if writeln!(std::io::stdout(), "{counters}").is_err() {
            return Ok(());
        }
        std::thread::sleep(every);
    }
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
