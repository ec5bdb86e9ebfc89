//! What outlives a load: counters, tunables, clients, and who is to schedule. A switch to the kernel's own scheduler
//! ends one load, a switch back begins another.

use crate::cli::{self, Config};
use crate::control::{Answer, Ask, Owner, Refusal, Request, Server};
use crate::job::Job;
use crate::stats::{Counters, Sample, Waits};
use crate::tune::Tunables;
use crate::{config, host, metrics};
use anyhow::Result;
use crossbeam_channel::Sender;
use log::warn;
use sd_notify::NotifyState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the last exit is kept, for `scx_vrq status` without a scheduler.
pub const LAST_EXIT: &str = "/run/scx_vrq/last-exit.json";

const METRICS_EVERY: Duration = Duration::from_secs(10);

/// A scheduler that is loaded.
pub trait Loaded {
    /// What it has counted since its load.
    ///
    /// # Errors
    /// If the kernel does not let read it.
    fn sample(&self) -> Result<Sample>;
    /// Change the tunables.
    fn tune(&mut self, tunables: Tunables);
    /// The last promise that was broken, in words.
    fn broken_promise(&self) -> String;
}

/// How scx_vrq ended, or gave the machine back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastExit {
    /// Seconds since 1970.
    pub at: u64,
    /// The kernel's words, or who asked for it.
    pub reason: String,
}

/// What the loader tells about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoaderStatus {
    /// Its process.
    pub pid: u32,
    /// Of scx_vrq, with the commit.
    pub version: String,
    /// Or has the kernel's own scheduler the machine, and scx_vrq waits?
    pub schedules: bool,
    /// Since when this one has the machine; seconds since 1970.
    pub since: u64,
    /// How often scx_vrq got the machine since its start.
    pub attachments: u64,
    /// In words.
    pub machine: String,
    /// One global queue, and one of each CPU for tasks that only it can run.
    pub queues: Queues,
    /// Their values.
    pub tunables: Tunables,
    /// Sums since the start.
    pub counters: Counters,
    /// How long tasks waited.
    pub waits: Waits,
    /// Events in a second, over the last one or two.
    pub rates: BTreeMap<String, f64>,
    /// The last time that scx_vrq gave the machine back.
    pub last_exit: Option<LastExit>,
}

/// The layout of the queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// The grq.
    pub global: u32,
    /// For tasks that only one CPU can run.
    pub pinned: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Owner(Owner),
    End(&'static str),
}

/// One start of scx_vrq.
pub struct Session<'a> {
    /// As it was started.
    pub config: &'a Config,
    /// As they are now.
    pub tunables: Tunables,
    job: Job,
    nice: i32,
    server: Option<Server>,
    wanted: Wanted,
    /// Who asked for the switch that is under way, and when.
    asked: Option<(Sender<Answer>, Instant)>,
    schedules: bool,
    since: SystemTime,
    attachments: u64,
    machine: String,
    nr_cpu_ids: u32,
    /// Of the loads that are over.
    totals: Sample,
    /// Two readings, the older one first, a second or more apart.
    seen: [(Instant, Counters); 2],
    metrics_at: Option<Instant>,
    promises_told: u64,
    overload_told: bool,
    last_exit: Option<LastExit>,
}

impl<'a> Session<'a> {
    /// `nice`: of what `job` runs.
    pub fn new(config: &'a Config, job: Job, nice: i32) -> Self {
        let nothing = || (Instant::now(), Counters::default());
        Self {
            config,
            tunables: config.tunables,
            job,
            nice,
            server: None,
            wanted: Wanted::Owner(Owner::Vrq),
            asked: None,
            schedules: false,
            since: SystemTime::now(),
            attachments: 0,
            machine: String::new(),
            nr_cpu_ids: 0,
            totals: Sample::default(),
            seen: [nothing(), nothing()],
            metrics_at: None,
            promises_told: 0,
            overload_told: false,
            last_exit: None,
        }
    }

    /// scx_vrq has the machine: whoever asked for it is answered, what is to run is started.
    ///
    /// # Errors
    /// If the command of `run` cannot be started.
    pub fn attached(&mut self, machine: &str, nr_cpu_ids: usize) -> Result<()> {
        (self.schedules, self.since) = (true, SystemTime::now());
        self.attachments += 1;
        (self.machine, self.nr_cpu_ids) = (machine.to_string(), nr_cpu_ids as u32);
        if self.server.is_none() {
            self.serve();
        }
        self.switched();
        tell_service_manager(&[NotifyState::Ready, NotifyState::Status("scx_vrq has the machine")]);
        self.job.start(self.nice)
    }

