//! The accesses that an adapter may make, and the direction of a mapping.

use std::fmt;

/// Access rights of an adapter to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// The access right for these two permissions; `None` for neither.
    pub fn of(reads: bool, writes: bool) -> Option<Self> {
        match (reads, writes) {
            (true, true) => Some(Self::ReadWrite),
            (true, false) => Some(Self::Read),
            (false, true) => Some(Self::Write),
            (false, false) => None,
        }
    }

    /// Whether it reads.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// Whether this right includes the access `wanted`.
    pub fn allows(self, wanted: Self) -> bool {
        (self.reads() || !wanted.reads()) && (self.writes() || !wanted.writes())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadWrite => "read and write",
        })
    }
}

/// Direction of a mapping, numbered as in the kernel (`enum dma_data_direction`) without `DMA_NONE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Both ways.
    Bidirectional = 0,
    /// From memory to the adapter, which reads.
    ToDevice = 1,
    /// From the adapter, which writes, to memory.
    FromDevice = 2,
}

impl Direction {
    /// What the adapter may do with memory mapped in this direction (`dma_info_to_prot` in `drivers/iommu/dma-iommu.c`).
    pub fn access(self) -> Access {
        match self {
            Self::Bidirectional => Access::ReadWrite,
            Self::ToDevice => Access::Read,
            Self::FromDevice => Access::Write,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bidirectional => "both ways",
            Self::ToDevice => "to the device",
            Self::FromDevice => "from the device",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_permits_its_own_kinds() {
        let all = [Access::Read, Access::Write, Access::ReadWrite];
        for has in all {
            for wanted in all {
                assert_eq!(has.allows(wanted), has == wanted || has == Access::ReadWrite, "{has} {wanted}");
            }
        }
    }
}
