//! Writes that have completed and may be in a controller's volatile write cache only.

use crate::atomics::{AtomicU64, Ordering};
use std::sync::Arc;

/// A write has completed since the last flush began.
const WRITTEN: u64 = 1;
/// A flush of such writes is in flight, and the controller was not lost since it began.
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
        let losses = before / LOSS;
        (before & DIRTY != 0).then(|| Carried { of: Arc::clone(self), losses, has_succeeded: false })
    }

    /// Whether writes have not been flushed.
    pub(crate) fn is_dirty(&self) -> bool {
        self.word.load(Ordering::Acquire) & DIRTY != 0
    }

    /// Notes that the controller has saved all writes, as it does when it is shut down. No flush is in flight.
    pub(crate) fn save(&self) {
        self.change(|word| word & !WRITTEN);
    }

    /// Notes that a queue has given the controller up. The loss is also that of flushes in flight.
    pub(crate) fn lose(&self) {
        self.change(|word| match word & DIRTY {
            0 => word,
            _ => (word & !DIRTY).wrapping_add(LOSS),
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

/// A flush in flight, with writes to flush. Where it is dropped they are still to be flushed, unless a loss has been counted with them.
#[derive(Debug)]
pub(crate) struct Carried {
    of: Arc<Unflushed>,
    /// Those that were counted before it began.
    losses: u64,
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
        let (losses, left) = (self.losses, if self.has_succeeded { 0 } else { WRITTEN });
        self.of.change(|word| if word / LOSS == losses { (word - FLUSH) | left } else { word });
    }
}

/// How often each path to a disk was lost with writes that were not flushed, at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Losses(Vec<u64>);

/// Has somebody who flushes told of each loss once. As for a file's errors in Linux (`lib/errseq.c`), whoever begins later is told of those that nobody
/// was told of before.
#[derive(Debug)]
pub(crate) struct LossReader {
    paths: Vec<Arc<Unflushed>>,
    /// Those that were told, or that others were told of before.
    told: Losses,
}

impl LossReader {
    /// Of the paths to a disk.
    pub(crate) fn new(paths: Vec<Arc<Unflushed>>) -> Self {
        let told = Losses(paths.iter().map(|path| path.told.load(Ordering::Acquire)).collect());
        Self { paths, told }
    }

    /// The same for another one who flushes.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.paths.clone())
    }

    /// The losses until now; `None` if all of them were told.
    pub(crate) fn news(&self) -> Option<Losses> {
        let losses = Losses(self.paths.iter().map(|path| path.losses()).collect());
        (losses != self.told).then_some(losses)
    }

    /// Notes that somebody has got a result that tells of these losses.
    pub(crate) fn note_told(&mut self, losses: &Losses) {
        for ((path, told), losses) in self.paths.iter().zip(&mut self.told.0).zip(&losses.0) {
            *told = (*told).max(*losses);
            path.told.fetch_max(*losses, Ordering::AcqRel);
        }
    }
}

/// The results of a queue's flushes that tell of losses.
#[derive(Debug)]
pub(crate) struct LossTeller {
    reader: LossReader,
    /// By request slot, until somebody fetches them.
    untold: Vec<(u16, Losses)>,
}

impl LossTeller {
    pub(crate) fn new(reader: LossReader) -> Self {
        Self { reader, untold: Vec::new() }
    }

    /// Whether the result of a flush that has succeeded is to tell of a loss.
    pub(crate) fn has_news(&mut self, slot: u16) -> bool {
        let news = self.reader.news();
        let has_news = news.is_some();
        self.untold.extend(news.map(|losses| (slot, losses)));
        has_news
    }

    /// Notes that the results of these slots were fetched. Those that are not tell nobody.
    pub(crate) fn note_fetched(&mut self, is_fetched: impl Fn(u16) -> bool) {
        let reader = &mut self.reader;
        self.untold.retain(|(slot, losses)| {
            let is_told = is_fetched(*slot);
            if is_told {
                reader.note_told(losses);
            }
            !is_told
        });
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
        assert!(unflushed.losses() == 1 && !unflushed.is_dirty());
        unflushed.note_write();
        let flush = unflushed.begin_flush().unwrap();
        drop(flush);
        unflushed.lose();
        assert_eq!(unflushed.losses(), 2);
    }

    #[test]
    fn what_the_controller_saved_is_not_lost() {
        let unflushed = Arc::new(Unflushed::new());
        unflushed.note_write();
        unflushed.save();
        unflushed.lose();
        assert!(unflushed.losses() == 0 && unflushed.begin_flush().is_none());
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
        let reader = || LossReader::new(paths.to_vec());
        let tell = |reader: &mut LossReader| reader.news().map(|losses| reader.note_told(&losses)).is_some();
        let (mut one, mut other) = (reader(), reader());
        assert!(!tell(&mut one));
        paths[1].note_write();
        paths[1].lose();
        // A result that nobody fetches tells nobody.
        assert!(one.news().is_some());
        let mut later = reader();
        assert!(tell(&mut later) && tell(&mut one) && !tell(&mut one));
        assert!(!tell(&mut reader()) && !tell(&mut other.another()));
        assert!(tell(&mut other) && !tell(&mut other));
    }

    #[test]
    fn a_result_tells_of_the_losses_that_there_were_when_it_came() {
        let path = Arc::new(Unflushed::new());
        let mut reader = LossReader::new(vec![Arc::clone(&path)]);
        let lose = || {
            path.note_write();
            path.lose();
        };
        lose();
        let first = reader.news().unwrap();
        lose();
        let second = reader.news().unwrap();
        reader.note_told(&first);
        assert_eq!(reader.news().as_ref(), Some(&second));
        reader.note_told(&second);
        reader.note_told(&first);
        assert_eq!(reader.news(), None);
    }
}
