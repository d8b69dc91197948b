//! The host bridge's side: translates a bus address by the table in memory.

use super::Table;
use crate::{Access, BusAddress, Leaf, MemoryAddress, NoMemory, Ram, Walk, WalkFault};

/// TCE tables have one level.
const LEVEL: u32 = 1;

/// Walks a TCE table. It shares no code with the writer, so that tests compare two independent readings.
#[derive(Debug, Clone, Copy)]
pub struct TceWalk {
    table: Table,
}

/// Why an access faulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TceFault {
    /// The window does not contain the address.
    #[error("{at} is outside the window")]
    Outside {
        /// The address.
        at: BusAddress,
    },
    /// The entry does not allow the access.
    #[error("the entry for {at} does not allow {access}")]
    Forbidden {
        /// The address.
        at: BusAddress,
        /// The access.
        access: Access,
    },
    /// The table is outside the memory.
    #[error("the table is outside the memory")]
    NoTable(#[from] NoMemory),
}

impl TceWalk {
    /// A walk of this table.
    pub fn new(table: Table) -> Self {
        Self { table }
    }

    /// The memory address behind a bus address, and the page size.
    ///
    /// # Errors
    /// [`TceFault`]
    pub fn reach(&self, ram: &Ram, at: BusAddress, access: Access) -> Result<(MemoryAddress, u64), TceFault> {
        let leaf = self.leaf(ram, at)?;
        match leaf.filter(|leaf| leaf.access.allows(access)) {
            Some(leaf) => Ok((leaf.lead(at), leaf.page_bytes)),
            None => Err(TceFault::Forbidden { at, access }),
        }
    }

    /// The leaf for an address; `None` if the entry allows no access.
    fn leaf(&self, ram: &Ram, at: BusAddress) -> Result<Option<Leaf>, TceFault> {
        let Table { at: table, first, entries, page_shift } = self.table;
        let page = at.0.wrapping_sub(first.0) >> page_shift;
        if at < first || page >= entries {
            return Err(TceFault::Outside { at });
        }
        let mut bytes = [0; 8];
        ram.read(MemoryAddress(table.0 + 8 * page), &mut bytes)?;
        let [.., last] = bytes;
        let page_bytes = 1_u64 << page_shift;
        let memory = MemoryAddress(u64::from_be_bytes(bytes) & !(page_bytes - 1));
        let access = Access::of(last & 0b01 != 0, last & 0b10 != 0);
        Ok(access.map(|access| Leaf { memory, page_bytes, access }))
    }
}

/// For the software IOMMU, so that an adapter there can have a TCE table.
impl Walk for TceWalk {
    fn walk(&self, ram: &Ram, at: BusAddress, reads: &mut u64) -> Result<Leaf, WalkFault> {
        *reads += 1;
        match self.leaf(ram, at) {
            Ok(Some(leaf)) => Ok(leaf),
            Ok(None) => Err(WalkFault::NotPresent { level: LEVEL }),
            Err(TceFault::NoTable(_)) => Err(WalkFault::NoTable { level: LEVEL }),
            Err(TceFault::Outside { .. } | TceFault::Forbidden { .. }) => Err(WalkFault::BeyondWidth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table =
        Table { at: MemoryAddress(0x1000), first: BusAddress(0x4000_0000), entries: 2, page_shift: 16 };

    #[test]
    fn bytes_are_read_highest_first() {
        let ram = Ram::new(MemoryAddress(0x1000), 16);
        ram.write(MemoryAddress(0x1008), &[0, 0, 0, 0x12, 0x34, 0x56, 0, 0b10]).unwrap();
        let walk = |at, access| TceWalk::new(TABLE).reach(&ram, BusAddress(at), access);
        assert_eq!(walk(0x4001_0123, Access::Write), Ok((MemoryAddress(0x12_3456_0123), 0x1_0000)));
        for (at, access) in
            [(0x4001_0123, Access::ReadWrite), (0x4001_0000, Access::Read), (0x4000_0000, Access::Write)]
        {
            assert_eq!(walk(at, access), Err(TceFault::Forbidden { at: BusAddress(at), access }));
        }
        for at in [0, 0x3fff_ffff, 0x4002_0000, u64::MAX] {
            assert_eq!(walk(at, Access::Write), Err(TceFault::Outside { at: BusAddress(at) }));
        }
        let lost = Table { at: MemoryAddress(0x8000), ..TABLE };
        let fault = TceWalk::new(lost).reach(&ram, TABLE.first, Access::Read);
        assert!(matches!(fault, Err(TceFault::NoTable(_))), "{fault:?}");
    }
}
