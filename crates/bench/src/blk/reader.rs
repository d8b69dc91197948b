//! A way to a disk, as the measurement sees it.

use super::BlkError;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Reads of one size from a disk.
pub(super) trait Reader {
    /// Places that can be read: the disk's bytes by those of a read.
    fn places(&self) -> u64;

    /// Begins to read a place into the buffer of a slot that has no read in flight.
    fn begin(&mut self, slot: u16, place: u64) -> Result<(), BlkError>;

    /// Waits until at least one read has ended, and tells the slots of those that have.
    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError>;
}

/// Time that this thread had a CPU, in the kernel and outside.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
