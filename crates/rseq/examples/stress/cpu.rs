//! The CPUs that this process may use.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The CPUs on which the calling thread may run.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Lets a thread run only on these CPUs; `None` is the caller. Whether it still exists.
pub fn keep_on(thread: Option<Pid>, cpus: &[usize]) -> bool {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(thread, &set).is_ok()
}
