//! Ping-pong: pairs of processes that hand one byte back and forth over two pipes.
//!
//! Each round trip is two wake-ups and two sleeps with next to no work between: what the scheduler
//! itself costs. One pair for each job; the latency is that of the round trip.

use super::super::latency::{Latency, Recorder};
use super::{Outcome, fork};
use anyhow::{Context, Result, ensure};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::time::Instant;

/// Round trips of each pair for one step of `scale`.
const ROUND_TRIPS: u64 = 1_000;

pub fn run(jobs: u32, scale: u32) -> Result<Outcome> {
    let round_trips = u64::from(scale) * ROUND_TRIPS;
    let mut children = Vec::new();
    let mut results = Vec::new();
    for _ in 0..jobs {
        let (there_out, there_in) = pipe()?;
        let (back_out, back_in) = pipe()?;
        let (result_out, result_in) = pipe()?;
        children.push(fork::child(|| pong(there_out, back_in, round_trips))?);
        children.push(fork::child(|| ping(back_out, there_in, result_in, round_trips))?);
        results.push(result_out);
    }
    let latencies: Vec<Latency> = results.into_iter().map(read_result).collect::<Result<_>>()?;
    fork::wait_all(&children)?;
    Ok(Outcome { requests: u64::from(jobs) * round_trips, latency: Some(Latency::merge(&latencies)?) })
}

fn ping(mut from: PipeReader, mut to: PipeWriter, mut result: PipeWriter, round_trips: u64) -> Result<()> {
    let mut recorder = Recorder::new()?;
    let mut byte = [0u8];
    for i in 0..round_trips {
        let start = Instant::now();
        let sent = [i as u8];
        to.write_all(&sent)?;
        from.read_exact(&mut byte).context("the other process is gone")?;
        recorder.record(start.elapsed());
        ensure!(byte == sent, "round trip {i} brought {byte:?} back");
    }
    serde_json::to_writer(&mut result, &recorder.finish())?;
    Ok(())
}

fn pong(mut from: PipeReader, mut to: PipeWriter, round_trips: u64) -> Result<()> {
    let mut byte = [0u8];
    for _ in 0..round_trips {
        from.read_exact(&mut byte).context("the other process is gone")?;
        to.write_all(&byte)?;
    }
    Ok(())
}

fn read_result(mut from: PipeReader) -> Result<Latency> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    serde_json::from_str(&text).context("a pair ended without a result")
}
