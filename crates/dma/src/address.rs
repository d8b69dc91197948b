//! Bus addresses and memory addresses, as separate types.

use std::fmt;

/// An address that an adapter puts on the bus: an I/O virtual address where an IOMMU translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BusAddress(pub u64);

/// An address of memory, untranslated: physical in a kernel or a model, the process's virtual address where VFIO maps
/// for a user-space driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemoryAddress(pub u64);

impl BusAddress {
    /// The result of a failed mapping (`DMA_MAPPING_ERROR`); no buffer has this address.
    pub const NONE: Self = Self(u64::MAX);

    /// The address `bytes` further; `None` on overflow.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }
}

impl MemoryAddress {
    /// The address `bytes` further; `None` on overflow.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }
}

impl fmt::Display for BusAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

impl fmt::Display for MemoryAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}
