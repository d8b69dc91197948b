//! Coherent memory: shared by an adapter and the CPU without handing over.

use crate::{BusAddress, DmaError, Memory, MemoryAddress};
use iova::{Allocator, GapTree, Range, Request, Space, SpaceError};
use std::fmt;
use std::sync::Arc;

/// The allocation unit.
const PAGE: u64 = 4096;

/// A coherent buffer, mapped until it is freed.
#[derive(Debug, PartialEq, Eq)]
pub struct Coherent {
    /// Its address for the CPU.
    pub memory: MemoryAddress,
    /// Its address for the adapter.
    pub at: BusAddress,
    /// Its size, a multiple of the page size.
    pub bytes: u64,
}

/// A pool from which coherent buffers are allocated.
pub struct Pool {
    memory: Arc<dyn Memory>,
    pages: GapTree,
}

impl Pool {
    /// A pool of the whole pages within `bytes` from `base`. Nothing checks that nobody else uses them.
    ///
    /// # Errors
    /// If there is not one whole page.
    pub fn new(memory: Arc<dyn Memory>, base: MemoryAddress, bytes: u64) -> Result<Self, SpaceError> {
        let first = base.0.div_ceil(PAGE);
        let beyond = base.0.saturating_add(bytes) / PAGE;
        // Page 0 alone would be a space as well: `beyond` less one is no page if there is none.
        let last = beyond.checked_sub(1).ok_or(SpaceError::Empty { first, last: beyond })?;
        let space = Space::new(first, last);
        Ok(Self { memory, pages: GapTree::new(&space)? })
    }

    /// Allocates zeroed pages, aligned to their size rounded up to a power of two, with no byte above `last`.
    pub(crate) fn allocate(&self, bytes: u64, last: MemoryAddress) -> Result<MemoryAddress, DmaError> {
        let full = DmaError::PoolFull { bytes, last };
        // The last page that ends at or below `last`.
        let limit = last.0.checked_sub(PAGE - 1).ok_or_else(|| full.clone())? / PAGE;
        let request = Request::size_aligned(bytes / PAGE, limit);
        let first = self.pages.allocate(&request).map_err(|_| full)?;
        let at = MemoryAddress(first * PAGE);
        match self.memory.zero(at, bytes) {
            Ok(()) => Ok(at),
            Err(error) => self.free(at, bytes).and(Err(error.into())),
        }
    }

    /// Returns pages to the pool.
    pub(crate) fn free(&self, at: MemoryAddress, bytes: u64) -> Result<(), DmaError> {
        Ok(self.pages.free(Range { first: at.0 / PAGE, pages: bytes / PAGE })?)
    }

    /// The size rounded up to whole pages; `None` on overflow.
    pub(crate) fn whole_pages(bytes: u64) -> Option<u64> {
        bytes.checked_next_multiple_of(PAGE).filter(|rounded| *rounded > 0)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pool").field("pages", &self.pages.usage()).finish_non_exhaustive()
    }
}
