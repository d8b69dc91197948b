//! Pages of tables that were taken out, and that an IOMMU may still read.

use super::span::Span;
use crate::MemoryAddress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages, each with the addresses that its IOMMU is to forget.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    kept: Mutex<Vec<(MemoryAddress, Span)>>,
    /// How many, so that those who take none out need no lock.
    pages: AtomicUsize,
}

impl Quarantine {
    pub(super) fn add(&self, frame: MemoryAddress, span: Span) {
        let mut kept = self.kept();
        kept.push((frame, span));
        self.pages.store(kept.len(), Ordering::Release);
    }

    /// Takes those out that an invalidation that is about to begin covers.
    pub(super) fn take(&self, covers: impl Fn(Span) -> bool) -> Vec<MemoryAddress> {
        // Whoever invalidates has unmapped before: what it put here, it sees.
        if self.pages() == 0 {
            return Vec::new();
        }
        let mut kept = self.kept();
        let taken = kept.extract_if(.., |(_, span)| covers(*span)).map(|(frame, _)| frame).collect();
        self.pages.store(kept.len(), Ordering::Release);
        taken
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.load(Ordering::Acquire)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(MemoryAddress, Span)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
