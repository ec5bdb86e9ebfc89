//! Start, stop, refuse, report: on any number of CPUs.

use crate::harness::*;
use std::process::{Command, Stdio};
use std::time::Duration;

fn run(args: &[&str]) -> (i32, String) {
    let out = Command::new(BIN).args(args).stdin(Stdio::null()).output().expect("scx_vrq runs");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn it_attaches_and_gives_the_machine_back_with_a_clean_dmesg() {
    let dmesg = Dmesg::start();
    let vrq = Vrq::start(&[]);
    let hogs = Hogs::same(nr_cpus() + 1, Hog::default());
    hogs.assert_alive();
    dmesg.assert_clean();
    let ended = vrq.stop();
    hogs.assert_alive();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(state(), "disabled");
    dmesg.assert_clean_after_detach();
    // One line says what runs now, one who has the machine; nothing that reads like a failure.
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.stdout);
    assert!(lines[0].contains("schedules Linux") && lines[0].contains("rr_interval 6 ms"), "{}", lines[0]);
    assert!(lines[1].contains("the kernel's own scheduler has the machine"), "{}", lines[1]);
    assert!(!ended.stderr.contains("libbpf"), "{}", ended.stderr);
}

fn stopped_by_signal(signal: i32) -> Ended {
    let vrq = Vrq::start(&[]);
    let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    hogs.assert_alive();
    vrq.signal(signal);
    let ended = vrq.end();
    hogs.assert_alive();
    ended
}

#[test]
fn sigint_under_load_loses_no_task() {
    assert_eq!(stopped_by_signal(libc::SIGINT).status.code(), Some(0));
}

#[test]
fn sigterm_under_load_loses_no_task() {
    assert_eq!(stopped_by_signal(libc::SIGTERM).status.code(), Some(0));
}

#[test]
fn sighup_under_load_loses_no_task() {
    assert_eq!(stopped_by_signal(libc::SIGHUP).status.code(), Some(0));
}

#[test]
fn sigkill_under_load_loses_no_task_and_the_next_start_works() {
    assert_eq!(stopped_by_signal(libc::SIGKILL).status.code(), None);
    assert_eq!(Vrq::start(&[]).stop().status.code(), Some(0));
}

#[test]
fn sysrq_s_is_the_administrators_stop_and_no_failure() {
    let vrq = Vrq::start(&[]);
    let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    hogs.assert_alive();
    std::fs::write("/proc/sysrq-trigger", "S").expect("SysRq");
    let ended = vrq.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("stopped by the administrator"), "{}", ended.stderr);
    hogs.assert_alive();
}

#[test]
fn a_second_instance_is_refused_and_changes_nothing() {
    let vrq = Vrq::start(&[]);
    let (status, err) = run(&[]);
    assert_eq!(status, 75, "{err}");
    assert!(err.contains("vrq_") && err.contains("has the machine"), "{err}");
    assert_eq!(state(), "enabled");
    assert!(counters().contains_key("nr_dispatches"), "the first one still answers");
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn only_root_may_load_it() {
    use std::os::unix::process::CommandExt;
    let copy = "/dev/shm/scx_vrq-of-nobody";
    std::fs::copy(BIN, copy).expect("copy");
    let out = Command::new(copy).uid(65534).gid(65534).output().expect("runs");
    std::fs::remove_file(copy).expect("remove");
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(77), "{err}");
    assert!(err.contains("sudo"), "{err}");
    assert_eq!(state(), "disabled");
}

