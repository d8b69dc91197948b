//! Completions, which are completion queue entries (Base, 3.3.3.2).

use super::status::Status;

/// Bytes of a completion.
pub const COMPLETION_BYTES: usize = 16;

/// A completion, as the words of its completion queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion(pub [u64; COMPLETION_BYTES / 8]);

impl Completion {
    /// Encodes a completion. `queue` and `head` are of the submission queue; `phase` is the phase tag.
    pub fn new(identifier: u16, status: Status, result: u64, queue: u16, head: u16, phase: bool) -> Self {
        let flags = u64::from(identifier) | u64::from(phase) << 16 | u64::from(status.0) << 17;
        Self([result, u64::from(head) | u64::from(queue) << 16 | flags << 32])
    }

    /// Dwords 0 and 1, specific to the command. Most commands have at most dword 0, and reserve the other.
    #[inline]
    pub fn result(&self) -> u64 {
        self.0[0]
    }

    /// Submission queue head (SQHD): how far the controller has fetched.
    pub fn head(&self) -> u16 {
        self.0[1] as u16
    }

    /// Submission queue identifier (SQID).
    pub fn queue(&self) -> u16 {
        (self.0[1] >> 16) as u16
    }

    /// Command identifier (CID).
    #[inline]
    pub fn identifier(&self) -> u16 {
        (self.0[1] >> 32) as u16
    }

    /// Phase tag. It is inverted on each pass through the queue, which marks new entries.
    #[inline]
    pub fn phase(&self) -> bool {
        self.0[1] >> 48 & 1 == 1
    }

    /// Status field.
    #[inline]
    pub fn status(&self) -> Status {
        Status((self.0[1] >> 49) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn completions_are_read_back(
            identifier: u16, status in 0_u16..1 << 15, result: u64, queue: u16, head: u16, phase: bool,
        ) {
            let completion = Completion::new(identifier, Status(status), result, queue, head, phase);
            prop_assert_eq!(
                (completion.identifier(), completion.status(), completion.result()),
                (identifier, Status(status), result)
            );
            prop_assert_eq!((completion.queue(), completion.head(), completion.phase()), (queue, head, phase));
        }
    }

    #[test]
    fn bits_are_where_the_specification_has_them() {
        // Status field in bits 31:17 of the last word, phase in 16.
        let completion = Completion::new(5, Status(0x4002), 0, 1, 2, true);
        assert_eq!(completion.0, [0, 0x8005_0005_0001_0002]);
    }
}
