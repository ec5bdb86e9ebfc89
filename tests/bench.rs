//! `scx_vrq bench` and `scx_vrq report` as a user meets them, without a virtual machine: a script in
//! the place of vm/boot.sh says what the bench inside of one would say.

use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const GOLDEN: &str = include_str!("../src/bench/golden/results.json");

fn scx_vrq(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_vrq"));
    command.args(arguments).env_remove("SCX_VRQ_VM");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("scx_vrq starts");
    (status.code(), text(&stdout), text(&stderr))
}

/// A vm/boot.sh that prints the events of the golden result's first `runs` runs and then does `ending`.
fn fake_boot(dir: &Path, runs: usize, ending: &str) -> PathBuf {
    let golden: Value = serde_json::from_str(GOLDEN).expect("json");
    let mut events = vec![json!({ "begin": [golden["facts"], golden["asked"]] })];
    for run in golden["runs"].as_array().expect("runs").iter().take(runs) {
        events.push(json!({ "starts": { "round": run["round"], "warmup": false, "point": 0, "scheduler": 0 } }));
        events.push(json!({ "ended": run }));
    }
    let lines: String = events.iter().map(|event| format!("@scx_vrq-bench {event}\n")).collect();
    fs::write(dir.join("events"), lines).expect("written");
    let script = dir.join("boot.sh");
    let body = format!(
        "#!/bin/sh\necho 'vm/boot.sh: Linux 7.3.4, 4 CPUs, 4G, icount' >&2\ncat '{}/events'\n{ending}\n",
        dir.display()
    );
    fs::write(&script, body).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    script
}

#[test]
fn a_program_without_its_checkout_brings_the_scripts_along() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("scx_vrq");
    fs::copy(env!("CARGO_BIN_EXE_scx_vrq"), &program).expect("copied");
    let mut command = Command::new(&program);
    command.arg("bench").env_remove("SCX_VRQ_VM").env("SCX_VRQ_CACHE", dir.path());
    // The script refuses that before it looks for anything.
    let (status, stdout, stderr) = run(command.env("VM_TIMEOUT", "soon"));
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("VM_TIMEOUT=soon is no number of seconds"), "{stderr}");
}

#[test]
fn workloads_of_our_own_do_what_they_say() {
    for (workload, jobs, requests, has_latency) in
        [("pipe", 2, 2 * 1_000, true), ("messages", 2, 2 * 20 * 20 * 100, false), ("pipe", 1, 1_000, true)]
    {
        let jobs = jobs.to_string();
        let arguments = ["bench", "--worker", workload, "--jobs", &jobs, "--scale", "1"];
        let (status, stdout, stderr) = run(&mut scx_vrq(&arguments));
        assert_eq!(status, Some(0), "{stderr}");
        let outcome: Value = serde_json::from_str(&stdout).expect("one line of JSON");
        assert_eq!(outcome["requests"], requests, "{workload}");
        assert_eq!(outcome["latency"].is_object(), has_latency, "{workload}");
        if has_latency {
            assert_eq!(outcome["latency"]["count"], requests);
        }
    }
}

