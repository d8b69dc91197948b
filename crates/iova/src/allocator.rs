//! What every allocator does.

use crate::{Range, Request, Usage};

/// Why there is no range.
///
/// What was asked for is not in it, the caller knows; and it is as large as a page number: so an answer is returned in
/// registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u64)]
pub enum AllocateError {
    /// No free range of that size and alignment ends at or below the limit.
    #[error("no free range of that size and alignment ends at or below the limit")]
    Full,
    /// No pages, or an alignment that no page number has.
    #[error("a request for no pages, or for an alignment of 2^64 pages or more")]
    Senseless,
}

/// Why a range was not taken back. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// No allocated range begins there: freed twice, or never allocated.
    #[error("no range was allocated there: freed twice, or not of this allocator")]
    NotAllocated,
    /// The range that begins there is of another size.
    #[error("the range that was allocated there is of another size")]
    OtherSize,
}

/// Hands out ranges of an I/O address space, to any thread, and takes them back from any thread.
///
/// Ranges that are out at the same time don't overlap, hold no reserved page, and respect the request's limit and
/// alignment.
pub trait Allocator: Sync {
    /// Takes a free range, and says its first page: [`Request::range`] makes the range of it.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError>;

    /// Takes a range up to page `low`, and any other only if there is none: Linux's DMA layer asks for addresses of PCI devices
    /// so, up to 4 GiB (`drivers/iommu/dma-iommu.c`), as some can't do with more whatever they say. Where the lower part is full,
    /// each such request searches all of it in vain.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn allocate_low_first(&self, request: &Request, low: u64) -> Result<u64, AllocateError> {
        match self.allocate(&Request { limit: request.limit.min(low), ..*request }) {
            Err(AllocateError::Full) if low < request.limit => self.allocate(request),
            answer => answer,
        }
    }

    /// Gives back a range as it was handed out.
    ///
    /// # Errors
    /// [`FreeError`]
    fn free(&self, range: Range) -> Result<(), FreeError>;

    /// What is allocated, free and held back. Locks everything: not for the fast path.
    fn usage(&self) -> Usage;
}
