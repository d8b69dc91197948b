//! Intel VT-d's second stage ("Intel Virtualization Technology for Directed I/O", Architecture Specification, section 9.8).

use super::{Leaf, Walk, WalkFault, Walked, field};
use crate::{Access, BusAddress, ByteOrder, MemoryAddress, Radix, Ram, Vtd};
use std::sync::Arc;

/// Walks VT-d's second-stage tables.
#[derive(Debug, Clone, Copy)]
pub struct WalkVtd {
    /// Address of the root table.
    pub root: MemoryAddress,
    /// Levels, 3 to 5. Any other number translates nothing.
    pub levels: u32,
    /// Host address width; address bits above are reserved.
    pub host_bits: u32,
    /// Highest level with large pages, 1 to 3 (capability `SLLPS`).
    pub page_level_max: u32,
}

impl Walk for WalkVtd {
    fn walk(&self, ram: &Ram, at: BusAddress, reads: &mut u64) -> Result<Leaf, WalkFault> {
        if !(3..=5).contains(&self.levels) || at.0 >> (12 + 9 * self.levels) != 0 {
            return Err(WalkFault::BeyondWidth);
        }
        let (mut table, mut may_read, mut may_write) = (self.root.0, true, true);
        for level in (1..=self.levels).rev() {
            let page_bits = 3 + 9 * level;
            let place = table + 8 * field(at.0, page_bits, page_bits + 8);
            *reads += 1;
            let entry = ram.read_u64(MemoryAddress(place), ByteOrder::Little);
            let entry = entry.map_err(|_| WalkFault::NoTable { level })?;
            // Without READ and WRITE the other bits are ignored.
            if field(entry, 0, 1) == 0 {
                return Err(WalkFault::NotPresent { level });
            }
            let reserved = WalkFault::Reserved { level, entry };
            if self.host_bits < 52 && field(entry, self.host_bits, 51) != 0 {
                return Err(reserved);
            }
            may_read &= field(entry, 0, 0) == 1;
            may_write &= field(entry, 1, 1) == 1;
            let is_page = level == 1 || field(entry, 7, 7) == 1;
            if !is_page {
                table = field(entry, 12, 51) << 12;
                continue;
            }
            // The unit does not support this page size, or the address is not aligned to it.
            if level > 1 && (level > self.page_level_max.min(3) || field(entry, 12, page_bits - 1) != 0) {
                return Err(reserved);
            }
            let access = Access::of(may_read, may_write).ok_or(WalkFault::NoAccess)?;
            let memory = MemoryAddress(field(entry, page_bits, 51) << page_bits);
            return Ok(Leaf { memory, page_bytes: 1 << page_bits, access });
        }
        Err(WalkFault::BeyondWidth)
    }
}

impl Walked for Vtd {
    fn walker(table: &Radix<Self>) -> Arc<dyn Walk> {
        Arc::new(WalkVtd { root: table.root(), levels: table.levels(), host_bits: 52, page_level_max: 3 })
    }
}
