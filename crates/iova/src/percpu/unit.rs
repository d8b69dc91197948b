//! Blocks: what is known of each, and whose it is.

use super::shape::ITEMS_MAX;
use crate::sync::{AtomicU32, AtomicU64};

/// No unit.
pub(crate) const NO_UNIT: u32 = u32::MAX;

/// [`ITEMS_MAX`] pages of the space. The first unit of a block speaks for the whole block.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Unit {
    /// An [`Owner`].
    pub(crate) owner: AtomicU64,
    /// Free items while the block is in a CPU's list, else 0. Changed by steps on that CPU, whose guard is `owner`.
    pub(crate) free: AtomicU64,
    /// The neighbours in that list, under its lock.
    pub(crate) previous: AtomicU32,
    pub(crate) next: AtomicU32,
}

impl Default for Unit {
    fn default() -> Self {
        Self {
            owner: AtomicU64::new(Owner::NONE.0),
            free: AtomicU64::new(0),
            previous: AtomicU32::new(NO_UNIT),
            next: AtomicU32::new(NO_UNIT),
        }
    }
}

/// Whose a block is, and which of its items others gave back.
///
/// | bits | |
/// |---|---|
/// | 0-31 | items freed elsewhere than on the owner's CPU, not yet taken up by it |
/// | 32-47 | CPU |
/// | 48-51 | size class |
/// | 52-53 | kind |
///
/// One word, so that who frees an item elsewhere checks in the same atomic exchange that it still is an item of this
/// block: as long as the item is out, no other block of the class can be made of its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) u64);

/// What a block is to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No block begins here.
    None,
    /// All items are out, and no CPU has the block.
    Full,
    /// A CPU allocates from it; its free items are in the CPU's slot.
    Active,
    /// In a CPU's list, with free items.
    Listed,
}

impl Owner {
    pub(crate) const NONE: Self = Self(0);
    /// CPUs that the word has numbers for.
    pub(crate) const CPUS_MAX: usize = 1 << 16;
    const RETURNED: u64 = (1 << ITEMS_MAX) - 1;

    pub(crate) fn full(class: usize) -> Self {
        Self::new(1, class, 0)
    }

    pub(crate) fn active(class: usize, cpu: usize) -> Self {
        Self::new(2, class, cpu)
    }

    pub(crate) fn listed(class: usize, cpu: usize) -> Self {
        Self::new(3, class, cpu)
    }

    fn new(kind: u64, class: usize, cpu: usize) -> Self {
        Self(kind << 52 | (class as u64) << 48 | (cpu as u64) << 32)
    }

    pub(crate) fn kind(self) -> Kind {
        match self.0 >> 52 {
            0 => Kind::None,
            1 => Kind::Full,
            2 => Kind::Active,
            _ => Kind::Listed,
        }
    }

    /// Whether it is a block of the class.
    #[inline(always)]
    pub(crate) fn is_of(self, class: usize) -> bool {
        self.kind() != Kind::None && (self.0 >> 48 & 0xf) as usize == class
    }

    #[inline(always)]
    pub(crate) fn cpu(self) -> usize {
        (self.0 >> 32 & 0xffff) as usize
    }

    #[inline(always)]
    pub(crate) fn returned(self) -> u64 {
        self.0 & Self::RETURNED
    }

    pub(crate) fn without_returned(self) -> Self {
        Self(self.0 & !Self::RETURNED)
    }

    pub(crate) fn with_returned(self, bits: u64) -> Self {
        Self(self.0 | bits)
    }
}
