//! The kernel this runs on, looked at before anything is opened: what it can, who has the machine.

use crate::failure::{Status, failure};
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kernel functions that the BPF side cannot do without.
const NEEDED_KFUNCS: [&str; 4] =
    ["scx_bpf_create_dsq", "scx_bpf_kick_cpu", "scx_bpf_dsq_insert___v2", "scx_bpf_task_set_dsq_vtime"];

const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// What /sys/kernel/sched_ext/state says; `None` if this kernel has no sched_ext.
pub fn state() -> Option<String> {
    fs::read_to_string(format!("{SCHED_EXT}/state")).ok().map(|s| s.trim().to_string())
}

/// The name of the sched_ext scheduler that has the machine, `None` if none has.
pub fn ops() -> Option<String> {
    fs::read_to_string(format!("{SCHED_EXT}/root/ops")).ok().map(|s| s.trim().to_string()).filter(|s| !s.is_empty())
}

/// Wait until the state is `wanted`; returns whether it came to be in time.
pub fn wait_for_state(wanted: &str, limit: Duration) -> bool {
    let start = Instant::now();
    while state().as_deref() != Some(wanted) {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The kernel's release, as `uname -r`.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map(|s| s.trim().to_string()).unwrap_or_else(|_| "?".into())
}

/// Tasks that are runnable now, those that run among them.
pub fn runnable() -> u64 {
    let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loadavg.split_whitespace().nth(3).and_then(|f| f.split('/').next()?.parse().ok()).unwrap_or(0)
}

/// Length of a tick in ns: the resolution of the coarse clock.
pub fn tick_ns() -> u32 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer to a timespec of ours.
    let ok = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut ts) } == 0;
    if ok && ts.tv_sec == 0 && ts.tv_nsec > 0 { ts.tv_nsec as u32 } else { 4_000_000 }
}

/// Can this kernel run scx_vrq, may this user load it, and is the machine free?
///
/// # Errors
/// Status 69, 77 or 75; the sentence says which and what to do.
pub fn check() -> Result<()> {
    has_sched_ext()?;
    has_btf()?;
    has_tracer()?;
    has_kfuncs()?;
    is_root()?;
    machine_is_free()
}

fn cannot(why: String) -> anyhow::Error {
    failure(Status::Kernel, format!("this kernel ({}) {why}", release()))
}

/// # Errors
/// Status 69 without sched_ext.
pub fn has_sched_ext() -> Result<()> {
    match state() {
        Some(_) => Ok(()),
        None => Err(cannot(
            "has no sched_ext: boot one with CONFIG_SCHED_CLASS_EXT=y, 6.16 or later, or try scx_vrq in a virtual \
             machine with `make run`"
                .into(),
        )),
    }
}

/// # Errors
/// Status 69 without BTF.
pub fn has_btf() -> Result<()> {
    if Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Ok(());
    }
    Err(cannot("has no BTF: boot one with CONFIG_DEBUG_INFO_BTF=y".into()))
}

/// # Errors
/// Status 69 without a function tracer.
pub fn has_tracer() -> Result<()> {
    if Path::new("/proc/sys/kernel/ftrace_enabled").exists() {
        return Ok(());
    }
    Err(cannot("has no function tracer: boot one with CONFIG_FUNCTION_TRACER=y".into()))
}

/// # Errors
/// Status 69 if sched_ext is too old, or its BTF is wrong. Wants BTF: ask [`has_btf`] first.
pub fn has_kfuncs() -> Result<()> {
    // scx_utils panics where this fails.
    libbpf_rs::btf::Btf::from_vmlinux().map_err(|e| {
        let why = format!("the kernel's BTF cannot be read ({e}): is there too little memory, or a low `ulimit -v`?");
        failure(Status::Failed, why)
    })?;
    let has_dump = matches!(scx_utils::compat::struct_has_field("sched_ext_ops", "dump"), Ok(true));
    let new_names = matches!(scx_utils::compat::in_kallsyms("scx_bpf_dsq_move_to_local"), Ok(true));
    if !has_dump || !new_names {
        return Err(cannot("has a sched_ext too old for scx_vrq: boot 6.16 or later".into()));
    }
    // Such a kernel's verifier refuses every program that calls one of these, whoever's it is.
    let malformed = scx_utils::compat::malformed_scx_kfuncs();
    match malformed.iter().find(|name| NEEDED_KFUNCS.contains(&name.as_str())) {
        None => Ok(()),
        Some(kfunc) => Err(cannot(format!(
            "was built with pahole older than 1.26 and describes {kfunc} wrongly in its BTF, so no sched_ext scheduler \
             can call it: boot another kernel, on Debian 6.16 to 7.0, or 7.3 and later"
        ))),
    }
}

/// # Errors
/// Status 77 for anybody but root.
pub fn is_root() -> Result<()> {
    // SAFETY: takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return Ok(());
    }
    Err(failure(Status::NotRoot, "only root may load a scheduler: run it with sudo"))
}

/// # Errors
/// Status 75 if a sched_ext scheduler has the machine, after giving one on its way out time to go.
pub fn machine_is_free() -> Result<()> {
    if matches!(state().as_deref(), Some("disabling" | "enabling")) {
        wait_for_state("disabled", Duration::from_secs(5));
    }
    match state().as_deref() {
        Some("disabled") => Ok(()),
        other => Err(busy(other.unwrap_or("missing"))),
    }
}

/// The refusal that names the scheduler that has the machine.
pub fn busy(state: &str) -> anyhow::Error {
    let who = ops().unwrap_or_else(|| "a sched_ext scheduler without a name".into());
    failure(Status::Busy, format!("{who} has the machine (sched_ext is {state}): stop it first, nothing was changed"))
}
