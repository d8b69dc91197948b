//! A fence ends the step of another CPU. Without it the step goes on.

use super::cpu;
use rseq::Rseq;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was done.
#[derive(Debug)]
pub struct Counts {
    /// Steps that were told to end after a fence of their CPU; all were interrupted.
    pub fenced: u64,
    /// As many steps were told to end without a fence; these were done.
    pub done_without_fence: u64,
}

/// Lets `number` steps begin on CPU `there`, tells each to end, and returns how many were done.
fn steps_done(rseq: Rseq, there: usize, number: u64, before_end: impl Fn()) -> u64 {
    let (begun, end) = (AtomicU64::new(0), AtomicU64::new(0));
    let wait_for = |word: &AtomicU64, value| {
        while word.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let steps = scope.spawn(|| {
            assert!(cpu::keep_on(None, &[there]));
            let mut done = 0;
            for step in 1..=number {
                done += u64::from(rseq.wait_in_step(&begun, &end, step));
                // If it was interrupted before it began, nobody would tell it to end.
                begun.store(step, Ordering::Release);
                wait_for(&end, step);
            }
            done
        });
        for step in 1..=number {
            wait_for(&begun, step);
            before_end();
            end.store(step, Ordering::Release);
        }
        steps.join().unwrap()
    })
}

/// Fences steps of another CPU. `None` if there is only one.
pub fn run(rseq: Rseq, number: u64) -> Option<Counts> {
    let cpus = cpu::allowed();
    let [here, there, ..] = cpus[..] else { return None };
    assert!(cpu::keep_on(None, &[here]));
    let done = steps_done(rseq, there, number, || rseq.fence(there));
    assert_eq!(done, 0, "of {number} steps, these went on after the fence");
    let done_without_fence = steps_done(rseq, there, number, || {});
    assert!(done_without_fence > 0, "no step went on without a fence: something else interrupts them");
    assert!(cpu::keep_on(None, &cpus));
    Some(Counts { fenced: number, done_without_fence })
}
