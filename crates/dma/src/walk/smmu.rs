//! SMMUv3, stage 1, granule 4 KiB ("Arm Architecture Reference Manual", DDI 0487, section D8.3).

use super::{Leaf, Walk, WalkFault, Walked, field};
use crate::{Access, BusAddress, ByteOrder, MemoryAddress, Radix, Ram, Smmu};
use std::sync::Arc;

/// Walks stage 1 tables in the long-descriptor format, as for unprivileged accesses.
#[derive(Debug, Clone, Copy)]
pub struct WalkSmmu {
    /// Address of the root table (`TTB0`).
    pub root: MemoryAddress,
    /// Translated address bits (64 - `T0SZ`), 31 to 48. Linux uses 48, or 39, for which the walk begins at level 1.
    /// Any other number translates nothing.
    pub address_bits: u32,
}

impl Walk for WalkSmmu {
    fn walk(&self, ram: &Ram, at: BusAddress, reads: &mut u64) -> Result<Leaf, WalkFault> {
        if !(31..=48).contains(&self.address_bits) || at.0 >> self.address_bits != 0 {
            return Err(WalkFault::BeyondWidth);
        }
        let first_level = if self.address_bits > 39 { 0 } else { 1 };
        let (mut table, mut may_read, mut may_write) = (self.root.0, true, true);
        for level in first_level..=3 {
            let low = 39 - 9 * level;
            let place = table | field(at.0, low, low + 8) << 3;
            *reads += 1;
            let descriptor = ram.read_u64(MemoryAddress(place), ByteOrder::Little);
            let descriptor = descriptor.map_err(|_| WalkFault::NoTable { level })?;
            let is_last = match (descriptor & 0b11, level) {
                (0b11, 0..=2) => false,
                (0b01, 1..=2) | (0b11, 3) => true,
                // A block at level 0, and a block encoding at level 3, are reserved and count as invalid.
                (0b01, _) => return Err(WalkFault::Reserved { level, entry: descriptor }),
                _ => return Err(WalkFault::NotPresent { level }),
            };
            if !is_last {
                // APTable: restricts all lower levels.
                may_read &= field(descriptor, 61, 61) == 0;
                may_write &= field(descriptor, 62, 62) == 0;
                table = descriptor & 0x0000_ffff_ffff_f000;
                continue;
            }
            if level < 3 && field(descriptor, 17, low - 1) != 0 {
                return Err(WalkFault::Reserved { level, entry: descriptor });
            }
            if field(descriptor, 10, 10) == 0 {
                return Err(WalkFault::NotAccessed { level });
            }
            // AP[1]: unprivileged accesses allowed; AP[2]: read-only.
            let is_open = field(descriptor, 6, 6) == 1 && may_read;
            let access = Access::of(is_open, is_open && may_write && field(descriptor, 7, 7) == 0);
            let memory = MemoryAddress(field(descriptor, low, 47) << low);
            return Ok(Leaf { memory, page_bytes: 1 << low, access: access.ok_or(WalkFault::NoAccess)? });
        }
        Err(WalkFault::BeyondWidth)
    }
}

impl Walked for Smmu {
    fn walker(table: &Radix<Self>) -> Arc<dyn Walk> {
        Arc::new(WalkSmmu { root: table.root(), address_bits: 12 + 9 * table.levels() })
    }
}
