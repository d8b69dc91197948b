//! Waiting for completions by polls and interrupts: a thread polls while that is likely to be short, and then sleeps.

use crate::waiting::poll;
use dma::vfio::Interrupt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One in so many waits polls for the longest time, whatever the waits before it took. Otherwise a thread would never learn that the disk is
/// fast again: how long a sleep takes includes the interrupt and the scheduler.
const PROBE_INTERVAL: u32 = 32;

/// How long a thread polls before it sleeps: for twice the mean of recent waits, and not at all if that is longer than a limit.
#[derive(Debug)]
pub struct Adaptive {
    poll_max: Duration,
    /// Mean of recent waits in nanoseconds; `None` before the first.
    mean_ns: Option<u64>,
    waits: u32,
    counts: Arc<WaitCounts>,
}

/// How waits ended.
#[derive(Debug, Default)]
pub struct WaitCounts {
    polled: AtomicU64,
    slept: AtomicU64,
    expired: AtomicU64,
}

impl WaitCounts {
    /// Waits in which a poll found the completion.
    pub fn polled(&self) -> u64 {
        self.polled.load(Ordering::Relaxed)
    }

    /// Waits in which the thread slept until an interrupt.
    pub fn slept(&self) -> u64 {
        self.slept.load(Ordering::Relaxed)
    }

    /// Waits that ended at their limit: the disk took long, or an interrupt was lost.
    pub fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }
}

impl Default for Adaptive {
    /// Polls for at most 50 µs.
    fn default() -> Self {
        Self::new(Duration::from_micros(50))
    }
}

impl Adaptive {
    /// Polls for at most `poll_max`.
    pub fn new(poll_max: Duration) -> Self {
        Self { poll_max, mean_ns: None, waits: 0, counts: Arc::default() }
    }

    /// How waits end from now on, shared with whatever waits so.
    pub fn counts(&self) -> Arc<WaitCounts> {
        Arc::clone(&self.counts)
    }

    /// How long the next wait polls.
    pub fn poll_time(&self) -> Duration {
        let twice = self.mean_ns.map(|mean| Duration::from_nanos(mean.saturating_mul(2)));
        match twice {
            Some(twice) if twice <= self.poll_max => twice,
            Some(_) if self.waits % PROBE_INTERVAL != 0 => Duration::ZERO,
            _ => self.poll_max,
        }
    }

