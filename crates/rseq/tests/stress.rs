//! The parts of the example `stress` that need no guest, on this host.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

#[path = "../examples/stress/main.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, whose main is not called here")]
mod stress;

use rseq::Rseq;
use skip::skip;

/// Sequences; a host without them is reported.
fn sequences() -> Option<Rseq> {
    Rseq::new().map_err(|why| skip(&why.to_string())).ok()
}

#[test]
fn steps_of_migrating_threads_are_done_completely_or_not_at_all() {
    let Some(rseq) = sequences() else { return };
    let counts = stress::steps::run(rseq, 2_000);
    assert!(counts.pushed > 0, "{counts:?}");
}

#[test]
fn a_fence_ends_the_step_of_another_cpu() {
    let Some(rseq) = sequences() else { return };
    if stress::fence::run(rseq, 200).is_none() {
        skip("one CPU, no other to fence");
    }
}

#[test]
fn no_page_of_an_allocator_has_two_owners() {
    let Some(rseq) = sequences() else { return };
    let counts = stress::allocator::run(rseq, 4, 2_000);
    assert!(counts.allocated > 0 && counts.collections > 0 && counts.whole > 0, "{counts:?}");
}
