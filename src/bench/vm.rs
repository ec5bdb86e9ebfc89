//! The bench in a virtual machine: vm/boot.sh runs this very program in there, which
//! reports what happens as events on its standard output.

use super::args::BenchArgs;
use super::cpus;
use super::execute;
use super::interrupt;
use super::noise::CpuTimes;
use super::plan;
use super::results::Event;
use super::scripts;
use crate::failure::{Status, failure};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

/// A bench may take long; boot.sh's own limit is for tests.
const TIME_LIMIT_S: &str = "604800";
/// Share of the host's CPUs that others may use before it is said.
const OTHERS_SHARE: f64 = 0.05;

/// What comes out of the virtual machine.
pub enum News<'a> {
    Event(Event),
    /// What runs the machine's CPUs: see `Facts::accel`.
    Accel(&'a str),
    /// A line for the user.
    Line(&'a str),
}

/// Runs the bench in a virtual machine. Returns what makes its figures doubtful on the host's side.
pub fn measure(args: &BenchArgs, tell: &mut dyn FnMut(News) -> Result<()>) -> Result<Vec<String>> {
    let mut command = command(args)?;
    let before = CpuTimes::read()?;
    let mut machine = execute::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let stdout = machine.child.stdout.take().context("no standard output")?;
    let stderr = machine.child.stderr.take().context("no standard error")?;
    let lines = read_lines(stdout, stderr);
    let mut held: Option<String> = None;
    let mut told = Ok(());
    let mut accel = String::new();
    for (is_stdout, line) in lines {
        let mut news = match accel_of(&line) {
            Some(name) => {
                accel = name.to_string();
                tell(News::Accel(name))
            }
            None => Ok(()),
        };
        let event = Event::from_line(&line).filter(|_| is_stdout);
        // The last line may be the sentence that says what went wrong (see below), so it waits for a next one.
        let due = if event.is_some() { held.take() } else { held.replace(line) };
        if let (Some(line), Ok(())) = (due, &news) {
            news = tell(News::Line(&line));
        }
        if let (Some(event), Ok(())) = (event, &news) {
            news = tell(News::Event(event));
        }
        if told.is_ok() && news.is_err() {
            // Nobody can take the results any more: there is no use in measuring on.
            told = news;
            interrupt::end_running();
        }
    }
    let (status, usage) = machine.wait()?;
    told?;
    let stopped = interrupt::requested();
    match held {
        held if !status.success() && !stopped => return Err(explain(status, held.as_deref())),
        Some(line) => tell(News::Line(&line))?,
        None => {}
    }
    let own_s = (usage.user + usage.system).as_secs_f64();
    let others_s = CpuTimes::read()?.noise_since(&before, own_s).other_cpu_s;
    if accel == "icount" {
        // Its clock stands still while the host does other work.
        return Ok(Vec::new());
    }
    Ok(doubts(guest_cpus(args), cpus::online(), others_s / usage.elapsed.as_secs_f64().max(1.0)))
}

/// What runs the machine's CPUs, from the line in which boot.sh says it: "vm/boot.sh: Linux 7.3.4, 4 CPUs, 4G, kvm".
fn accel_of(line: &str) -> Option<&str> {
    line.strip_prefix("vm/boot.sh: Linux ")?.rsplit_once(", ").map(|(_, accel)| accel)
}

/// "a virtual machine (vm/boot.sh --kernel newest --smp 4)"
pub fn place(args: &BenchArgs) -> String {
    format!("a virtual machine (vm/boot.sh {})", boot_flags(args).join(" "))
}

/// CPUs that the virtual machine will have.
pub fn guest_cpus(args: &BenchArgs) -> u32 {
    args.topology.map_or(args.cpus, |topology| topology.cpus())
}

fn boot_flags(args: &BenchArgs) -> [String; 4] {
    let smp = match args.topology {
        None => args.cpus.to_string(),
        Some(t) => format!("{},sockets={},cores={},threads={}", t.cpus(), t.sockets, t.cores, t.threads),
    };
    ["--kernel".to_string(), args.kernel.clone(), "--smp".to_string(), smp]
}

fn command(args: &BenchArgs) -> Result<Command> {
    let mut command = Command::new(scripts::find(scripts::BOOT)?);
    command.args(boot_flags(args)).arg("--").arg(std::env::current_exe().context("this program cannot find itself")?);
    command.args(inner_arguments(args));
    if std::env::var_os("VM_TIMEOUT").is_none() {
        command.env("VM_TIMEOUT", TIME_LIMIT_S);
    }
    Ok(command)
}

/// The same bench for the inside: on that host, by events, with nothing written there.
fn inner_arguments(args: &BenchArgs) -> Vec<String> {
    let mut words: Vec<String> = ["bench", "--host", "--events"].map(String::from).into();
    let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
    flag("--place", place(args));
    flag("--rounds", args.rounds.to_string());
    flag("--warmup", args.warmup.to_string());
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if !args.ratio.is_empty() {
        flag("--ratio", list(&args.ratio));
    }
    if !args.jobs.is_empty() {
        flag("--jobs", list(&args.jobs));
    }
    args.schedulers.iter().for_each(|scheduler| flag("--scheduler", scheduler.clone()));
    if let Some(preset) = args.preset.and_then(|preset| preset.to_possible_value()) {
        flag("--preset", preset.get_name().to_string());
    }
    if let Some(workload) = args.workload.and_then(|workload| workload.to_possible_value()) {
        flag("--workload", workload.get_name().to_string());
    }
    if let Some(prepare) = &args.prepare {
        flag("--prepare", prepare.clone());
    }
    if args.command.is_empty() {
        flag("--scale", plan::scale(args).to_string());
    } else {
        words.push("--".to_string());
        words.extend(args.command.iter().cloned());
    }
    words
}

/// Both outputs line by line as they come; true for a line of the first.
fn read_lines(
    stdout: impl Read + Send + 'static,
    stderr: impl Read + Send + 'static,
) -> mpsc::Receiver<(bool, String)> {
    let (send, receive) = mpsc::channel();
    let read = |is_stdout, from: Box<dyn Read + Send>| {
        let send = send.clone();
        thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_string();
                if send.send((is_stdout, line)).is_err() {
                    return;
                }
            }
        });
    };
    read(true, Box::new(stdout));
    read(false, Box::new(stderr));
    receive
}

