//! How a process that sleeps is woken, without a system call for one that does not.
//!
//! Both sides write a word and then read the other's, with a fence between. So at least one of them sees what the other has written: the
//! writer that its reader sleeps, or the reader that there is something to read.

use crate::atomics::{AtomicU64, Ordering, fence};

/// Tells the reader that `written` entries were written in all. Returns whether it sleeps, and must be woken now.
pub(super) fn publish(count: &AtomicU64, sleeps: &AtomicU64, written: u64) -> bool {
    count.store(written, Ordering::Release);
    fence(Ordering::SeqCst);
    sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
}

/// Says that the reader, which has read `read` entries, is about to sleep. Returns false if there is more to read: then it must not.
pub(super) fn announce(count: &AtomicU64, sleeps: &AtomicU64, read: u64) -> bool {
    sleeps.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let may_sleep = count.load(Ordering::Acquire) == read;
    if !may_sleep {
        sleeps.store(0, Ordering::Relaxed);
    }
    may_sleep
}
