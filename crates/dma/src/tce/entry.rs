//! Translation control entries (TCEs).

use crate::{Access, MemoryAddress};

/// The adapter may read the page (`TCE_PCI_READ` in `asm/tce.h`).
const READ: u64 = 1;
/// It may write it (`TCE_PCI_WRITE`).
const WRITE: u64 = 2;
/// Bits below the real page number.
const BELOW_PAGE: u64 = (1 << 12) - 1;

/// A TCE as a number. In a table it is stored big-endian (LoPAR, TCE Definition).
///
/// | bits | |
/// |---|---|
/// | 63-12 | address of the page, a multiple of its size |
/// | 11-2 | 0 |
/// | 1-0 | 00 fault, 01 the adapter may read, 10 write, 11 both |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry(pub u64);

impl Entry {
    /// No access.
    pub const NONE: Self = Self(0);

    /// An entry for a page with this access.
    pub fn new(page: MemoryAddress, access: Access) -> Self {
        let read = if access.reads() { READ } else { 0 };
        let write = if access.writes() { WRITE } else { 0 };
        Self(page.0 & !BELOW_PAGE | read | write)
    }

    /// The entry that Linux writes. `tce_build_pSeriesLP` always allows reading, and allows writing unless data goes
    /// to the device. So an adapter that should only write can read too. KVM's helper can write write-only entries.
    pub fn as_linux_writes(page: MemoryAddress, access: Access) -> Self {
        Self::new(page, if access.writes() { Access::ReadWrite } else { Access::Read })
    }

    /// The access allowed; `None` for no access.
    pub fn access(self) -> Option<Access> {
        Access::of(self.0 & READ != 0, self.0 & WRITE != 0)
    }

    /// Address of the page, if there is an access.
    pub fn page(self) -> Option<MemoryAddress> {
        self.access().map(|_| MemoryAddress(self.0 & !BELOW_PAGE))
    }

    /// The entry with a page number of all ones, as a partition sees a page that it does not own.
    pub(super) fn with_hidden_page(self) -> Self {
        Self(self.0 | !BELOW_PAGE)
    }

    /// Whether the address is a multiple of this page size.
    pub(super) fn is_aligned(self, page_shift: u32) -> bool {
        let address = self.0 & !(READ | WRITE);
        address.trailing_zeros() >= page_shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: MemoryAddress = MemoryAddress(0x1_2345_6000);

    #[test]
    fn bits() {
        assert_eq!(Entry::new(PAGE, Access::Read), Entry(0x1_2345_6001));
        assert_eq!(Entry::new(PAGE, Access::Write), Entry(0x1_2345_6002));
        assert_eq!(Entry::new(PAGE, Access::ReadWrite), Entry(0x1_2345_6003));
        assert_eq!((Entry(0x1_2345_6000).access(), Entry(0x1_2345_6000).page()), (None, None));
        assert_eq!(Entry(0x1_2345_6002).page(), Some(PAGE));
        assert_eq!(Entry(0x1003).with_hidden_page(), Entry(0xffff_ffff_ffff_f003));
    }

    #[test]
    fn linux_never_maps_for_writing_alone() {
        let written = [Access::Read, Access::Write, Access::ReadWrite]
            .map(|one| Entry::as_linux_writes(PAGE, one).0 & 3);
        assert_eq!(written, [1, 3, 3]);
    }

    #[test]
    fn pages_have_their_size() {
        assert!(Entry(0x10_0003).is_aligned(20) && !Entry(0x10_0003).is_aligned(21));
        assert!(!Entry(0x1004).is_aligned(12), "a reserved bit");
        assert!(Entry(3).is_aligned(34));
    }
}
