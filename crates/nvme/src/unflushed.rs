//! Writes that have completed and may be in a controller's volatile write cache only.

use crate::atomics::{AtomicU64, Ordering};
use std::sync::Arc;

/// A write has completed since the last flush began.
const WRITTEN: u64 = 1;
/// A flush of such writes is in flight.
const FLUSH: u64 = 1 << 1;
/// The controller was lost with such writes, as one of the queues saw it.
const LOSS: u64 = 1 << 32;

/// What says that there are such writes: a note, or the number of flushes.
const DIRTY: u64 = LOSS - 1;

/// What all queues for a namespace of a controller know of it. Where they see things in different orders, a loss may be counted that is none.
#[derive(Debug)]
pub(crate) struct Unflushed {
    word: AtomicU64,
    /// Losses that somebody was told of.
    told: AtomicU64,
}

impl Unflushed {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), told: AtomicU64::new(0) }
    }

    /// Notes that a write has completed.
    pub(crate) fn note_write(&self) {
        // The controller had the write before this thread saw its completion. So a flush that clears the note after this load, and is sent after
        // that, carries it.
        if self.word.load(Ordering::Acquire) & WRITTEN == 0 {
            self.word.fetch_or(WRITTEN, Ordering::AcqRel);
        }
    }

    /// Notes that a flush is about to be sent. `None` if there is nothing to flush.
    pub(crate) fn begin_flush(self: &Arc<Self>) -> Option<Carried> {
        let before = self.change(|word| if word & DIRTY == 0 { word } else { (word & !WRITTEN) + FLUSH });
        (before & DIRTY != 0).then(|| Carried { of: Arc::clone(self), has_succeeded: false })
    }

    /// Whether writes have not been flushed.
    pub(crate) fn is_dirty(&self) -> bool {
        self.word.load(Ordering::Acquire) & DIRTY != 0
    }

    /// Notes that a queue has given the controller up.
    pub(crate) fn lose(&self) {
        self.change(|word| match word & DIRTY {
            0 => word,
            _ => (word & !WRITTEN).wrapping_add(LOSS),
        });
    }

    /// How often it was lost with writes that were not flushed.
    pub(crate) fn losses(&self) -> u64 {
        self.word.load(Ordering::Acquire) / LOSS
    }

    /// Changes the word. Returns what it was.
    fn change(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            match self.word.compare_exchange_weak(word, change(word), Ordering::AcqRel, Ordering::Acquire) {
                Ok(word) => return word,
                Err(other) => word = other,
            }
        }
    }
}

/// A flush in flight, with writes to flush. Where it is dropped they are still to be flushed.
#[derive(Debug)]
pub(crate) struct Carried {
    of: Arc<Unflushed>,
    has_succeeded: bool,
}

impl Carried {
    /// The flush has succeeded.
    pub(crate) fn succeed(mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        let left = if self.has_succeeded { 0 } else { WRITTEN };
        self.of.change(|word| (word - FLUSH) | left);
    }
}

/// Tells somebody who flushes of each loss once. As for a file's errors in Linux (`lib/errseq.c`), whoever begins later is told of those that nobody
/// was told of before.
#[derive(Debug, Default)]
pub(crate) struct LossReader(Vec<(Arc<Unflushed>, u64)>);

impl LossReader {
    /// Of the paths to a disk.
    pub(crate) fn new(paths: impl IntoIterator<Item = Arc<Unflushed>>) -> Self {
        let with_told = |path: Arc<Unflushed>| {
            let told = path.told.load(Ordering::Acquire);
            (path, told)
        };
        Self(paths.into_iter().map(with_told).collect())
    }

    /// The same for another one who flushes.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.0.iter().map(|(path, _)| Arc::clone(path)))
    }

    /// The paths of the disk.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Arc<Unflushed>> {
        self.0.iter().map(|(path, _)| path)
    }

    /// Whether there is a loss that was not told before.
    pub(crate) fn tell(&mut self) -> bool {
        let mut is_new = false;
        for (path, told) in &mut self.0 {
            let losses = path.losses();
            if losses > *told {
                *told = losses;
                path.told.fetch_max(losses, Ordering::AcqRel);
                is_new = true;
            }
        }
        is_new
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_and_not_flushed_can_be_lost() {
        let unflushed = Arc::new(Unflushed::new());
        unflushed.lose();
        assert!(unflushed.losses() == 0 && unflushed.begin_flush().is_none() && !unflushed.is_dirty());
        unflushed.note_write();
        unflushed.note_write();
        let (first, second) = (unflushed.begin_flush().unwrap(), unflushed.begin_flush().unwrap());
        first.succeed();
        assert!(unflushed.is_dirty(), "the second may have other writes");
        second.succeed();
        assert!(!unflushed.is_dirty());
        unflushed.lose();
        assert_eq!(unflushed.losses(), 0);
    }

    #[test]
    fn a_loss_before_a_flush_has_ended_is_one() {
        let unflushed = Arc::new(Unflushed::new());
        unflushed.note_write();
        let flush = unflushed.begin_flush().unwrap();
        unflushed.lose();
        assert_eq!(unflushed.losses(), 1);
        // The flush failed with the controller, as its own queue sees now.
        drop(flush);
        unflushed.lose();
        unflushed.lose();
        assert_eq!(unflushed.losses(), 2);
    }

    #[test]
    fn a_write_during_a_flush_needs_another() {
        let unflushed = Arc::new(Unflushed::new());
        unflushed.note_write();
        let flush = unflushed.begin_flush().unwrap();
        unflushed.note_write();
        flush.succeed();
        let flush = unflushed.begin_flush().unwrap();
        drop(flush);
        assert!(unflushed.begin_flush().is_some(), "what failed is to be flushed again");
    }

    #[test]
    fn each_is_told_once_and_a_later_one_of_what_nobody_knows() {
        let paths = [(); 2].map(|()| Arc::new(Unflushed::new()));
        let reader = || LossReader::new(paths.iter().map(Arc::clone));
        let (mut one, mut other) = (reader(), reader());
        assert!(!one.tell());
        paths[1].note_write();
        paths[1].lose();
        let mut later = reader();
        assert!(later.tell() && one.tell() && !one.tell());
        assert!(!reader().tell() && other.another().0.len() == 2);
        assert!(other.tell() && !other.tell());
    }
}
