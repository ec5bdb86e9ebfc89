//! The loader: started and stopped again and again, and its own faults: no place for the statistics, a closed
//! terminal, a full disk, too little memory.

use crate::guest::with_file;
use crate::harness::*;
use std::fs::{self, OpenOptions};
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const STATISTICS: &str = "/var/run/scx";

#[test]
fn attach_and_detach_under_load() {
    let dmesg = Dmesg::start();
    let hogs = Hogs::same(length(1, 2 * nr_cpus()), Hog::default());
    let sleeper = Sleeper::start(Hog::default(), || (ms(5), ms(1)));
    for round in 0..length(3, 200) {
        let vrq = Vrq::start(&[]);
        // An end by each way in turn.
        vrq.signal([libc::SIGINT, libc::SIGKILL, libc::SIGTERM][round % 3]);
        vrq.end();
        let rounds = sleeper.rounds();
        hogs.assert_alive();
        wait_until("the sleeper has run", || sleeper.rounds() > rounds);
    }
    dmesg.assert_clean_after_detach();
}

#[test]
fn a_start_while_another_one_ends_waits_for_it() {
    for _ in 0..length(1, 20) {
        let first = Vrq::start(&[]);
        first.signal(libc::SIGINT);
        // The second finds it enabled, disabling or gone.
        let mut second = Running::start();
        assert_eq!(first.end_of_process().code(), Some(0));
        wait_until("the second has the machine, or has refused", || state() == "enabled" || !second.is_running());
        let (status, said) = second.stop();
        assert!(status == Some(0) || (status == Some(75) && said.contains("has the machine")), "{status:?}: {said}");
        wait_until("the machine is free", || state() == "disabled");
    }
}

/// A scx_vrq of which it is open whether it gets the machine. Dropped: killed.
struct Running(Child);

impl Running {
    fn start() -> Self {
        Self(Command::new(BIN).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
    }

    fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// End it if it has not ended. Its status and what it said on stderr.
    fn stop(&mut self) -> (Option<i32>, String) {
        if self.is_running() {
            // SAFETY: our own child, not waited for yet.
            unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        }
        wait_until("it ends", || !self.is_running());
        let said = self.0.stderr.take().map(|pipe| std::io::read_to_string(pipe).expect("utf-8"));
        (self.0.wait().expect("a child").code(), said.unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_shells_start_and_stop_it_at_once() {
    let dmesg = Dmesg::start();
    let hogs = Hogs::same(length(1, nr_cpus()), Hog::default());
    let shell = |seed: u64| {
        std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut ran, mut refused) = (0, 0);
            for _ in 0..length(2, 100) {
                let mut vrq = Running::start();
                std::thread::sleep(ms(random.u64(500..4_000)));
                match vrq.stop() {
                    (Some(0), _) => ran += 1,
                    (None, _) => ran += 1, // the signal came before it could be caught
                    (Some(75), said) if said.contains("has the machine") => refused += 1,
                    (status, said) => panic!("seed {seed}: {status:?}: {said}"),
                }
            }
            (ran, refused)
        })
    };
    let shells = [shell(1), shell(2)];
    let counts = shells.map(|s| s.join().expect("no panic"));
    assert!(counts.iter().any(|(ran, _)| *ran > 0), "{counts:?}");
    wait_until("the machine is free", || state() == "disabled");
    hogs.assert_alive();
    dmesg.assert_clean_after_detach();
    assert_eq!(Vrq::start(&[]).stop().status.code(), Some(0));
}

/// It runs and ends as ever, and says once that there are no statistics.
fn assert_runs_without_statistics() {
    let vrq = Vrq::spawn_as_it_is(Command::new(BIN).stdout(Stdio::piped()).stderr(Stdio::piped()));
    Hogs::same(2 * nr_cpus(), Hog::default()).assert_alive();
    let ended = vrq.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("statistics") && ended.stderr.contains(STATISTICS), "{}", ended.stderr);
}

fn remove(path: &str) {
    let _ = fs::remove_dir_all(path);
    let _ = fs::remove_file(path);
}

#[test]
fn the_folder_of_the_statistics_is_missing() {
    remove(STATISTICS);
    assert_eq!(Vrq::start(&[]).stop().stderr, "", "it makes the folder");
    assert!(Path::new(STATISTICS).is_dir());
}

#[test]
fn the_folder_of_the_statistics_is_a_file() {
    remove(STATISTICS);
    fs::write(STATISTICS, "").expect("a file");
    assert_runs_without_statistics();
    remove(STATISTICS);
}

#[test]
fn the_socket_of_the_statistics_is_a_folder() {
    remove(STATISTICS);
    fs::create_dir_all(format!("{STATISTICS}/root/stats/full")).expect("a folder");
    assert_runs_without_statistics();
    remove(STATISTICS);
}

#[test]
fn the_folder_of_the_statistics_is_somebody_elses() {
    remove(STATISTICS);
    fs::create_dir_all(format!("{STATISTICS}/root")).expect("a folder");
    std::os::unix::fs::chown(STATISTICS, Some(65534), Some(65534)).expect("chown");
    std::os::unix::fs::chown(format!("{STATISTICS}/root"), Some(65534), Some(65534)).expect("chown");
    assert_eq!(Vrq::start(&[]).stop().status.code(), Some(0));
    remove(STATISTICS);
}

