//! Addresses, told apart by who uses them.

use std::fmt;

/// An address that an adapter puts on the bus: an I/O virtual address where an IOMMU translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BusAddress(pub u64);

/// An address of memory as the owner of the translation names it: physical in a kernel or a model, the process's own where VFIO
/// maps for a user-space driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemoryAddress(pub u64);

impl BusAddress {
    /// What an unsuccessful mapping has for an address (`DMA_MAPPING_ERROR`): never that of a buffer.
    pub const NONE: Self = Self(u64::MAX);

    /// So many bytes further, as far as there are addresses.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }
}

impl MemoryAddress {
    /// So many bytes further, as far as there are addresses.
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
