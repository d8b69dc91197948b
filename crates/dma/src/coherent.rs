//! Memory that an adapter and the CPU share all the time.

use crate::{BusAddress, DmaError, Memory, MemoryAddress};
use iova::{Allocator, GapTree, Range, Request, Space, SpaceError};
use std::fmt;
use std::sync::Arc;

/// Coherent memory comes in these.
const PAGE: u64 = 4096;

/// Coherent memory: mapped until it is freed, owned by nobody.
#[derive(Debug, PartialEq, Eq)]
pub struct Coherent {
    /// Where the CPU finds it.
    pub memory: MemoryAddress,
    /// Where the adapter finds it.
    pub at: BusAddress,
    /// Its bytes, whole pages.
    pub bytes: u64,
}

/// Memory that coherent buffers are made of.
pub struct Pool {
    memory: Arc<dyn Memory>,
    pages: GapTree,
}

impl Pool {
    /// The whole pages from `base` for `bytes`.
    ///
    /// # Errors
    /// If there is no page.
    pub fn new(memory: Arc<dyn Memory>, base: MemoryAddress, bytes: u64) -> Result<Self, SpaceError> {
        let first = base.0.div_ceil(PAGE);
        let beyond = base.0.saturating_add(bytes) / PAGE;
        let space = Space::new(first, beyond.saturating_sub(1));
        Ok(Self { memory, pages: GapTree::new(&space)? })
    }

    /// Zeroed pages, aligned to their number rounded up to a power of two; their last byte is not above `last`.
    pub(crate) fn take(&self, bytes: u64, last: MemoryAddress) -> Result<MemoryAddress, DmaError> {
        let full = DmaError::NoAddresses { bytes, limit: BusAddress(last.0) };
        // The last page that ends by it.
        let limit = last.0.checked_sub(PAGE - 1).ok_or_else(|| full.clone())? / PAGE;
        let request = Request::size_aligned(bytes / PAGE, limit);
        let first = self.pages.allocate(&request).map_err(|_| full)?;
        let at = MemoryAddress(first * PAGE);
        self.memory.zero(at, bytes)?;
        Ok(at)
    }

    pub(crate) fn give_back(&self, at: MemoryAddress, bytes: u64) -> Result<(), DmaError> {
        Ok(self.pages.free(Range { first: at.0 / PAGE, pages: bytes / PAGE })?)
    }

    /// Whole pages for so many bytes.
    pub(crate) fn rounded(bytes: u64) -> Option<u64> {
        bytes.checked_next_multiple_of(PAGE).filter(|rounded| *rounded > 0)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pool").field("pages", &self.pages.usage()).finish_non_exhaustive()
    }
}
