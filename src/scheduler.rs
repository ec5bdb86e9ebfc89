//! The one file that opens, sets, loads, attaches, waits and detaches.

use crate::bpf_skel::{BpfSkel, BpfSkelBuilder};
use crate::cli::{self, Config};
use crate::failure::{Status, failure};
use crate::policy::{VRQ_MAX_CPUS, vrq_cpu, vrq_topology};
use crate::stats::{Counters, Sample, Waits};
use crate::topology::Machine;
use crate::{cgroups, host, policy, stats};
use anyhow::{Context, Result};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, PrintLevel};
use log::{info, warn};
use scx_utils::{compat, scx_ops_attach, scx_ops_load, scx_ops_open};
use std::collections::VecDeque;
use std::io::Write;
use std::mem::{MaybeUninit, size_of};
use std::sync::Mutex;
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
    const SYSRQ: i32 = 67;
    const ERROR: i32 = 1024;

    fn wants_reload(&self) -> bool {
        let restart = compat::read_enum("scx_exit_code", "SCX_ECODE_ACT_RESTART").unwrap_or(0) as i64;
        self.kind != 0 && restart != 0 && self.code & restart != 0
    }
}

/// Schedule this machine until a signal comes or the kernel ends it.
///
/// # Errors
/// Every way to end but "stopped by the user or the administrator"; see [`Status`].
pub fn run(config: &Config) -> Result<()> {
    host::check()?;
    answer_under_load();
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)).context("signals cannot be caught")?;
    let mut reloads = 0;
    loop {
        let exit = run_once(config)?;
        print_owner();
        if exit.wants_reload() && reloads < MAX_RELOADS && !STOP.load(Ordering::Relaxed) {
            reloads += 1;
            info!("the kernel asks for a restart ({}): reload {reloads} of {MAX_RELOADS}", exit.why);
            continue;
        }
        return end(&exit, reloads);
    }
}

/// This process watches and tunes: with nice -20 its deadlines are near, so it answers under any load.
fn answer_under_load() {
    // SAFETY: changes the priority of this process only.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } != 0 {
        log::debug!("nice -20 refused: statistics may be slow under load");
    }
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
fn run_once(config: &Config) -> Result<Exit> {
    let machine = Machine::read().context("the CPUs of this machine cannot be read from sysfs")?;
    let mut object = MaybeUninit::uninit();
    let mut skel = load(config, &machine, &mut object)?;
    let link = attach(&mut skel)?;
    let result = watch(config, &machine, &skel);
    detach(link)?;
    result?;
    read_exit(&skel)
}

fn load<'obj>(config: &Config, machine: &Machine, object: &'obj mut MaybeUninit<OpenObject>) -> Result<BpfSkel<'obj>> {
    if machine.nr_cpu_ids > VRQ_MAX_CPUS as usize {
        let n = machine.nr_cpu_ids;
        return Err(failure(Status::Kernel, format!("{n} CPUs are more than the {VRQ_MAX_CPUS} scx_vrq is built for")));
    }
    libbpf_rs::set_print(Some((PrintLevel::Debug, keep_libbpf_line)));
    let open_opts = config.libbpf.clone().into_bpf_open_opts();
    let mut skel =
        scx_ops_open!(BpfSkelBuilder::default(), object, vrq_ops, open_opts).map_err(|e| e.context(libbpf_lines()))?;

    let rodata = skel.maps.rodata_data.as_mut().context("the BPF object has no rodata")?;
    rodata.max_wait_ms = config.max_wait_ms;
    rodata.nr_cpu_ids = machine.nr_cpu_ids as u32;
    rodata.tick_ns = host::tick_ns();
    rodata.resched_best_idle = config.resched_best_idle;
    rodata.idle_fast_path = config.idle_fast_path;
    let immed = compat::read_enum("scx_enq_flags", "SCX_ENQ_IMMED").is_ok();
    rodata.straight_to_idle = immed;
    #[cfg(feature = "faults")]
    set_fault(rodata);
    let data = skel.maps.data_data.as_mut().context("the BPF object has no data")?;
    data.rr_interval_ms = config.rr_interval_ms;
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
    let skel = scx_ops_load!(skel, vrq_ops, uei).map_err(|e| e.context(libbpf_lines()))?;
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
        Err(e) => Err(e.context(libbpf_lines()).context("the kernel refused scx_vrq")),
    }
}

