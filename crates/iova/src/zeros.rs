//! Atomic integers that are allocated zeroed, so that the kernel provides memory only for those that are written.

#![allow(unsafe_code, reason = "zeroed memory is allocated without writing to it")]

use crate::sync::{AtomicU8, AtomicU64};
use alloc::boxed::Box;
#[cfg(not(loom))]
use {
    alloc::alloc::{alloc_zeroed, handle_alloc_error},
    core::{alloc::Layout, ptr::slice_from_raw_parts_mut},
};

/// Defines a function that allocates zeros of an atomic type.
macro_rules! zeros {
    ($(#[$documentation:meta])* $name:ident, $atomic:ty) => {
        $(#[$documentation])*
        #[cfg(not(loom))]
        pub(crate) fn $name(count: usize) -> Box<[$atomic]> {
            match Layout::array::<$atomic>(count) {
                Ok(layout) if layout.size() > 0 => {
                    // SAFETY: the size is not 0.
                    let first = unsafe { alloc_zeroed(layout) }.cast::<$atomic>();
                    if first.is_null() {
                        handle_alloc_error(layout);
                    }
                    // SAFETY: the memory has the layout of the slice, whose integers are 0, and no other owner.
                    unsafe { Box::from_raw(slice_from_raw_parts_mut(first, count)) }
                }
                // None, or more than memory can hold, for which the collection panics.
                _ => (0..count).map(|_| <$atomic>::new(0)).collect(),
            }
        }

        $(#[$documentation])*
        #[cfg(loom)]
        pub(crate) fn $name(count: usize) -> Box<[$atomic]> {
            (0..count).map(|_| <$atomic>::new(0)).collect()
        }
    };
}

zeros!(
    /// Bytes of zeros.
    zero_bytes, AtomicU8
);
zeros!(
    /// 64-bit words of zeros.
    zero_words, AtomicU64
);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn all_are_zero_and_aligned() {
        for count in [0, 1, 1000] {
            let (bytes, words) = (zero_bytes(count), zero_words(count));
            assert_eq!((bytes.len(), words.len()), (count, count));
            assert!(bytes.iter().all(|byte| byte.load(Ordering::Relaxed) == 0));
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
            assert_eq!(words.as_ptr().align_offset(align_of::<AtomicU64>()), 0);
        }
    }
}
