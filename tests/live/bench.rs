//! A short real bench: counts are asserted, never times.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const CORRECTED: &str = "vrq";
const AS_IT_WAS: &str = "vrq:resched_best_idle=next-ne-prev";

fn bench(arguments: &[&str], json: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_scx_vrq"))
        .args(["bench", "--host", "--ratio", "50", "--rounds", "1", "--warmup", "0", "--export-json"])
        .arg(json)
        .args(arguments)
        .output()
        .expect("scx_vrq starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&fs::read_to_string(json).expect("exported")).expect("json")
}

fn run<'a>(results: &'a Value, scheduler: &str) -> &'a Value {
    let runs = results["runs"].as_array().expect("runs");
    runs.iter().find(|run| run["scheduler"] == scheduler).expect("ran")
}

fn count(run: &Value, group: &str, name: &str) -> u64 {
    run[group][name].as_u64().unwrap_or_else(|| panic!("{group}.{name} is there"))
}

/// Document 001: with the old condition a CPU goes from idle to idle again and again, for nothing.
#[test]
fn old_resched_best_idle_shows_twice_the_idle_passes_and_the_sums_agree() {
    let dir = tempfile::tempdir().expect("tempdir");
    let arguments = ["--scale", "1", "--scheduler", "default", "--scheduler", CORRECTED, "--scheduler", AS_IT_WAS];
    let results = bench(&arguments, &dir.path().join("r.json"));
    let idle = |scheduler| count(run(&results, scheduler), "counters", "nr_goidle_idle");
    assert!(idle(AS_IT_WAS) >= 2 * idle(CORRECTED), "{} as it was, {} corrected", idle(AS_IT_WAS), idle(CORRECTED));
    for scheduler in [CORRECTED, AS_IT_WAS] {
        let run = run(&results, scheduler);
        let own = |name| count(run, "counters", name);
        let kernel = |name| count(run, "schedstat", name);
        assert!(own("nr_dispatches") <= kernel("sched_count"), "{scheduler}: {run}");
        // The kernel counts a CPU that turns idle, not one that stays so.
        let entries = own("nr_goidle_deactivate") + own("nr_goidle_needother") + own("nr_goidle_other");
        let apart = entries.abs_diff(kernel("sched_goidle"));
        assert!(apart <= 100 || apart * 10 <= kernel("sched_goidle"), "{scheduler}: {entries} against {run}");
        assert!(run["ops"].as_str().is_some_and(|ops| ops.starts_with("vrq")));
    }
    assert_eq!(run(&results, "default")["ops"], Value::Null);
    let state = fs::read_to_string("/sys/kernel/sched_ext/state").expect("state");
    assert_eq!(state.trim(), "disabled");
}
