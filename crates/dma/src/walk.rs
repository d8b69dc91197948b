//! I/O page tables, the hardware's side: walks the bytes in memory as the specifications describe each bit. It shares
//! no code with the writer (`radix`), so that tests compare two independent readings.

mod amd;
mod smmu;
mod vtd;

pub use amd::WalkAmd;
pub use smmu::WalkSmmu;
pub use vtd::WalkVtd;

use crate::{Access, BusAddress, Format, MemoryAddress, Radix, Ram};
use std::sync::Arc;

/// The result of a walk: the page that contains an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// Memory address of the page.
    pub memory: MemoryAddress,
    /// Its size, a power of two of at least 4 KiB.
    pub page_bytes: u64,
    /// The access that all entries on the way allow.
    pub access: Access,
}

/// Why a walk failed. Levels are numbered as in the format: VT-d and AMD count from 1 at the leaves up, Arm from the
/// root down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalkFault {
    /// The address has more bits than the table.
    #[error("the address is beyond the table's width")]
    BeyondWidth,
    /// The entry is not present.
    #[error("nothing is mapped (level {level})")]
    NotPresent {
        /// Level of the entry.
        level: u32,
    },
    /// An entry has reserved bits set, or a reserved size.
    #[error("an entry of level {level} has reserved bits or a reserved size: {entry:#x}")]
    Reserved {
        /// Level of the entry.
        level: u32,
        /// The entry.
        entry: u64,
    },
    /// A table is outside the memory.
    #[error("the table of level {level} is outside the memory")]
    NoTable {
        /// Its level.
        level: u32,
    },
    /// The entries on the way allow no access in common.
    #[error("mapped without any access right")]
    NoAccess,
    /// The access flag is clear and must be set by software.
    #[error("the access flag of the entry of level {level} is clear")]
    NotAccessed {
        /// Level of the entry.
        level: u32,
    },
}

/// Walks a page table.
pub trait Walk: Send + Sync {
    /// Walks to the page of an address. Adds the number of entries read to `reads`.
    ///
    /// # Errors
    /// [`WalkFault`]
    fn walk(&self, ram: &Ram, at: BusAddress, reads: &mut u64) -> Result<Leaf, WalkFault>;
}

/// A table format that the software IOMMU can walk.
pub trait Walked: Format {
    /// A walker for this table.
    fn walker(table: &Radix<Self>) -> Arc<dyn Walk>
    where
        Self: Sized;
}

impl Leaf {
    /// The memory address behind a bus address in the page.
    pub fn lead(&self, at: BusAddress) -> MemoryAddress {
        MemoryAddress(self.memory.0 | at.0 & (self.page_bytes - 1))
    }
}

/// Bits `from..=to` of a number, counted from the lowest.
fn field(value: u64, from: u32, to: u32) -> u64 {
    value >> from & (u64::MAX >> (63 - (to - from)))
}
