//! I/O page tables as an IOMMU reads them: from bytes in memory, by what the specifications say of each bit. Nothing here is
//! shared with what writes them.

mod amd;
mod smmu;
mod vtd;

pub use amd::WalkAmd;
pub use smmu::WalkSmmu;
pub use vtd::WalkVtd;

use crate::{Access, BusAddress, Format, MemoryAddress, Radix, Ram};
use std::sync::Arc;

/// What an address is translated by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// Where the page begins in memory.
    pub memory: MemoryAddress,
    /// Its size, a power of two and 4 KiB at least; bus addresses are cut into such pages too.
    pub page_bytes: u64,
    /// What the entries on the way allow.
    pub access: Access,
}

/// Why there is no translation. Levels are numbered as the format does: VT-d and AMD from the leaves up, beginning with 1, Arm
/// from the root down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WalkFault {
    /// The address has more bits than the table.
    #[error("the address is beyond the table's width")]
    BeyondWidth,
    /// An entry says that there is nothing.
    #[error("nothing is mapped (level {level})")]
    NotPresent {
        /// The level of the entry.
        level: u32,
    },
    /// An entry has bits, or a size, that it may not have.
    #[error("an entry of level {level} has reserved bits or a reserved size: {entry:#x}")]
    Reserved {
        /// The level of the entry.
        level: u32,
        /// What it is.
        entry: u64,
    },
    /// A table is where there is no memory.
    #[error("the table of level {level} is not in memory")]
    NoTable {
        /// Its level.
        level: u32,
    },
    /// The entries on the way have nothing in common that they allow.
    #[error("mapped, but for no access")]
    NoAccess,
    /// The page was never accessed, and the table says that this is to be told.
    #[error("the access flag of the entry of level {level} is clear")]
    NotAccessed {
        /// The level of the entry.
        level: u32,
    },
}

/// Finds what a table says of an address.
pub trait Walk: Send + Sync {
    /// Walks the table to the page that an address lies in, and counts each entry that it reads.
    ///
    /// # Errors
    /// [`WalkFault`]
    fn walk(&self, ram: &Ram, at: BusAddress, reads: &mut u64) -> Result<Leaf, WalkFault>;
}

/// A format that an IOMMU of this crate reads.
pub trait Walked: Format {
    /// What reads this table.
    fn walker(table: &Radix<Self>) -> Arc<dyn Walk>
    where
        Self: Sized;
}

impl Leaf {
    /// Where an address in the page leads to.
    pub fn lead(&self, at: BusAddress) -> MemoryAddress {
        MemoryAddress(self.memory.0 | at.0 & (self.page_bytes - 1))
    }
}

/// Bits `from..=to` of a number, lowest first.
fn field(value: u64, from: u32, to: u32) -> u64 {
    value >> from & (u64::MAX >> (63 - (to - from)))
}
