//! The trait of all disk interfaces that are measured.

use super::BlkError;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Reads of one size from a disk.
pub(super) trait Reader {
    /// The number of positions that can be read: the disk's size divided by that of a read.
    fn positions(&self) -> u64;

    /// Starts a read of a position into the buffer of a slot that has no read in flight.
    fn begin(&mut self, slot: u16, position: u64) -> Result<(), BlkError>;

    /// Waits until at least one read has completed, and appends the slots of the completed ones to `ended`.
    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError>;
}

/// The CPU time of this thread, in the kernel and in user mode.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
