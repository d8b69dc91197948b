//! AMD's host tables, version 1 ("AMD I/O Virtualization Technology (IOMMU) Specification", 48882, section 2.2.3).

use super::{Leaf, Walk, WalkFault, Walked, field};
use crate::{Access, Amd, BusAddress, ByteOrder, MemoryAddress, Radix, Ram};
use std::sync::Arc;

/// Walks AMD's host tables.
#[derive(Debug, Clone, Copy)]
pub struct WalkAmd {
    /// Address of the root table.
    pub root: MemoryAddress,
    /// Levels, 1 to 6: the mode in the device table entry. Any other number translates nothing.
    pub levels: u32,
}

impl Walk for WalkAmd {
    fn walk(&self, ram: &Ram, at: BusAddress, reads: &mut u64) -> Result<Leaf, WalkFault> {
        let is_wide = self.levels == 6;
        if !(1..=6).contains(&self.levels) || !is_wide && at.0 >> (9 * self.levels + 12) != 0 {
            return Err(WalkFault::BeyondWidth);
        }
        let (mut table, mut level) = (self.root.0, self.levels);
        let (mut may_read, mut may_write) = (true, true);
        loop {
            let index_from = 9 * level + 3;
            let place = table + 8 * field(at.0, index_from, (index_from + 8).min(63));
            *reads += 1;
            let entry = ram.read_u64(MemoryAddress(place), ByteOrder::Little);
            let entry = entry.map_err(|_| WalkFault::NoTable { level })?;
            if entry % 2 == 0 {
                return Err(WalkFault::NotPresent { level });
            }
            let reserved = WalkFault::Reserved { level, entry };
            may_read &= field(entry, 61, 61) == 1;
            may_write &= field(entry, 62, 62) == 1;
            let next_level = field(entry, 9, 11) as u32;
            if next_level == 0 || next_level == 7 {
                if field(entry, 52, 58) != 0 {
                    return Err(reserved);
                }
                let page_bits = page_bits(entry, level, next_level).ok_or(reserved)?;
                let access = Access::of(may_read, may_write).ok_or(WalkFault::NoAccess)?;
                let memory = MemoryAddress(field(entry, page_bits, 51) << page_bits);
                return Ok(Leaf { memory, page_bytes: 1 << page_bits, access });
            }
            if next_level >= level || field(entry, 52, 60) != 0 {
                return Err(reserved);
            }
            // Levels may be skipped where the address bits are zero.
            let skipped_from = 9 * next_level + 12;
            if next_level + 1 < level && field(at.0, skipped_from, index_from - 1) != 0 {
                return Err(WalkFault::NotPresent { level });
            }
            table = field(entry, 12, 51) << 12;
            level = next_level;
        }
    }
}

/// Log2 of a leaf's page size: that of its level, for which the address must be aligned, or one between this level
/// and the next, encoded by the lowest zero bit of the address. `None` if reserved.
fn page_bits(entry: u64, level: u32, next_level: u32) -> Option<u32> {
    let own = 9 * level + 3;
    if next_level == 0 {
        let is_aligned = own <= 12 || own <= 51 && field(entry, 12, own - 1) == 0;
        return is_aligned.then_some(own);
    }
    let lowest_zero = (12..51).find(|bit| field(entry, *bit, *bit) == 0)?;
    let bits = lowest_zero + 1;
    (own < bits && bits < own + 9).then_some(bits)
}

impl Walked for Amd {
    fn walker(table: &Radix<Self>) -> Arc<dyn Walk> {
        Arc::new(WalkAmd { root: table.root(), levels: table.levels() })
    }
}