/// Serve statistics and tell what is wrong until a signal comes or the kernel has ended the scheduler.
fn watch(config: &Config, machine: &Machine, skel: &BpfSkel) -> Result<()> {
    let mut observer = Observer::new(config, machine, skel);
    let server = stats::serve();
    announce(config, machine);
    let mut last = observer.sample()?.counters;
    let mut next = config.stats.map(|every| Instant::now() + every);
    while !STOP.load(Ordering::Relaxed) && exit_kind(skel) == 0 {
        match &server {
            Some(server) => server.answer(WATCH, &mut || observer.sample()),
            None => std::thread::sleep(WATCH),
        }
        observer.look()?;
        if let (Some(every), Some(due)) = (config.stats, next)
            && Instant::now() >= due
        {
            let now = observer.sample()?;
            // A closed terminal or a full disk does not end a scheduler.
            let _ = writeln!(std::io::stdout(), "{} | {}", now.counters.since(&last), now.waits);
            last = now.counters;
            next = Some(due + every);
        }
    }
    Ok(())
}

/// Reads what the BPF side counts, and says once what people should know.
struct Observer<'a, 'obj> {
    config: &'a Config,
    machine: &'a Machine,
    skel: &'a BpfSkel<'obj>,
    tick_ns: u32,
    longest_bound_ms: u64,
    promises_told: u64,
    overload_told: bool,
    look_at: Instant,
}

impl<'a, 'obj> Observer<'a, 'obj> {
    fn new(config: &'a Config, machine: &'a Machine, skel: &'a BpfSkel<'obj>) -> Self {
        Self {
            config,
            machine,
            skel,
            tick_ns: host::tick_ns(),
            longest_bound_ms: 0,
            promises_told: 0,
            overload_told: false,
            look_at: Instant::now(),
        }
    }

    fn sample(&mut self) -> Result<Sample> {
        self.note_bound();
        let cpus = read_cpus(self.skel, self.machine.nr_cpu_ids)?;
        let mut counters = Counters::from_cpus(&cpus, self.tick_ns.into());
        counters.longest_wait_bound_ms = self.longest_bound_ms;
        Ok(Sample { counters, waits: Waits::from_cpus(&cpus, self.tick_ns.into()) })
    }

    /// The bound grows with the tasks that are runnable: keep the largest.
    fn note_bound(&mut self) {
        let per_cpu = host::runnable().div_ceil(self.machine.online.len().max(1) as u64);
        let bound_ns = policy::wait_bound_ns(per_cpu, self.config.rr_interval_ms, self.tick_ns);
        self.longest_bound_ms = self.longest_bound_ms.max(bound_ns / 1_000_000);
    }

    /// Once a second: was a promise broken, does overload begin?
    fn look(&mut self) -> Result<()> {
        if Instant::now() < self.look_at {
            return Ok(());
        }
        self.look_at = Instant::now() + Duration::from_secs(1);
        let counters = self.sample()?.counters;
        if counters.nr_overload_slices > 0 && !self.overload_told {
            self.overload_told = true;
            warn!(
                "overload: so many tasks were queued that one could have waited longer than {} ms: slices are shortened \
                 (this is said once, nr_overload_slices counts)",
                self.config.max_wait_ms
            );
        }
        if counters.nr_broken_promises > self.promises_told {
            self.promises_told = counters.nr_broken_promises;
            self.tell_promise();
        }
        Ok(())
    }

    fn tell_promise(&self) {
        let Some(bss) = &self.skel.maps.bss_data else { return };
        let p = &bss.broken_promise;
        warn!(
            "{}[{}] waited {} ms, longer than the promised {} ms: {} CPUs allowed, taken by CPU {}, where {}[{}] ran \
             ({} such waits so far)",
            text(&p.comm),
            p.pid,
            p.waited_ms,
            self.config.max_wait_ms,
            p.nr_cpus_allowed,
            p.cpu,
            text(&p.ran_comm),
            p.ran_pid,
            self.promises_told
        );
    }
}

fn announce(config: &Config, machine: &Machine) {
    let _ = writeln!(
        std::io::stdout(),
        "scx_vrq {} schedules Linux {} on {}, rr_interval {} ms",
        cli::version(),
        host::release(),
        machine.shape,
        config.rr_interval_ms
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
    let _ = writeln!(std::io::stdout(), "scx_vrq has ended: {owner} has the machine");
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

// What libbpf says is kept and shown only if something fails: on success it reads like a failure.
const KEPT_LINES: usize = 30;
static LIBBPF_LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn keep_libbpf_line(level: PrintLevel, line: String) {
    log::debug!("{}", line.trim_end());
    if level != PrintLevel::Debug
        && let Ok(mut lines) = LIBBPF_LINES.lock()
    {
        lines.extend(line.lines().map(str::to_string));
        let excess = lines.len().saturating_sub(KEPT_LINES);
        lines.drain(..excess);
    }
}

fn libbpf_lines() -> String {
    let lines = LIBBPF_LINES.lock().map(|l| l.iter().cloned().collect::<Vec<_>>().join("\n")).unwrap_or_default();
    format!("libbpf's last words:\n{lines}\n(all of them with -v)")
}
