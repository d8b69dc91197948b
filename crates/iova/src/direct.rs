//! Direct mapping: the I/O address is the memory's own, moved by an offset. There is nothing to allocate.

use crate::{AllocateError, Allocator, FreeError, Range, Request, Usage};

/// Maps memory at an offset: what a 64-bit direct window does, and the lower bound of every allocator's cost.
///
/// It keeps no state, so it can't tell a range freed twice, and says nothing of what is in use.
#[derive(Debug, Clone, Copy)]
pub struct Direct {
    offset: u64,
}

impl Direct {
    /// Memory page 0 is at I/O page `offset`.
    pub fn new(offset: u64) -> Self {
        Self { offset }
    }
}

impl Allocator for Direct {
    #[inline]
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        let first = request.memory.wrapping_add(self.offset);
        match request.range(first).last() <= request.limit {
            true => Ok(first),
            false => Err(AllocateError::Full),
        }
    }

    #[inline]
    fn free(&self, _range: Range) -> Result<(), FreeError> {
        Ok(())
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_moved_by_the_offset_up_to_the_limit() {
        let at = |limit| Direct::new(10).allocate(&Request { memory: 5, ..Request::new(3, limit) });
        assert_eq!([at(16), at(17)], [Err(AllocateError::Full), Ok(15)]);
    }
}
