//! A long time under everything at once, chosen by a seed: tasks of every kind come, change and go, CPUs too, the
//! loader is stopped and replaced; from outside it is watched that nobody is lost.
//!
//! SOAK_S: for how many seconds (default 20). SOAK_SEED: the seed, which is printed, to have the same choices again.

use crate::guest::*;
use crate::harness::*;
use crate::observer::assert_no_wait_beside_idle;
use std::collections::BTreeMap;
use std::time::Instant;

/// What the kernel says of operations of ours, and not of the scheduler.
const EXPECTED: [&str; 3] = [Dmesg::MOVED[0], Dmesg::MOVED[1], "DL replenish lagged too much"];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

enum Actor {
    Hogs(Hogs),
    Sleeper(Sleeper),
    PingPong(PingPong),
    Yielder(Proc),
}

impl Actor {
    fn random(random: &mut fastrand::Rng) -> Self {
        let policies = [libc::SCHED_OTHER, libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
        let hog = Hog {
            nice: random.i32(-20..20),
            policy: policies[random.usize(..policies.len())],
            // CPU 0 is always there.
            cpus: if random.u8(..3) == 0 { 1 | random.u64(..=all_cpus()) } else { 0 },
        };
        match random.u8(..8) {
            0..3 => Self::Hogs(Hogs::same(random.usize(1..=nr_cpus()), hog)),
            3..6 => {
                let (sleep, work) = (random.u64(1..20), random.u64(..4));
                Self::Sleeper(Sleeper::start(hog, move || (ms(sleep), ms(work))))
            }
            6 => Self::PingPong(PingPong::start()),
            _ => Self::Yielder(Proc::fork(|rounds| {
                loop {
                    // SAFETY: takes no arguments.
                    unsafe { libc::sched_yield() };
                    rounds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            })),
        }
    }

    fn assert_alive(&self) {
        match self {
            Self::Hogs(hogs) => hogs.assert_alive(),
            Self::Sleeper(sleeper) => {
                let before = sleeper.rounds();
                wait_until("the sleeper has run again", || sleeper.rounds() > before);
            }
            Self::PingPong(pair) => pair.0.iter().for_each(Proc::assert_alive),
            Self::Yielder(process) => process.assert_alive(),
        }
    }

    fn tids(&self) -> Vec<i32> {
        match self {
            Self::Hogs(hogs) => hogs.tids().to_vec(),
            Self::Sleeper(sleeper) => vec![sleeper.tid()],
            Self::PingPong(pair) => pair.0.iter().map(Proc::pid).collect(),
            Self::Yielder(process) => vec![process.pid()],
        }
    }
}

struct Soak {
    random: fastrand::Rng,
    trial: Option<Trial>,
    actors: Vec<Actor>,
    hotplug: Hotplug,
    offline: Vec<usize>,
    longest_wait_ms: u64,
    done: BTreeMap<&'static str, u64>,
}

impl Soak {
    fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            trial: Some(Trial::start(&[])),
            actors: vec![],
            hotplug: Hotplug::new(),
            offline: vec![],
            longest_wait_ms: 0,
            done: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        let most = 4 * nr_cpus();
        let operation = match self.random.u8(..32) {
            0..8 if self.actors.len() < most => self.start_one(),
            0..12 => self.end_one(),
            12..22 => self.change_one(),
            22..24 => self.real_time_burst(),
            24..26 => self.take_or_bring_a_cpu(),
            26 => self.freeze_some(),
            27 => self.stop_the_loader(),
            28 => self.forks(),
            29 => self.replace_the_loader(),
            _ => self.look_at_all(),
        };
        *self.done.entry(operation).or_default() += 1;
        assert_eq!(state(), "enabled", "after {operation}");
    }

    fn start_one(&mut self) -> &'static str {
        self.actors.push(Actor::random(&mut self.random));
        "start"
    }

