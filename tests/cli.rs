//! The command line as a user meets it, on a machine without sched_ext: refused before anything is
//! opened, with one sentence and a status.

use std::process::{Command, Stdio};

fn run(args: &[&str]) -> (i32, String, String) {
    let out =
        Command::new(env!("CARGO_BIN_EXE_scx_vrq")).args(args).stdin(Stdio::null()).output().expect("scx_vrq runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

#[test]
fn version_names_the_program() {
    let (status, out, _) = run(&["-V"]);
    assert_eq!(status, 0);
    assert!(out.starts_with(concat!("scx_vrq ", env!("CARGO_PKG_VERSION"))), "{out}");
}

#[test]
fn help_lists_every_status_and_the_ranges() {
    let (status, out, _) = run(&["--help"]);
    assert_eq!(status, 0);
    for wanted in ["  0  ", "  1  ", "  2  ", " 69  ", " 70  ", " 75  ", " 77  ", "rr-interval-ms", "default: 6"] {
        assert!(out.contains(wanted), "no {wanted:?} in {out}");
    }
}

#[test]
fn help_stats_describes_every_counter() {
    let (status, out, _) = run(&["--help-stats"]);
    assert_eq!(status, 0);
    for wanted in ["nr_dispatches", "nr_goidle_deactivate", "nr_kicks_empty", "longest_wait_ms"] {
        assert!(out.contains(wanted), "no {wanted} in {out}");
    }
}

#[test]
fn wrong_use_is_status_2_and_names_what_is_wrong() {
    for (args, wanted) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--rr-interval-ms", "0"], "1..=1000"),
        (&["--rr-interval-ms", "1001"], "1..=1000"),
        (&["--rr-interval-ms", "six"], "six"),
        (&["--stats", "-1"], "-1"),
        (&["--monitor", "nan"], "nan"),
        (&["--exit-dump-len", "99999999999"], "99999999999"),
        (&["--kconfig", "/no/such/file"], "/no/such/file"),
        (&["--btf-custom-path", "/no/such/file"], "/no/such/file"),
        (&["no-such-subcommand"], "no-such-subcommand"),
        (&["bench", "--ratio", "0"], "0"),
        (&["--rr-interval-ms", "3", "check"], "cannot be used with"),
        (&["--config", "/no/such/file"], "/no/such/file"),
        (&["--public-status", "maybe"], "maybe"),
        (&["--metrics-file", "/no/such/folder/x.prom"], "its folder does not exist"),
        (&["--metrics-file", "/tmp"], "is a folder"),
        (&["status", "--yaml"], "--yaml"),
        (&["stop", "now"], "now"),
        (&["switch"], "<TO>"),
        (&["switch", "cfs"], "[possible values: default, vrq]"),
        (&["run", "--for", "30x"], "30x"),
        (&["run", "--for", "1s", "--", "true"], "cannot be used with"),
        (&["run", "--", "no-such-command"], "no-such-command"),
        (&["run", "--rr-interval-ms", "0"], "1..=1000"),
        (&["tune", "rr_intervall=3"], "did you mean \"rr_interval_ms\"?"),
        (&["tune", "rr_interval=0"], "1 to 1000 ms"),
        (&["tune", "rr_interval"], "NAME=VALUE"),
        (&["tune", "--config", "/etc/x"], "--save"),
        (&["completions", "cmd"], "cmd"),
        (&["man", "/no/such/folder"], "/no/such/folder"),
    ] {
        let (status, _, err) = run(args);
        assert_eq!(status, 2, "{args:?}: {err}");
        assert!(err.contains(wanted), "{args:?}: {err}");
    }
}

#[test]
fn a_wrong_configuration_file_is_status_2_with_the_place() {
    let path = format!("{}/wrong.toml", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, "rr_interval_ms = 3\nmax_wait = 500\n").expect("a file");
    let (status, _, err) = run(&["--config", &path]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains(&format!("{path}:2:1: unknown key \"max_wait\": did you mean \"max_wait_ms\"?")), "{err}");
}

#[test]
fn without_a_scheduler_status_stop_and_tune_say_so() {
    if std::path::Path::new("/sys/kernel/sched_ext").exists() {
        println!("not run: this kernel has sched_ext");
        return;
    }
    for (args, wanted) in [
        (&["status"][..], "the kernel's own"),
        (&["status", "--json"], "\"scheduler\": \"kernel\""),
        (&["stop"], "nothing was loaded"),
        (&["switch", "default"], "already"),
        (&["tune"], "rr_interval_ms"),
        (&["metrics"], "scx_vrq_up 0\n# EOF\n"),
    ] {
        let (status, out, err) = run(args);
        assert!(status == 0 && out.contains(wanted), "{args:?}: {status}: {out}{err}");
    }
    for args in [&["switch", "vrq"][..], &["tune", "rr_interval=3"], &["tune", "--save"], &["--monitor", "1"]] {
        let (status, _, err) = run(args);
        assert!(status == 69 && err.contains("no sched_ext"), "{args:?}: {status}: {err}");
    }
}

#[test]
fn a_kernel_without_sched_ext_is_status_69_and_names_make_run() {
    if std::path::Path::new("/sys/kernel/sched_ext").exists() {
        println!("not run: this kernel has sched_ext");
        return;
    }
    let (status, _, err) = run(&[]);
    assert_eq!(status, 69, "{err}");
    assert!(err.contains("sched_ext") && err.contains("make run"), "{err}");
    assert_eq!(err.trim().lines().count(), 1, "{err}");
}

#[test]
fn check_names_what_is_missing_and_is_no_success_here() {
    if std::path::Path::new("/sys/kernel/sched_ext").exists() {
        println!("not run: this kernel has sched_ext");
        return;
    }
    let (status, out, _) = run(&["check"]);
    assert_eq!(status, 69, "{out}");
    assert!(out.lines().any(|l| l.starts_with("FAIL  sched_ext")), "{out}");
    let (status, out, _) = run(&["check", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, &json["ok"]), (69, &serde_json::Value::Bool(false)), "{out}");
}

const WORKLOAD: &str = "cpus = 2\n\n[[task]]\nname = \"hog\"\ncount = 2\n\n[[task]]\nname = \"sleeper\"\nnice = 5\n\
                        run = \"1ms..2ms\"\nsleep = \"10ms\"\ncpus = \"1\"\n";

#[test]
fn sim_says_the_same_of_a_file_and_of_its_flags() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("w.toml");
    std::fs::write(&path, WORKLOAD).expect("written");
    let from_file = run(&["sim", "--json", path.to_str().expect("UTF-8")]);
    let sleeper = "sleeper nice=5 run=1ms..2ms sleep=10ms cpus=1";
    let from_flags = run(&["sim", "--json", "--cpus", "2", "--task", "hog x2", "--task", sleeper]);
    assert_eq!(from_file, from_flags);
    let json: serde_json::Value = serde_json::from_str(&from_file.1).expect("JSON");
    assert_eq!((from_file.0, &json["tasks"][1]["name"], &json["workload"]["seed"]), (0, &"hog.2".into(), &1.into()));
    assert!(json["tasks"][2]["share_percent"].as_f64() > Some(4.0), "{json}");
    assert!(json["tasks"][2]["max_wait_ms"].as_f64() < json["tasks"][2]["bound_ms"].as_f64(), "{json}");
}

