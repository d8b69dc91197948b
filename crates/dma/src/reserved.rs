//! Physical memory that the kernel does not use, such as an area of `memmap=`, mapped through `/dev/mem`.

#![allow(
    unsafe_code,
    reason = "physical memory is mapped, of which only the caller knows that nothing else uses it"
)]

use crate::pages::Pages;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::null_mut;

/// The device file of physical memory.
const DEV_MEM: &str = "/dev/mem";

/// What a mapping of `/dev/mem` asks the page table for (`drivers/char/mem.c`). The memory type that results depends on the MTRRs
/// too: crate `memtype` computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCaching {
    /// Opened without `O_SYNC`: write-back, or UC- where an MTRR is not write-back.
    WriteBack,
    /// Opened with `O_SYNC`: UC-, which an MTRR can make write-combining.
    Uncached,
}

impl PageCaching {
    /// Flags to open `/dev/mem` with.
    fn open_flags(self) -> i32 {
        match self {
            Self::WriteBack => 0,
            Self::Uncached => libc::O_SYNC,
        }
    }
}

/// Maps `bytes` of physical memory from `physical` on, both whole pages. The content stays as it is.
///
/// # Safety
/// As of [`Ram::reserved`](crate::Ram::reserved).
pub(crate) unsafe fn map(physical: u64, bytes: u64, caching: PageCaching) -> io::Result<Pages> {
    let page_bytes = rustix::param::page_size() as u64;
    let is_whole = bytes > 0 && (physical | bytes) % page_bytes == 0;
    let length = usize::try_from(bytes).ok().filter(|_| is_whole).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = caching.open_flags();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(DEV_MEM)?;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses an unused virtual range; the caller says that nothing else uses the memory.
    let first = unsafe { mmap(null_mut(), length, rights, MapFlags::SHARED, &file, physical) }?;
    Ok(Pages::at(first, length).ok_or(io::ErrorKind::OutOfMemory)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_not_whole_pages_are_refused() {
        for (physical, bytes) in [(0x1000, 0), (0x1001, 0x1000), (0x1000, 0x1001), (0x1000, u64::MAX)] {
            // SAFETY: nothing is mapped.
            let mapped = unsafe { map(physical, bytes, PageCaching::Uncached) };
            assert_eq!(mapped.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{physical:#x}+{bytes:#x}");
        }
    }
}
