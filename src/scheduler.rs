//! The one file that opens, sets, loads, attaches, waits and detaches.

use crate::bpf_skel::{BpfSkel, BpfSkelBuilder, types};
use crate::cli::{self, Config};
use crate::control::Owner;
use crate::failure::{Failure, Status, failure};
use crate::job::Job;
use crate::policy::{VRQ_MAX_CPUS, vrq_cpu, vrq_topology};
use crate::session::{Loaded, Session};
use crate::stats::{Counters, Sample, Waits};
use crate::topology::Machine;
use crate::tune::Tunables;
use crate::{cgroups, client, host, libbpf_log, policy};
use anyhow::{Context, Result};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use log::{info, warn};
use scx_utils::{compat, scx_ops_attach, scx_ops_load, scx_ops_open};
use std::cell::Cell;
use std::io::Write;
use std::mem::{MaybeUninit, size_of};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MAX_RELOADS: u32 = 3;
/// How often the loop looks for a signal or an exit.
const WATCH: Duration = Duration::from_millis(100);
/// How long the kernel may take to go back to its own scheduler.
const DETACH_LIMIT: Duration = Duration::from_secs(30);

static STOP: AtomicBool = AtomicBool::new(false);

/// How a scheduler that ran has ended, from the kernel's exit record.
#[derive(Debug)]
struct Exit {
    kind: i32,
    code: i64,
    why: String,
    dump: String,
}

impl Exit {
    // enum scx_exit_kind; an ABI of the kernel.
    const UNREG: i32 = 64;
    const SYSRQ: i32 = 67;
    const ERROR: i32 = 1024;

    fn wants_reload(&self) -> bool {
        let restart = compat::read_enum("scx_exit_code", "SCX_ECODE_ACT_RESTART").unwrap_or(0) as i64;
        self.kind != 0 && restart != 0 && self.code & restart != 0
    }
}

/// Schedule this machine until a signal, a client or `job` ends it, or the kernel does. The status is the job's.
///
/// # Errors
/// Every way to end but "stopped by the user or the administrator"; see [`Status`].
pub fn run(config: &Config, job: Job) -> Result<ExitCode> {
    host::check()?;
    client::none_waits()?;
    let nice = answer_under_load();
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)).context("signals cannot be caught")?;
    let mut session = Session::new(config, job, nice);
    let result = schedule(&mut session);
    print_owner();
    session.end(result, stopped)
}

fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// One load after the other, with the kernel's own scheduler in between while a client wants that.
fn schedule(session: &mut Session) -> Result<()> {
    let mut reloads = 0;
    loop {
        match run_once(session) {
            Ok(exit) if exit.wants_reload() && reloads < MAX_RELOADS && !stopped() => {
                reloads += 1;
                info!("the kernel asks for a restart ({}): reload {reloads} of {MAX_RELOADS}", exit.why);
                continue;
            }
            Ok(exit) if exit.kind != Exit::UNREG || !session.wants(Owner::Default, stopped()) => {
                return end(&exit, reloads);
            }
            Ok(_) => session.switched(),
            Err(e) => {
                let busy = e.downcast_ref::<Failure>().is_some_and(|f| f.status == Status::Busy);
                if !session.not_switched(if busy { libc::EBUSY } else { libc::EIO }, &format!("{e:#}")) {
                    return Err(e);
                }
            }
        }
        print_owner();
        // Waiting costs nothing but a look for a signal.
        while session.wants(Owner::Default, stopped()) {
            session.answer(WATCH, None);
            session.look(None)?;
        }
        if !session.wants(Owner::Vrq, stopped()) {
            return Ok(());
        }
    }
}

/// This process watches and tunes: with nice -20 its deadlines are near, so it answers under any load. Returns the nice
/// that it had.
fn answer_under_load() -> i32 {
    // SAFETY: reads and changes the priority of this process only.
    let (nice, result) =
        unsafe { (libc::getpriority(libc::PRIO_PROCESS, 0), libc::setpriority(libc::PRIO_PROCESS, 0, -20)) };
    if result != 0 {
        log::debug!("nice -20 refused: statistics may be slow under load");
    }
    nice
}

