//! Builds a domain: what can be chosen for it, and what it is if nothing was.

use super::{Domain, Invalidation, ListRanges, allocator_space};
use crate::{FlushQueue, Translation};
use iova::{Allocator, Checked, Space, SpaceError, host_percpu};
use std::io;
use std::sync::Arc;

/// No range of bus addresses crosses 4 GiB, below which they are tried first.
const FOUR_GIB: u64 = 1 << 32;

type MakeAllocator = Box<dyn FnOnce(&Space) -> Result<Box<dyn Allocator + Send + Sync>, SpaceError>>;

/// Builds a [`Domain`]. Without further calls, each unmap invalidates the IOTLB before it returns, and addresses come from
/// the fastest allocator that finds invalid frees ([`iova::host_percpu`] of [`iova::Checked`]).
#[must_use = "a builder makes nothing before `build`"]
pub struct DomainBuilder {
    translation: Arc<dyn Translation>,
    make_allocator: MakeAllocator,
    invalidation: Invalidation,
    has_flush_thread: bool,
    lists: ListRanges,
    low_first: bool,
}

/// Why a domain can't be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The allocator does not support the translation's window.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The translation's page size is not a power of two.
    #[error("the translation has pages of {granule_bytes:#x} bytes; expected a power of two")]
    Granule {
        /// The page size.
        granule_bytes: u64,
    },
    /// The thread that flushes was not started.
    #[error("the thread that empties the flush queue was not started")]
    Thread(#[source] io::Error),
}

impl DomainBuilder {
    /// Strict, with the default allocator.
    pub(super) fn new(translation: Arc<dyn Translation>) -> Self {
        let boundary = FOUR_GIB.checked_div(translation.window().granule_bytes).unwrap_or(0);
        let invalidation = match translation.unmap_invalidates() {
            true => Invalidation::Elsewhere,
            false => Invalidation::Strict,
        };
        Self {
            translation,
            make_allocator: Box::new(move |space| host_percpu::<Checked>(space, boundary)),
            invalidation,
            has_flush_thread: false,
            lists: ListRanges::One,
            low_first: true,
        }
    }

    /// Another allocator. `make` gets the window's addresses, in units of its granule.
    pub fn allocator(
        self,
        make: impl FnOnce(&Space) -> Result<Box<dyn Allocator + Send + Sync>, SpaceError> + 'static,
    ) -> Self {
        Self { make_allocator: Box::new(make), ..self }
    }

    /// Invalidates when a flush queue is full, or [`FlushQueue::INTERVAL_NS`] after something was unmapped: by a thread, which
    /// ends with the domain. An unmap clears the table's entry at once, but until then an adapter still reaches the memory if
    /// the IOTLB holds the entry. No effect where [unmapping invalidates](Translation::unmap_invalidates).
    ///
    /// Addresses are freed after the unmap has returned, so it can't return [`DmaError::Free`](crate::DmaError::Free). A driver
    /// that unmaps only a part of a buffer loses the buffer's addresses unnoticed, unless its
    /// [mapper checks](crate::Mapper::with_debug): they stay in [`Usage::allocated_pages`](iova::Usage::allocated_pages).
    pub fn lazy(self) -> Self {
        Self { has_flush_thread: true, ..self.with_queue(FlushQueue::per_cpu()) }
    }

    /// The same without a thread: the caller calls [`Domain::flush`] at the interval. For simulations, which have a time of
    /// their own.
    pub fn flush_queue(self, queue: FlushQueue) -> Self {
        Self { has_flush_thread: false, ..self.with_queue(queue) }
    }

    /// How scatter lists get their addresses. Without this call, as [`ListRanges::One`].
    pub fn lists(self, lists: ListRanges) -> Self {
        Self { lists, ..self }
    }

    /// Does not prefer addresses below 4 GiB (`iommu.forcedac=1`).
    pub fn any_addresses(self) -> Self {
        Self { low_first: false, ..self }
    }

    /// The domain.
    ///
    /// # Errors
    /// [`BuildError`]
    pub fn build(self) -> Result<Arc<Domain>, BuildError> {
        let granule_bytes = self.translation.window().granule_bytes;
        if !granule_bytes.is_power_of_two() {
            return Err(BuildError::Granule { granule_bytes });
        }
        let has_flush_thread = self.has_flush_thread;
        let domain = Arc::new(self.assemble()?);
        match &domain.invalidation {
            Invalidation::Lazy(queue) if has_flush_thread => {
                queue.start_thread(Arc::downgrade(&domain)).map_err(BuildError::Thread)?;
            }
            Invalidation::Lazy(_) | Invalidation::Strict | Invalidation::Elsewhere => {}
        }
        Ok(domain)
    }

    /// The domain without its thread, of a translation whose pages are a power of two.
    pub(crate) fn assemble(self) -> Result<Domain, SpaceError> {
        let Self { translation, make_allocator, invalidation, lists, low_first, .. } = self;
        let addresses = make_allocator(&allocator_space(translation.window()))?;
        Ok(Domain { translation, addresses, invalidation, lists, low_first })
    }

    /// Invalidates lazily, unless unmapping invalidates.
    fn with_queue(self, queue: FlushQueue) -> Self {
        match self.invalidation {
            Invalidation::Elsewhere => self,
            Invalidation::Strict | Invalidation::Lazy(_) => {
                Self { invalidation: Invalidation::Lazy(queue), ..self }
            }
        }
    }
}

impl std::fmt::Debug for DomainBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("DomainBuilder");
        shown.field("window", self.translation.window()).field("invalidation", &self.invalidation);
        shown.finish_non_exhaustive()
    }
}
