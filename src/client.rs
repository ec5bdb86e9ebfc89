//! The subcommands that talk to the scx_vrq that is loaded: `status`, `stop`, `switch`, `tune`.

use crate::control::{Owner, Refusal, Request};
use crate::failure::{Status, failure};
use crate::session::{LAST_EXIT, LastExit, LoaderStatus};
use crate::stats::Counters;
use crate::tune::{self, Tunables};
use crate::{check, cli, config, host, metrics};
use anyhow::{Context, Result};
use clap::Args;
use humantime::{format_duration, format_rfc3339_seconds};
use scx_stats::StatsErrno;
use scx_stats::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Options of `scx_vrq status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// For scripts: one object, the same things and all counters.
    #[arg(long)]
    pub json: bool,
}

/// Options of `scx_vrq switch`.
#[derive(Clone, Debug, Args)]
pub struct SwitchArgs {
    /// Who is to schedule.
    #[arg(value_enum)]
    pub to: Owner,
}

/// Options of `scx_vrq tune`.
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// What to change, such as rr_interval=3; all of it or nothing. Without: list what there is.
    #[arg(value_name = "NAME=VALUE")]
    pub changes: Vec<String>,

    /// Write the values into the configuration file, too; what else is in it stays.
    #[arg(long)]
    pub save: bool,

    /// The configuration file of --save.
    #[arg(long, value_name = "PATH", default_value = config::PATH, requires = "save")]
    pub config: PathBuf,
}

/// A load under attack answers late.
const PATIENCE_MS: u64 = 60_000;

/// Who answers at the socket.
enum Reach {
    Vrq(Box<StatsClient>),
    /// Nobody.
    Absent,
    /// Only root may know.
    Denied,
    /// The statistics of another scheduler.
    Other,
}

fn reach() -> Reach {
    let mut client = match StatsClient::new().connect(Some(PATIENCE_MS)) {
        Ok(client) => client,
        Err(e) => {
            return match e.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
                Some(ErrorKind::PermissionDenied) => Reach::Denied,
                _ => Reach::Absent,
            };
        }
    };
    match ask::<LoaderStatus>(&mut client, Request::Status) {
        Ok(_) => Reach::Vrq(Box::new(client)),
        Err(_) => Reach::Other,
    }
}

/// Ask and understand a refusal: its sentence, and its kind as an exit status.
fn ask<T: DeserializeOwned>(client: &mut StatsClient, request: Request) -> Result<T> {
    client.request("control", request.args()).map_err(|e| match e.downcast_ref::<StatsErrno>() {
        Some(StatsErrno(errno)) => {
            let quoted = e.root_cause().to_string();
            failure(Refusal::status(*errno), serde_json::from_str::<String>(&quoted).unwrap_or(quoted))
        }
        None => e.context("scx_vrq does not answer"),
    })
}

fn say(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("stdout cannot be written")
}

/// Refuse to start beside a scx_vrq that has lent the machine to the kernel's own scheduler.
///
/// # Errors
/// Status 75.
pub fn none_waits() -> Result<()> {
    let Reach::Vrq(mut client) = reach() else { return Ok(()) };
    let status: LoaderStatus = ask(&mut client, Request::Status)?;
    let why = format!(
        "scx_vrq is loaded already, process {}: `scx_vrq switch vrq` gives it the machine, `scx_vrq stop` ends it",
        status.pid
    );
    Err(failure(Status::Busy, why))
}

/// Who has the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Kernel,
    ScxVrq,
    OtherSchedExt,
}

/// What `status` tells.
#[derive(Clone, Debug, Serialize)]
struct Report {
    /// Of this format.
    format: u32,
    scheduler: Kind,
    /// Of a sched_ext scheduler, as the kernel has it.
    name: Option<String>,
    since: Option<u64>,
    /// Of this program.
    version: &'static str,
    /// Why there is no more to tell.
    note: Option<&'static str>,
    loader: Option<LoaderStatus>,
    last_exit: Option<LastExit>,
}

impl Report {
    fn take() -> Self {
        let reach = reach();
        let name = host::ops().filter(|_| host::state().is_some_and(|s| s != "disabled"));
        let scheduler = match &name {
            None => Kind::Kernel,
            Some(name) if name.starts_with("vrq_") => Kind::ScxVrq,
            Some(_) => Kind::OtherSchedExt,
        };
        let note = match (&reach, scheduler) {
            _ if host::state().is_none() => Some("this kernel has no sched_ext (`scx_vrq check`)"),
            (Reach::Denied, Kind::ScxVrq | Kind::Kernel) => {
                Some("only root may know more (sudo, or --public-status on)")
            }
            (Reach::Absent | Reach::Other, Kind::ScxVrq) => {
                Some("scx_vrq has no control socket, so there is no more to tell")
            }
            _ => None,
        };
        let loader: Option<LoaderStatus> = match reach {
            Reach::Vrq(mut client) => ask(&mut client, Request::Status).ok(),
            _ => None,
        };
        let since = match &loader {
            Some(loader) => Some(loader.since),
            None if scheduler != Kind::Kernel => check::enabled_since().map(|s| now().saturating_sub(s)),
            None => None,
        };
        let last_exit = loader.as_ref().and_then(|l| l.last_exit.clone()).or_else(last_exit);
        Self { format: 1, scheduler, name, since, version: cli::version(), note, loader, last_exit }
    }
}

fn last_exit() -> Option<LastExit> {
    serde_json::from_str(&std::fs::read_to_string(LAST_EXIT).ok()?).ok()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// `scx_vrq status`.
///
/// # Errors
/// If stdout cannot be written.
pub fn status(args: &StatusArgs) -> Result<()> {
    let report = Report::take();
    say(&if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { shown(&report, now()) })
}

fn shown(report: &Report, now: u64) -> String {
    let mut text = String::new();
    let mut row = |what: &str, value: String| {
        let _ = writeln!(text, "{what:<10} {value}");
    };
    let name = report.name.as_deref().unwrap_or("a sched_ext scheduler without a name");
    row(
        "scheduler",
        match (report.scheduler, &report.loader) {
            (Kind::ScxVrq, _) => format!("scx_vrq ({name})"),
            (Kind::OtherSchedExt, _) => format!("{name}, another sched_ext scheduler"),
            (Kind::Kernel, Some(_)) => "the kernel's own; scx_vrq is loaded and waits (`scx_vrq switch vrq`)".into(),
            (Kind::Kernel, None) => "the kernel's own".into(),
        },
    );
    if let Some(since) = report.since {
        row("since", ago(since, now));
    }
    if let Some(note) = report.note {
        row("note", note.into());
    }
    if let Some(l) = &report.loader {
        row("loader", format!("scx_vrq {}, process {}, attachment {}", l.version, l.pid, l.attachments));
        row("machine", l.machine.clone());
        let queues = &l.queues;
        row("queues", format!("{} for all CPUs, {} for tasks that only one CPU can run", queues.global, queues.pinned));
        let t = l.tunables;
        row("tunables", format!("rr_interval_ms {}, max_wait_ms {}", t.rr_interval_ms, t.max_wait_ms));
        let c = &l.counters;
        let counters = [
            ("dispatches", "nr_dispatches", c.nr_dispatches),
            ("wake-ups", "nr_wakeups", c.nr_wakeups),
            ("preemptions", "nr_preemptions", c.nr_preemptions),
            ("idle CPUs woken", "nr_kicks_idle", c.nr_kicks_idle),
            ("slices used up", "nr_refills", c.nr_refills),
        ];
        for (i, (what, name, n)) in counters.into_iter().enumerate() {
            let rate = l.rates.get(name).copied().unwrap_or(0.0);
            row(if i == 0 { "counters" } else { "" }, format!("{what:<15} {n:>12} {rate:>10.1}/s"));
        }
        row("waits", format!("the longest {} ms, possible {} ms", c.longest_wait_ms, c.longest_wait_bound_ms));
    }
    if let Some(exit) = &report.last_exit {
        row("last exit", format!("{}: {}", ago(exit.at, now), exit.reason));
    }
    text
}

fn ago(at: u64, now: u64) -> String {
    let when = UNIX_EPOCH.checked_add(Duration::from_secs(at)).map(|t| format_rfc3339_seconds(t).to_string());
    format!("{}, {} ago", when.unwrap_or_default(), format_duration(Duration::from_secs(now.saturating_sub(at))))
}

/// Where nothing can be loaded, that; else why this one cannot be asked.
fn refusal(reach: &Reach) -> anyhow::Error {
    host::has_sched_ext().err().unwrap_or_else(|| cannot(reach, host::ops()))
}

/// The refusal of those who are not scx_vrq's masters, or whose scheduler is not scx_vrq.
fn cannot(reach: &Reach, name: Option<String>) -> anyhow::Error {
    match (reach, &name) {
        (_, Some(name)) if !name.starts_with("vrq_") => {
            let how = "stop it with what started it (`systemctl stop scx`, `scxctl stop`, or end its process)";
            failure(Status::Busy, format!("{name} has the machine, not scx_vrq: {how}"))
        }
        (Reach::Denied, _) => failure(Status::NotRoot, "only root may change who schedules, and how: run it with sudo"),
        (_, Some(_)) => {
            let how = "end its process, or press SysRq-S";
            failure(Status::Failed, format!("the scx_vrq that has the machine has no control socket: {how}"))
        }
        (_, None) => failure(Status::Failed, "scx_vrq is not loaded: start scx_vrq first (`sudo scx_vrq`)"),
    }
}

const KERNELS_OWN: &str = "the kernel's own scheduler has the machine";

/// `scx_vrq stop`.
///
/// # Errors
/// If another scheduler has the machine, for others than root, or if the kernel does not take the machine back.
pub fn stop() -> Result<()> {
    let mut client = match reach() {
        Reach::Vrq(client) => client,
        Reach::Absent | Reach::Other if host::ops().is_none() => {
            return say(&format!("nothing was loaded: {KERNELS_OWN}\n"));
        }
        reach => return Err(refusal(&reach)),
    };
    let _: serde_json::Value = ask(&mut client, Request::Stop)?;
    // It ends the connection when it has ended.
    while ask::<serde_json::Value>(&mut client, Request::Status).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    if !matches!(host::state().as_deref(), Some("disabled") | None)
        && !host::wait_for_state("disabled", Duration::from_secs(30))
    {
        return Err(failure(Status::Failed, "the kernel has not taken the machine back: press SysRq-S and see dmesg"));
    }
    say(&format!("scx_vrq has ended: {KERNELS_OWN}\n"))
}

/// `scx_vrq switch`.
///
/// # Errors
/// If no scx_vrq is loaded, for others than root, or if the kernel refuses.
pub fn switch(args: &SwitchArgs) -> Result<()> {
    let mut client = match reach() {
        Reach::Vrq(client) => client,
        Reach::Absent | Reach::Other if args.to == Owner::Default && host::ops().is_none() => {
            return say(&format!("{KERNELS_OWN} already, and scx_vrq is not loaded\n"));
        }
        reach => return Err(refusal(&reach)),
    };
    let answer: serde_json::Value = ask(&mut client, Request::Switch(args.to))?;
    let who = if args.to == Owner::Vrq { "scx_vrq has the machine" } else { KERNELS_OWN };
    say(&match answer["took_ms"].as_f64() {
        Some(took_ms) => format!("{who}, after {took_ms:.0} ms\n"),
        None => format!("{who} already\n"),
    })
}

/// What a change of tunables answers.
#[derive(serde::Deserialize)]
struct Tuned {
    old: Tunables,
    new: Tunables,
}

/// `scx_vrq tune`.
///
/// # Errors
/// For a wrong change, and if no scx_vrq is loaded that could be changed.
pub fn tune(args: &TuneArgs) -> Result<()> {
    let default = Tunables::default();
    default.with(&args.changes).map_err(|e| failure(Status::Usage, e))?;
    let only_lists = args.changes.is_empty() && !args.save;
    let mut client = match reach() {
        Reach::Vrq(client) => client,
        _ if only_lists => return say(&tune::table(None)),
        reach => return Err(refusal(&reach)),
    };
    let tuned: Tuned = ask(&mut client, Request::Tune(args.changes.clone()))?;
    if only_lists {
        return say(&tune::table(Some(tuned.new)));
    }
    if !args.changes.is_empty() {
        say(&tune::changes(tuned.old, tuned.new))?;
    }
    if args.save {
        config::save(&args.config, tuned.new)?;
        say(&format!("saved in {}\n", args.config.display()))?;
    }
    Ok(())
}

/// `scx_vrq metrics`.
///
/// # Errors
/// For others than root, if the status is not public.
pub fn metrics() -> Result<()> {
    let status: Option<LoaderStatus> = match reach() {
        Reach::Vrq(mut client) => Some(ask(&mut client, Request::Status)?),
        Reach::Denied => return Err(failure(Status::NotRoot, "only root may know (sudo, or --public-status on)")),
        Reach::Absent | Reach::Other => None,
    };
    say(&metrics::text(status.as_ref()))
}

/// Print the statistics of the scx_vrq that is loaded, until it ends.
///
/// # Errors
/// If none is, if another scheduler owns the socket, or if this user may not read it.
pub fn monitor(every: Duration) -> Result<()> {
    let mut client = match reach() {
        Reach::Vrq(client) => client,
        reach => return Err(refusal(&reach)),
    };
    while let Ok(counters) = client.request::<Counters>("stats", vec![]) {
        if writeln!(std::io::stdout(), "{counters}").is_err() {
            return Ok(());
        }
        std::thread::sleep(every);
    }
    log::info!("scx_vrq has ended");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(scheduler: Kind, name: Option<&str>) -> Report {
        let name = name.map(String::from);
        Report { format: 1, scheduler, name, since: None, version: "1", note: None, loader: None, last_exit: None }
    }

    #[test]
    fn status_says_who_schedules() {
        assert_eq!(shown(&report(Kind::Kernel, None), 0), "scheduler  the kernel's own\n");
        let other = Report { since: Some(60), ..report(Kind::OtherSchedExt, Some("simple")) };
        assert_eq!(
            shown(&other, 120),
            "scheduler  simple, another sched_ext scheduler\nsince      1970-01-01T00:01:00Z, 1m ago\n"
        );
        let exit = LastExit { at: 100, reason: "runnable task stall".into() };
        let ended = Report { last_exit: Some(exit), ..report(Kind::Kernel, None) };
        assert!(shown(&ended, 107).contains("last exit  1970-01-01T00:01:40Z, 7s ago: runnable task stall\n"));
    }

    #[test]
    fn who_cannot_be_asked_is_named_with_what_to_do() {
        for (reach, name, status, wanted) in [
            (Reach::Other, Some("simple"), Status::Busy, "simple has the machine, not scx_vrq: stop it with"),
            (Reach::Denied, Some("simple"), Status::Busy, "simple has the machine"),
            (Reach::Denied, Some("vrq_0.1.0"), Status::NotRoot, "sudo"),
            (Reach::Absent, Some("vrq_0.1.0"), Status::Failed, "no control socket"),
            (Reach::Absent, None, Status::Failed, "start scx_vrq first"),
        ] {
            let err = cannot(&reach, name.map(String::from));
            let failure = err.downcast_ref::<crate::failure::Failure>().expect("one of ours");
            assert!(failure.status == status && failure.why.contains(wanted), "{failure:?}");
        }
    }
}
