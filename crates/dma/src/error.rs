//! Why a mapping could not be made or removed.

use crate::{BusAddress, MapError, MemoryAddress, Misuse, UnmapError};
use iova::FreeError;

/// What went wrong. Where nothing else is said, nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DmaError {
    /// A mapping of no bytes, or of memory that wraps around the end of all addresses.
    #[error("{bytes:#x} bytes from {memory} are no buffer")]
    NoBuffer {
        /// The memory.
        memory: MemoryAddress,
        /// Its bytes.
        bytes: u64,
    },
    /// There is no free range of bus addresses that the adapter can name.
    #[error("no {bytes:#x} bytes of bus addresses are free up to {limit}")]
    NoAddresses {
        /// Bytes that were needed, in whole pages.
        bytes: u64,
        /// The highest address that would have done.
        limit: BusAddress,
    },
    /// The memory is beyond the adapter's mask, nothing translates, and there is no bounce buffer.
    #[error("{at}, {bytes:#x} bytes, is beyond the adapter's mask {mask:#x}, and there is no bounce buffer")]
    BeyondMask {
        /// The bus address that it would have.
        at: BusAddress,
        /// Its bytes.
        bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// No bounce buffer is free for it.
    #[error(
        "no bounce buffer for {bytes:#x} bytes: {slots_used} of {slots} slots are in use, and one mapping takes {bytes_max:#x} bytes at most"
    )]
    NoSlots {
        /// Bytes that were needed.
        bytes: u64,
        /// Slots in use.
        slots_used: usize,
        /// All slots.
        slots: usize,
        /// The most that one mapping can have.
        bytes_max: u64,
    },
    /// The translation did not take it.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The translation did not let it go.
    #[error(transparent)]
    Unmap(#[from] UnmapError),
    /// It is unmapped, but its bus addresses were not allocated so: they stay out of use.
    #[error("unmapped, but its addresses were not given back")]
    Free(#[from] FreeError),
    /// The driver broke the rules.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// Memory that is to be copied to or from a bounce buffer is not there.
    #[error(transparent)]
    NoMemory(#[from] crate::NoMemory),
}
