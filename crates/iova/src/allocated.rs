//! Which ranges are out, by their first page, without a lock.

use crate::{FreeError, Range, Space, SpaceError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use spin::Once;

/// Pages of a leaf, and leaves of a branch.
const FAN: u64 = 1 << 12;

/// Most pages of a space that can be tracked: a 52-bit bus in 4 KiB pages.
const PAGES_MAX: u64 = 1 << 40;

/// Sizes above this are not told apart.
pub(crate) const PAGES_TOLD_MAX: u64 = 254;

type Leaf = Box<[AtomicU8]>;
type Branch = Box<[Once<Leaf>]>;

/// One byte per page: the size of the range that is out and begins there, else 0. Leaves of 4 KiB come into being when
/// something in them is first out.
///
/// Relaxed is enough: a range goes from its taker to its freer, and through the allocator's locks to its next taker, by
/// ways that order memory themselves.
#[derive(Debug)]
pub(crate) struct AllocatedRanges {
    first: u64,
    pages: u64,
    branches: Vec<Once<Branch>>,
    memory_bytes: AtomicU64,
}

impl AllocatedRanges {
    pub(crate) fn new(space: &Space) -> Result<Self, SpaceError> {
        let pages = space.pages();
        if pages > PAGES_MAX {
            return Err(SpaceError::TooLarge { pages, pages_max: PAGES_MAX });
        }
        let branches: Vec<_> = (0..pages.div_ceil(FAN * FAN)).map(|_| Once::new()).collect();
        let memory_bytes = AtomicU64::new(size_of_val(branches.as_slice()) as u64);
        Ok(Self { first: space.first, pages, branches, memory_bytes })
    }

    /// A range of the space is out. Its taker alone knows it yet.
    pub(crate) fn enter(&self, range: Range) {
        let page = range.first - self.first;
        let branch = self.branches[(page / FAN / FAN) as usize].call_once(|| self.many(Once::new));
        let leaf = branch[(page / FAN % FAN) as usize].call_once(|| self.many(|| AtomicU8::new(0)));
        leaf[(page % FAN) as usize].store(told(range.pages), Ordering::Relaxed);
    }

    /// A range is given back: of two threads that give back the same, one is told so.
    pub(crate) fn strike(&self, range: Range) -> Result<(), FreeError> {
        let unknown = FreeError::NotAllocated;
        let entry = self.entry(range.first).ok_or(unknown)?;
        match entry.compare_exchange(told(range.pages), 0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(0) | Err(0) => Err(unknown),
            Ok(_) => Ok(()),
            Err(_) => Err(FreeError::OtherSize),
        }
    }

    /// The pages of the range that is out and begins there, up to one more than [`PAGES_TOLD_MAX`]; 0 if none.
    pub(crate) fn pages_at(&self, first: u64) -> u64 {
        self.entry(first).map_or(0, |entry| u64::from(entry.load(Ordering::Relaxed)))
    }

    fn entry(&self, first: u64) -> Option<&AtomicU8> {
        let page = first.checked_sub(self.first).filter(|&page| page < self.pages)?;
        let branch = self.branches[(page / FAN / FAN) as usize].get()?;
        let leaf = branch[(page / FAN % FAN) as usize].get()?;
        Some(&leaf[(page % FAN) as usize])
    }

    fn many<T>(&self, one: impl Fn() -> T) -> Box<[T]> {
        self.memory_bytes.fetch_add(FAN * size_of::<T>() as u64, Ordering::Relaxed);
        (0..FAN).map(|_| one()).collect()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}

fn told(pages: u64) -> u8 {
    pages.min(PAGES_TOLD_MAX + 1) as u8
}
