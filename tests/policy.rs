//! Laws of the pure policy, without a kernel: the native compile of the headers in `src/bpf`
//! against a second opinion.

use proptest::prelude::*;
use scx_vrq::policy::{self, Class, GoIdle, *};

const NICE_0: u32 = 20;

fn rr_interval() -> impl Strategy<Value = u32> {
    VRQ_RR_INTERVAL_MIN_MS..=VRQ_RR_INTERVAL_MAX_MS
}

fn user_prio() -> impl Strategy<Value = u32> {
    0..VRQ_NR_USER_PRIO
}

fn any_class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Normal), Just(Class::Idleprio)]
}

#[test]
fn prio_ratios_follow_the_recurrence() {
    let mut ratio = 128;
    for prio in 0..VRQ_NR_USER_PRIO {
        assert_eq!(policy::prio_ratio(prio), ratio, "user_prio {prio}");
        ratio = ratio * 11 / 10;
    }
    assert_eq!((policy::prio_ratio(NICE_0), policy::prio_ratio(39)), (836, 5089));
}

#[test]
fn nice_minus_20_has_its_deadline_one_slice_away() {
    for ms in VRQ_RR_INTERVAL_MIN_MS..=VRQ_RR_INTERVAL_MAX_MS {
        assert_eq!(policy::deadline_offset_ns(0, ms), policy::slice_ns(ms));
    }
}

#[test]
fn offsets_of_the_default_interval_in_real_milliseconds() {
    let offset = |nice: i32| policy::deadline_offset_ns((nice + 20) as u32, VRQ_RR_INTERVAL_DFL_MS);
    assert_eq!(offset(0), 39_187_500);
    assert_eq!(offset(1), 43_078_125);
    assert_eq!(offset(19), 238_546_875);
}

#[test]
fn the_wait_bound_of_the_default() {
    let (rr, tick) = (VRQ_RR_INTERVAL_DFL_MS, 4_000_000);
    assert_eq!(policy::wait_bound_ns(2, rr, tick), 238_546_875 + 3 * 10_000_000);
    let ageing = u64::from(VRQ_AGEING_MS + VRQ_AGEING_PERIOD_MS) * 1_000_000;
    assert_eq!(policy::idleprio_wait_bound_ns(2, rr, tick), ageing + policy::wait_bound_ns(2, rr, tick));
}

#[test]
fn idleprio_is_the_only_policy_of_its_class() {
    for number in 0..8 {
        let wanted = if number == libc::SCHED_IDLE as u32 { Class::Idleprio } else { Class::Normal };
        assert_eq!(policy::class(number), wanted, "policy {number}");
    }
}

/// The five cases of document 001: prev is idle; prev blocked; prev may not stay; something is
/// queued; nothing is queued.
#[test]
fn resched_best_idle_in_the_five_cases() {
    let corrected = |idle, deactivate, again| policy::resched_best_idle(VRQ_RBI_CORRECTED, idle, deactivate, again);
    assert!(!corrected(true, false, false), "1: prev is idle, a task is picked");
    assert!(!corrected(true, false, true), "1: prev is idle, idle is picked again");
    assert!(!corrected(false, true, false), "2: prev blocked");
    assert!(corrected(false, false, false), "3: prev may not run here, so another is picked");
    assert!(corrected(false, false, false), "4: queued, and another is picked");
    assert!(!corrected(false, false, true), "4: queued, and prev is picked again");
    assert!(!corrected(false, false, true), "5: nothing queued, prev goes on");
}

#[test]
fn the_old_condition_differs_exactly_where_document_001_says() {
    let old = |idle, deactivate, again| policy::resched_best_idle(VRQ_RBI_NEXT_NE_PREV, idle, deactivate, again);
    assert!(old(true, false, false), "case 1 was wrong");
    assert!(old(false, true, false), "case 2 was wrong");
    assert!(old(false, false, false), "cases 3 and 4");
    assert!(!old(false, false, true), "case 5");
}

#[test]
fn the_ways_to_idle_are_told_apart() {
    assert_eq!(policy::goidle_path(false, true, false), GoIdle::Idle);
    assert_eq!(policy::goidle_path(true, false, true), GoIdle::Deactivate);
    assert_eq!(policy::goidle_path(true, false, false), GoIdle::NeedOther);
    assert_eq!(policy::goidle_path(false, false, true), GoIdle::Other);
}

