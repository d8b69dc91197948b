//! Waits until the guest is idle before a workload starts, like the agent of crate `lab` (`agent/settle.c`).

use rustix::time::{ClockId, clock_gettime};
use std::thread::sleep;
use std::time::Duration;

/// The interval, in which the guest's kernel finishes its background work.
const REST_SECONDS: u64 = 2;

/// Sleeps at least one interval, until the clock is at a multiple of it.
pub(crate) fn settle() {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
    let end = Duration::from_secs((now.as_secs() / REST_SECONDS + 2) * REST_SECONDS);
    sleep(end.saturating_sub(now));
}
