//! Can the tests see? With one mechanism switched off its own case has to fail.

use crate::harness::*;
use scx_vrq::policy;
use std::process::Command;

/// Runs `case` in a process of its own, with `fault` in the scheduler.
fn passes(case: &str, fault: u32) -> (bool, String) {
    let me = std::env::current_exe().expect("this program");
    let out = Command::new(me)
        .args(["--exact", case, "--test-threads=1"])
        .env("VRQ_FAULT", fault.to_string())
        .env("SCX_TIMEOUT_MS", "5000")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("running 1 test"), "{said}");
    (out.status.success(), said)
}

fn assert_seen(case: &str, fault: u32) {
    let (passed, said) = passes(case, policy::VRQ_FAULT_NONE);
    assert!(passed, "{case} fails without a fault: {said}");
    assert!(!passes(case, fault).0, "{case} passes with the fault");
    assert_eq!(state(), "disabled");
}

#[test]
fn without_queues_for_pinned_tasks_c01_fails() {
    assert_seen("cases::c01_pinned_task_behind_a_shared_queue", policy::VRQ_FAULT_PINNED);
}

#[test]
fn without_ageing_c03_fails() {
    assert_seen("cases::c03_starvation_of_the_weakest", policy::VRQ_FAULT_AGEING);
}

#[test]
fn without_the_atomic_claim_c15_fails() {
    if !has_ext_server() {
        return; // there a task goes to its CPU through the queue, and a claim that finds nothing tells nothing
    }
    assert_seen("cases::c15_two_wakeups_one_idle_cpu", policy::VRQ_FAULT_CLAIM);
}

#[test]
fn without_reenqueueing_from_under_real_time_tasks_c04_fails() {
    if has_ext_server() {
        return; // from 7.0 on the kernel itself lets the task go on elsewhere in time: c04 passes without us
    }
    assert_seen("cases::c04_from_under_a_real_time_task_to_a_free_cpu", policy::VRQ_FAULT_REENQUEUE);
}
