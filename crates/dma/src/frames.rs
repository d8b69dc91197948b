//! Pages for translation tables.

use crate::MemoryAddress;
use std::sync::{Mutex, PoisonError};

/// Bytes of a page of a table, in every format that this crate writes.
pub const FRAME_BYTES: u64 = 4096;

/// Free pages of a stretch of memory.
#[derive(Debug)]
pub struct Frames {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Pages given back.
    returned: Vec<MemoryAddress>,
    /// Where those begin that were never used.
    next: u64,
    end: u64,
}

/// There is no page left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory left for translation tables")]
pub struct OutOfFrames;

impl Frames {
    /// The whole pages from `start` for `bytes`.
    pub fn new(start: MemoryAddress, bytes: u64) -> Self {
        let end = start.0.saturating_add(bytes);
        let next = start.0.checked_next_multiple_of(FRAME_BYTES).unwrap_or(end);
        Self { free: Mutex::new(Free { returned: Vec::new(), next, end }) }
    }

    /// Takes a page. What is in it is anybody's guess.
    ///
    /// # Errors
    /// If there is none left.
    pub fn take(&self) -> Result<MemoryAddress, OutOfFrames> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = free.returned.pop() {
            return Ok(frame);
        }
        let next = free.next;
        let after = next.checked_add(FRAME_BYTES).filter(|after| *after <= free.end).ok_or(OutOfFrames)?;
        free.next = after;
        Ok(MemoryAddress(next))
    }

    /// Gives a page back that was taken here, and that no IOMMU reads any more.
    pub fn give_back(&self, frame: MemoryAddress) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).returned.push(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_come_and_go() {
        let frames = Frames::new(MemoryAddress(0x800), 3 * FRAME_BYTES);
        assert_eq!(frames.take(), Ok(MemoryAddress(0x1000)));
        assert_eq!(frames.take(), Ok(MemoryAddress(0x2000)));
        assert_eq!(frames.take(), Err(OutOfFrames));
        frames.give_back(MemoryAddress(0x1000));
        assert_eq!(frames.take(), Ok(MemoryAddress(0x1000)));
        assert_eq!(Frames::new(MemoryAddress(u64::MAX - 5), 4).take(), Err(OutOfFrames));
    }
}
