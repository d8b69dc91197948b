//! Pages of this process for real adapters to access.

#![allow(unsafe_code, reason = "memory is asked of the operating system, and adapters write to it")]

use rustix::fd::BorrowedFd;
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// Pages from `mmap`, outside any allocator, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Pages {
    first: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: this value owns the pages in every thread, and they hold atomic words only.
unsafe impl Send for Pages {}
// SAFETY: the same.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `bytes` of zeroed memory, in whole pages.
    pub(crate) fn new(bytes: u64) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = usize::try_from(bytes.max(1)).ok().and_then(|bytes| bytes.checked_next_multiple_of(page));
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a fixed address the kernel maps nothing over existing mappings.
        let first = unsafe { mmap_anonymous(null_mut(), bytes, rights, MapFlags::PRIVATE) }?;
        Ok(Self::at(first, bytes).ok_or(io::ErrorKind::OutOfMemory)?)
    }

    /// Maps all of a memory file, for this process and others. It must have whole pages, and be sealed against shrinking: an access beyond a
    /// file's end would end this process.
    pub(crate) fn of_file(file: BorrowedFd<'_>) -> io::Result<Self> {
        let unfit = |why: &'static str| io::Error::new(io::ErrorKind::InvalidInput, why);
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(unfit("the file is not sealed against shrinking"));
        }
        let bytes = usize::try_from(fstat(file)?.st_size).ok();
        let bytes = bytes.filter(|bytes| *bytes > 0 && bytes % rustix::param::page_size() == 0);
        let bytes = bytes.ok_or_else(|| unfit("the file has not 1 or more whole pages"))?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a fixed address the kernel maps nothing over existing mappings.
        let first = unsafe { mmap(null_mut(), bytes, rights, MapFlags::SHARED, file, 0) }?;
        Ok(Self::at(first, bytes).ok_or(io::ErrorKind::OutOfMemory)?)
    }

    /// Takes ownership of pages that were just mapped.
    pub(crate) fn at(first: *mut c_void, bytes: usize) -> Option<Self> {
        Some(Self { first: NonNull::new(first.cast())?, words: bytes / size_of::<AtomicU64>() })
    }
}

impl Deref for Pages {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: that many words are mapped there, page-aligned and initialised, until this is dropped. Adapters and
        // other processes may change them at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: no borrow of the words is left. If an adapter still has them mapped, the kernel keeps those pages
        // for it and does not reuse them.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}
