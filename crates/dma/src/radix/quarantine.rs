//! Table pages that were removed but that an IOMMU may still read from its caches.

use super::span::Span;
use crate::MemoryAddress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Removed pages, each with the addresses to be invalidated before it can be reused.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    kept: Mutex<Vec<(MemoryAddress, Span)>>,
    /// Number of pages, so that an empty quarantine needs no lock.
    pages: AtomicUsize,
}

impl Quarantine {
    /// Quarantines a page that translated `span`.
    pub(super) fn add(&self, frame: MemoryAddress, span: Span) {
        let mut kept = self.kept();
        kept.push((frame, span));
        self.pages.store(kept.len(), Ordering::Release);
    }

    /// Removes the pages that an invalidation covers. Call it before the invalidation begins.
    pub(super) fn take_covered(&self, covers: impl Fn(Span) -> bool) -> Vec<MemoryAddress> {
        // Relaxed is enough: the invalidating thread sees the pages that it added itself.
        if self.pages() == 0 {
            return Vec::new();
        }
        let mut kept = self.kept();
        let mut taken = Vec::new();
        kept.retain(|(frame, span)| {
            let is_covered = covers(*span);
            if is_covered {
                taken.push(*frame);
            }
            !is_covered
        });
        self.pages.store(kept.len(), Ordering::Release);
        taken
    }

    /// The number of quarantined pages.
    pub(super) fn pages(&self) -> usize {
        self.pages.load(Ordering::Acquire)
    }

    /// The quarantined pages with their spans, locked.
    fn kept(&self) -> MutexGuard<'_, Vec<(MemoryAddress, Span)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
