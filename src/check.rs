//! `scx_vrq check`: would a load work on this machine, and if not, what is to be done?

use crate::failure::{Failure, Status, failure};
use crate::policy::{self, VRQ_MAX_WAIT_DFL_MS, VRQ_RR_INTERVAL_DFL_MS, VRQ_TIMEOUT_MS};
use crate::topology::Machine;
use crate::{cgroups, host};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;

/// Options of `scx_vrq check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// For scripts: an object with `ok` and `rows`, each with `what`, `verdict` and `detail`.
    #[arg(long)]
    pub json: bool,
}

/// What a row means for a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// A load works, but something is to be known.
    Warn,
    /// A load fails.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was looked at.
    pub what: &'static str,
    /// What it means for a load.
    pub verdict: Verdict,
    /// What was found, and what to do.
    pub detail: String,
}

/// Look at everything and print it.
///
/// # Errors
/// Those that a load would end with, by their statuses: 69, 77 or 75.
pub fn run(args: &CheckArgs) -> Result<()> {
    let rows = rows();
    let text = if args.json {
        let ok = rows.iter().all(|r| r.verdict != Verdict::Fail);
        serde_json::to_string_pretty(&serde_json::json!({ "ok": ok, "rows": rows }))? + "\n"
    } else {
        table(&rows)
    };
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    match host::check() {
        Ok(()) => Ok(()),
        Err(e) => {
            let status = e.downcast_ref::<Failure>().map_or(Status::Failed, |f| f.status);
            Err(failure(status, "a load would fail: see the rows that say FAIL"))
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let verdict = match row.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        let _ = writeln!(text, "{verdict:<5} {:<11} {}", row.what, row.detail);
    }
    text
}

fn row(what: &'static str, verdict: Verdict, detail: impl Into<String>) -> Row {
    Row { what, verdict, detail: detail.into() }
}

/// A check that fails with a sentence, or finds something.
fn judged(what: &'static str, found: Result<String>) -> Row {
    match found {
        Ok(detail) => row(what, Verdict::Ok, detail),
        Err(e) => row(what, Verdict::Fail, format!("{e:#}")),
    }
}

fn rows() -> Vec<Row> {
    let mut rows = vec![
        judged("sched_ext", host::has_sched_ext().map(|()| format!("Linux {}", host::release()))),
        judged("BTF", host::has_btf().map(|()| "/sys/kernel/btf/vmlinux".into())),
        judged("tracer", host::has_tracer().map(|()| "function tracer".into())),
    ];
    // Looked up in the BTF, so only where there is one.
    if rows.iter().all(|r| r.verdict == Verdict::Ok) {
        rows.push(judged("kfuncs", host::has_kfuncs().map(|()| "those that scx_vrq calls are there".into())));
    }
    rows.push(config());
    rows.push(judged("privileges", host::is_root().map(|()| "root".into())));
    rows.push(holder());
    rows.push(machine());
    rows.push(wait());
    rows.push(cgroup());
    rows
}

/// What a kernel has to be built with. The rows before judge what is really there; this one helps to find out why not.
const CONFIG: [&str; 5] = ["SCHED_CLASS_EXT", "BPF_SYSCALL", "BPF_JIT", "DEBUG_INFO_BTF", "FUNCTION_TRACER"];

fn config() -> Row {
    match procfs::kernel_config() {
        Ok(set) => judged_config(|key| matches!(set.get(&format!("CONFIG_{key}")), Some(procfs::ConfigSetting::Yes))),
        Err(_) => row("config", Verdict::Ok, "no kernel config to be read: scx_vrq needs none"),
    }
}

fn judged_config(is_set: impl Fn(&str) -> bool) -> Row {
    let (set, missing): (Vec<_>, Vec<_>) = CONFIG.iter().copied().partition(|key| is_set(key));
    if missing.is_empty() {
        return row("config", Verdict::Ok, format!("{} are set", set.join(", ")));
    }
    row("config", Verdict::Warn, format!("this kernel is built without {}: boot one that has it", missing.join(", ")))
}

fn holder() -> Row {
    if host::state().is_none() {
        return row("scheduler", Verdict::Ok, "the kernel's own has the machine, it knows no other");
    }
    match host::machine_is_free() {
        Ok(()) => row("scheduler", Verdict::Ok, "the kernel's own has the machine"),
        Err(e) => {
            let since = enabled_since().map(|s| format!(", since {s} s ago")).unwrap_or_default();
            row("scheduler", Verdict::Fail, format!("{e:#}{since}"))
        }
    }
}

/// Seconds since the kernel logged that the scheduler was enabled; `None` if the log has lost it.
pub fn enabled_since() -> Option<u64> {
    let out = std::process::Command::new("dmesg").output().ok()?;
    let log = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = log.lines().rev().find(|l| l.contains("sched_ext: BPF scheduler") && l.contains("enabled"))?;
    let at: f64 = line.trim_start_matches('[').split(']').next()?.trim().parse().ok()?;
    let uptime: f64 = std::fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    Some((uptime - at).max(0.0) as u64)
}

fn machine() -> Row {
    match Machine::read() {
        Ok(m) if m.online.len() < m.nr_cpu_ids => {
            let read = |which: &str| std::fs::read_to_string(format!("/sys/devices/system/cpu/{which}"));
            let lists = [read("online"), read("possible")].map(Result::unwrap_or_default);
            let [online, possible] = lists.each_ref().map(|list| list.trim());
            row("machine", Verdict::Ok, format!("{}; online are {online}, possible {possible}", m.shape))
        }
        Ok(m) => row("machine", Verdict::Ok, m.shape),
        Err(e) => row("machine", Verdict::Fail, format!("sysfs does not describe the CPUs: {e:#}")),
    }
}

fn wait() -> Row {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let bound_ns = policy::wait_bound_ns(host::runnable().div_ceil(cpus), VRQ_RR_INTERVAL_DFL_MS, host::tick_ns());
    let detail = format!(
        "tick {} ms; with the tasks that are runnable now none waits longer than {} ms, promised are \
         {VRQ_MAX_WAIT_DFL_MS} ms, the kernel's watchdog is set to {VRQ_TIMEOUT_MS} ms",
        f64::from(host::tick_ns()) / 1e6,
        bound_ns / 1_000_000
    );
    row("wait", Verdict::Ok, detail)
}

fn cgroup() -> Row {
    let Some(controllers) = cgroups::controllers() else {
        return row("cgroups", Verdict::Ok, "no cgroup v2 at /sys/fs/cgroup: scx_vrq needs none");
    };
    let groups = cgroups::not_honoured();
    if groups.is_empty() {
        let detail = format!("v2 with {controllers}; none sets cpu.max, cpu.weight or cpu.idle");
        return row("cgroups", Verdict::Ok, detail);
    }
    let detail = format!("cpu.max, cpu.weight and cpu.idle will not be honoured: {}", cgroups::summary(&groups));
    row("cgroups", Verdict::Warn, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_key_that_is_missing_is_named() {
        assert_eq!(judged_config(|_| true).verdict, Verdict::Ok);
        let without = judged_config(|key| key != "BPF_JIT");
        assert_eq!(
            (without.verdict, without.detail.as_str()),
            (Verdict::Warn, "this kernel is built without BPF_JIT: boot one that has it")
        );
    }

    #[test]
    fn the_table_names_the_verdicts_so_that_a_failure_stands_out() {
        let rows = [row("BTF", Verdict::Ok, "there"), row("sched_ext", Verdict::Fail, "missing: boot another")];
        assert_eq!(table(&rows), "ok    BTF         there\nFAIL  sched_ext   missing: boot another\n");
    }
}
