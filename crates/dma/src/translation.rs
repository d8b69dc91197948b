//! The interface of every translation: software tables, POWER's windows, the host's own IOMMU.

use crate::{Access, BusAddress, DmaCounters, MemoryAddress};

/// The bus addresses that a translation can map, and its page size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Lowest address, a multiple of the granule.
    pub first: BusAddress,
    /// Highest address, the last byte of a page.
    pub last: BusAddress,
    /// Smallest page size, a power of two. Mappings begin and end at its multiples.
    pub granule_bytes: u64,
    /// Reserved ranges within (first and last byte), such as those of MSIs and bridges.
    pub reserved: Vec<(BusAddress, BusAddress)>,
}

impl Window {
    /// Checks that a mapping lies in the window and consists of whole pages.
    ///
    /// # Errors
    /// [`MapError::Unaligned`], [`MapError::Outside`]
    pub fn check(&self, at: BusAddress, memory: MemoryAddress, bytes: u64) -> Result<(), MapError> {
        let granule_bytes = self.granule_bytes;
        if bytes == 0 || (at.0 | memory.0 | bytes) & granule_bytes.wrapping_sub(1) != 0 {
            return Err(MapError::Unaligned { at, memory, bytes, granule_bytes });
        }
        let (first, last) = (self.first, self.last);
        let is_inside = at >= first && at.checked_add(bytes - 1).is_some_and(|end| end <= last);
        if is_inside { Ok(()) } else { Err(MapError::Outside { at, bytes, first, last }) }
    }
}

/// Why a range was not mapped. The table is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The range is outside the window, or wraps around.
    #[error("{bytes:#x} bytes at {at} are not within the window {first}-{last}")]
    Outside {
        /// First address of the range.
        at: BusAddress,
        /// Length of the range.
        bytes: u64,
        /// Lowest address of the window.
        first: BusAddress,
        /// Highest address of the window.
        last: BusAddress,
    },
    /// An address or the length is not a multiple of the granule, or the length is 0.
    #[error("{bytes:#x} bytes from {memory} at {at}: expected whole pages of {granule_bytes:#x} bytes")]
    Unaligned {
        /// First address of the range.
        at: BusAddress,
        /// The memory.
        memory: MemoryAddress,
        /// Length of the range.
        bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// The address is mapped already.
    #[error("{at} is mapped already")]
    Mapped {
        /// The address.
        at: BusAddress,
    },
    /// The memory address has more bits than a table entry.
    #[error("{memory} is beyond the addresses that a table entry can hold")]
    Unreachable {
        /// The memory.
        memory: MemoryAddress,
    },
    /// The memory is not part of that with which the translation was made.
    #[error("{bytes:#x} bytes from {memory} are not in the memory with which the translation was made")]
    OtherMemory {
        /// The first address.
        memory: MemoryAddress,
        /// Length of the range.
        bytes: u64,
    },
    /// No page is free for a table.
    #[error("no memory left for translation tables")]
    OutOfFrames,
    /// The kernel or the hypervisor refused.
    #[error("{what} was refused: {why}")]
    Refused {
        /// The call.
        what: &'static str,
        /// Its status, in words.
        why: String,
    },
}

/// Why a range was not unmapped. The table is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnmapError {
    /// A part of the range is not mapped.
    #[error("{at} is not mapped")]
    NotMapped {
        /// The first address that is not mapped.
        at: BusAddress,
    },
    /// The range covers only a part of a larger page.
    #[error("the page at {at} has {page_bytes:#x} bytes, of which only a part is to be unmapped")]
    CutsPage {
        /// First address of the page.
        at: BusAddress,
        /// Its size.
        page_bytes: u64,
    },
    /// Not whole pages, or an empty range.
    #[error("{bytes:#x} bytes at {at}: expected whole pages of {granule_bytes:#x} bytes")]
    Unaligned {
        /// First address of the range.
        at: BusAddress,
        /// Length of the range.
        bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// The kernel or the hypervisor refused.
    #[error("{what} was refused: {why}")]
    Refused {
        /// The call.
        what: &'static str,
        /// Its status, in words.
        why: String,
    },
}

/// An I/O address space of one adapter or several. Threads may map and unmap different ranges concurrently.
///
/// After [`unmap`](Self::unmap) an adapter may still reach the memory through the IOTLB, until
/// [`invalidate`](Self::invalidate) or [`invalidate_all`](Self::invalidate_all) returns.
pub trait Translation: Send + Sync {
    /// The bus addresses that can be mapped.
    fn window(&self) -> &Window;

    /// Maps `bytes` from `at` to memory.
    ///
    /// # Errors
    /// [`MapError`]; then nothing is mapped.
    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<(), MapError>;

    /// Unmaps `bytes` from `at`.
    ///
    /// # Errors
    /// [`UnmapError`]; then everything is still mapped.
    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError>;

    /// Invalidates the IOTLB for `bytes` from `at`, and waits for completion.
    fn invalidate(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters);

    /// Invalidates the IOTLB for the whole address space, and waits for completion.
    fn invalidate_all(&self, counters: &mut DmaCounters);

    /// Whether [`unmap`](Self::unmap) itself invalidates before it returns, as the kernel does behind VFIO, and POWER's
    /// hypervisor. Then a [`Domain`](crate::Domain) does not call [`invalidate`](Self::invalidate).
    fn unmap_invalidates(&self) -> bool {
        false
    }

    /// Whether the IOMMU makes all accesses of the adapter snoop the CPU's caches, whatever the adapter asks for; `None` if unknown.
    fn forces_snooping(&self) -> Option<bool> {
        None
    }

    /// The memory that an address is mapped to in the table.
    fn find(&self, at: BusAddress) -> Option<MemoryAddress>;
}
