//! The model: laws of the rule to the digit, invariants over random worlds, and faults that must be seen.

use clap::Parser;
use proptest::prelude::*;
use proptest::sample::select;
use scx_vrq::cli::{Cli, Command};
use scx_vrq::model::{Report, Rule, Sim, Workload, laws};
use scx_vrq::policy;

/// What `scx_vrq sim` makes of its arguments.
fn workload(args: &[String]) -> Workload {
    let words = ["scx_vrq".to_string(), "sim".to_string()].into_iter().chain(args.iter().cloned());
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Some(Command::Sim(sim))) => sim.workload().expect("makes sense"),
        other => panic!("{args:?}: {other:?}"),
    }
}

fn line(line: &str) -> Workload {
    workload(&shlex::split(line).expect("a line"))
}

fn report(whole: &Workload) -> Report {
    let mut sim = Sim::new(whole, Rule::default(), true, 24);
    sim.run().unwrap_or_else(|violation| panic!("{violation}"));
    Report::new(whole, &sim)
}

/// Hogs with these nice levels get slices in the proportion `slices`.
fn assert_slices(cpus: usize, tick: &str, nice: &[i32], slices: &[u32]) {
    let tasks: String = nice.iter().map(|nice| format!(" --task 'hog nice={nice}'")).collect();
    let report = report(&line(&format!("--cpus {cpus} --time 10m --tick {tick}{tasks}")));
    for (task, slice) in report.tasks.iter().zip(slices) {
        let wanted = f64::from(*slice) * 100.0 / f64::from(slices.iter().sum::<u32>());
        let seen = format!("{}: {:.3} %, not {wanted:.3}", task.name, task.share_percent);
        assert!((task.share_percent - wanted).abs() < 0.005, "{cpus} CPUs, nice {nice:?}, tick {tick}: {seen}");
    }
}

/// The table of section 2.8: ideal slices.
#[test]
fn shares_are_those_of_the_rule_to_the_digit() {
    assert_slices(1, "none", &[0, 0], &[1, 1]);
    assert_slices(1, "none", &[0, 1], &[1, 1]);
    assert_slices(1, "none", &[0, 2], &[2, 1]);
    assert_slices(1, "none", &[0, 5], &[4, 1]);
    assert_slices(1, "none", &[0, 10], &[11, 1]);
    assert_slices(1, "none", &[0, 19], &[34, 1]);
    assert_slices(1, "none", &[-20, 0], &[6, 1]);
    assert_slices(1, "none", &[-20, 19], &[39, 1]);
    assert_slices(1, "none", &[0, 0, 19], &[35, 35, 2]);
    assert_slices(1, "none", &[0, 0, 0, 0, 19], &[37, 37, 37, 37, 4]);
    assert_slices(1, "none", &[0, 0, 0, 0, 0, 0, 0, 0, 19], &[41, 41, 41, 41, 41, 41, 41, 41, 8]);
    assert_slices(1, "none", &[-5, 0, 5], &[5, 2, 1]);
    assert_slices(1, "none", &[0, 1, 2, 3], &[1, 1, 1, 1]);
    assert_slices(2, "none", &[0, 0, 0], &[1, 1, 1]);
    assert_slices(2, "none", &[0, 0, 0, 19], &[23, 23, 23, 1]);
    assert_slices(4, "none", &[0, 0, 0, 0, 0], &[1, 1, 1, 1, 1]);
}

/// At HZ 250 6 ms end after 8: what tests/live/one_cpu.rs sees on a kernel.
#[test]
fn shares_with_slices_that_end_on_a_tick() {
    assert_slices(1, "4ms", &[0, 1], &[1, 1]);
    assert_slices(1, "4ms", &[0, 5], &[3, 1]);
    assert_slices(1, "4ms", &[0, 19], &[25, 1]);
    assert_slices(1, "4ms", &[-20, 0], &[5, 1]);
}

