//! What the rounds need from a machine, behind one trait: the real one here, a mock in the tests.

use super::counters::{self, Counters};
use super::cpus::{self, TakenOffline};
use super::execute::{self, Usage, failure};
use super::noise::{self, CpuTimes};
use super::record::Point;
use super::sched_ext::SchedExt;
use super::schedstat;
use super::scheduler_spec::{SchedulerKind, SchedulerSpec};
use super::scheduler_under_test::SchedulerUnderTest;
use super::workload::{Outcome, Scratch, Workload, last_line, output_to};
use crate::failure::{Status, failure as fail};
use anyhow::{Result, bail, ensure};
use std::path::PathBuf;

/// One reading of everything that only rises.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub schedstat: schedstat::Reading,
    /// scx_vrq's own; empty while another scheduler is in charge.
    pub counters: Counters,
    pub cpu_times: CpuTimes,
    /// Mean clock rate of the CPUs, where the kernel tells it.
    pub mhz: Option<f64>,
}

/// Which end of a measurement a sample is taken at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Start,
    End,
}

/// In the order in which a run calls them; only `execute` is timed.
pub trait Machine {
    /// Brings as many CPUs online as the point asks for, and makes the workload ready.
    fn prepare(&mut self, point: &Point) -> Result<()>;
    /// Puts the scheduler in charge; returns the kernel's name for it, None for the kernel's own.
    fn attach(&mut self, spec: &SchedulerSpec) -> Result<Option<String>>;
    fn sample(&mut self, edge: Edge) -> Result<Sample>;
    fn execute(&mut self, point: &Point) -> Result<Usage>;
    /// Fails if the scheduler that was attached is no longer in charge.
    fn ensure_in_charge(&mut self) -> Result<()>;
    /// What the workload says of itself; fails if what was executed came to a wrong result.
    fn check(&mut self) -> Result<Outcome>;
    /// Puts the kernel's own scheduler back; harmless if it is in charge already.
    fn detach(&mut self) -> Result<()>;
}

/// The machine that this runs on.
pub struct ThisMachine {
    sched_ext: SchedExt,
    workload: Box<dyn Workload>,
    attached: Option<SchedulerUnderTest>,
    serves_counters: bool,
    offline: Option<TakenOffline>,
    // Fields drop in this order: the scheduler goes first, its log's folder last.
    _statistics_on: schedstat::Switch,
    scratch: Scratch,
}

impl ThisMachine {
    pub fn new(mut workload: Box<dyn Workload>) -> Result<ThisMachine> {
        let sched_ext = SchedExt::default();
        if !sched_ext.present() {
            return Err(fail(Status::Kernel, "this kernel has no sched_ext: boot one that has, or run without --host"));
        }
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return Err(fail(Status::NotRoot, "--host changes the machine's scheduler: run it as root"));
        }
        sched_ext.ensure_disabled().map_err(|error| fail(Status::Busy, error.to_string()))?;
        let scratch = Scratch::new()?;
        workload.set_up(scratch.path())?;
        Ok(ThisMachine {
            sched_ext,
            workload,
            attached: None,
            serves_counters: false,
            offline: None,
            _statistics_on: schedstat::Switch::on()?,
            scratch,
        })
    }

    /// Where the workload's own words go.
    fn output(&self) -> PathBuf {
        self.scratch.path().join("workload.log")
    }
}

impl Machine for ThisMachine {
    fn prepare(&mut self, point: &Point) -> Result<()> {
        if point.cpus != cpus::online() {
            self.offline = None;
        }
        if point.cpus != cpus::online() {
            self.offline = Some(TakenOffline::all_but(point.cpus)?);
            ensure!(point.cpus == cpus::online(), "{} CPUs are wanted, {} are online", point.cpus, cpus::online());
        }
        self.workload.prepare(point.jobs)
    }

    fn attach(&mut self, spec: &SchedulerSpec) -> Result<Option<String>> {
        let log = self.scratch.path().join("scheduler.log");
        let scheduler = SchedulerUnderTest::start(spec, self.sched_ext.clone(), &log)?;
        let ops = scheduler.ops().map(String::from);
        self.attached = Some(scheduler);
        if let SchedulerKind::Vrq { .. } = spec.kind {
            counters::wait_for_vrq()?;
            self.serves_counters = true;
        }
        Ok(ops)
    }

    /// The kernel's window encloses scx_vrq's, so that what holds for every moment (dispatches are
    /// at most sched_count) holds for the differences too.
    fn sample(&mut self, edge: Edge) -> Result<Sample> {
        let mut sample = Sample { mhz: noise::mean_mhz(), ..Sample::default() };
        if edge == Edge::Start {
            (sample.schedstat, sample.cpu_times) = (schedstat::read()?, CpuTimes::read()?);
        }
        if self.serves_counters {
            sample.counters = counters::read_vrq()?;
        }
        if edge == Edge::End {
            (sample.schedstat, sample.cpu_times) = (schedstat::read()?, CpuTimes::read()?);
        }
        Ok(sample)
    }

    fn execute(&mut self, point: &Point) -> Result<Usage> {
        let output = self.output();
        let mut command = self.workload.command(point.jobs)?;
        output_to(&mut command, &output)?;
        let (status, usage) = execute::run(&mut command)?;
        if let Some(how) = failure(status) {
            let program = command.get_program().to_string_lossy().into_owned();
            bail!("{program} {how}: {}", last_line(&output));
        }
        Ok(usage)
    }

    fn check(&mut self) -> Result<Outcome> {
        self.workload.check(&self.output())
    }

    fn ensure_in_charge(&mut self) -> Result<()> {
        self.attached.as_mut().map_or(Ok(()), SchedulerUnderTest::ensure_still_in_charge)
    }

    fn detach(&mut self) -> Result<()> {
        self.serves_counters = false;
        self.attached.take().map_or(Ok(()), SchedulerUnderTest::stop)
    }
}
