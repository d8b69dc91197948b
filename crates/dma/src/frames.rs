//! Free pages for I/O page tables.

use crate::MemoryAddress;
use std::sync::{Mutex, PoisonError};

/// Bytes of a page, in every table format of this crate.
pub const FRAME_BYTES: u64 = 4096;

/// The free pages of a contiguous area of memory.
#[derive(Debug)]
pub struct Frames {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Pages freed.
    returned: Vec<MemoryAddress>,
    /// The first page that was never allocated.
    next: u64,
    end: u64,
}

/// No page is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory left for translation tables")]
pub struct OutOfFrames;

impl Frames {
    /// The whole pages within `bytes` from `start`. Nothing checks that nobody else uses them: keep them apart from pools and
    /// buffers.
    pub fn new(start: MemoryAddress, bytes: u64) -> Self {
        let end = start.0.saturating_add(bytes);
        let next = start.0.checked_next_multiple_of(FRAME_BYTES).unwrap_or(end);
        Self { free: Mutex::new(Free { returned: Vec::new(), next, end }) }
    }

    /// Allocates a page. Its content is undefined.
    ///
    /// # Errors
    /// If none is free.
    pub fn allocate(&self) -> Result<MemoryAddress, OutOfFrames> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = free.returned.pop() {
            return Ok(frame);
        }
        let next = free.next;
        let after = next.checked_add(FRAME_BYTES).filter(|after| *after <= free.end).ok_or(OutOfFrames)?;
        free.next = after;
        Ok(MemoryAddress(next))
    }

    /// Frees a page. No IOMMU may read it any more.
    pub fn free(&self, frame: MemoryAddress) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).returned.push(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_come_and_go() {
        let frames = Frames::new(MemoryAddress(0x800), 3 * FRAME_BYTES);
        assert_eq!(frames.allocate(), Ok(MemoryAddress(0x1000)));
        assert_eq!(frames.allocate(), Ok(MemoryAddress(0x2000)));
        assert_eq!(frames.allocate(), Err(OutOfFrames));
        frames.free(MemoryAddress(0x1000));
        assert_eq!(frames.allocate(), Ok(MemoryAddress(0x1000)));
        assert_eq!(Frames::new(MemoryAddress(u64::MAX - 5), 4).allocate(), Err(OutOfFrames));
    }
}