/// The README shows what the program prints, or its last lines.
#[test]
fn the_readme_shows_what_sim_prints() {
    let readme = include_str!("../README.md");
    let blocks = readme.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut shown = 0;
    for example in blocks.flat_map(|block| block.split("$ scx_vrq ").skip(1)) {
        let (command, wanted) = example.split_once('\n').expect("a command and what it prints");
        let args = shlex::split(command).expect("a command");
        let (status, out, err) = run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(status, 0, "{command}: {err}");
        assert!(out.ends_with(wanted), "{command} prints\n{out}");
        shown += 1;
    }
    assert_eq!(shown, 4);
}

#[test]
fn sim_refuses_a_file_with_line_and_column_and_what_is_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("w.toml");
    for (from, to, wanted) in [
        ("cpus = 2", "cpus = 65", "w.toml:1:8: \"65\" is no whole number from 1 to 64"),
        ("cpus = 2", "cpu = 2", "w.toml:1:1: unknown field `cpu`, expected one of `cpus`, `time`, `tick`"),
        ("cpus = 2", "cpus = ", "w.toml:1:8: "),
        ("cpus = 2", "tick = \"1s\"", "w.toml:1:8: \"1s\" is not none, or a time from 100us to 100ms"),
        ("count = 2", "count = 2.5", "w.toml:5:9: invalid type: floating point `2.5`, expected a whole number"),
        ("nice = 5", "nice = 50", "w.toml:9:8: \"50\" is no whole number from -20 to 19"),
        ("nice = 5", "niece = 5", "w.toml:9:1: unknown field `niece`, expected one of `name`, `count`, `nice`"),
        ("nice = 5", "policy = \"rt\"", "w.toml:9:10: unknown variant `rt`, expected one of `other`, `batch`, `idle`"),
        ("\"10ms\"", "10", "w.toml:11:9: \"10\" is not a time from 1us to 1h"),
        ("run = \"1ms..2ms\"\n", "", "w.toml:7:1: task \"sleeper\" sleeps but never stops running"),
        ("cpus = \"1\"", "cpus = \"2\"", "w.toml:7:1: task \"sleeper\" may run on CPUs that are not there"),
    ] {
        std::fs::write(&path, WORKLOAD.replacen(from, to, 1)).expect("written");
        let (status, out, err) = run(&["sim", path.to_str().expect("UTF-8")]);
        assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 1), "{to}: {err}");
        assert!(err.contains(wanted), "{to}: {err}");
    }
}