#[test]
fn check_says_whether_a_load_would_work() {
    let check = |args: &[&str]| {
        let out = Command::new(BIN).arg("check").args(args).output().expect("scx_vrq runs");
        (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let (status, out) = check(&[]);
    assert_eq!(status, 0, "{out}");
    assert!(!out.contains("FAIL"), "{out}");
    let (online, possible) = (online(), read("/sys/devices/system/cpu/possible"));
    let holes = possible != format!("0-{}", online.len() - 1) && online.len() > 1;
    assert_eq!(out.contains(&format!("possible {possible}")), holes, "{out}");
    let vrq = Vrq::start(&[]);
    let (status, out) = check(&[]);
    assert_eq!(status, 75, "{out}");
    assert!(out.contains("FAIL  scheduler   vrq_") && out.contains("since"), "{out}");
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn monitor_without_a_scheduler_says_so() {
    let (status, err) = run(&["--monitor", "1"]);
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("start scx_vrq first"), "{err}");
}

#[test]
fn stats_and_monitor_print_what_happened() {
    let vrq = Vrq::start(&["--stats", "0.2"]);
    let mut monitor = Command::new(BIN)
        .args(["--monitor", "0.2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("monitor");
    std::thread::sleep(Duration::from_secs(2));
    let ended = vrq.stop();
    let out = {
        wait_until("the monitor ends with the scheduler", || matches!(monitor.try_wait(), Ok(Some(_))));
        monitor.wait_with_output().expect("output")
    };
    assert!(String::from_utf8_lossy(&out.stdout).lines().filter(|l| l.contains("dispatches")).count() > 1);
    assert!(ended.stdout.lines().filter(|l| l.contains("dispatches")).count() > 1, "{}", ended.stdout);
}

#[test]
fn a_withheld_task_ends_it_with_status_70_and_the_report() {
    let vrq = Vrq::spawn(with_faults().env("SCX_TIMEOUT_MS", "2000"));
    // The kernel keeps 15 bytes: the name ends inside a character.
    let victim = sleeper_named(c"vrq-withheld\xe2\x82\xac");
    let ended = vrq.end();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.stderr);
    assert!(ended.stderr.contains("vrq-withheld"), "the report names the task: {}", ended.stderr);
    assert!(ended.stderr.contains("grq: qnr=") && ended.stderr.contains("slice left="), "{}", ended.stderr);
    assert!(ended.stderr.contains("ejected by the kernel"), "{}", ended.stderr);
    victim.join().expect("the kernel's own scheduler runs it");
}

#[test]
fn a_task_that_waits_too_long_gives_the_machine_back_before_the_watchdog() {
    let vrq = Vrq::spawn(with_faults().env("VRQ_GUARD_MS", "1500"));
    let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    let victim = sleeper_named(c"vrq-last");
    let ended = vrq.end();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.stderr);
    assert!(ended.stderr.contains("guard: vrq-last["), "{}", ended.stderr);
    victim.join().expect("the kernel's own scheduler runs it");
    hogs.assert_alive();
}

#[test]
fn overload_is_counted_and_said_once() {
    let vrq = Vrq::start(&["--max-wait-ms", "250"]);
    let hogs = Hogs::same(8 * nr_cpus(), Hog::default());
    hogs.assert_alive();
    std::thread::sleep(Duration::from_secs(3));
    let after = counters();
    assert!(after["nr_overload_slices"] > 0, "{after:?}");
    assert!(after["longest_wait_bound_ms"] > 250, "{after:?}");
    let ended = vrq.stop();
    assert_eq!(ended.stderr.matches("overload:").count(), 1, "{}", ended.stderr);
}

#[test]
fn the_old_condition_and_the_slow_path_can_be_loaded() {
    let vrq =
        Vrq::start(&["--resched-best-idle", "next-ne-prev", "--idle-fast-path", "off", "--rr-interval-ms", "1000"]);
    let hogs = Hogs::same(nr_cpus() + 1, Hog::default());
    hogs.assert_alive();
    let ended = vrq.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("rr_interval 1000 ms"), "{}", ended.stdout);
}

#[test]
fn idleprio_ages_and_takes_little() {
    let _vrq = Vrq::start(&[]);
    let mut hogs = vec![Hog::default(); nr_cpus()];
    hogs.push(Hog { policy: libc::SCHED_IDLE, ..Hog::default() });
    let hogs = Hogs::start(&hogs);
    let before = counters();
    let shares = hogs.shares(Duration::from_secs(6));
    let after = counters();
    let idle = shares[nr_cpus()];
    assert!(idle > 0.0, "IDLEPRIO starved: {shares:?}");
    assert!(idle < 5.0, "IDLEPRIO took more than what ageing gives: {shares:?}");
    assert!(delta(&before, &after, "nr_aged") > 0);
    assert!(after["longest_wait_ms"] < 3000, "longest wait {} ms", after["longest_wait_ms"]);
}

#[test]
fn policy_and_nice_change_while_it_runs() {
    let dmesg = Dmesg::start();
    let vrq = Vrq::start(&[]);
    let hogs = Hogs::same(2 * nr_cpus(), Hog::default());
    let task = std::thread::spawn(|| {
        for policy in [libc::SCHED_BATCH, libc::SCHED_IDLE, libc::SCHED_OTHER, libc::SCHED_FIFO, libc::SCHED_OTHER] {
            // SAFETY: changes this thread only, with valid arguments.
            unsafe {
                let mut param: libc::sched_param = std::mem::zeroed();
                param.sched_priority = i32::from(policy == libc::SCHED_FIFO);
                assert_eq!(libc::sched_setscheduler(0, policy, &param), 0);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for nice in -20..20 {
            // SAFETY: changes this thread only.
            unsafe { assert_eq!(libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as u32, nice), 0) };
            std::thread::yield_now();
        }
    });
    task.join().expect("it ran through");
    hogs.assert_alive();
    dmesg.assert_clean();
    assert_eq!(vrq.stop().status.code(), Some(0));
    dmesg.assert_clean_after_detach();
}
