//! The trait of all disk interfaces that are measured.

use super::BlkError;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Submits requests of one size to a disk: only reads, or only writes.
pub(super) trait Submitter {
    /// The number of positions that requests may be for: the disk's size divided by that of a request.
    fn positions(&self) -> u64;

    /// Begins a request for a position, with the buffer of a slot that has no request in flight.
    fn begin(&mut self, slot: u16, position: u64) -> Result<(), BlkError>;

    /// Waits until at least one request has completed, and appends the slots of the completed ones to `ended`.
    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError>;
}

/// The CPU time of this thread, in the kernel and in user mode.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