fn end(exit: &Exit, reloads: u32) -> Result<()> {
    if exit.wants_reload() && reloads == MAX_RELOADS {
        return Err(failure(Status::Failed, format!("reloaded {MAX_RELOADS} times already, gave up ({})", exit.why)));
    }
    match exit.kind {
        kind if kind >= Exit::ERROR => {
            if !exit.dump.is_empty() {
                let _ = writeln!(std::io::stderr(), "{}", exit.dump);
            }
            Err(failure(
                Status::Ejected,
                format!("ejected by the kernel: {}: please report this with the lines above", exit.why),
            ))
        }
        Exit::SYSRQ => {
            info!("stopped by the administrator: {}", exit.why);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// From open to detach. `Err`: it never ran, or the kernel did not take the machine back.
fn run_once(session: &mut Session) -> Result<Exit> {
    host::machine_is_free()?;
    let machine = Machine::read().context("the CPUs of this machine cannot be read from sysfs")?;
    let mut object = MaybeUninit::uninit();
    let mut skel = load(session.config, session.tunables, &machine, &mut object)?;
    let link = attach(&mut skel)?;
    let mut live = Live { machine: &machine, skel, tunables: session.tunables, bound_ms: Cell::new(0) };
    let started = session.attached(&machine.shape, machine.nr_cpu_ids);
    announce(session, &machine);
    let result = started.and_then(|()| watch(session, &mut live));
    let sample = live.sample();
    detach(link)?;
    let exit = read_exit(&live.skel)?;
    session.detached(sample?, exit.kind == Exit::UNREG, &exit.why);
    result?;
    Ok(exit)
}

fn load<'obj>(
    config: &Config,
    tunables: Tunables,
    machine: &Machine,
    object: &'obj mut MaybeUninit<OpenObject>,
) -> Result<BpfSkel<'obj>> {
    if machine.nr_cpu_ids > VRQ_MAX_CPUS as usize {
        let n = machine.nr_cpu_ids;
        return Err(failure(Status::Kernel, format!("{n} CPUs are more than the {VRQ_MAX_CPUS} scx_vrq is built for")));
    }
    let open_opts = config.libbpf.clone().into_bpf_open_opts();
    let mut skel = scx_ops_open!(BpfSkelBuilder::default(), object, vrq_ops, open_opts)
        .map_err(|e| e.context(libbpf_log::last_words()))?;

    let rodata = skel.maps.rodata_data.as_mut().context("the BPF object has no rodata")?;
    rodata.nr_cpu_ids = machine.nr_cpu_ids as u32;
    rodata.tick_ns = host::tick_ns();
    rodata.resched_best_idle = config.resched_best_idle;
    rodata.idle_fast_path = config.idle_fast_path;
    let immed = compat::read_enum("scx_enq_flags", "SCX_ENQ_IMMED").is_ok();
    rodata.straight_to_idle = immed;
    #[cfg(feature = "faults")]
    set_fault(rodata);
    let data = skel.maps.data_data.as_mut().context("the BPF object has no data")?;
    set_tunables(data, tunables);
    data.nr_online = machine.online.len() as u32;
    skel.maps.cpus.set_max_entries(machine.nr_cpu_ids as u32)?;
    skel.maps.topology.set_max_entries(machine.nr_cpu_ids as u32)?;

    let ops = skel.struct_ops.vrq_ops_mut();
    ops.exit_dump_len = config.exit_dump_len;
    // How tasks come back from under a higher class, see vrq_sched_switch: one way of the three.
    let from_anywhere = compat::in_kallsyms("scx_bpf_reenqueue_local___v2").unwrap_or(false);
    if immed || from_anywhere {
        ops.cpu_release = std::ptr::null_mut();
        skel.progs.vrq_cpu_release.set_autoload(false);
    }
    if immed || !from_anywhere {
        skel.progs.vrq_sched_switch.set_autoload(false);
    }
    let skel = scx_ops_load!(skel, vrq_ops, uei).map_err(|e| e.context(libbpf_log::last_words()))?;
    fill_maps(&skel, machine)?;
    Ok(skel)
}

/// For the tests: VRQ_FAULT (1 and up, see enum vrq_fault) switches a mechanism off, VRQ_GUARD_MS shortens the guard.
#[cfg(feature = "faults")]
fn set_fault(rodata: &mut crate::bpf_skel::types::rodata) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    rodata.fault = number("VRQ_FAULT").unwrap_or(rodata.fault);
    rodata.guard_ms = number("VRQ_GUARD_MS").unwrap_or(rodata.guard_ms);
}

