//! What all translations do, whoever carries them out.

use crate::{Access, BusAddress, DmaCounters, MemoryAddress};

/// Addresses that a translation can have, and the sizes of its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The lowest address, a multiple of the smallest page.
    pub first: BusAddress,
    /// The highest address: the last byte of a page.
    pub last: BusAddress,
    /// Bytes of the smallest page, a power of two: mappings begin and end at its multiples.
    pub granule_bytes: u64,
    /// Addresses between that are not to be used: those of message-signalled interrupts, of bridges. First and last byte.
    pub reserved: Vec<(BusAddress, BusAddress)>,
}

impl Window {
    /// Whether a mapping lies in the window, in whole pages.
    ///
    /// # Errors
    /// [`MapError::Unaligned`], [`MapError::Outside`]
    pub fn check(&self, at: BusAddress, memory: MemoryAddress, bytes: u64) -> Result<(), MapError> {
        let granule_bytes = self.granule_bytes;
        if bytes == 0 || (at.0 | memory.0 | bytes) & (granule_bytes - 1) != 0 {
            return Err(MapError::Unaligned { at, memory, bytes, granule_bytes });
        }
        let (first, last) = (self.first, self.last);
        let is_inside = at >= first && at.checked_add(bytes - 1).is_some_and(|end| end <= last);
        if is_inside { Ok(()) } else { Err(MapError::Outside { at, bytes, first, last }) }
    }
}

/// Why nothing was mapped. What was is as before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The range leaves the window, or wraps around.
    #[error("{bytes:#x} bytes at {at} are not within the window {first}-{last}")]
    Outside {
        /// Where it was to begin.
        at: BusAddress,
        /// How long it was to be.
        bytes: u64,
        /// The window's lowest address.
        first: BusAddress,
        /// Its highest.
        last: BusAddress,
    },
    /// An address or the size is no multiple of the smallest page, or the size is none.
    #[error("{bytes:#x} bytes from {memory} at {at}: not whole pages of {granule_bytes:#x} bytes")]
    Unaligned {
        /// Where it was to begin.
        at: BusAddress,
        /// The memory.
        memory: MemoryAddress,
        /// How long it was to be.
        bytes: u64,
        /// The smallest page.
        granule_bytes: u64,
    },
    /// Something is mapped there.
    #[error("{at} is mapped already")]
    Mapped {
        /// Where.
        at: BusAddress,
    },
    /// The memory is beyond what an entry of the table can name.
    #[error("{memory} is beyond what the table's entries can name")]
    Unreachable {
        /// The memory.
        memory: MemoryAddress,
    },
    /// There is no memory for tables.
    #[error("no memory left for translation tables")]
    OutOfFrames,
    /// Whoever carries it out refused.
    #[error("{what} was refused: {why}")]
    Refused {
        /// The call.
        what: &'static str,
        /// Its status, in words.
        why: String,
    },
}

/// Why nothing was unmapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnmapError {
    /// Not all of it is mapped.
    #[error("{at} is not mapped")]
    NotMapped {
        /// The first address that is not.
        at: BusAddress,
    },
    /// It would cut a larger page.
    #[error("the page at {at} has {page_bytes:#x} bytes, more than are to be unmapped")]
    CutsPage {
        /// Where the page begins.
        at: BusAddress,
        /// Its size.
        page_bytes: u64,
    },
    /// Not whole pages, or none.
    #[error("{bytes:#x} bytes at {at}: not whole pages of {granule_bytes:#x} bytes")]
    Unaligned {
        /// Where it was to begin.
        at: BusAddress,
        /// How long it was to be.
        bytes: u64,
        /// The smallest page.
        granule_bytes: u64,
    },
    /// Whoever carries it out refused.
    #[error("{what} was refused: {why}")]
    Refused {
        /// The call.
        what: &'static str,
        /// Its status, in words.
        why: String,
    },
}

/// Bus addresses that lead to memory, for one adapter or several. Any thread may map and unmap ranges of its own.
///
/// After [`unmap`](Self::unmap) an adapter may still reach the memory, by what its IOMMU remembers, until
/// [`invalidate`](Self::invalidate) or [`invalidate_all`](Self::invalidate_all) has returned.
pub trait Translation: Send + Sync {
    /// Where addresses may lie.
    fn window(&self) -> &Window;

    /// Makes `bytes` from `at` lead to memory.
    ///
    /// # Errors
    /// [`MapError`]; then nothing of it is mapped.
    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<(), MapError>;

    /// Takes `bytes` from `at` out of the table.
    ///
    /// # Errors
    /// [`UnmapError`]; then all of it is still mapped.
    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError>;

    /// Makes the IOMMU forget `bytes` from `at`, and waits until it has.
    fn invalidate(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters);

    /// Makes the IOMMU forget all of these addresses, and waits until it has.
    fn invalidate_all(&self, counters: &mut DmaCounters);

    /// The memory that an address leads to by the table.
    fn find(&self, at: BusAddress) -> Option<MemoryAddress>;
}
