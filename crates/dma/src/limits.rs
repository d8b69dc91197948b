//! An adapter's addressing limits.

use crate::BusAddress;

/// An adapter's limits, as its driver sets them (`dma_set_mask`, `dma_set_coherent_mask`, `dma_set_max_seg_size`,
/// `dma_set_seg_boundary`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// DMA mask of streaming mappings: their highest address.
    pub streaming_mask: u64,
    /// DMA mask of coherent memory.
    pub coherent_mask: u64,
    /// Largest segment of a scatter list.
    pub segment_bytes_max: u64,
    /// No segment crosses a multiple of this plus one; all ones for no boundary.
    pub boundary_mask: u64,
    /// Bits of a buffer's address that a bounce buffer must keep (`dma_set_min_align_mask`): a power of two less one,
    /// such as 4,095 for NVMe; 0 for none.
    pub offset_mask: u64,
}

impl Limits {
    /// A mask of `bits` bits for both kinds of mapping, and the kernel's defaults: segments of 64 KiB, no boundary.
    pub fn of_bits(bits: u32) -> Self {
        let mask = mask_of_bits(bits);
        Self {
            streaming_mask: mask,
            coherent_mask: mask,
            segment_bytes_max: 1 << 16,
            boundary_mask: u64::MAX,
            offset_mask: 0,
        }
    }

    /// Whether the mask covers `bytes` from `at`.
    pub(crate) fn reach(mask: u64, at: BusAddress, bytes: u64) -> bool {
        at.0.checked_add(bytes.saturating_sub(1)).is_some_and(|last| last <= mask)
    }
}

/// The highest address of `bits` bits (`DMA_BIT_MASK`).
pub(crate) fn mask_of_bits(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |beyond| beyond - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_the_highest_address() {
        assert_eq!([0, 1, 32, 64, 99].map(mask_of_bits), [0, 1, 0xffff_ffff, u64::MAX, u64::MAX]);
        let mask = mask_of_bits(32);
        assert!(Limits::reach(mask, BusAddress(0xffff_f000), 0x1000));
        assert!(!Limits::reach(mask, BusAddress(0xffff_f001), 0x1000));
        assert!(!Limits::reach(u64::MAX, BusAddress(u64::MAX), 2));
    }
}