/// The inner bench ends with a sentence and a status: both become ours.
fn explain(status: ExitStatus, sentence: Option<&str>) -> anyhow::Error {
    let known = [Status::Usage, Status::Kernel, Status::Ejected, Status::Busy, Status::NotRoot];
    let code = known.into_iter().find(|&known| Some(known as i32) == status.code()).unwrap_or(Status::Failed);
    let sentence = sentence.map(|line| line.strip_prefix("scx_vrq: ").unwrap_or(line).to_string());
    failure(code, sentence.unwrap_or_else(|| format!("the virtual machine ended with {status} and said nothing")))
}

/// `others_cpus`: CPUs of the host that others used on average meanwhile.
fn doubts(guest_cpus: u32, host_cpus: u32, others_cpus: f64) -> Vec<String> {
    let mut doubts = Vec::new();
    if guest_cpus > host_cpus {
        doubts.push(format!(
            "the virtual machine's {guest_cpus} CPUs share {host_cpus} of the host: times say little, use --cpus {host_cpus} for them"
        ));
    }
    let share = others_cpus / f64::from(host_cpus);
    if share > OTHERS_SHARE {
        doubts.push(format!(
            "the host was busy with other work for {:.0} % of its CPUs' time: stop what else runs, and measure again",
            share * 100.0
        ));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::os::unix::process::ExitStatusExt;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(words: impl IntoIterator<Item = String>) -> BenchArgs {
        Cli::parse_from(std::iter::once("bench".to_string()).chain(words)).bench
    }

    #[test]
    fn the_inside_is_asked_for_what_the_outside_was_asked_for() {
        for line in [
            "",
            "--preset kernbench --rounds 3 --warmup 0 --export-json x.json",
            "--ratio 25,300 --scheduler default --scheduler 'scx_flash -s 9' --workload wakeup",
            "--jobs 1,2 --topology 2:2:1 --kernel 7.1 --prepare 'make clean; true' -- make -j{jobs} 'a b'",
        ] {
            let outer = parse(shlex::split(line).expect("a line"));
            let inner = parse(inner_arguments(&outer).into_iter().skip(1));
            assert!(inner.host && inner.events && inner.export_json.is_none());
            assert_eq!(inner.place, Some(place(&outer)));
            let (want, _) = plan::plan(&BenchArgs { schedulers: vec![], ..outer.clone() }, 4).expect("a plan");
            let (got, _) = plan::plan(&BenchArgs { schedulers: vec![], ..inner.clone() }, 4).expect("a plan");
            assert_eq!(format!("{want:?}"), format!("{got:?}"), "{line}");
            assert_eq!(inner.schedulers, outer.schedulers);
            assert_eq!((inner.prepare, inner.command), (outer.prepare, outer.command));
        }
    }

    #[test]
    fn the_last_sentence_and_the_status_come_out_of_the_machine() {
        let error = explain(ExitStatus::from_raw(75 << 8), Some("scx_vrq: sched_ext is enabled with flash"));
        let failure = error.downcast_ref::<crate::failure::Failure>().expect("carries a status");
        assert_eq!((failure.status, failure.why.as_str()), (Status::Busy, "sched_ext is enabled with flash"));
        assert!(explain(ExitStatus::from_raw(9), None).to_string().contains("said nothing"));
    }

    #[test]
    fn what_runs_the_cpus_is_read_from_what_the_script_says() {
        assert_eq!(accel_of("vm/boot.sh: Linux 7.3.4+deb13-cloud-amd64, 8,sockets=2 CPUs, 4G, icount"), Some("icount"));
        assert_eq!(accel_of("vm/boot.sh: no kernel"), None);
    }

    #[test]
    fn a_busy_or_small_host_is_said() {
        assert_eq!(doubts(2, 2, 0.01), [""; 0]);
        assert!(doubts(4, 2, 0.0)[0].contains("4 CPUs share 2 of the host"));
        assert!(doubts(2, 2, 1.0)[0].contains("for 50 % of its CPUs' time"));
    }
}
