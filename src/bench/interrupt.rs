//! Ctrl-C, SIGTERM and SIGHUP: end the command that runs now, then let everything unwind in order.
//!
//! What runs under test has a process group of its own, so the terminal's Ctrl-C reaches the bench
//! alone and nothing is torn down behind its back.

use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Process group of the command that runs now; 0 while there is none.
static RUNNING_GROUP: AtomicI32 = AtomicI32::new(0);

pub fn install() -> Result<()> {
    ctrlc::set_handler(|| {
        REQUESTED.store(true, Ordering::SeqCst);
        end_running();
    })
    .context("Ctrl-C cannot be handled")
}

/// Ends the command that runs now, if one does.
pub fn end_running() {
    end_group(RUNNING_GROUP.load(Ordering::SeqCst));
}

/// True once the user has asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// While this lives, a request to stop ends the process group with SIGTERM.
pub struct EndOnRequest;

impl EndOnRequest {
    pub fn new(group: i32) -> EndOnRequest {
        RUNNING_GROUP.store(group, Ordering::SeqCst);
        // A request that came between the start of the command and the line above saw no group.
        if requested() {
            end_group(group);
        }
        EndOnRequest
    }
}

impl Drop for EndOnRequest {
    fn drop(&mut self) {
        RUNNING_GROUP.store(0, Ordering::SeqCst);
    }
}

fn end_group(group: i32) {
    if group > 0 {
        // SAFETY: kill takes no pointers. The group is of our own child, which is not reaped while it is set.
        unsafe { libc::kill(-group, libc::SIGTERM) };
    }
}
