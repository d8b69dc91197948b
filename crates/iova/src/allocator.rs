//! What every allocator does.

use crate::{Range, Request, Usage};

/// Why there is no range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No free range of that size and alignment ends at or below the limit.
    #[error("no {pages} free pages up to page {limit:#x}")]
    Full {
        /// How many were asked for.
        pages: u64,
        /// The highest page they may have had.
        limit: u64,
    },
    /// No pages, or an alignment that is no power of two.
    #[error(
        "a request for {pages} pages aligned to {alignment_pages}; expected one page or more, and a power of two"
    )]
    Senseless {
        /// How many were asked for.
        pages: u64,
        /// Their alignment.
        alignment_pages: u64,
    },
}

impl AllocateError {
    pub(crate) fn full(request: &Request) -> Self {
        Self::Full { pages: request.pages, limit: request.limit }
    }

    pub(crate) fn senseless(request: &Request) -> Self {
        Self::Senseless { pages: request.pages, alignment_pages: request.alignment_pages }
    }
}

/// Why a range was not taken back. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// No allocated range begins there: freed twice, or never allocated.
    #[error("no range was allocated at page {first:#x}: freed twice, or not of this allocator")]
    NotAllocated {
        /// Where it was to begin.
        first: u64,
    },
    /// The range that begins there is of another size.
    #[error("{pages} pages freed at page {first:#x}, but not {pages} were allocated there")]
    OtherSize {
        /// Where it begins.
        first: u64,
        /// The size that was given.
        pages: u64,
    },
}

/// Hands out ranges of an I/O address space, to any thread, and takes them back from any thread.
///
/// Ranges that are out at the same time don't overlap, hold no reserved page, and respect the request's limit and
/// alignment.
pub trait Allocator: Sync {
    /// Takes a free range.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn allocate(&self, request: &Request) -> Result<Range, AllocateError>;

    /// Gives back a range as it was handed out.
    ///
    /// # Errors
    /// [`FreeError`]
    fn free(&self, range: Range) -> Result<(), FreeError>;

    /// What is allocated, free and held back. Locks everything: not for the fast path.
    fn usage(&self) -> Usage;
}
