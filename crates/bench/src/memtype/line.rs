//! A cache line of memory that is measured.

use std::sync::atomic::AtomicU64;

/// Bytes of a cache line.
pub(super) const LINE_BYTES: usize = 64;

/// A cache line of words. They are atomic because an adapter or another CPU may change them meanwhile.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [AtomicU64; LINE_BYTES / 8]);

impl Line {
    /// A line with `value` in each word.
    pub(super) fn filled(value: usize) -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(value as u64)))
    }
}
