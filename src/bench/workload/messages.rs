//! Hackbench's shape: groups of 20 senders and 20 receivers; every sender writes 100 bytes to every
//! receiver of its group, over and over. One group for each job.

use super::{Outcome, fork};
use anyhow::{Context, Result};
use std::io::{PipeReader, Read, Write, pipe};
use std::os::unix::net::UnixStream;

const SENDERS: u64 = 20;
const RECEIVERS: u64 = 20;
const MESSAGE_BYTES: usize = 100;
/// Messages from each sender to each receiver for one step of `scale`.
const LOOPS: u64 = 100;

pub fn run(jobs: u32, scale: u32) -> Result<Outcome> {
    let loops = u64::from(scale) * LOOPS;
    // Each waits for a byte of its own, so that nobody starts before everybody is there.
    let (gate, mut gate_keeper) = pipe()?;
    let mut children = Vec::new();
    for _ in 0..jobs {
        let mut sockets = Vec::new();
        for _ in 0..RECEIVERS {
            let (to, from) = UnixStream::pair().context("no more sockets: are there too many jobs for ulimit -n?")?;
            children.push(fork::child(|| {
                wait_at(&gate)?;
                receive(from, SENDERS * loops)
            })?);
            sockets.push(to);
        }
        for _ in 0..SENDERS {
            children.push(fork::child(|| {
                wait_at(&gate)?;
                send(&mut sockets, loops)
            })?);
        }
    }
    gate_keeper.write_all(&vec![0; children.len()])?;
    fork::wait_all(&children)?;
    Ok(Outcome { requests: u64::from(jobs) * SENDERS * RECEIVERS * loops, latency: None })
}

fn wait_at(mut gate: &PipeReader) -> Result<()> {
    gate.read_exact(&mut [0]).context("the parent is gone")
}

fn send(sockets: &mut [UnixStream], loops: u64) -> Result<()> {
    let message = [b'v'; MESSAGE_BYTES];
    for _ in 0..loops {
        for socket in &mut *sockets {
            socket.write_all(&message).context("a receiver is gone")?;
        }
    }
    Ok(())
}

fn receive(mut socket: UnixStream, messages: u64) -> Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    for _ in 0..messages {
        socket.read_exact(&mut message).context("a sender is gone")?;
    }
    Ok(())
}
