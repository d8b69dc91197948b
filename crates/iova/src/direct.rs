//! Direct mapping: the bus address is the memory's address plus an offset, so nothing is allocated.

use crate::{AllocateError, Allocator, FreeError, Range, Request, Usage};

/// Maps memory at an offset, as a 64-bit direct window does. Its cost is the lower bound of every allocator's.
///
/// It has no state, so it does not detect wrong frees and reports no usage.
#[derive(Debug, Clone, Copy)]
pub struct Direct {
    offset: u64,
}

impl Direct {
    /// A mapping of memory page 0 to bus page `offset`.
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
    fn the_offset_is_added_and_the_limit_is_respected() {
        let at = |limit| Direct::new(10).allocate(&Request { memory: 5, ..Request::new(3, limit) });
        assert_eq!([at(16), at(17)], [Err(AllocateError::Full), Ok(15)]);
    }
}
