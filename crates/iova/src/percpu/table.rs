//! The units of a zone, made as the space is used.

use super::unit::Unit;
use alloc::boxed::Box;
use spin::Once;

/// Units of the first bucket.
const FIRST: u64 = if cfg!(loom) { 4 } else { 512 };
/// Each bucket is as large as all before it, so that units are at most twice as many as ever were reached.
const BUCKETS: usize = 40;

/// Units by number. They never move, and are there until the table is dropped.
#[derive(Debug)]
pub(crate) struct Table {
    buckets: [Once<Box<[Unit]>>; BUCKETS],
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { buckets: core::array::from_fn(|_| Once::new()) }
    }

    /// A unit, if any so far up was ever reached.
    #[inline(always)]
    pub(crate) fn get(&self, number: u64) -> Option<&Unit> {
        let (bucket, at) = place(number);
        self.buckets.get(bucket)?.get()?.get(at)
    }

    /// A unit, made if need be. Nothing if there are more units than any space has.
    pub(crate) fn reach(&self, number: u64) -> Option<&Unit> {
        let (bucket, at) = place(number);
        let units =
            self.buckets.get(bucket)?.call_once(|| (0..FIRST << bucket).map(|_| Unit::default()).collect());
        units.get(at)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let units: usize =
            self.buckets.iter().filter_map(|bucket| bucket.get()).map(|units| units.len()).sum();
        (units * size_of::<Unit>()) as u64
    }
}

#[inline(always)]
fn place(number: u64) -> (usize, usize) {
    let shifted = number + FIRST;
    let bucket = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (bucket, (shifted - (FIRST << bucket)) as usize)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn units_are_apart() {
        assert_eq!([0, 511, 512, 1535, 1536].map(place), [(0, 0), (0, 511), (1, 0), (1, 1023), (2, 0)]);
        let table = Table::new();
        assert!(table.get(600).is_none());
        let unit: *const Unit = table.reach(600).unwrap();
        assert!(core::ptr::eq(unit, table.get(600).unwrap()));
        assert!(table.get(0).is_none());
    }
}