proptest! {
    #[test]
    fn offsets_are_exact_over_the_whole_range(prio in user_prio(), ms in rr_interval()) {
        let wanted = u128::from(policy::prio_ratio(prio)) * u128::from(ms) * 1_000_000 / 128;
        prop_assert_eq!(u128::from(policy::deadline_offset_ns(prio, ms)), wanted);
    }

    #[test]
    fn a_better_nice_is_never_later(prio in 0..VRQ_NR_USER_PRIO - 1, ms in rr_interval()) {
        prop_assert!(policy::deadline_offset_ns(prio, ms) < policy::deadline_offset_ns(prio + 1, ms));
    }

    #[test]
    fn key_order_is_class_then_deadline(
        (a, b) in (any_class(), any_class()),
        (da, db) in (0u64..1 << 60, 0u64..1 << 60),
    ) {
        let (ka, kb) = (policy::key(a, da), policy::key(b, db));
        prop_assert_eq!(ka.cmp(&kb), (a, da).cmp(&(b, db)));
        // The kernel compares by the sign of the difference.
        prop_assert_eq!((ka.wrapping_sub(kb) as i64) < 0, ka < kb);
        prop_assert_eq!(policy::key_deadline(ka), da);
        prop_assert_eq!(policy::can_preempt(ka, kb), (a, da) < (b, db));
    }

    #[test]
    fn the_queue_wins_ties(key in any::<u64>()) {
        prop_assert!(!policy::prev_wins(key, key));
        prop_assert!(!policy::can_preempt(key, key));
    }

    #[test]
    fn refill_if_and_only_if_used_up_or_batch(left in 0u64..2_000_000_000, policy_number in 0u32..8) {
        let used_up = left < u64::from(VRQ_RESCHED_NS);
        prop_assert_eq!(policy::slice_expired(left), used_up);
        prop_assert_eq!(policy::must_refill(left, policy_number), used_up || policy_number == 3);
    }

    #[test]
    fn a_slice_counts_down_with_run_time_and_stops_at_zero(end in any::<u64>(), run in any::<u64>()) {
        prop_assert_eq!(policy::slice_left_ns(end, run), end.saturating_sub(run));
    }

    #[test]
    fn fork_conserves_the_slice(left in 0u64..2_000_000_000) {
        let share = policy::fork_share_ns(left);
        if left < 2 * u64::from(VRQ_RESCHED_NS) {
            prop_assert_eq!(share, 0);
        } else {
            let parent = left - share;
            prop_assert_eq!(parent + share, left);
            prop_assert!(parent - share <= 1 && !policy::slice_expired(share));
        }
    }

    #[test]
    fn renice_moves_the_deadline_by_the_difference_of_the_offsets(
        niffies in 1_000_000_000_000u64..1 << 59, old in user_prio(), new in user_prio(), ms in rr_interval(),
    ) {
        let moved = policy::renice_deadline(policy::deadline(niffies, old, ms), old, new, ms);
        prop_assert_eq!(moved, policy::deadline(niffies, new, ms));
    }

    #[test]
    fn renice_never_goes_below_boot(deadline in 0u64..1 << 40, old in user_prio(), new in user_prio(), ms in rr_interval()) {
        prop_assert!(policy::renice_deadline(deadline, old, new, ms) <= deadline + policy::deadline_offset_ns(new, ms));
    }

    #[test]
    fn a_loaded_slice_is_a_tick_to_rr_interval_and_shrinks_with_the_queue(
        queued in 0u64..100_000, ms in rr_interval(), tick in 1_000_000u32..10_000_000, wait in 100u32..15_000,
    ) {
        let slice = policy::loaded_slice_ns(queued, ms, tick, wait);
        prop_assert!(slice <= policy::slice_ns(ms));
        prop_assert!(slice >= u64::from(tick).min(policy::slice_ns(ms)));
        prop_assert!(policy::loaded_slice_ns(queued + 1, ms, tick, wait) <= slice);
        if policy::wait_bound_ns(queued, ms, tick) <= u64::from(wait) * 1_000_000 {
            prop_assert_eq!(slice, policy::slice_ns(ms));
        }
    }

    #[test]
    fn wait_buckets_are_powers_of_two(ticks in any::<u64>()) {
        let wanted = if ticks == 0 { 0 } else { (ticks.ilog2() + 1).min(VRQ_NR_WAIT_BUCKETS - 1) };
        prop_assert_eq!(policy::wait_bucket(ticks), wanted);
    }

    #[test]
    fn any_static_prio_gives_a_user_prio(static_prio in any::<u32>()) {
        let prio = policy::user_prio(static_prio);
        prop_assert!(prio < VRQ_NR_USER_PRIO);
        if (100..140).contains(&static_prio) {
            prop_assert_eq!(prio, static_prio - 100);
        }
    }
}
