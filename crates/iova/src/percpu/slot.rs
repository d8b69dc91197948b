//! What a CPU keeps for a size class.

use super::shape::CLASSES;
use super::unit::NO_UNIT;
use crate::lock::Lock;
use crate::sync::AtomicU64;

/// Slots of a CPU: a power of two for each dimension, so that finding one takes shifts alone.
pub(crate) const PER_CPU: usize = 32;
const PER_ZONE: usize = 16;

const _: () = assert!(CLASSES <= PER_ZONE);

/// Where the slot of a CPU is for a zone (0 or 1) and a class.
#[inline(always)]
pub(crate) fn place(cpu: usize, zone: usize, class: usize) -> usize {
    cpu * PER_CPU + zone * PER_ZONE + class
}

/// No block.
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// A CPU's block that it allocates from, and its list of blocks with free items.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The active block's first page: the guard of all steps on `free`. Changed under the lock of `list`.
    pub(crate) active: AtomicU64,
    /// The active block's free items; 0 without one.
    pub(crate) free: AtomicU64,
    /// Not 0 if others may have freed items of the active block: who frees one on this CPU then looks at the block's owner
    /// word, so that an item freed there and here is noticed.
    pub(crate) returned: AtomicU64,
    pub(crate) list: Lock<List>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            active: AtomicU64::new(NO_PAGE),
            free: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            list: Lock::new(List { head: NO_UNIT }),
        }
    }
}

/// Blocks with free items, linked through their units.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
}
