//! Processes made by fork, for the workloads that need many of them at once.

use anyhow::{Result, bail};
use std::io;

/// Runs `body` in a child process and ends it: status 0 if it returned Ok, else 1 with the error on stderr.
///
/// To be called while this process has one thread, as after a fork only the caller's thread is left
/// and a lock held by another would stay locked for ever.
pub fn child(body: impl FnOnce() -> Result<()>) -> Result<i32> {
    // SAFETY: the caller has one thread, see above; the child leaves by _exit and runs none of the
    // parent's exit handlers or destructors.
    match unsafe { libc::fork() } {
        -1 => bail!("fork failed: {}", io::Error::last_os_error()),
        0 => {
            // SAFETY: prctl takes no pointers here. Nobody is left behind when the parent is ended.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let status = match body() {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("{error:#}");
                    1
                }
            };
            // SAFETY: _exit does not return and needs nothing.
            unsafe { libc::_exit(status) }
        }
        pid => Ok(pid),
    }
}

/// Waits for each of the children; fails if one of them did.
pub fn wait_all(children: &[i32]) -> Result<()> {
    let mut failed = 0;
    for &pid in children {
        let mut status = 0;
        // SAFETY: the pointer is to a live local.
        let got = unsafe { libc::waitpid(pid, &mut status, 0) };
        failed += u32::from(got != pid || status != 0);
    }
    if failed > 0 {
        bail!("{failed} of {} processes failed", children.len());
    }
    Ok(())
}
