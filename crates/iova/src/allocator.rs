//! The trait of all allocators, and its errors.

use crate::{Range, Request, Usage};

/// Why an allocation failed.
///
/// It is as small as a page number and without the request's fields, so that a `Result` is returned in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u64)]
#[non_exhaustive]
pub enum AllocateError {
    /// No free range of that size and alignment ends at or below the limit.
    #[error("no free range of that size and alignment ends at or below the limit")]
    Full,
    /// A request for no pages, or with an alignment of 2^64 pages or more.
    #[error("invalid request for no pages, or for an alignment of 2^64 pages or more")]
    InvalidRequest,
}

/// Why a free failed. The allocator is unchanged, except after [`FreeError::Earlier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreeError {
    /// No allocated range begins at this page: it was freed already, or never allocated.
    #[error("no allocated range begins there: it was freed twice, or comes from another allocator")]
    NotAllocated,
    /// The allocated range that begins at this page has another size.
    #[error("the range that is allocated there has another size")]
    OtherSize,
    /// This free is done, but it found that an earlier one was wrong: of a range that was not allocated, or had another size.
    #[error(
        "this free is done, but an earlier one of the range at page {first:#x} was wrong: not allocated, or another size"
    )]
    Earlier {
        /// The first page of that range.
        first: u64,
    },
}

/// Allocates ranges of an I/O address space. Any thread may allocate, and any thread may free.
///
/// Allocated ranges don't overlap, contain no reserved page, and respect the request's limit and alignment.
pub trait Allocator: Sync {
    /// Allocates a free range and returns its first page; [`Request::range`] turns it into a range.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError>;

    /// Allocates a range up to page `low`, or any other if there is none. Linux's DMA layer does so for PCI devices, with
    /// `low` at 4 GiB (`drivers/iommu/dma-iommu.c`), because some devices have bugs above it. If the lower part is full,
    /// each such request first searches all of it.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn allocate_low_first(&self, request: &Request, low: u64) -> Result<u64, AllocateError> {
        match self.allocate(&Request { limit: request.limit.min(low), ..*request }) {
            Err(AllocateError::Full) if low < request.limit => self.allocate(request),
            answer => answer,
        }
    }

    /// Frees a range, which must be exactly as it was allocated.
    ///
    /// # Errors
    /// [`FreeError`]
    fn free(&self, range: Range) -> Result<(), FreeError>;

    /// Returns all free ranges that are cached for CPUs to where each CPU and size finds them. The next calls fill the caches
    /// anew, so it is for pauses. An allocator without caches does nothing.
    fn empty_caches(&self) {}

    /// Counts allocated, free and cached pages. It takes all locks, so it is not for the fast path.
    fn usage(&self) -> Usage;
}
