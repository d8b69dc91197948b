//! The I/O page sizes that firmware offers for a new window.

use crate::{Era, size};
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Page shift of each bit of the mask, lowest bit first. The 2 MiB bit was added last and so stands out
/// of order (arch/powerpc/platforms/pseries/iommu.c; LoPAR's public text ends at 16 GiB).
const SHIFTS: [u32; 9] = [12, 16, 24, 25, 26, 27, 28, 34, 21];

/// The page-size mask that `ibm,query-pe-dma-windows` returns (LoPAR, DMA Window RTAS calls, which
/// numbers the same bits from the other end).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSizes(pub u32);

impl PageSizes {
    /// Shifts of the sizes offered, smallest page first.
    pub fn shifts(self) -> Vec<u32> {
        let mut shifts: Vec<u32> =
            (0..).zip(SHIFTS).filter(|(bit, _)| self.has(*bit)).map(|(_, s)| s).collect();
        shifts.sort_unstable();
        shifts
    }

    /// Bits of the mask that stand for no known size.
    pub fn unknown_bits(self) -> u32 {
        self.0 & !((1 << SHIFTS.len()) - 1)
    }

    /// The page shift that a kernel of this era chooses: that of the largest page size that it knows. `None` if it knows none of them. Kernels
    /// up to 5.10 know only 4 KiB, 64 KiB and 16 MiB.
    pub fn chosen_shift(self, era: Era) -> Option<u32> {
        let known = if era.knows_all_page_sizes() { SHIFTS.len() } else { 3 };
        (0..).zip(SHIFTS).take(known).filter(|(bit, _)| self.has(*bit)).map(|(_, s)| s).max()
    }

    /// Whether a bit of the mask is set.
    fn has(self, bit: u32) -> bool {
        self.0 & (1 << bit) != 0
    }
}

impl std::fmt::Display for PageSizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.shifts().into_iter().map(size::power_of_two).collect();
        write!(f, "{:#x} ({})", self.0, names.join(", "))
    }
}

impl Serialize for PageSizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sizes = serializer.serialize_struct("PageSizes", 2)?;
        sizes.serialize_field("mask", &self.0)?;
        sizes.serialize_field("shifts", &self.shifts())?;
        sizes.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mask: u32, old: Option<u32>, new: Option<u32>, text: &str) {
        let sizes = PageSizes(mask);
        assert_eq!(sizes.chosen_shift(Era::Rhel7To419), old, "{mask:#x}, before 5.13");
        assert_eq!(sizes.chosen_shift(Era::Linux61), new, "{mask:#x}, 6.1");
        assert_eq!(sizes.to_string(), text);
    }

    #[test]
    fn masks() {
        check(0x1, Some(12), Some(12), "0x1 (4 KiB)");
        check(0x3, Some(16), Some(16), "0x3 (4 KiB, 64 KiB)");
        // A POWER10 partition: 2 MiB is out of reach for old kernels.
        check(0x103, Some(16), Some(21), "0x103 (4 KiB, 64 KiB, 2 MiB)");
        // QEMU's pseries machine.
        check(0x107, Some(24), Some(24), "0x107 (4 KiB, 64 KiB, 2 MiB, 16 MiB)");
        check(0x80, None, Some(34), "0x80 (16 GiB)");
        check(0, None, None, "0x0 ()");
    }

    #[test]
    fn unknown_bits_are_reported() {
        assert_eq!(PageSizes(0x8000_0107).unknown_bits(), 0x8000_0000);
        assert_eq!(PageSizes(0x1ff).unknown_bits(), 0);
    }
}
