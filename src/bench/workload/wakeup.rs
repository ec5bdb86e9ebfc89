//! Schbench's shape: worker threads that a messenger wakes for each request, and how long they then
//! wait for a CPU.
//!
//! A worker asks for its next request, sleeps until the messenger wakes it, waits 100 us as for a
//! network, and works. One worker for each job. Runs for a fixed time: what counts is the time for
//! one request, and the latency from the messenger's wake-up to the worker's first instruction.

use super::super::latency::{Latency, Recorder};
use super::Outcome;
use anyhow::{Context, Result, anyhow};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

const NETWORK: Duration = Duration::from_micros(100);
/// Steps of arithmetic for each request: some 150 us on a CPU of 2024.
const WORK: u32 = 100_000;

/// What the messenger and one worker share.
#[derive(Default)]
struct Desk {
    /// Set by the worker when it waits, cleared by the messenger when it wakes it.
    waits: AtomicBool,
    /// When it was woken, in ns since the start.
    woken_ns: AtomicU64,
}

/// `scale`: seconds.
pub fn run(jobs: u32, scale: u32) -> Result<Outcome> {
    let desks: Vec<Desk> = (0..jobs).map(|_| Desk::default()).collect();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        let messenger = thread::current();
        let mut workers = Vec::new();
        let mut refused = None;
        for desk in &desks {
            let (messenger, stop) = (messenger.clone(), &stop);
            match thread::Builder::new().spawn_scoped(scope, move || work(desk, &messenger, stop, start)) {
                Ok(worker) => workers.push(worker),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let threads: Vec<Thread> = workers.iter().map(|worker| worker.thread().clone()).collect();
        if refused.is_none() {
            deliver(&desks, &threads, start, Duration::from_secs(scale.into()));
        }
        stop.store(true, Ordering::SeqCst);
        threads.iter().for_each(Thread::unpark);
        if let Some(error) = refused {
            return Err(error).context("no more threads");
        }
        let latencies: Vec<Latency> = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
            .collect::<Result<_>>()?;
        let latency = Latency::merge(&latencies)?;
        Ok(Outcome { requests: latency.count, latency: Some(latency) })
    })
}

/// The messenger: wakes whoever waits, sleeps when nobody does.
fn deliver(desks: &[Desk], workers: &[Thread], start: Instant, time: Duration) {
    while let Some(left) = time.checked_sub(start.elapsed()) {
        let mut nobody = true;
        for (desk, worker) in desks.iter().zip(workers) {
            if desk.waits.load(Ordering::SeqCst) {
                desk.woken_ns.store(now_ns(start), Ordering::SeqCst);
                desk.waits.store(false, Ordering::SeqCst);
                worker.unpark();
                nobody = false;
            }
        }
        if nobody {
            thread::park_timeout(left);
        }
    }
}

fn work(desk: &Desk, messenger: &Thread, stop: &AtomicBool, start: Instant) -> Result<Latency> {
    let mut recorder = Recorder::new()?;
    loop {
        desk.waits.store(true, Ordering::SeqCst);
        messenger.unpark();
        while desk.waits.load(Ordering::SeqCst) {
            if stop.load(Ordering::SeqCst) {
                return Ok(recorder.finish());
            }
            thread::park();
        }
        let woken_ns = desk.woken_ns.load(Ordering::SeqCst);
        recorder.record(Duration::from_nanos(now_ns(start).saturating_sub(woken_ns)));
        thread::sleep(NETWORK);
        compute();
    }
}

fn compute() {
    let mut x = 1u32;
    for _ in 0..WORK {
        x = black_box(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    }
}

fn now_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