/// A terminal: the end that shows it, and the end that programs have.
fn terminal() -> (fs::File, fs::File) {
    let (mut shown, mut used) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: room for two descriptors, which then are the files' own.
    unsafe {
        assert_eq!(libc::openpty(&mut shown, &mut used, null, std::ptr::null(), std::ptr::null()), 0);
        // Only the test has the end that shows it.
        [shown, used].iter().for_each(|fd| assert_eq!(libc::fcntl(*fd, libc::F_SETFD, libc::FD_CLOEXEC), 0));
        (fs::File::from_raw_fd(shown), fs::File::from_raw_fd(used))
    }
}

/// scx_vrq on a terminal, which is the one that controls it or not.
fn on_terminal(used: fs::File, controls: bool) -> Command {
    let mut command = Command::new(BIN);
    command
        .args(["--stats", "0.1"])
        .stdin(used.try_clone().expect("dup"))
        .stdout(used.try_clone().expect("dup"))
        .stderr(used);
    // SAFETY: plain system calls.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            if controls {
                libc::ioctl(0, libc::TIOCSCTTY, 0);
            }
            Ok(())
        })
    };
    command
}

#[test]
fn the_terminal_is_closed() {
    let (shown, used) = terminal();
    let vrq = Vrq::spawn_as_it_is(&mut on_terminal(used, true));
    drop(shown); // the kernel sends SIGHUP
    assert_eq!(vrq.end().status.code(), Some(0));
}

#[test]
fn a_terminal_that_does_not_control_it_is_closed() {
    let (shown, used) = terminal();
    let mut vrq = Vrq::spawn_as_it_is(&mut on_terminal(used, false));
    drop(shown);
    std::thread::sleep(ms(1_000)); // it writes, and cannot
    assert!(vrq.is_running() && state() == "enabled");
    assert!(counters().contains_key("nr_dispatches"));
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn stdout_and_stderr_are_closed() {
    let mut vrq = Vrq::spawn_as_it_is(Command::new("sh").args(["-c", &format!("exec {BIN} --stats 0.1 <&- >&- 2>&-")]));
    std::thread::sleep(ms(500));
    assert!(vrq.is_running());
    assert_eq!(vrq.stop().status.code(), Some(0));
}

#[test]
fn stdout_is_a_full_disk() {
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mut vrq = Vrq::spawn_as_it_is(Command::new(BIN).args(["--stats", "0.1"]).stdout(full()).stderr(full()));
    std::thread::sleep(ms(1_000));
    assert!(vrq.is_running() && state() == "enabled");
    assert!(counters().contains_key("nr_dispatches"));
    assert_eq!(vrq.stop().status.code(), Some(0));
    // What was asked for and cannot be written is an error, not a crash.
    let describe = Command::new(BIN).arg("--help-stats").stdout(full()).output().expect("it runs");
    let said = String::from_utf8_lossy(&describe.stderr);
    assert!(describe.status.code() == Some(1) && !said.contains("panicked"), "{:?}: {said}", describe.status);
}

#[test]
fn the_kernel_lacks_a_function_or_describes_itself_wrongly() {
    let lines: Vec<String> = read("/proc/kallsyms").lines().map(str::to_string).collect();
    let without = |name: &str| lines.iter().filter(|l| !l.contains(name)).fold(String::new(), |all, l| all + l + "\n");
    let btf = std::fs::read("/sys/kernel/btf/vmlinux").expect("BTF");
    let kernels = [
        ("/proc/kallsyms", without(" scx_bpf_dsq_move_to_local").into_bytes(), 69, "boot 6.16 or later"),
        ("/sys/kernel/btf/vmlinux", btf[..btf.len() / 2].to_vec(), 1, "BTF cannot be read"),
        ("/sys/kernel/btf/vmlinux", b"nonsense".to_vec(), 1, "BTF cannot be read"),
    ];
    for (path, content, status, remedy) in kernels {
        let out = with_file(path, &content).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{path}: {said}");
        assert!(said.contains(remedy) && said.lines().count() == 1, "{path}: {said}");
    }
    assert_eq!(state(), "disabled");
}

#[test]
fn a_log_level_that_is_nonsense_changes_nothing() {
    let ended = Vrq::spawn(Command::new(BIN).env("RUST_LOG", "nonsense=,,=loud")).stop();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let refused = Command::new(BIN).args(["--log-level", "loud"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn too_little_memory_to_start() {
    let dmesg = Dmesg::start();
    let mut started = 0;
    for mib in length(vec![10, 18, 32, 256], (8..64).chain([96, 128, 256]).collect()) {
        let mut command = Command::new(BIN);
        // SAFETY: a plain system call with a valid pointer.
        unsafe {
            command.pre_exec(move || {
                let limit = libc::rlimit { rlim_cur: mib << 20, rlim_max: mib << 20 };
                match libc::setrlimit(libc::RLIMIT_AS, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn() else { continue };
        let mut vrq = Running(child);
        wait_until("it has started or given up", || state() == "enabled" || !vrq.is_running());
        started += usize::from(state() == "enabled");
        let (status, said) = vrq.stop();
        assert!(!said.contains("panicked"), "{mib} MiB: {status:?}: {said}");
        assert!(status == Some(0) || !said.is_empty(), "{mib} MiB: {status:?} without a word");
        wait_until("the machine is free", || state() == "disabled");
    }
    assert!(started > 0, "it started with none of the limits");
    dmesg.assert_clean_after_detach();
}
