//! Completions: entries of completion queues (Base, 3.3.3.2).

use super::status::Status;

/// Bytes of a completion.
pub const COMPLETION_BYTES: usize = 16;

/// A completion, as the words that it has in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion(pub [u64; COMPLETION_BYTES / 8]);

impl Completion {
    /// Of a command, with what it says besides, how far its submission queue was read, and the phase of its entry.
    pub fn new(identifier: u16, status: Status, result: u32, queue: u16, head: u16, phase: bool) -> Self {
        let flags = u64::from(identifier) | u64::from(phase) << 16 | u64::from(status.0) << 17;
        Self([result.into(), u64::from(head) | u64::from(queue) << 16 | flags << 32])
    }

    /// What the command says besides how it went.
    pub fn result(&self) -> u32 {
        self.0[0] as u32
    }

    /// How far the controller has read the submission queue.
    pub fn head(&self) -> u16 {
        self.0[1] as u16
    }

    /// That queue.
    pub fn queue(&self) -> u16 {
        (self.0[1] >> 16) as u16
    }

    /// The command.
    pub fn identifier(&self) -> u16 {
        (self.0[1] >> 32) as u16
    }

    /// It turns with each round of the queue: an entry is new while it has this round's.
    pub fn phase(&self) -> bool {
        self.0[1] >> 48 & 1 == 1
    }

    /// How it went.
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
        fn what_is_told_is_read(
            identifier: u16, status in 0_u16..1 << 15, result: u32, queue: u16, head: u16, phase: bool,
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
