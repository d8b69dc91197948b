//! The sizes of all allocated ranges by their first page, without a lock. They detect wrong frees.

use crate::{FreeError, Range, Space, SpaceError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use spin::Once;

/// Entries of a leaf, and leaves of a branch.
const FAN: u64 = 1 << 12;

/// Most pages of a space that can be tracked: a 52-bit bus in 4 KiB pages.
const PAGES_MAX: u64 = 1 << 40;

/// Larger sizes are not distinguished, because an entry has one byte.
pub(crate) const EXACT_PAGES_MAX: u64 = 254;

type Leaf = Box<[AtomicU8]>;
type Branch = Box<[Once<Leaf>]>;

/// One byte per page: the size of the allocated range that begins there, or 0. Leaves of 4 KiB are created when a range in
/// them is first allocated.
///
/// Relaxed ordering is enough: a range passes between threads only through the allocator's locks or the callers' own
/// synchronisation, and both order memory.
#[derive(Debug)]
pub(crate) struct AllocatedRanges {
    first: u64,
    pages: u64,
    branches: Vec<Once<Branch>>,
    memory_bytes: AtomicU64,
}

impl AllocatedRanges {
    /// A record for a space of up to 2^40 pages, without allocated ranges.
    pub(crate) fn new(space: &Space) -> Result<Self, SpaceError> {
        let pages = space.pages();
        if pages > PAGES_MAX {
            return Err(SpaceError::TooLarge { pages, pages_max: PAGES_MAX });
        }
        let branches: Vec<_> = (0..pages.div_ceil(FAN * FAN)).map(|_| Once::new()).collect();
        let memory_bytes = AtomicU64::new(size_of_val(branches.as_slice()) as u64);
        Ok(Self { first: space.first, pages, branches, memory_bytes })
    }

    /// Records an allocated range, before the allocator returns it.
    pub(crate) fn record(&self, range: Range) {
        let page = range.first - self.first;
        let branch = self.branches[(page / FAN / FAN) as usize].call_once(|| self.new_table(Once::new));
        let leaf = branch[(page / FAN % FAN) as usize].call_once(|| self.new_table(|| AtomicU8::new(0)));
        leaf[(page % FAN) as usize].store(encode_pages(range.pages), Ordering::Relaxed);
    }

    /// Removes a range that is freed. If two threads free the same range, one of them gets an error.
    pub(crate) fn remove(&self, range: Range) -> Result<(), FreeError> {
        let unknown = FreeError::NotAllocated;
        let entry = self.entry(range.first).ok_or(unknown)?;
        match entry.compare_exchange(encode_pages(range.pages), 0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(0) | Err(0) => Err(unknown),
            Ok(_) => Ok(()),
            Err(_) => Err(FreeError::OtherSize),
        }
    }

    /// The size of the allocated range that begins at a page, at most one more than [`EXACT_PAGES_MAX`]; 0 if there is none.
    pub(crate) fn pages_at(&self, first: u64) -> u64 {
        self.entry(first).map_or(0, |entry| u64::from(entry.load(Ordering::Relaxed)))
    }

    /// The entry of a page, if the page is in the space and its leaf exists.
    fn entry(&self, first: u64) -> Option<&AtomicU8> {
        let page = first.checked_sub(self.first).filter(|&page| page < self.pages)?;
        let branch = self.branches[(page / FAN / FAN) as usize].get()?;
        let leaf = branch[(page / FAN % FAN) as usize].get()?;
        Some(&leaf[(page % FAN) as usize])
    }

    /// A leaf or branch with new entries, whose memory is counted.
    fn new_table<T>(&self, one: impl Fn() -> T) -> Box<[T]> {
        self.memory_bytes.fetch_add(FAN * size_of::<T>() as u64, Ordering::Relaxed);
        (0..FAN).map(|_| one()).collect()
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}

/// A size as it is stored in an entry.
fn encode_pages(pages: u64) -> u8 {
    pages.min(EXACT_PAGES_MAX + 1) as u8
}