#[test]
fn cost_is_the_scripts_own_output_and_status() {
    let dir = tempfile::tempdir().expect("tempdir");
    let script = dir.path().join("cost.sh");
    fs::write(&script, "#!/bin/sh\nprintf '[%s]' \"$@\"\nexit 3\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    let arguments = ["bench", "--cost", "--scheduler", "default", "--scheduler", "vrq:rr_interval=2"];
    let (status, stdout, stderr) = run(scx_vrq(&arguments).env("SCX_VRQ_VM", dir.path()));
    assert_eq!(status, Some(3), "{stderr}");
    let vrq = format!("[--scheduler][{} --rr-interval-ms 2][--as][vrq:rr_interval=2]", env!("CARGO_BIN_EXE_scx_vrq"));
    assert!(stdout.contains("[--scheduler][default][--as][default]") && stdout.contains(&vrq), "{stdout}");
    fs::remove_file(&script).expect("removed");
    let (status, _, stderr) = run(scx_vrq(&arguments).env("SCX_VRQ_VM", dir.path()));
    assert_eq!((status, stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("there is no") && stderr.contains("cost.sh"), "{stderr}");
}

#[test]
fn results_come_out_of_the_machine_into_every_form() {
    let dir = tempfile::tempdir().expect("tempdir");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let script = fake_boot(dir.path(), 21, "exit 0");
    let (json, csv, markdown, page) = (file("r.json"), file("r.csv"), file("r.md"), file("r.html"));
    let arguments =
        ["bench", "--export-json", &json, "--export-csv", &csv, "--export-markdown", &markdown, "--report", &page];
    let (status, stdout, stderr) = run(scx_vrq(&arguments).env("SCX_VRQ_VM", script));
    // One of the golden runs failed: said, counted out, and the status is not 0.
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("1 of 21 runs failed"), "{stderr}");
    assert!(
        stdout.contains("vrq") && stdout.contains("5.0 % less") && stdout.contains("no difference shown"),
        "{stdout}"
    );
    let exported: Value = serde_json::from_str(&fs::read_to_string(&json).expect("json")).expect("json");
    assert_eq!(exported["complete"], true);
    assert_eq!(exported["facts"]["accel"], "icount");
    assert_eq!(exported["runs"].as_array().map(Vec::len), Some(21));
    assert_eq!(fs::read_to_string(&csv).expect("csv").lines().count(), 22);
    assert!(fs::read_to_string(&markdown).expect("markdown").contains("| default"));
    let made = fs::read_to_string(&page).expect("page");
    let (status, ..) = run(&mut scx_vrq(&["report", &json, "--output", &file("again.html")]));
    assert_eq!(status, Some(0));
    assert!(made == fs::read_to_string(file("again.html")).expect("page"), "report makes the same page again");
}

#[test]
fn a_machine_that_fails_gives_its_sentence_and_status_and_what_there_is() {
    let dir = tempfile::tempdir().expect("tempdir");
    let script =
        fake_boot(dir.path(), 3, "sleep 0.2; echo 'scx_vrq: sched_ext is enabled with flash: stop it' >&2; exit 75");
    let (status, stdout, stderr) = run(scx_vrq(&["bench"]).env("SCX_VRQ_VM", script));
    assert_eq!(status, Some(75));
    assert!(stderr.trim_end().ends_with("scx_vrq: sched_ext is enabled with flash: stop it"), "{stderr}");
    assert_eq!(stderr.matches("enabled with flash").count(), 1, "said once: {stderr}");
    assert!(stdout.contains("(not complete)") && stdout.contains("default"), "{stdout}");
}

#[test]
fn ctrl_c_ends_with_a_summary_of_what_there_is() {
    let dir = tempfile::tempdir().expect("tempdir");
    let json = dir.path().join("r.json");
    let gone = dir.path().join("gone");
    let ending = format!("trap 'touch {}; exit 143' TERM; while :; do sleep 0.05; done", gone.display());
    let script = fake_boot(dir.path(), 4, &ending);
    let mut bench = scx_vrq(&["bench", "--export-json", &json.display().to_string()])
        .env("SCX_VRQ_VM", script)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let runs = || {
        let results: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap_or_default()).unwrap_or_default();
        results["runs"].as_array().map_or(0, Vec::len)
    };
    let start = Instant::now();
    while runs() < 4 {
        assert!(start.elapsed() < Duration::from_secs(20), "results are written after each run");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: kill takes no pointers; the process is our child and not reaped yet.
    unsafe { libc::kill(bench.id() as i32, libc::SIGINT) };
    let mut stdout = String::new();
    bench.stdout.take().expect("piped").read_to_string(&mut stdout).expect("text");
    assert_eq!(bench.wait().expect("ends").code(), Some(1));
    assert!(stdout.contains("(not complete)") && stdout.contains("Average run"), "{stdout}");
    assert!(gone.exists(), "the machine was told to end");
    assert_eq!(runs(), 4);
}

#[test]
fn wrong_use_is_one_sentence_and_status_2_before_anything_is_run() {
    let dir = tempfile::tempdir().expect("tempdir");
    let ran = dir.path().join("ran");
    let script = fake_boot(dir.path(), 1, &format!("touch {}", ran.display()));
    for arguments in [
        &["bench", "--ratio", "0"][..],
        &["bench", "--ratio", "-50"],
        &["bench", "--workload", "chess"],
        &["bench", "--scheduler", "scx_nowhere"],
        &["bench", "--scheduler", "vrq:slice=3"],
        &["bench", "--scheduler", "default", "--scheduler", "default"],
        &["bench", "--", "no-such-command", "-j{jobs}"],
        &["bench", "--export-json", "/nowhere/r.json"],
        &["bench", "--report", "/nowhere/r.html"],
    ] {
        let (status, stdout, stderr) = run(scx_vrq(arguments).env("SCX_VRQ_VM", &script));
        assert_eq!(status, Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stdout, "");
        assert!(!stderr.contains("panicked"));
    }
    assert!(!ran.exists());
}

#[test]
fn without_the_script_it_says_where_it_should_be() {
    let (status, _, stderr) = run(scx_vrq(&["bench"]).env("SCX_VRQ_VM", "/nowhere"));
    assert_eq!(status, Some(1));
    assert!(stderr.contains("SCX_VRQ_VM"), "{stderr}");
}

#[test]
fn a_host_without_sched_ext_is_refused_with_status_69() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        println!("skipped: this kernel has sched_ext");
        return;
    }
    let (status, _, stderr) = run(&mut scx_vrq(&["bench", "--host"]));
    assert_eq!(status, Some(69), "{stderr}");
}

/// A result for `report`.
fn golden(dir: &Path) -> String {
    let path = dir.join("r.json");
    fs::write(&path, GOLDEN).expect("written");
    path.to_str().expect("UTF-8").to_string()
}

#[test]
fn r01_a_link_is_written_through_and_never_replaced() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (result, link, target) = (golden(dir.path()), dir.path().join("link"), dir.path().join("page"));
    std::os::unix::fs::symlink(&target, &link).expect("a link that leads nowhere yet");
    for _ in 0..2 {
        let (status, _, stderr) = run(&mut scx_vrq(&["report", &result, "-o", link.to_str().expect("UTF-8")]));
        assert_eq!(status, Some(0), "{stderr}");
        assert!(link.is_symlink(), "the link became a file, as /dev/stdout once did for the whole machine");
        assert!(fs::read_to_string(&target).expect("written through").contains("<svg"));
    }
}

#[test]
fn r02_report_overwrites_no_result_and_survives_a_full_disk() {
    let dir = tempfile::tempdir().expect("tempdir");
    let result = golden(dir.path());
    let (status, _, stderr) = run(&mut scx_vrq(&["report", &result, "-o", &result]));
    assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert_eq!(fs::read_to_string(&result).expect("there"), GOLDEN);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
    let out = scx_vrq(&["report", &result]).stdout(full).output().expect("it starts");
    assert_eq!((out.status.code(), text(&out.stderr).lines().count()), (Some(1), 1), "{}", text(&out.stderr));
    for bad in ["/nowhere/r.json", "/tmp"] {
        let (status, _, stderr) = run(&mut scx_vrq(&["report", bad]));
        assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{bad}: {stderr}");
    }
}
