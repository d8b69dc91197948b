//! Memory of this process for real adapters.

#![allow(unsafe_code, reason = "memory is asked of the operating system, and adapters write to it")]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// Zeroed pages that no allocator knows of, until they are dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    first: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the pages are this value's alone, wherever it goes; what is in them are atomic words.
unsafe impl Send for Pages {}
// SAFETY: the same.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `bytes`, in whole pages.
    pub(crate) fn new(bytes: u64) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = usize::try_from(bytes.max(1)).ok().and_then(|bytes| bytes.checked_next_multiple_of(page));
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place where nothing is.
        let first = unsafe { mmap_anonymous(null_mut(), bytes, rights, MapFlags::PRIVATE) }?;
        Ok(Self::at(first, bytes).ok_or(io::ErrorKind::OutOfMemory)?)
    }

    /// Zeroed pages that were just mapped, which are this value's from now on.
    pub(crate) fn at(first: *mut c_void, bytes: usize) -> Option<Self> {
        Some(Self { first: NonNull::new(first.cast())?, words: bytes / size_of::<AtomicU64>() })
    }
}

impl Deref for Pages {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: so many words were mapped there, zeroed and aligned to a page, and stay until this is dropped. Adapters may
        // change them at any time, which atomic words allow for.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nobody borrows the words any more. An adapter that still has them mapped reaches pages that the kernel keeps for
        // it, not what comes here next.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}
