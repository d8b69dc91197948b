//! Errors of mapping and unmapping.

use crate::{BusAddress, MapError, MemoryAddress, Misuse, UnmapError};
use iova::FreeError;

/// Why a call failed. Unless stated, nothing was changed. Calls that unmap state it at [`Mapper::unmap`](crate::Mapper::unmap) and
/// [`Mapper::unmap_list`](crate::Mapper::unmap_list).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DmaError {
    /// The buffer has no bytes, or wraps around the end of the address space.
    #[error("{bytes:#x} bytes from {memory} are not a buffer: empty, or beyond the last address")]
    NoBuffer {
        /// Its address.
        memory: MemoryAddress,
        /// Its size.
        bytes: u64,
    },
    /// No range of bus addresses within the adapter's mask is free.
    #[error("no {bytes:#x} bytes of bus addresses are free below {limit}")]
    NoAddresses {
        /// Size needed, in whole pages.
        bytes: u64,
        /// Highest usable address.
        limit: BusAddress,
    },
    /// The mapper has no [pool](crate::Mapper::with_coherent) of coherent memory.
    #[error("there is no pool of coherent memory; expected one by Mapper::with_coherent")]
    NoPool,
    /// The pool has no such pages free at addresses that the adapter reaches.
    #[error("no {bytes:#x} bytes of coherent memory are free up to {last}")]
    PoolFull {
        /// Size needed, in whole pages.
        bytes: u64,
        /// Last address that the adapter reaches.
        last: MemoryAddress,
    },
    /// Without translation, the memory is beyond the adapter's DMA mask and there are no bounce buffers.
    #[error(
        "{at}, {bytes:#x} bytes, is beyond the adapter's DMA mask {mask:#x}, and there are no bounce buffers"
    )]
    BeyondMask {
        /// The bus address it would have.
        at: BusAddress,
        /// Its size.
        bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// The bounce buffer pool is full, or the buffer is too large for it.
    #[error(
        "no bounce buffer for {bytes:#x} bytes: {slots_used} of {slots} slots are in use, and one mapping can have at most {bytes_max:#x} bytes"
    )]
    NoSlots {
        /// Size needed.
        bytes: u64,
        /// Slots in use.
        slots_used: usize,
        /// Slots of the pool.
        slots: usize,
        /// Largest buffer.
        bytes_max: u64,
    },
    /// The translation refused the mapping.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The translation refused the unmapping.
    #[error(transparent)]
    Unmap(#[from] UnmapError),
    /// The mapping was removed, but its addresses could not be freed and stay unused.
    #[error("unmapped, but its addresses could not be freed")]
    Free(#[from] FreeError),
    /// The driver violated the DMA API.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// A copy to or from a bounce buffer is outside the memory. After an unmap: the mapping was removed and its bounce buffer freed, but
    /// what the adapter wrote is lost.
    #[error(transparent)]
    NoMemory(#[from] crate::NoMemory),
}

/// Whether an unmap with this result has removed the mapping.
pub(crate) fn is_unmapped(result: &Result<(), DmaError>) -> bool {
    matches!(result, Ok(()) | Err(DmaError::Free(_) | DmaError::NoMemory(_)))
}