fn fill_maps(skel: &BpfSkel, machine: &Machine) -> Result<()> {
    for cpu in 0..machine.nr_cpu_ids {
        let key = (cpu as u32).to_ne_bytes();
        skel.maps.topology.update(&key, bytes_of(machine.near(cpu)), MapFlags::ANY)?;
        // SAFETY: a plain struct of integers, for which zero is a value.
        let mut state: vrq_cpu = unsafe { std::mem::zeroed() };
        state.online = machine.online.contains(&cpu).into();
        skel.maps.cpus.update(&key, bytes_of(&state), MapFlags::ANY)?;
    }
    Ok(())
}

/// Structs that intf.h shares: integers only, without padding.
trait Shared {}
impl Shared for vrq_cpu {}
impl Shared for vrq_topology {}

fn bytes_of<T: Shared>(value: &T) -> &[u8] {
    // SAFETY: T holds integers only and has no padding, so each of its bytes is initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn attach(skel: &mut BpfSkel) -> Result<Link> {
    match scx_ops_attach!(skel, vrq_ops) {
        Ok(link) => Ok(link),
        // Somebody was faster between the check and here.
        Err(_) if host::state().is_some_and(|s| s != "disabled") && host::ops().is_some() => {
            Err(host::busy(&host::state().unwrap_or_default()))
        }
        Err(e) => Err(e.context(libbpf_log::last_words()).context("the kernel refused scx_vrq")),
    }
}

/// Serve clients and tell what is wrong until another one is to have the machine or the kernel has ended the scheduler.
fn watch(session: &mut Session, live: &mut Live) -> Result<()> {
    let mut last = session.sample(Some(live))?.counters;
    let mut next = session.config.stats.map(|every| Instant::now() + every);
    while session.wants(Owner::Vrq, stopped()) && exit_kind(&live.skel) == 0 {
        session.answer(WATCH, Some(live));
        session.look(Some(live))?;
        if let (Some(every), Some(due)) = (session.config.stats, next)
            && Instant::now() >= due
        {
            let now = session.sample(Some(live))?;
            // A closed terminal or a full disk does not end a scheduler.
            let _ = writeln!(std::io::stdout(), "{} | {}", now.counters.since(&last), now.waits);
            last = now.counters;
            next = Some(due + every);
        }
    }
    Ok(())
}

/// A load that has the machine.
struct Live<'a, 'obj> {
    machine: &'a Machine,
    skel: BpfSkel<'obj>,
    tunables: Tunables,
    /// The largest so far.
    bound_ms: Cell<u64>,
}

impl Loaded for Live<'_, '_> {
    fn sample(&self) -> Result<Sample> {
        let tick_ns = host::tick_ns();
        // The bound grows with the tasks that are runnable: keep the largest.
        let per_cpu = host::runnable().div_ceil(self.machine.online.len().max(1) as u64);
        let bound_ns = policy::wait_bound_ns(per_cpu, self.tunables.rr_interval_ms, tick_ns);
        self.bound_ms.set(self.bound_ms.get().max(bound_ns / 1_000_000));
        let cpus = read_cpus(&self.skel, self.machine.nr_cpu_ids)?;
        let mut counters = Counters::from_cpus(&cpus, tick_ns.into());
        counters.longest_wait_bound_ms = self.bound_ms.get();
        Ok(Sample { counters, waits: Waits::from_cpus(&cpus, tick_ns.into()) })
    }

    fn tune(&mut self, tunables: Tunables) {
        self.tunables = tunables;
        if let Some(data) = self.skel.maps.data_data.as_mut() {
            set_tunables(data, tunables);
        }
    }