    fn end_one(&mut self) -> &'static str {
        if !self.actors.is_empty() {
            let actor = self.actors.swap_remove(self.random.usize(..self.actors.len()));
            actor.assert_alive();
        }
        "end"
    }

    fn change_one(&mut self) -> &'static str {
        let tids: Vec<i32> = self.actors.iter().flat_map(Actor::tids).collect();
        let Some(&tid) = self.random.choice(&tids) else { return "change of nobody" };
        match self.random.u8(..3) {
            0 => set_nice(tid, self.random.i32(-20..20)),
            1 => set_policy(tid, [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE][self.random.usize(..3)]),
            _ => set_affinity(tid, 1 | self.random.u64(..=all_cpus())),
        }
        "change"
    }

    fn real_time_burst(&mut self) -> &'static str {
        let cpus = 1 << self.random.choice(online()).expect("a CPU");
        let burst = Sleeper::start(Hog { policy: libc::SCHED_FIFO, cpus, ..Hog::default() }, || (ms(5), ms(15)));
        wait_until("the real-time task has come and gone", || burst.rounds() > 3);
        "real-time burst"
    }

    fn take_or_bring_a_cpu(&mut self) -> &'static str {
        if self.hotplug.cpus().is_empty() {
            return "no CPU to take";
        }
        let cpu = *self.random.choice(self.hotplug.cpus()).expect("more than one CPU");
        let back = self.offline.iter().position(|c| *c == cpu).map(|at| self.offline.remove(at)).is_some();
        if !back {
            self.offline.push(cpu);
        }
        self.hotplug.set(cpu, back);
        "hotplug"
    }

    fn freeze_some(&mut self) -> &'static str {
        let group = Cgroup::new("vrq-soak");
        let procs: Vec<Proc> = (0..self.random.usize(1..5)).map(|_| Proc::hog()).collect();
        procs.iter().for_each(|p| group.add(p));
        group.set("cgroup.freeze", "1");
        wait_until("they are frozen", || group.get("cgroup.events").contains("frozen 1"));
        group.set("cgroup.freeze", "0");
        procs.iter().for_each(Proc::assert_alive);
        "freeze"
    }

    fn stop_the_loader(&mut self) -> &'static str {
        let Some(trial) = &self.trial else { return "no loader" };
        trial.vrq.signal(libc::SIGSTOP);
        self.actors.iter().for_each(Actor::assert_alive);
        trial.vrq.signal(libc::SIGCONT);
        "loader stopped"
    }

    fn forks(&mut self) -> &'static str {
        for _ in 0..self.random.usize(10..60) {
            let status = std::process::Command::new("/bin/true").status();
            assert!(status.is_ok_and(|s| s.success()), "a child got lost");
        }
        "forks"
    }

    fn replace_the_loader(&mut self) -> &'static str {
        self.judge();
        self.trial = Some(Trial::start(&[]));
        "attach"
    }

    fn look_at_all(&mut self) -> &'static str {
        self.actors.iter().for_each(Actor::assert_alive);
        let tids: Vec<i32> = self.actors.iter().flat_map(Actor::tids).collect();
        assert_no_wait_beside_idle(&tids, ms(300));
        "look"
    }

    /// It still has the machine, ends well, and the kernel has nothing to say. The bound is for one CPU: with several the
    /// emulator lets one stand still for seconds, which no scheduler can mend.
    fn judge(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        let counted = counters();
        self.longest_wait_ms = self.longest_wait_ms.max(counted["longest_wait_ms"]);
        let bound = AGEING_MS + counted["longest_wait_bound_ms"] + slack_ms();
        let within = nr_cpus() > 1 || counted["longest_wait_ms"] <= bound;
        assert!(within, "a wait of {} ms, the bound is {bound} ms", counted["longest_wait_ms"]);
        trial.pass_but_for(&EXPECTED);
    }
}

#[test]
fn everything_at_once() {
    let seed = number("SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    let (seconds, start) = (number("SOAK_S").unwrap_or(20), Instant::now());
    println!("soak: SOAK_SEED={seed} for {seconds} s");
    let mut soak = Soak::new(seed);
    while start.elapsed().as_secs() < seconds {
        soak.step();
        std::thread::sleep(ms(soak.random.u64(..100)));
    }
    soak.look_at_all();
    soak.judge();
    println!("soak: {:?}, longest wait {} ms", soak.done, soak.longest_wait_ms);
}