#[test]
fn one_seed_is_one_run_and_another_seed_another() {
    let trace = |seed: u32| {
        let whole = line(&format!(
            "--seed {seed} --cpus 2 --time 1s --task 'hog x3' --task 'sleeper run=1ms..5ms sleep=1ms..20ms x3' \
             --task 'forker fork=5ms child=1ms..9ms'"
        ));
        let mut sim = Sim::new(&whole, Rule::default(), false, usize::MAX);
        sim.run().expect("nothing is checked");
        sim.trace().to_string()
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn a_trace_adds_up_to_the_shares() {
    let whole = line("--cpus 2 --time 1s --task 'hog x2' --task 'sleeper run=1ms sleep=3ms' --task 'job run=50ms'");
    let mut sim = Sim::new(&whole, Rule::default(), true, usize::MAX);
    sim.run().expect("holds");
    let trace = sim.trace();
    for task in Report::new(&whole, &sim).tasks {
        let events = trace["traceEvents"].as_array().expect("events");
        let ran = events.iter().filter(|e| e["pid"] == 0 && e["ph"] == "X" && e["name"] == task.name.as_str());
        let ran_us: f64 = ran.map(|event| event["dur"].as_f64().expect("us")).sum();
        assert!((ran_us / 2e4 - task.share_percent).abs() < 1e-6, "{ran_us} us, {task:?}");
    }
}

#[test]
fn a_task_alone_pays_nothing_and_a_sleeper_waits_for_nobody() {
    let seen = report(&line("--task 'hog nice=19' --task 'sleeper run=1ms sleep=10ms'"));
    let (hog, sleeper) = (&seen.tasks[0], &seen.tasks[1]);
    assert_eq!((hog.preemptions, sleeper.max_wait_ms), (sleeper.wakeups + 1, 0.0), "{seen:?}");
    let seen = report(&line("--cpus 2 --task 'one cpus=0' --task 'other run=5ms'"));
    assert_eq!((seen.tasks[0].share_percent, seen.tasks[1].share_percent, seen.max_wait_ms), (50.0, 0.025, 0.0));
}

#[test]
fn yield_costs_neither_slice_nor_share_and_batch_pays_at_each_pass() {
    let seen = report(&line("--task 'yielder yield=100us' --task hog"));
    assert!(seen.tasks.iter().all(|task| task.refills < 850 && (task.share_percent - 50.0).abs() < 0.5), "{seen:?}");
    let seen = report(&line("--task 'normal run=1ms sleep=5ms' --task 'batch policy=batch run=1ms sleep=5ms'"));
    assert!(seen.tasks[0].refills * 5 < seen.tasks[0].wakeups && seen.tasks[1].refills > seen.tasks[1].wakeups);
}

#[test]
fn a_task_wakes_on_the_cpu_that_it_ran_on() {
    let tasks = "--task 'a run=1ms sleep=1ms' --task 'b start=500us run=1ms sleep=1ms'";
    let mut sim = Sim::new(&line(&format!("--cpus 2 --time 1s {tasks}")), Rule::default(), true, usize::MAX);
    sim.run().expect("holds");
    let trace = sim.trace();
    let runs: Vec<_> = trace["traceEvents"].as_array().expect("events").iter().filter(|e| e["pid"] == 0).collect();
    let on =
        |name: &str, cpu: u32| runs.iter().filter(|e| e["ph"] == "X" && e["name"] == name && e["tid"] == cpu).count();
    assert_eq!([on("a", 0), on("a", 1), on("b", 0), on("b", 1)], [500, 0, 0, 500]);
}

/// 5.3: the fault that document 001 found, and only it, wakes CPUs that find nothing.
#[test]
fn the_old_condition_goes_from_idle_to_idle_and_the_corrected_one_never() {
    let goidle = |condition: &str| {
        let tasks = "--cpus 4 --task 'job run=1ms..9ms sleep=1ms..9ms x4'";
        report(&line(&format!("--resched-best-idle {condition} {tasks}"))).goidle_idle
    };
    assert_eq!(goidle("corrected"), 0);
    assert!(goidle("next-ne-prev") > 1_000);
}

/// Five faults of the policy, in a world that has something of everything.
#[test]
fn a_fault_of_the_policy_is_noticed() {
    let good = Rule::default();
    let whole = line(
        "--cpus 2 --time 4s --task 'hog x3' --task 'nice5 nice=5' --task 'sleeper run=1ms sleep=10ms' \
         --task 'forker fork=4ms' --task 'idle policy=idle'",
    );
    let broken = |rule: Rule| Sim::new(&whole, rule, true, 24).run().err().map(|violation| violation.law);
    assert_eq!(broken(good), None);
    for (rule, law, fault) in [
        (Rule { prev_wins: |prev, head| prev <= head, ..good }, laws::LEAST_KEY, "prev wins ties"),
        (Rule { prev_wins: |prev, head| prev > head, ..good }, laws::LEAST_KEY, "the later deadline wins"),
        (Rule { can_preempt: |key, victim| key > victim, ..good }, laws::PREEMPT, "the later deadline preempts"),
        (Rule { can_preempt: |_, _| false, ..good }, laws::PREEMPT, "nothing preempts"),
        (Rule { must_refill: |left_ns, _| left_ns < 3_000_000, ..good }, laws::DEADLINE, "refill too early"),
        (Rule { fork_share_ns: |left_ns| left_ns, ..good }, laws::FORK, "no fork split: the child gets all"),
        (Rule { fork_share_ns: |_| 0, ..good }, laws::FORK, "no fork split: both get new slices"),
        (Rule { key: |_, deadline| deadline, ..good }, laws::LEAST_KEY, "key without class"),
        (Rule { key: |class, _| policy::key(class, 0), ..good }, laws::LEAST_KEY, "key without deadline"),
        (Rule { aged: |_| false, ..good }, laws::WAIT, "ageing off"),
    ] {
        assert_eq!(broken(rule), Some(law), "{fault}");
    }
}

#[test]
#[cfg(not(debug_assertions))]
fn a_million_events_take_less_than_two_seconds() {
    let whole = line("--cpus 4 --time 200s --task 'hog x2' --task 'job run=100us..1ms sleep=100us..1ms x4'");
    let begun = std::time::Instant::now();
    let mut sim = Sim::new(&whole, Rule::default(), false, 0);
    sim.run().expect("nothing is checked");
    let (events, took) = (Report::new(&whole, &sim).nr_events, begun.elapsed());
    println!("{events} events in {took:?}");
    assert!(events > 1_000_000 && took.as_secs_f64() * 1e6 / (events as f64) < 2.0, "{events} events in {took:?}");
}

/// Known fault of the scheduler: a change of nice takes a waiting BATCH task out and in again, and enqueue
/// gives it a new slice and a late deadline (vrq_must_refill is true of BATCH). BFS moves the deadline by the
/// difference. So check.rs counts the wait of a BATCH task from its last deadline on.
#[test]
#[ignore = "known fault: BATCH that is reniced while it waits begins to wait anew"]
fn r01_batch_reniced_while_it_waits_is_within_the_bound() {
    let seen = report(&line("--time 1s --task 'hog' --task 'batch policy=batch nice=12 renice=19@74ms'"));
    let batch = &seen.tasks[1];
    assert!(batch.max_wait_ms <= batch.bound_ms, "{batch:?}");
}

/// A slice that begins just after a tick ends a tick later than the slice rounded up to ticks. 60 slices of 4 ms that
/// take 8 each, because another task is on the CPU for a moment at each start.
#[test]
fn r02_slices_that_begin_off_a_tick_are_within_the_bound() {
    report(&line(
        "--time 2s --tick 4ms --rr-interval-ms 4 --task 'hog nice=19 x60' \
         --task 'blip nice=19 start=50us run=20us sleep=7980us'",
    ));
}

/// A time in us, as an argument.
fn us(range: std::ops::Range<u32>) -> impl Strategy<Value = String> {
    range.prop_map(|us| format!("{us}us"))
}

fn spread(range: std::ops::Range<u32>) -> impl Strategy<Value = String> {
    (range.clone(), range).prop_map(|(a, b)| format!("{}us..{}us", a.min(b), a.max(b)))
}

/// KEY=VALUE, one time in `one_in`.
fn maybe(one_in: u32, key: &'static str, value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let given = value.prop_map(move |value| format!(" {key}={value}"));
    prop_oneof![one_in - 1 => Just(String::new()), 1 => given]
}

fn some_task(cpus: u32) -> impl Strategy<Value = String> {
    let sleeps = (spread(10..20_000), spread(10..40_000)).prop_map(|(run, sleep)| format!(" run={run} sleep={sleep}"));
    let forks = (us(1_000..20_000), spread(100..5_000)).prop_map(|(fork, child)| format!(" fork={fork} child={child}"));
    let renice = (-20..20, 1u32..100_000).prop_map(|(nice, at)| format!("{nice}@{at}us"));
    let list = (1u64..1 << cpus).prop_map(move |mask| {
        let list: Vec<String> = (0..cpus).filter(|cpu| mask & 1 << cpu != 0).map(|cpu| cpu.to_string()).collect();
        list.join(",")
    });
    let acts = prop_oneof![4 => Just(String::new()), 6 => sleeps, 2 => forks, 1 => us(1_000..50_000).prop_map(|run| format!(" run={run}"))];
    let policy = prop_oneof![6 => Just(""), 1 => Just(" policy=batch"), 1 => Just(" policy=idle")];
    let rest = (
        maybe(4, "cpus", list),
        maybe(4, "start", us(1..100_000)),
        maybe(6, "yield", us(100..9_000)),
        maybe(6, "renice", renice),
    );
    (acts, policy, prop_oneof![Just(0), -20..20], rest, 1..4).prop_map(
        |(acts, policy, nice, (cpus, start, yields, renice), count)| {
            format!("t{acts}{policy} nice={nice}{cpus}{start}{yields}{renice} x{count}")
        },
    )
}

/// The arguments of `scx_vrq sim` for a small world.
fn some_world() -> impl Strategy<Value = Vec<String>> {
    let cpus = 1u32..5;
    let tasks = cpus.prop_flat_map(|cpus| (Just(cpus), proptest::collection::vec(some_task(cpus), 1..9)));
    // Waits near the bound want time; the bound is short with a short interval.
    let time = prop_oneof![6 => 100u32..300, 3 => 300u32..1_000, 1 => 1_000u32..3_000];
    let tick = select(vec!["none", "1ms", "4ms", "10ms"]);
    let rr_interval = prop_oneof![4 => 1u32..7, 1 => 6u32..20, 1 => 1u32..1_001];
    let condition = select(vec!["corrected", "next-ne-prev"]);
    (tasks, time, tick, rr_interval, prop_oneof![Just(4_000u32), 100u32..15_001], condition, any::<u32>()).prop_map(
        |((cpus, tasks), time, tick, rr_interval, max_wait, condition, seed)| {
            let flags = format!(
                "--cpus {cpus} --time {time}ms --tick {tick} --rr-interval-ms {rr_interval} --max-wait-ms {max_wait} \
                 --resched-best-idle {condition} --seed {seed}"
            );
            let flags = flags.split_whitespace().map(String::from).collect::<Vec<_>>();
            tasks.into_iter().fold(flags, |args, task| [args, vec!["--task".into(), task]].concat())
        },
    )
}

fn holds(args: &[String]) -> Result<(), TestCaseError> {
    let again = || format!("scx_vrq sim --check {}", shlex::try_join(args.iter().map(String::as_str)).expect("no NUL"));
    Sim::new(&workload(args), Rule::default(), true, 24)
        .run()
        .map_err(|violation| TestCaseError::fail(format!("{violation}again: {}", again())))
}

/// 10,000 worlds, or PROPTEST_CASES. A failure prints the command that has it again, so no file keeps it.
fn worlds() -> ProptestConfig {
    let asked = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => asked,
        None => ProptestConfig { cases: if cfg!(debug_assertions) { 300 } else { 10_000 }, ..asked },
    }
}

proptest! {
    #![proptest_config(worlds())]

    #[test]
    fn every_invariant_holds_in_every_world(args in some_world()) {
        holds(&args)?;
    }
}