    /// Open the socket. Without one (its directory cannot be made, say) the scheduler runs all the same.
    fn serve(&mut self) {
        self.server = None;
        match Server::open(self.config.public_status) {
            Ok(server) => self.server = Some(server),
            Err(e) => warn!("no statistics and no control for other programs, the socket cannot be opened: {e:#}"),
        }
    }

    /// The kernel's own scheduler has the machine; `sample` is what the load that is over has counted.
    /// `why` are the kernel's words, which say little if `we_asked` for it.
    pub fn detached(&mut self, sample: Sample, we_asked: bool, why: &str) {
        (self.schedules, self.since) = (false, SystemTime::now());
        self.totals = self.totals.plus(&sample);
        tell_service_manager(&[NotifyState::Status("the kernel's own scheduler has the machine")]);
        let reason = match self.wanted {
            Wanted::End(reason) if we_asked => reason,
            Wanted::Owner(Owner::Default) if we_asked => "asked for by scx_vrq switch default",
            _ => why,
        };
        self.note_exit(reason);
    }

    fn note_exit(&mut self, reason: &str) {
        let exit = LastExit { at: unix(SystemTime::now()), reason: reason.to_string() };
        if let (Some(dir), Ok(json)) = (Path::new(LAST_EXIT).parent(), serde_json::to_string(&exit)) {
            // Without it `status` knows less.
            let _ = std::fs::create_dir_all(dir).and_then(|()| config::replace(Path::new(LAST_EXIT), &(json + "\n")));
        }
        self.last_exit = Some(exit);
    }

    /// Is `owner` to have the machine still?
    pub fn wants(&mut self, owner: Owner, stopped: bool) -> bool {
        if stopped {
            self.wanted = Wanted::End("stopped by a signal");
        } else if let Some(reason) = self.job.over() {
            self.wanted = Wanted::End(reason);
        }
        self.wanted == Wanted::Owner(owner)
    }

    /// The switch that was asked for is done.
    pub fn switched(&mut self) {
        if let Some((to, at)) = self.asked.take() {
            let took_ms = at.elapsed().as_secs_f64() * 1e3;
            let _ = to.send(Ok(serde_json::json!({ "switched": true, "took_ms": took_ms, "pid": std::process::id() })));
        }
    }

    /// The switch to scx_vrq that was asked for failed: say so, and leave the machine with the kernel's own scheduler.
    /// Returns whether anybody had asked.
    pub fn not_switched(&mut self, errno: i32, why: &str) -> bool {
        let Some((to, _)) = self.asked.take().filter(|_| !self.schedules) else { return false };
        let _ = to.send(Err(Refusal::new(errno, why)));
        self.wanted = Wanted::Owner(Owner::Default);
        true
    }

    /// Answer one client, if one asks within `wait`.
    pub fn answer(&mut self, wait: Duration, loaded: Option<&mut dyn Loaded>) {
        let Some(server) = &self.server else {
            std::thread::sleep(wait);
            return;
        };
        // A client that has gone does not wait for its answer.
        match server.asks().recv_timeout(wait) {
            Ok(Ask::Sample(to)) => {
                if let Ok(now) = self.sample(loaded.as_deref()) {
                    let _ = to.send(now);
                }
            }
            Ok(Ask::Control(Request::Switch(owner), to)) => match self.wanted {
                Wanted::Owner(now) if now == owner => {
                    let _ = to.send(Ok(serde_json::json!({ "switched": false, "pid": std::process::id() })));
                }
                _ => {
                    self.wanted = Wanted::Owner(owner);
                    self.asked = Some((to, Instant::now()));
                }
            },
            Ok(Ask::Control(request, to)) => {
                let _ = to.send(self.carry_out(request, loaded));
            }
            Err(_) => {}
        }
    }

