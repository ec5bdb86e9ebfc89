//! `status`, `stop`, `switch`, `run`, `tune` against a live scheduler, and hostile clients of the control socket.

use crate::harness::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SOCKET: &str = "/var/run/scx/root/stats";

/// Status, stdout, stderr.
fn run_as(bin: &str, uid: u32, args: &[&str]) -> (i32, String, String) {
    let out = Command::new(bin).args(args).stdin(Stdio::null()).uid(uid).output().expect("scx_vrq runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

fn run(args: &[&str]) -> (i32, String, String) {
    run_as(BIN, 0, args)
}

/// What it says if it ends well.
fn said(args: &[&str]) -> String {
    let (status, out, err) = run(args);
    assert_eq!(status, 0, "{args:?}: {out}{err}");
    out
}

fn refused(args: &[&str], status: i32, wanted: &str) {
    let (code, _, err) = run(args);
    assert!(code == status && err.contains(wanted), "{args:?}: {code}: {err}");
}

fn status() -> Value {
    serde_json::from_str(&said(&["status", "--json"])).expect("JSON")
}

/// A copy that another user may run.
fn copy_for_nobody() -> &'static str {
    let copy = "/dev/shm/scx_vrq-control";
    std::fs::copy(BIN, copy).expect("copy");
    copy
}

#[test]
fn status_says_who_schedules_with_a_scheduler_and_without() {
    let nobody = copy_for_nobody();
    assert!(said(&["status"]).starts_with("scheduler  the kernel's own\n"));
    let vrq = Vrq::start(&["--rr-interval-ms", "7"]);
    std::thread::sleep(ms(2_500));
    let text = said(&["status"]);
    println!("{text}");
    for wanted in
        ["scx_vrq (vrq_", "rr_interval_ms 7, max_wait_ms 4000", "1 for all CPUs", "dispatches", "/s\n", " ago"]
    {
        assert!(text.contains(wanted), "no {wanted:?} in {text}");
    }
    let json = status();
    assert_eq!(json["scheduler"], "scx_vrq");
    assert_eq!(json["loader"]["pid"], vrq.pid());
    assert_eq!(json["loader"]["queues"]["pinned"], nr_cpus());
    assert!(json["loader"]["counters"]["nr_dispatches"].as_u64() > Some(0), "{json}");
    assert!(json["loader"]["rates"]["nr_dispatches"].as_f64() > Some(0.0), "{json}");
    let (code, text, _) = run_as(nobody, 65534, &["status"]);
    assert!(
        code == 0 && text.contains("scx_vrq (vrq_") && text.contains("only root") && !text.contains("dispatches"),
        "{text}"
    );
    for args in [&["stop"][..], &["switch", "default"], &["tune", "rr_interval=3"]] {
        assert_eq!(run_as(nobody, 65534, args).0, 77, "{args:?}");
    }
    assert_eq!(vrq.stop().status.code(), Some(0));
    let text = said(&["status"]);
    assert!(text.contains("the kernel's own\n") && text.contains("stopped by a signal"), "{text}");
}

#[test]
fn what_others_than_root_may_see_is_a_switch() {
    let nobody = copy_for_nobody();
    let vrq = Vrq::start(&["--public-status", "on"]);
    let (code, text, err) = run_as(nobody, 65534, &["status"]);
    assert!(code == 0 && text.contains("dispatches"), "{text}{err}");
    assert_eq!(run_as(nobody, 65534, &["tune"]).0, 0);
    for args in [&["stop"][..], &["switch", "default"], &["tune", "rr_interval=3"]] {
        let (code, _, err) = run_as(nobody, 65534, args);
        assert!(code == 77 && err.contains("only root"), "{args:?}: {code}: {err}");
    }
    assert_eq!(state(), "enabled");
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn stop_returns_when_the_machine_is_given_back() {
    assert!(said(&["stop"]).contains("nothing was loaded"));
    let vrq = Vrq::start(&[]);
    let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    let text = said(&["stop"]);
    assert_eq!(state(), "disabled", "{text}");
    assert_eq!(vrq.end().status.code(), Some(0));
    hogs.assert_alive();
    assert_eq!(status()["last_exit"]["reason"], "asked for by scx_vrq stop");
    assert!(said(&["stop"]).contains("nothing was loaded"));
}

/// Processes that never sleep. Killed when dropped.
struct Processes(Vec<std::process::Child>);

impl Processes {
    fn start(n: usize) -> Self {
        let loop_ = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        Self((0..n).map(|_| loop_()).collect())
    }

    fn alive(&mut self) -> usize {
        self.0.iter_mut().map(|c| usize::from(matches!(c.try_wait(), Ok(None)))).sum()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn entries(path: String) -> usize {
    std::fs::read_dir(path).map_or(0, Iterator::count)
}

#[test]
fn switches_under_load_lose_no_process_and_no_count() {
    let dmesg = Dmesg::start();
    let vrq = Vrq::start(&[]);
    let mut processes = Processes::start(2 * nr_cpus());
    let sleeper = Sleeper::start(Hog::default(), || (ms(5), ms(1)));
    let mut before = counters();
    let used = || (entries(format!("/proc/{}/task", vrq.pid())), entries(format!("/proc/{}/fd", vrq.pid())));
    let (mut took, mut used_first) = ((vec![], vec![]), (0, 0));
    let rounds = length(10, 200) / 2;
    for round in 0..rounds {
        for (to, wanted) in [("default", "disabled"), ("vrq", "enabled")] {
            let text = said(&["switch", to]);
            assert_eq!(state(), wanted, "{text}");
            let ms = text.split_whitespace().rev().nth(1).and_then(|w| w.parse::<u64>().ok());
            let took = if to == "vrq" { &mut took.1 } else { &mut took.0 };
            took.push(ms.unwrap_or_else(|| panic!("no time in {text}")));
            let now = counters();
            assert!(before.iter().all(|(name, n)| now[name] >= *n), "{before:?}, then {now:?}");
            before = now;
        }
        let rounds = sleeper.rounds();
        wait_until("the sleeper has run", || sleeper.rounds() > rounds);
        assert_eq!(processes.alive(), 2 * nr_cpus());
        if round == 0 {
            used_first = used();
        }
    }
    assert_eq!(used(), used_first, "threads and descriptors of the loader");
    for (what, took) in [("away from", &mut took.0), ("to", &mut took.1)] {
        took.sort_unstable();
        let (middle, most) = (took[took.len() / 2], took[took.len() - 1]);
        println!("{} switches {what} scx_vrq: {middle} ms in the middle, {most} ms at most", took.len());
    }
    let json = status();
    assert_eq!(json["loader"]["pid"], vrq.pid());
    assert_eq!(json["loader"]["attachments"], rounds as u64 + 1);
    assert!(said(&["switch", "vrq"]).contains("already"));
    assert_eq!(vrq.stop().status.code(), Some(0));
    dmesg.assert_clean_after_detach();
}

#[test]
fn a_scheduler_that_waits_keeps_its_place_and_ends_by_stop_and_by_signal() {
    let start = || {
        let vrq = Vrq::start(&[]);
        assert!(said(&["switch", "default"]).contains("the kernel's own scheduler has the machine"));
        assert_eq!(state(), "disabled");
        vrq
    };
    let vrq = start();
    let (code, _, err) = run(&[]);
    assert!(code == 75 && err.contains("scx_vrq switch vrq"), "{code}: {err}");
    assert!(said(&["status"]).contains("scx_vrq is loaded and waits"));
    // As another scheduler does that comes and goes.
    std::fs::remove_file(SOCKET).expect("the socket");
    wait_until("it has its socket again", || Path::new(SOCKET).exists());
    said(&["tune", "rr_interval=9"]);
    said(&["switch", "vrq"]);
    assert_eq!(status()["loader"]["tunables"]["rr_interval_ms"], 9);
    said(&["switch", "default"]);
    said(&["stop"]);
    assert_eq!(vrq.end().status.code(), Some(0));
    assert_eq!(start().stop().status.code(), Some(0));
    refused(&["switch", "vrq"], 1, "not loaded");
    assert!(said(&["switch", "default"]).contains("already"));
}

#[test]
fn run_ends_with_its_command_and_as_it() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let (status, out, err) =
            run(&["run", "--", "sh", "-c", &format!("cat /sys/kernel/sched_ext/state; nice; {script}")]);
        assert_eq!(status, code, "{out}{err}");
        assert!(out.contains("enabled\n0\n"), "{out}");
        assert_eq!(state(), "disabled");
    }
    let start = Instant::now();
    assert!(said(&["run", "--for", "1s"]).contains("schedules Linux"));
    assert!(start.elapsed() >= ms(1_000) && state() == "disabled");
    assert_eq!(status()["last_exit"]["reason"], "the time of --for is over");
}

#[test]
fn a_command_outlives_a_stop_and_a_signal_ends_it() {
    let args =
        ["run", "--rr-interval-ms", "5", "--", "sh", "-c", "while [ ! -e /dev/shm/go ]; do sleep 0.1; done; exit 3"];
    let vrq = Vrq::start(&args);
    said(&["stop"]);
    assert_eq!(state(), "disabled");
    std::fs::write("/dev/shm/go", "").expect("a file");
    let ended = vrq.end();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    std::fs::remove_file("/dev/shm/go").expect("a file");
    let ended = Vrq::start(&args).stop();
    assert_eq!(ended.status.code(), Some(143), "{}", ended.stderr);
}

#[test]
fn tune_changes_all_or_nothing_at_once() {
    let vrq = Vrq::start(&[]);
    let _hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    assert_eq!(
        said(&["tune", "rr_interval=3", "max_wait_ms=5000"]),
        "rr_interval_ms: 6 -> 3 ms\nmax_wait_ms: 4000 -> 5000 ms\n"
    );
    let table = said(&["tune"]);
    assert!(table.contains("rr_interval_ms       3        6  1..1000 ms"), "{table}");
    for wrong in ["max_wait=1", "rr_intervall=3", "rr_interval"] {
        refused(&["tune", "rr_interval=9", wrong], 2, "");
        assert_eq!(status()["loader"]["tunables"]["rr_interval_ms"], 3, "{wrong}");
    }
    // What the BPF side does with them.
    let refills = |tuned: &str| {
        said(&["tune", tuned]);
        std::thread::sleep(ms(500));
        let before = counters();
        std::thread::sleep(ms(2_000));
        delta(&before, &counters(), "nr_refills")
    };
    let (often, seldom) = (refills("rr_interval=1"), refills("rr_interval=100"));
    assert!(often > 3 * seldom, "{often} slices of 1 ms, {seldom} of 100 ms");
    assert_eq!(counters()["nr_overload_slices"], 0);
    said(&["tune", "rr_interval=6", "max_wait=200"]);
    wait_until("it is overload", || counters()["nr_overload_slices"] > 0);
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn tune_saves_what_the_next_start_reads() {
    let path = "/dev/shm/scx_vrq.toml";
    std::fs::write(path, "# mine\nmax_wait_ms = 500\n").expect("a file");
    let vrq = Vrq::start(&["--config", path]);
    assert_eq!(status()["loader"]["tunables"]["max_wait_ms"], 500);
    assert!(said(&["tune", "rr_interval=3", "--save", "--config", path]).contains("saved in"));
    assert_eq!(std::fs::read_to_string(path).expect("it"), "# mine\nmax_wait_ms = 500\nrr_interval_ms = 3\n");
    assert_eq!(vrq.stop().status.code(), Some(0));
    let vrq = Vrq::start(&["--config", path, "--max-wait-ms", "600"]);
    assert_eq!(status()["loader"]["tunables"], serde_json::json!({ "rr_interval_ms": 3, "max_wait_ms": 600 }));
    assert_eq!(vrq.stop().status.code(), Some(0));
    refused(&["tune", "rr_interval=3"], 1, "not loaded");
}

#[test]
fn metrics_are_printed_and_written_and_say_when_it_is_down() {
    let path = "/dev/shm/scx_vrq.prom";
    let vrq = Vrq::start(&["--metrics-file", path]);
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    wait_until("the file is there", || read().contains("scx_vrq_up 1\n"));
    let text = said(&["metrics"]);
    for wanted in
        ["scx_vrq_schedules 1\n", "scx_vrq_attachments_total 1\n", "scx_vrq_wait_seconds_bucket{le=\"+Inf\"} "]
    {
        assert!(text.contains(wanted) && read().contains(wanted), "no {wanted:?} in {text}");
    }
    if is_full() {
        println!("{text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(vrq.stop().status.code(), Some(0));
    assert!(said(&["metrics"]).contains("scx_vrq_up 0\n") && read().contains("scx_vrq_up 0\n"));
}

#[test]
fn a_service_manager_is_told_when_it_is_ready_and_who_schedules() {
    let path = "/dev/shm/scx_vrq-notify";
    let _ = std::fs::remove_file(path);
    let manager = std::os::unix::net::UnixDatagram::bind(path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let told = || {
        let mut bytes = [0; 500];
        let n = manager.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    // With no more capabilities than its unit leaves it.
    let capabilities = "-all,+bpf,+perfmon,+sys_admin,+sys_nice,+sys_resource,+syslog";
    let mut command = Command::new("setpriv");
    command.args(["--no-new-privs", "--bounding-set", capabilities, BIN]).env("NOTIFY_SOCKET", path);
    let vrq = Vrq::spawn(&mut command);
    assert_eq!(told(), "READY=1\nSTATUS=scx_vrq has the machine\n");
    said(&["switch", "default"]);
    assert_eq!(told(), "STATUS=the kernel's own scheduler has the machine\n");
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn an_ejection_is_the_last_exit() {
    let vrq = Vrq::spawn(with_faults().env("VRQ_GUARD_MS", "1500"));
    said(&["switch", "default"]);
    said(&["switch", "vrq"]);
    let victim = sleeper_named(c"vrq-last");
    let _hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    let ended = vrq.end();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.stderr);
    let text = said(&["status"]);
    assert!(text.contains("last exit") && text.contains("vrq-last"), "{text}");
    victim.join().expect("the kernel's own scheduler runs it");
}

/// The error number of each answer to `bytes`.
fn send(bytes: &[u8]) -> Vec<i64> {
    let mut stream = UnixStream::connect(SOCKET).expect("the socket");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    // It may be closed before all is read.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let errno = |line: String| serde_json::from_str::<Value>(&line).expect("JSON")["errno"].as_i64().expect("errno");
    BufReader::new(stream).lines().map_while(Result::ok).map(errno).collect()
}

fn control(args: &str) -> String {
    format!("{{\"req\":\"control\",\"args\":{{{args}}}}}\n")
}

#[test]
fn a_hostile_request_gets_an_error_and_harms_nothing() {
    let dmesg = Dmesg::start();
    let vrq = Vrq::start(&[]);
    let before = status()["loader"]["tunables"].clone();
    let threads = || entries(format!("/proc/{}/task", vrq.pid()));
    let quiet = threads();
    let tune = |set: &str| control(&format!(r#""version":"1","command":"tune","set":"{set}""#));
    let wrong: Vec<Vec<u8>> = vec![
        b"\n".to_vec(),
        b"nonsense\n".to_vec(),
        b"\xff\xfe\x00\n".to_vec(),
        b"{\"req\":\"stats\"".to_vec(),
        b"{\"req\":7}\n".to_vec(),
        b"{\"req\":\"stats\",\"args\":{\"target\":\"../../etc\"}}\n".to_vec(),
        [vec![b'['; 50_000], b"\n".to_vec()].concat(),
        [b"{\"req\":\"".to_vec(), vec![b'x'; 8 << 20], b"\"}\n".to_vec()].concat(),
        control("").into(),
        control(r#""version":"99","command":"stop""#).into(),
        control(r#""version":"1","command":"stop","force":"yes""#).into(),
        control(r#""version":1,"command":"stop""#).into(),
        tune("rr_interval=0").into(),
        tune("rr_interval=99999999999999999999").into(),
        tune("rr_interval=9 max_wait=0").into(),
        tune(&"rr_interval=3 ".repeat(4_000)).into(),
    ];
    for request in wrong {
        let errnos = send(&request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        assert!(errnos.len() == 1 && errnos[0] > 0, "{shown}: {errnos:?}");
    }
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..length(100, 2_000) {
        let mut line = tune("rr_interval=6").into_bytes();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..line.len());
            line[at] = random.u8(..);
        }
        send(&line);
    }
    // A change of a digit may be a right request.
    said(&["tune", "rr_interval=6"]);
    assert_eq!(status()["loader"]["tunables"], before);
    wait_until("the threads of the clients have gone", || threads() == quiet);
    assert_eq!((state().as_str(), vrq.stop().status.code()), ("enabled", Some(0)));
    dmesg.assert_clean_after_detach();
}

#[test]
fn clients_that_never_read_or_never_ask_block_nobody() {
    let vrq = Vrq::start(&[]);
    let mut deaf = UnixStream::connect(SOCKET).expect("the socket");
    deaf.set_write_timeout(Some(ms(500))).expect("a socket");
    let request = control(r#""version":"1","command":"status""#);
    while deaf.write_all(request.as_bytes()).is_ok() {}
    let mut half = UnixStream::connect(SOCKET).expect("the socket");
    half.write_all(b"{\"req\":").expect("it is read");
    let mute: Vec<_> = (0..100).map(|_| UnixStream::connect(SOCKET).expect("the socket")).collect();
    // Those above the limit are told so.
    let mut text = String::new();
    mute[99].set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    (&mute[99]).read_to_string(&mut text).expect("an answer");
    assert!(text.contains("too many connections"), "{text}");
    drop(mute);
    wait_until("places are free", || run(&["tune"]).1.contains("6"));
    let (mut longest, start) = (Duration::ZERO, Instant::now());
    while start.elapsed() < ms(3_000) {
        let asked = Instant::now();
        counters();
        longest = longest.max(asked.elapsed());
    }
    println!("the longest of the answers beside them took {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn two_clients_at_once_each_get_their_answers() {
    let vrq = Vrq::start(&[]);
    let client = |tunes: bool| {
        std::thread::spawn(move || {
            for i in 0..length(10, 100) {
                if tunes {
                    said(&["tune", &format!("rr_interval={}", 1 + i)]);
                } else {
                    assert_eq!(status()["scheduler"], "scx_vrq");
                }
            }
        })
    };
    for thread in [client(true), client(false)] {
        thread.join().expect("no panic");
    }
    assert_eq!(status()["loader"]["tunables"]["rr_interval_ms"], length(10, 100));
    assert_eq!(vrq.stop().status.code(), Some(0));
}