    /// Learns from a wait. The mean falls faster than it rises, so that few probes suffice to go back to polling.
    fn learn(&mut self, waited: Duration) {
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX / 2).min(u64::MAX / 2);
        self.mean_ns = Some(match self.mean_ns {
            None => waited,
            Some(mean) if waited < mean => mean - (mean - waited) / 2,
            Some(mean) => mean + (waited - mean) / 8,
        });
        self.waits = self.waits.wrapping_add(1);
    }

    /// Waits until `is_done`, or for about `limit`.
    pub(crate) fn wait(&mut self, interrupt: &Interrupt, limit: Duration, is_done: impl Fn() -> bool) {
        let begin = Instant::now();
        let poll_time = self.poll_time().min(limit);
        loop {
            if poll(&is_done) {
                self.counts.polled.fetch_add(1, Ordering::Relaxed);
                return self.learn(begin.elapsed());
            }
            if begin.elapsed() >= poll_time {
                break;
            }
        }
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            match interrupt.wait(left) {
                Ok(true) if is_done() => {
                    self.counts.slept.fetch_add(1, Ordering::Relaxed);
                    return self.learn(begin.elapsed());
                }
                // The signal was of a completion that a poll found before.
                Ok(true) if !left.is_zero() => {}
                Ok(_) => {
                    self.counts.expired.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // If waiting fails, the caller polls.
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::waiting::POLLS;
    use std::cell::Cell;

    const LONG: Duration = Duration::from_secs(8 * 3600);

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn polling_time_follows_the_mean_up_to_its_limit() {
        let mut adaptive = Adaptive::new(us(50));
        assert_eq!(adaptive.poll_time(), us(50), "nothing is known yet");
        adaptive.learn(us(8));
        assert_eq!(adaptive.poll_time(), us(16));
        adaptive.learn(us(16));
        assert_eq!(adaptive.poll_time(), us(18), "it rises by an eighth");
        adaptive.learn(us(5));
        assert_eq!(adaptive.poll_time(), us(14), "and falls by a half");
        adaptive.learn(us(25 * 8 + 7 * 18));
        assert_eq!(adaptive.poll_time(), Duration::ZERO, "twice the mean is beyond the limit");
        adaptive.learn(LONG * 1_000_000);
        assert_eq!(adaptive.poll_time(), Duration::ZERO);
    }

    #[test]
    fn a_slow_disk_is_probed_until_it_is_fast() {
        let mut adaptive = Adaptive::new(us(50));
        let polled: Vec<bool> = (0..65)
            .map(|_| {
                let polls = adaptive.poll_time() > Duration::ZERO;
                adaptive.learn(us(100));
                polls
            })
            .collect();
        let expected: Vec<bool> = (0..65).map(|wait| wait % 32 == 0).collect();
        assert_eq!(polled, expected);
        adaptive.learn(us(10));
        adaptive.learn(us(10));
        assert_eq!((adaptive.mean_ns, adaptive.poll_time()), (Some(32_500), Duration::ZERO));
        adaptive.learn(us(10));
        assert_eq!(adaptive.poll_time(), us(21) * 2 + Duration::from_nanos(500));
    }

    /// Waits with a predicate that holds from its `calls`th call on. Returns how often it was called.
    fn wait(adaptive: &mut Adaptive, interrupt: &Interrupt, limit: Duration, calls: u64) -> u64 {
        let called = Cell::new(0);
        adaptive.wait(interrupt, limit, || {
            called.set(called.get() + 1);
            called.get() >= calls
        });
        called.get()
    }

    #[test]
    fn a_completion_that_a_poll_finds_needs_no_sleep() {
        let (mut adaptive, interrupt) = (Adaptive::new(LONG), Interrupt::new().unwrap());
        for calls in [1, 2, 1000] {
            adaptive.mean_ns = None;
            assert_eq!(wait(&mut adaptive, &interrupt, LONG, calls), calls);
        }
        assert_eq!((adaptive.counts().polled(), adaptive.counts().slept()), (3, 0));
    }

    #[test]
    fn after_polling_it_sleeps_until_the_completion_s_own_interrupt() {
        let (mut adaptive, interrupt) = (Adaptive::new(Duration::ZERO), Interrupt::new().unwrap());
        interrupt.signal().unwrap();
        assert_eq!(wait(&mut adaptive, &interrupt, LONG, u64::from(POLLS) + 1), u64::from(POLLS) + 1);
        assert_eq!((adaptive.counts().polled(), adaptive.counts().slept()), (0, 1));
        interrupt.signal().unwrap();
        std::thread::scope(|scope| {
            // The first signal is stale. After it the thread sleeps again, and this one wakes it.
            let signaler = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                interrupt.signal().unwrap();
            });
            assert_eq!(wait(&mut adaptive, &interrupt, LONG, u64::from(POLLS) + 2), u64::from(POLLS) + 2);
            signaler.join().unwrap();
        });
        assert_eq!((adaptive.counts().polled(), adaptive.counts().slept()), (0, 2));
    }

    #[test]
    fn a_wait_that_ends_at_its_limit_is_neither_polled_nor_slept() {
        let (mut adaptive, interrupt) = (Adaptive::new(us(50)), Interrupt::new().unwrap());
        let begin = Instant::now();
        wait(&mut adaptive, &interrupt, Duration::from_millis(5), u64::MAX);
        assert!(begin.elapsed() >= Duration::from_millis(5));
        assert_eq!(adaptive.counts().expired(), 1);
        interrupt.signal().unwrap();
        wait(&mut adaptive, &interrupt, Duration::ZERO, u64::MAX);
        assert_eq!((adaptive.counts().polled(), adaptive.counts().slept(), adaptive.waits), (0, 0, 0));
        assert_eq!(adaptive.counts().expired(), 2, "the signal was of another completion");
    }
}
