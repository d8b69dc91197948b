//! Which ranges are out: a byte for each page.

#![allow(unsafe_code, reason = "memory that is zero when it comes is not written to make it so")]

use crate::sync::AtomicU8;
use alloc::boxed::Box;
use spin::Once;

/// Pages of the near part at most: those of the first 8 GiB, 2 MiB of memory of which only what is used is touched.
/// Few where each step of a test is dear.
const NEAR: u64 = if cfg!(any(loom, miri)) { 1 << 8 } else { 1 << 21 };
/// Each far part is as large as all before it: enough for the largest space.
const FAR_PARTS: usize = 31;

/// Bytes by page, 0 at first. They never move, and are there until the table is dropped.
#[derive(Debug)]
pub(crate) struct Table {
    origin: u64,
    near: Box<[AtomicU8]>,
    /// Made as the space is used, from low to high.
    far: [Once<Box<[AtomicU8]>>; FAR_PARTS],
}

impl Table {
    /// For pages from `first` to `last`.
    pub(crate) fn new(first: u64, last: u64) -> Self {
        let near = NEAR.min(last - first + 1);
        Self { origin: first, near: zeros(near), far: core::array::from_fn(|_| Once::new()) }
    }

    /// The byte of a page that is near.
    #[inline(always)]
    pub(crate) fn near(&self, page: u64) -> Option<&AtomicU8> {
        self.near.get(page.wrapping_sub(self.origin) as usize)
    }

    /// A page's byte, if any so far up was ever reached.
    pub(crate) fn get(&self, page: u64) -> Option<&AtomicU8> {
        self.near(page).or_else(|| {
            let (part, at) = far_place(page.checked_sub(self.origin)?)?;
            self.far.get(part)?.get()?.get(at)
        })
    }

    /// A page's byte, made if need be. Nothing outside the space.
    pub(crate) fn reach(&self, page: u64) -> Option<&AtomicU8> {
        self.get(page).or_else(|| {
            let (part, at) = far_place(page.checked_sub(self.origin)?)?;
            self.far.get(part)?.call_once(|| zeros(NEAR << part)).get(at)
        })
    }
}

/// The part, and the place in it; nothing for what is near.
fn far_place(place: u64) -> Option<(usize, usize)> {
    let part = (place / NEAR).checked_ilog2()?;
    Some((part as usize, (place - (NEAR << part)) as usize))
}

#[cfg(not(loom))]
fn zeros(count: u64) -> Box<[AtomicU8]> {
    let zeros = Box::into_raw(alloc::vec![0_u8; count as usize].into_boxed_slice());
    // SAFETY: `AtomicU8` has the size, the alignment and the bits of `u8`, and nobody else has the box.
    unsafe { Box::from_raw(zeros as *mut [AtomicU8]) }
}

#[cfg(loom)]
fn zeros(count: u64) -> Box<[AtomicU8]> {
    (0..count).map(|_| AtomicU8::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::PAGE_MAX;

    #[test]
    fn bytes_are_apart() {
        let places = [NEAR - 1, NEAR, 2 * NEAR - 1, 2 * NEAR, 5 * NEAR].map(far_place);
        let last = NEAR as usize - 1;
        assert_eq!(places, [None, Some((0, 0)), Some((0, last)), Some((1, 0)), Some((2, NEAR as usize))]);
        assert!(far_place(PAGE_MAX).unwrap().0 < FAR_PARTS);
        let table = Table::new(7, PAGE_MAX);
        assert!(table.get(6).is_none() && table.get(0).is_none(), "below");
        assert!(table.get(7).is_some() && table.get(NEAR + 6).is_some());
        assert!(table.get(NEAR + 7).is_none(), "not yet");
        let far: *const AtomicU8 = table.reach(NEAR + 7).unwrap();
        assert!(core::ptr::eq(far, table.get(NEAR + 7).unwrap()));
        assert!(Table::new(0, 9).get(10).is_none());
    }
}
