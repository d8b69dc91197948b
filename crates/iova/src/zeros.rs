//! Atomic integers that are allocated zeroed, so that the kernel provides memory only for those that are written.

#![allow(unsafe_code, reason = "zeroed memory is allocated without writing to it")]

use crate::sync::{AtomicU8, AtomicU64};
use alloc::boxed::Box;

/// Defines a function that allocates zeros of an atomic type and its plain one.
macro_rules! zeros {
    ($(#[$documentation:meta])* $name:ident, $atomic:ty, $plain:ty) => {
        $(#[$documentation])*
        #[cfg(not(loom))]
        pub(crate) fn $name(count: usize) -> Box<[$atomic]> {
            let zeros = Box::into_raw(alloc::vec![0 as $plain; count].into_boxed_slice());
            // SAFETY: the atomic type has the size and bit validity of the plain one, and no other alignment where pointers have 64
            // bits or it has 8. The box has no other owner.
            unsafe { Box::from_raw(zeros as *mut [$atomic]) }
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
    zero_bytes, AtomicU8, u8
);
zeros!(
    /// 64-bit words of zeros.
    zero_words, AtomicU64, u64
);
