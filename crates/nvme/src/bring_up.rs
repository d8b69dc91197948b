//! Enables and disables a controller (Base, 3.5), and waits for its status and its completions.

use crate::controller_error::NvmeError;
use crate::queue_pair::{CommandId, Done, QueuePair};
use crate::registers::Registers;
use crate::spec::registers::{self as register, Capabilities, Status};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two polls of the status register.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Disables a controller. Afterwards it has no queues and does no DMA.
pub(crate) fn disable(registers: &dyn Registers, capabilities: Capabilities) -> Result<(), NvmeError> {
    registers.write_u32(register::CONFIGURATION, 0);
    poll_status(registers, ready_timeout(capabilities), "stopped", |status| !status.is_ready())
}

/// How long the controller may take to set or clear CSTS.RDY (CAP.TO), at least 500 ms.
pub(crate) fn ready_timeout(capabilities: Capabilities) -> Duration {
    Duration::from_millis(capabilities.timeout_ms().max(500))
}

/// Polls CSTS until `holds` is true. Fails at once if the adapter is gone or the controller has failed.
pub(crate) fn wait_for_status(
    registers: &dyn Registers,
    limit: Duration,
    what: &'static str,
    holds: impl Fn(Status) -> bool,
) -> Result<(), NvmeError> {
    poll_status(registers, limit, what, |status| status.is_fatal() || holds(status))?;
    if Status(registers.read_u32(register::STATUS)).is_fatal() { Err(NvmeError::Fatal) } else { Ok(()) }
}

/// Polls CSTS until `holds` is true. Fails if the adapter is gone, or with `what` after the limit.
fn poll_status(
    registers: &dyn Registers,
    limit: Duration,
    what: &'static str,
    holds: impl Fn(Status) -> bool,
) -> Result<(), NvmeError> {
    let begin = Instant::now();
    loop {
        let status = Status(registers.read_u32(register::STATUS));
        if status == Status::GONE {
            return Err(NvmeError::Gone);
        }
        if holds(status) {
            return Ok(());
        }
        if begin.elapsed() > limit {
            return Err(NvmeError::TimedOut { what, limit });
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Fails if the adapter is gone, or the controller has failed or was reset by someone else.
pub(crate) fn check_working(registers: &dyn Registers) -> Result<(), NvmeError> {
    match Status(registers.read_u32(register::STATUS)) {
        Status::GONE => Err(NvmeError::Gone),
        status if status.is_fatal() => Err(NvmeError::Fatal),
        status if !status.is_ready() => Err(NvmeError::Stopped),
        _ => Ok(()),
    }
}

/// Waits for one command, which is the only one in flight in its queue.
pub(crate) fn wait_for_completion(
    queue: &mut QueuePair,
    registers: &dyn Registers,
    id: CommandId,
    limit: Duration,
) -> Result<Done, NvmeError> {
    let begin = Instant::now();
    let mut found = None;
    loop {
        queue.poll(usize::MAX, |done| {
            if done.id == id {
                found = Some(done);
            }
        })?;
        if let Some(done) = found {
            return Ok(done);
        }
        check_working(registers)?;
        if begin.elapsed() > limit {
            return Err(NvmeError::TimedOut { what: "completed a command", limit });
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const READY: u32 = 1;
    const FATAL: u32 = 1 << 1;

    /// A status register that reads 0 a number of times, then always `last`.
    #[derive(Debug)]
    struct StatusAfter {
        reads: AtomicUsize,
        last: u32,
    }

    impl StatusAfter {
        fn new(zeros: usize, last: u32) -> Self {
            Self { reads: AtomicUsize::new(zeros), last }
        }
    }

    impl Registers for StatusAfter {
        fn read_u32(&self, _at: u64) -> u32 {
            let left =
                self.reads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if left.is_ok() { 0 } else { self.last }
        }

        fn read_u64(&self, _at: u64) -> u64 {
            0
        }

        fn write_u32(&self, _at: u64, _value: u32) {}

        fn write_u64(&self, _at: u64, _value: u64) {}
    }

    fn wait(status: StatusAfter, limit: Duration) -> Result<(), NvmeError> {
        wait_for_status(&status, limit, "started", Status::is_ready)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_controller_has_its_own_time_to_become_ready_and_half_a_second_at_least() {
        let of_units = |units: u64| ready_timeout(Capabilities(units << 24));
        assert_eq!(of_units(0), Duration::from_millis(500));
        assert_eq!(of_units(1), Duration::from_millis(500));
        assert_eq!(of_units(20), Duration::from_secs(10));
    }

    #[test]
    fn a_controller_may_become_ready_late() {
        wait(StatusAfter::new(3, READY), LONG).unwrap();
        // The first poll counts even where there is no time at all.
        wait(StatusAfter::new(0, READY), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_controller_that_never_becomes_ready_is_given_up_at_the_limit() {
        let limit = Duration::from_millis(5);
        let begin = Instant::now();
        let error = wait(StatusAfter::new(usize::MAX, READY), limit).unwrap_err();
        assert!(matches!(error, NvmeError::TimedOut { what: "started", .. }), "{error}");
        assert!(begin.elapsed() >= limit, "not before");
    }

    #[test]
    fn a_failed_or_removed_controller_is_given_up_at_once() {
        for (last, fatal) in [(FATAL, true), (FATAL | READY, true), (u32::MAX, false)] {
            let error = wait(StatusAfter::new(1, last), LONG).unwrap_err();
            assert_eq!(matches!(error, NvmeError::Fatal), fatal, "{error}");
            assert_eq!(matches!(error, NvmeError::Gone), !fatal, "{error}");
        }
    }

    #[test]
    fn a_working_controller_is_ready() {
        assert!(check_working(&StatusAfter::new(0, READY)).is_ok());
        assert!(matches!(check_working(&StatusAfter::new(0, 0)), Err(NvmeError::Stopped)));
        assert!(matches!(check_working(&StatusAfter::new(0, READY | FATAL)), Err(NvmeError::Fatal)));
        assert!(matches!(check_working(&StatusAfter::new(0, u32::MAX)), Err(NvmeError::Gone)));
    }
}
