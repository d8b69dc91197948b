//! CPU time.

use rustix::time::{ClockId, clock_gettime};

/// How much of this thread's CPU time it takes.
pub(crate) fn cpu_seconds_of(work: impl FnOnce()) -> f64 {
    let begun = cpu_seconds();
    work();
    cpu_seconds() - begun
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
