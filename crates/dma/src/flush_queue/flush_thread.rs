//! The thread that empties a domain's flush queue, as the kernel's timer does: it sleeps until something is queued, then for
//! the interval, and flushes.

use super::FlushQueue;
use crate::{DmaCounters, Domain};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// A handle of the thread. Dropping it ends the thread, at the latest after an interval.
#[derive(Debug)]
pub(super) struct FlushThread {
    thread: Thread,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether something was queued since the thread began its last flush.
    is_armed: AtomicBool,
    /// What the thread's flushes did.
    counters: Mutex<DmaCounters>,
}

impl FlushThread {
    /// Starts the thread. It does not keep the domain alive.
    pub(super) fn start(domain: Weak<Domain>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let started =
            thread::Builder::new().name("dma-flush".to_owned()).spawn(move || of_thread.run(&domain))?;
        Ok(Self { thread: started.thread().clone(), shared })
    }

    /// Has the thread flush after an interval, if it does not anyway. Call it after something was queued.
    pub(super) fn arm(&self) {
        // Usually armed: then the line is only read, and stays with all CPUs.
        if !self.shared.is_armed.load(Ordering::SeqCst) && !self.shared.is_armed.swap(true, Ordering::SeqCst)
        {
            self.thread.unpark();
        }
    }

    /// What the thread's flushes did.
    pub(super) fn counters(&self) -> DmaCounters {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FlushThread {
    fn drop(&mut self) {
        self.thread.unpark();
    }
}

impl Shared {
    /// The thread's work, until the domain is gone.
    fn run(&self, domain: &Weak<Domain>) {
        while domain.strong_count() > 0 {
            if !self.is_armed.load(Ordering::SeqCst) {
                thread::park();
                continue;
            }
            thread::sleep(Duration::from_nanos(FlushQueue::INTERVAL_NS));
            let Some(domain) = domain.upgrade() else { return };
            // What is queued from here on arms the thread again.
            self.is_armed.store(false, Ordering::SeqCst);
            let mut counters = DmaCounters::default();
            let flush = AssertUnwindSafe(|| domain.flush(&mut counters));
            if catch_unwind(flush).is_err() {
                // The translation panicked, and the panic's hook has reported it. Without another try the adapter would reach
                // what waits for ever. The queue is intact: an invalidation that did not end frees nothing.
                self.is_armed.store(true, Ordering::SeqCst);
            }
            *self.counters.lock().unwrap_or_else(PoisonError::into_inner) += counters;
        }
    }
}