#[test]
fn sim_refuses_contradictions_and_absurd_sizes_before_anything_runs() {
    for (args, wanted) in [
        (&[][..], "at least one --task"),
        (&["--cpus", "0", "--task", "a"], "from 1 to 64"),
        (&["--tick", "1us", "--task", "a"], "100us to 100ms"),
        (&["--time", "2h", "--task", "a"], "1us to 1h"),
        (&["--seed", "-1", "--task", "a"], "from 0 to"),
        (&["--rr-interval-ms", "1001", "--task", "a"], "from 1 to 1000"),
        (&["--task", "a nice=20"], "from -20 to 19"),
        (&["--task", "a nice=1 nice=2"], "nice is given twice"),
        (&["--task", "a fast"], "neither KEY=VALUE nor xN"),
        (&["--task", "a colour=red"], "unknown field `colour`, expected one of `name`"),
        (&["--task", "a run=2ms..1ms"], "wrong way round"),
        (&["--task", ""], "missing field `name`"),
        (&["--task", "a child=1ms"], "give fork, too"),
        (&["--task", "a cpus=1"], "may run on CPUs that are not there"),
        (&["--task", "a start=10s"], "after the end at 10s"),
        (&["--task", "a renice=5@1m"], "after the end at 10s"),
        (&["--task", "a x10000", "--task", "b"], "10001 tasks and 10000 are the most"),
        (&["--task", "a fork=1us"], "children and 100000 are the most"),
        (&["--task", "a run=1us sleep=1us", "--time", "1h"], "events and 100000000 are the most"),
        (&["--task", "a run=10us sleep=10us", "--time", "1m", "--svg", "/dev/null"], "2000000 are the most"),
        (&["--task", "a", "--svg", "/no/such/dir/x.svg"], "cannot be written"),
        (&["--task", "a", "--svg-from", "1s"], "--svg"),
        (&["--task", "a", "--svg", "/dev/null", "--svg-from", "10s"], "earlier --svg-from"),
        (&["/dev/zero"], "1048576 bytes at most"),
        (&["/no/such/file"], "cannot be read"),
    ] {
        let (status, out, err) = run(&[&["sim"], args].concat());
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(wanted), "{args:?}: {err}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_no_panic() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let out = Command::new(env!("CARGO_BIN_EXE_scx_vrq")).stdout(full).output().expect("scx_vrq runs");
    assert!(!String::from_utf8_lossy(&out.stderr).contains("panicked"));
}

#[test]
fn completions_and_man_pages_know_every_subcommand() {
    let commands = ["bench", "check", "run", "status", "metrics", "stop", "switch", "tune"];
    for shell in ["bash", "zsh", "fish"] {
        let (status, out, _) = run(&["completions", shell]);
        assert!(status == 0 && commands.iter().all(|c| out.contains(c)) && out.contains("rr-interval-ms"), "{shell}");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (status, _, err) = run(&["man", dir.path().to_str().expect("a path")]);
    assert_eq!(status, 0, "{err}");
    for command in commands {
        assert!(dir.path().join(format!("scx_vrq-{command}.8")).is_file(), "{command}");
    }
    for page in std::fs::read_dir(dir.path()).expect("it").flatten() {
        let lint = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(page.path()).output();
        // Without groff only what is there was looked at.
        if let Ok(lint) = lint {
            assert!(lint.stderr.is_empty(), "{}", String::from_utf8_lossy(&lint.stderr));
        }
    }
}
