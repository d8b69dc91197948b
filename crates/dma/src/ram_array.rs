//! An array in a [`Ram`] whose place is checked once: a ring that an adapter and the CPU share.

#![allow(unsafe_code, reason = "a pointer into memory that the array itself keeps allocated")]

use crate::{MemoryAddress, NoMemory, Ram};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// An array in a [`Ram`], with elements of `N` words. [`Ram::words_at`] finds the memory's words and checks the address at each access; this
/// does both once, for rings whose elements are accessed for every I/O.
///
/// Words are in the host's byte order: use `to_le`.
pub struct RamArray<const N: usize> {
    first: NonNull<[AtomicU64; N]>,
    length: usize,
    /// Keeps the words allocated.
    ram: Arc<Ram>,
}

// SAFETY: this is a shared reference to atomic words, together with the owner of the words, and both may go to any thread.
unsafe impl<const N: usize> Send for RamArray<N> {}
// SAFETY: the same.
unsafe impl<const N: usize> Sync for RamArray<N> {}

impl<const N: usize> RamArray<N> {
    /// `length` elements from address `at` on, a multiple of eight. Nothing checks that nobody else uses them.
    ///
    /// # Errors
    /// If a part is outside the memory, or `at` is not a multiple of eight.
    pub fn new(ram: Arc<Ram>, at: MemoryAddress, length: usize) -> Result<Self, NoMemory> {
        let none = NoMemory { at, bytes: (length as u64).saturating_mul(size_of::<[AtomicU64; N]>() as u64) };
        let words = ram.words_from(at, length.checked_mul(N).ok_or(none)?)?;
        Ok(Self { first: NonNull::from(words).cast(), length, ram })
    }
}

impl<const N: usize> Deref for RamArray<N> {
    type Target = [[AtomicU64; N]];

    #[inline]
    fn deref(&self) -> &Self::Target {
        // SAFETY: `new` found `length` times `N` words there, aligned as words, and an array of words is aligned like one. They stay where
        // they are: a `Ram` never moves or frees its words while it exists, and `ram` keeps it from being dropped or taken out of its `Arc`.
        // Nobody has a unique reference to them, because all accesses are through shared ones. Others may change the words at any time,
        // which atomics allow.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

/// Shows the place, not the content.
impl<const N: usize> fmt::Debug for RamArray<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let debug = &mut formatter.debug_struct("RamArray");
        debug.field("ram", &self.ram).field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteOrder;
    use std::sync::atomic::Ordering;
    use std::thread;

    const BASE: MemoryAddress = MemoryAddress(0x1000);

    fn array<const N: usize>(at: u64, length: usize) -> Result<RamArray<N>, NoMemory> {
        RamArray::new(Arc::new(Ram::new(BASE, 64)), MemoryAddress(at), length)
    }

    #[test]
    fn elements_are_the_words_of_the_memory() {
        let ram = Arc::new(Ram::new(BASE, 64));
        let array = RamArray::<2>::new(Arc::clone(&ram), MemoryAddress(0x1010), 3).unwrap();
        assert_eq!(array.len(), 3);
        array[2][1].store(0x0102_u64.to_le(), Ordering::Relaxed);
        assert_eq!(ram.read_u64(MemoryAddress(0x1038), ByteOrder::Little), Ok(0x0102));
        ram.write_u64(MemoryAddress(0x1010), ByteOrder::Little, 7).unwrap();
        assert_eq!(u64::from_le(array[0][0].load(Ordering::Relaxed)), 7);
    }

    #[test]
    fn an_array_keeps_its_memory_in_every_thread() {
        let array = array::<8>(0x1000, 1).unwrap();
        let array = thread::spawn(move || {
            array[0][7].store(5, Ordering::Relaxed);
            array
        });
        assert_eq!(array.join().unwrap()[0][7].load(Ordering::Relaxed), 5);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_array_may_be_in_pages_of_this_process() {
        let ram = Arc::new(Ram::of_this_process(4096).unwrap());
        let last = MemoryAddress(ram.base().0 + ram.bytes() - 16);
        let array = RamArray::<2>::new(Arc::clone(&ram), last, 1).unwrap();
        array[0][1].store(9, Ordering::Relaxed);
        assert_eq!(ram.read_u64(MemoryAddress(last.0 + 8), ByteOrder::Little), Ok(9_u64.to_le()));
        assert!(RamArray::<2>::new(ram, last, 2).is_err());
    }

    #[test]
    fn nothing_is_beyond() {
        assert!(array::<4>(0x1000, 2).is_ok() && array::<4>(0x1040, 0).is_ok());
        for (at, length) in
            [(0x1000, 3), (0x1008, 2), (0x1020, 2), (0xff8, 1), (0x1004, 1), (u64::MAX - 7, 1)]
        {
            let error = array::<4>(at, length).unwrap_err();
            assert_eq!(error, NoMemory { at: MemoryAddress(at), bytes: length as u64 * 32 });
        }
        assert!(array::<4>(0x1000, usize::MAX).is_err() && array::<4>(0x1000, usize::MAX / 4 + 1).is_err());
    }
}
