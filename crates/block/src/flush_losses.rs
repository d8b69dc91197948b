//! Writes that were lost, for threads that share a queue: the disk tells the queue of each loss once, and the queue tells each thread.

use crate::thread_number;
use std::collections::BTreeSet;

/// Who was told of the last loss.
#[derive(Debug, Default)]
pub(crate) struct FlushLosses {
    /// Threads with lower numbers were there when it was noted. Those that came later can't have lost anything.
    threads: usize,
    /// Those of them that were told.
    told: BTreeSet<usize>,
}

impl FlushLosses {
    /// Notes that the disk has told of a loss.
    pub(crate) fn note(&mut self) {
        *self = Self { threads: thread_number::next(), told: BTreeSet::new() };
    }

    /// Tells this thread. Returns whether it did not know.
    pub(crate) fn tell(&mut self) -> bool {
        let own = thread_number::own();
        own < self.threads && self.told.insert(own)
    }
}
