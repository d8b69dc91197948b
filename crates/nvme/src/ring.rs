//! Submission and completion rings in memory shared with the controller (Base, 3.3.1.2).

use crate::spec::command::{COMMAND_BYTES, Command};
use crate::spec::completion::{COMPLETION_BYTES, Completion};
use dma::{MemoryAddress, NoMemory, Ram, RamArray};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A submission ring, from the host's side.
///
/// It does not track the controller's head. With fewer commands in flight than entries, the entry at the tail was
/// already fetched: controllers fetch in order.
#[derive(Debug)]
pub(crate) struct Submissions {
    entries: RamArray<{ COMMAND_BYTES / 8 }>,
    tail: usize,
}

impl Submissions {
    /// An empty submission queue of 1 or more entries. Fails if it is outside the memory.
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Result<Self, NoMemory> {
        Ok(Self { entries: RamArray::new(ram, at, entries.into())?, tail: 0 })
    }

    /// Writes a command at the tail. The controller fetches it after the doorbell write, which has a barrier.
    #[inline]
    pub(crate) fn push(&mut self, command: &Command) {
        let entry = &self.entries[self.tail];
        for (into, word) in entry.iter().zip(&command.0) {
            into.store(word.to_le(), Ordering::Relaxed);
        }
        self.tail = if self.tail + 1 == self.entries.len() { 0 } else { self.tail + 1 };
    }

    /// The tail to write to the doorbell.
    #[inline]
    pub(crate) fn tail(&self) -> u16 {
        self.tail as u16
    }

    /// Empties the ring.
    pub(crate) fn clear(&mut self) {
        self.tail = 0;
    }
}

/// A completion ring, from the host's side.
#[derive(Debug)]
pub(crate) struct Completions {
    entries: RamArray<{ COMPLETION_BYTES / 8 }>,
    /// The entry that the controller writes next.
    head: usize,
    /// Phase tag of new entries in this round.
    phase: bool,
}

impl Completions {
    /// An empty completion queue of 1 or more entries. Fails if it is outside the memory.
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Result<Self, NoMemory> {
        Ok(Self { entries: RamArray::new(ram, at, entries.into())?, head: 0, phase: true })
    }

    /// Removes the next completion, if one has arrived. The caller writes the head doorbell.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        // Each is loaded once: the compiler repeats loads behind the acquiring one.
        let (head, phase, entries) = (self.head, self.phase, &*self.entries);
        let completion = new_completion(&entries[head], phase)?;
        if head + 1 == entries.len() {
            self.head = 0;
            self.phase = !phase;
        } else {
            self.head = head + 1;
        }
        Some(completion)
    }

    /// How many completions have arrived.
    pub(crate) fn pending(&self) -> usize {
        let count = |entries: &[Entry], phase| {
            entries.iter().take_while(|entry| new_completion(entry, phase).is_some()).count()
        };
        let (next_round, this_round) = self.entries.split_at(self.head);
        match count(this_round, self.phase) {
            pending if pending == this_round.len() => pending + count(next_round, !self.phase),
            pending => pending,
        }
    }

    /// The head to write to the doorbell.
    #[inline]
    pub(crate) fn head(&self) -> u16 {
        self.head as u16
    }

    /// Empties the ring. All phase tags become 0, so no entry looks new.
    pub(crate) fn clear(&mut self) {
        for word in self.entries.iter().flatten() {
            word.store(0, Ordering::Relaxed);
        }
        (self.head, self.phase) = (0, true);
    }
}

/// The words of a completion queue entry.
type Entry = [AtomicU64; COMPLETION_BYTES / 8];

/// The completion in an entry, if it is new: if its phase tag is that of the round.
#[inline]
fn new_completion([first, last]: &Entry, phase: bool) -> Option<Completion> {
    // Read the word with the phase tag first: the other word was written before it.
    let last = u64::from_le(last.load(Ordering::Acquire));
    if Completion([0, last]).phase() != phase {
        return None;
    }
    Some(Completion([u64::from_le(first.load(Ordering::Relaxed)), last]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::spec::status::Status;

    const ENTRIES: u16 = 3;
    const AT: MemoryAddress = MemoryAddress(0x1000);

    /// The controller's side of a completion ring.
    struct Writer {
        ram: Arc<Ram>,
        written: u16,
    }

    impl Writer {
        fn complete(&mut self, identifier: u16) {
            let (entry, round) = (self.written % ENTRIES, self.written / ENTRIES);
            let completion =
                Completion::new(identifier, Status::SUCCESS, identifier.into(), 1, 0, round % 2 == 0);
            let at = MemoryAddress(AT.0 + u64::from(entry) * COMPLETION_BYTES as u64);
            for (into, word) in self.ram.words_at::<2>(at).unwrap().iter().zip(completion.0) {
                into.store(word.to_le(), Ordering::Relaxed);
            }
            self.written += 1;
        }
    }

    #[test]
    fn completions_are_found_across_the_end_of_the_ring() {
        let ram = Arc::new(Ram::new(AT, 64));
        let mut completions = Completions::new(Arc::clone(&ram), AT, ENTRIES).unwrap();
        let mut writer = Writer { ram, written: 0 };
        // So many at a time: most times some are in one round, and some in the next.
        for (batch, size) in [2, 2, 3, 3, 1, 2, 3, 2].into_iter().enumerate() {
            let first = writer.written;
            for arrived in 0..size {
                assert_eq!(completions.pending(), arrived.into(), "batch {batch}");
                writer.complete(first + arrived);
            }
            for number in first..first + size {
                assert_eq!(completions.pending(), (first + size - number).into(), "batch {batch}");
                let completion = completions.pop().unwrap();
                assert_eq!((completion.identifier(), completion.result()), (number, number.into()));
                assert_eq!(completions.head(), (number + 1) % ENTRIES);
            }
            assert!(completions.pop().is_none());
        }
    }

    #[test]
    fn commands_go_round() {
        let ram = Arc::new(Ram::new(AT, 256));
        let mut submissions = Submissions::new(Arc::clone(&ram), AT, ENTRIES).unwrap();
        for number in 0..8_u16 {
            let entry = MemoryAddress(AT.0 + u64::from(number % ENTRIES) * COMMAND_BYTES as u64);
            let command = Command([0, 1, 2, 3, 4, 5, 6, 7].map(|word| word << 8 | u64::from(number)));
            submissions.push(&command);
            let words = ram.words_at::<8>(entry).unwrap();
            assert!(words.iter().map(|word| u64::from_le(word.load(Ordering::Relaxed))).eq(command.0));
            assert_eq!(submissions.tail(), (number + 1) % ENTRIES);
        }
        assert!(Submissions::new(ram, AT, 5).is_err());
    }
}