    fn carry_out(&mut self, request: Request, loaded: Option<&mut dyn Loaded>) -> Answer {
        let failed = |e: String| Refusal::new(libc::EIO, e);
        match request {
            Request::Stop => {
                self.wanted = Wanted::End("asked for by scx_vrq stop");
                Ok(serde_json::json!({ "stopping": true, "pid": std::process::id() }))
            }
            Request::Tune(words) => {
                let old = self.tunables;
                self.tunables = old.with(&words).map_err(Refusal::wrong)?;
                if let Some(loaded) = loaded {
                    loaded.tune(self.tunables);
                }
                Ok(serde_json::json!({ "old": old, "new": self.tunables }))
            }
            Request::Status | Request::Switch(_) => {
                let now = self.sample(loaded.as_deref()).map_err(|e| failed(format!("{e:#}")))?.clone();
                serde_json::to_value(self.status(now)).map_err(|e| failed(e.to_string()))
            }
        }
    }

    /// Sums since the start.
    ///
    /// # Errors
    /// If the kernel does not let read them.
    pub fn sample(&self, loaded: Option<&dyn Loaded>) -> Result<Sample> {
        Ok(match loaded {
            Some(loaded) => self.totals.plus(&loaded.sample()?),
            None => self.totals.clone(),
        })
    }

    fn status(&self, now: Sample) -> LoaderStatus {
        let (at, before) = &self.seen[0];
        let seconds = at.elapsed().as_secs_f64().max(0.001);
        let events = serde_json::to_value(now.counters.since(before)).unwrap_or_default();
        let rate = |(name, n): (&String, &serde_json::Value)| Some((name.clone(), rounded(n.as_f64()? / seconds)));
        let rates = events.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("nr_"));
        LoaderStatus {
            pid: std::process::id(),
            version: cli::version().into(),
            schedules: self.schedules,
            since: unix(self.since),
            attachments: self.attachments,
            machine: format!("Linux {}, {}", host::release(), self.machine),
            queues: Queues { global: 1, pinned: self.nr_cpu_ids },
            tunables: self.tunables,
            rates: rates.filter_map(rate).collect(),
            counters: now.counters,
            waits: now.waits,
            last_exit: self.last_exit.clone(),
        }
    }

    /// Once a second: note what was counted; was a promise broken, does overload begin?
    ///
    /// # Errors
    /// If the kernel does not let read the counters.
    pub fn look(&mut self, loaded: Option<&dyn Loaded>) -> Result<()> {
        if self.seen[1].0.elapsed() < Duration::from_secs(1) {
            return Ok(());
        }
        let sample = self.sample(loaded)?;
        let now = sample.counters.clone();
        self.seen.swap(0, 1);
        self.seen[1] = (Instant::now(), now.clone());
        if self.metrics_at.is_none_or(|at| Instant::now() >= at) {
            let level = if self.metrics_at.is_none() { log::Level::Warn } else { log::Level::Debug };
            self.metrics_at = Some(Instant::now() + METRICS_EVERY);
            self.write_metrics(Some(&self.status(sample)), level);
        }
        let Some(loaded) = loaded else {
            // Another scheduler may have come, taken the place of the socket, and gone.
            if self.server.as_ref().is_some_and(Server::is_displaced) && host::state().as_deref() == Some("disabled") {
                self.serve();
            }
            return Ok(());
        };
        if now.nr_overload_slices > 0 && !self.overload_told {
            self.overload_told = true;
            warn!(
                "overload: so many tasks were queued that one could have waited longer than {} ms: slices are shortened \
                 (this is said once, nr_overload_slices counts)",
                self.tunables.max_wait_ms
            );
        }
        if now.nr_broken_promises > self.promises_told {
            self.promises_told = now.nr_broken_promises;
            warn!("{} ({} such waits so far)", loaded.broken_promise(), self.promises_told);
        }
        Ok(())
    }

    /// A full disk does not end a scheduler; the reader sees the age of the file.
    fn write_metrics(&self, status: Option<&LoaderStatus>, level: log::Level) {
        if let Some(path) = &self.config.metrics_file
            && let Err(e) = config::replace(path, &metrics::text(status))
        {
            log::log!(level, "{} cannot be written (this is said once): {e}", path.display());
        }
    }

    /// The machine is given back for good: wait for what `run` runs.
    ///
    /// # Errors
    /// Those of the scheduler.
    pub fn end(self, result: Result<()>, stopped: impl Fn() -> bool) -> Result<std::process::ExitCode> {
        self.write_metrics(None, log::Level::Debug);
        let Self { job, server, .. } = self;
        drop(server);
        job.end(result, stopped)
    }
}

/// systemd, if it started this process.
fn tell_service_manager(states: &[NotifyState]) {
    if let Err(e) = sd_notify::notify(states) {
        log::debug!("the service manager cannot be told: {e}");
    }
}

fn unix(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}