    fn broken_promise(&self) -> String {
        let Some(bss) = &self.skel.maps.bss_data else { return String::new() };
        let p = &bss.broken_promise;
        format!(
            "{}[{}] waited {} ms, longer than the promised {} ms: {} CPUs allowed, taken by CPU {}, where {}[{}] ran",
            text(&p.comm),
            p.pid,
            p.waited_ms,
            self.tunables.max_wait_ms,
            p.nr_cpus_allowed,
            p.cpu,
            text(&p.ran_comm),
            p.ran_pid,
        )
    }
}

/// The BPF side reads each with one load, whenever it needs it.
fn set_tunables(data: &mut types::data, tunables: Tunables) {
    let max_wait_ticks = u64::from(tunables.max_wait_ms) * 1_000_000 / u64::from(host::tick_ns());
    for (place, value) in [
        (&mut data.rr_interval_ms, tunables.rr_interval_ms),
        (&mut data.max_wait_ms, tunables.max_wait_ms),
        (&mut data.max_wait_ticks, max_wait_ticks as u32),
    ] {
        // SAFETY: an aligned field of ours; volatile, because the kernel reads it meanwhile.
        unsafe { std::ptr::write_volatile(place, value) };
    }
}

fn announce(session: &Session, machine: &Machine) {
    let _ = writeln!(
        std::io::stdout(),
        "scx_vrq {} schedules Linux {} on {}, rr_interval {} ms",
        cli::version(),
        host::release(),
        machine.shape,
        session.tunables.rr_interval_ms
    );
    let groups = cgroups::not_honoured();
    if !groups.is_empty() {
        warn!("cpu.max, cpu.weight and cpu.idle are not honoured: this concerns {}", cgroups::summary(&groups));
    }
}

/// Give the machine back and wait until the kernel says so.
fn detach(link: Link) -> Result<()> {
    drop(link);
    if host::wait_for_state("disabled", DETACH_LIMIT) {
        return Ok(());
    }
    Err(failure(
        Status::Failed,
        format!("the kernel has not taken the machine back in {DETACH_LIMIT:?}: press SysRq-S and see dmesg"),
    ))
}

fn print_owner() {
    let owner = host::ops().unwrap_or_else(|| "the kernel's own scheduler".into());
    let _ = writeln!(std::io::stdout(), "scx_vrq has detached: {owner} has the machine");
}

fn read_cpus(skel: &BpfSkel, nr_cpu_ids: usize) -> Result<Vec<vrq_cpu>> {
    let mut cpus = Vec::with_capacity(nr_cpu_ids);
    for cpu in 0..nr_cpu_ids as u32 {
        let value = skel.maps.cpus.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?.context("a CPU has no counters")?;
        anyhow::ensure!(value.len() >= size_of::<vrq_cpu>(), "counters of another version");
        // SAFETY: the length was checked, and every bit pattern is a value of this struct of integers.
        cpus.push(unsafe { std::ptr::read_unaligned(value.as_ptr().cast::<vrq_cpu>()) });
    }
    Ok(cpus)
}

/// Text of the kernel's. Names in it may end inside a character, so it is read leniently.
fn text(chars: &[i8]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn exit_kind(skel: &BpfSkel) -> i32 {
    match &skel.maps.data_data {
        // SAFETY: a field of a mapped section that the kernel writes; the reference is valid.
        Some(data) => unsafe { std::ptr::read_volatile(&data.uei.kind) },
        None => 0,
    }
}

/// The kernel's exit record.
fn read_exit(skel: &BpfSkel) -> Result<Exit> {
    let uei = &skel.maps.data_data.as_ref().context("the BPF object has no data")?.uei;
    let (reason, msg) = (text(&uei.reason), text(&uei.msg));
    let dump = skel.maps.data_uei_dump.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    let dump_len = dump.iter().position(|b| *b == 0).unwrap_or(dump.len());
    Ok(Exit {
        kind: exit_kind(skel),
        code: uei.exit_code,
        why: if msg.is_empty() { reason } else { format!("{reason} ({msg})") },
        dump: String::from_utf8_lossy(&dump[..dump_len]).into_owned(),
    })
}
