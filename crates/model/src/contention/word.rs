//! A word in memory that many CPUs modify.
//!
//! Each access moves the cache line to the accessing CPU. Hardware does not queue the requests, so any waiting CPU
//! may be next. A compare-and-exchange fails if the word changed since its CPU read it; the CPU then retries with the
//! new value. With n CPUs retrying, about one attempt in 1.25 sqrt(n) succeeds: attempts continue until a CPU gets
//! the line twice between two changes (the birthday problem).

use des::{Span, Stream};

/// Entity number of the word's random stream.
const ENTITY: u64 = u64::MAX;

/// An access to the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum WordAccess {
    /// Read it.
    #[default]
    Read,
    /// Change it if it has not changed since this version.
    Exchange(u64),
    /// Write it unconditionally.
    Write,
}

#[derive(Debug)]
pub(super) struct Word {
    access: Span,
    stream: Stream,
    waiting: Vec<u32>,
    is_busy: bool,
    changes: u64,
    attempts: u64,
    successes: u64,
}

impl Word {
    pub(super) fn new(access: Span, seed: u64) -> Self {
        let stream = Stream::new(seed, ENTITY);
        Self { access, stream, waiting: Vec::new(), is_busy: false, changes: 0, attempts: 0, successes: 0 }
    }

    /// Requests the line. If it is free, returns the next owner and the duration of its access.
    pub(super) fn request(&mut self, cpu: u32) -> Option<(u32, Span)> {
        self.waiting.push(cpu);
        if self.is_busy { None } else { self.turn() }
    }

    /// Ends the current ownership. Returns the next owner and the duration of its access.
    pub(super) fn turn(&mut self) -> Option<(u32, Span)> {
        if self.is_busy || self.waiting.is_empty() {
            return None;
        }
        let next = self.stream.below(self.waiting.len() as u64) as usize;
        self.is_busy = true;
        Some((self.waiting.swap_remove(next), self.access))
    }

    /// Performs a CPU's access. Returns its next access, if the operation is not finished.
    pub(super) fn accessed(&mut self, access_kind: WordAccess) -> Option<WordAccess> {
        self.is_busy = false;
        match access_kind {
            WordAccess::Read => return Some(WordAccess::Exchange(self.changes)),
            WordAccess::Write => self.changes += 1,
            WordAccess::Exchange(seen) => {
                self.attempts += 1;
                if seen != self.changes {
                    return Some(WordAccess::Exchange(self.changes));
                }
                (self.changes, self.successes) = (self.changes + 1, self.successes + 1);
            }
        }
        None
    }

    /// Compare-and-exchanges for each one that succeeded.
    pub(super) fn attempts_mean(&self) -> f64 {
        self.attempts as f64 / self.successes.max(1) as f64
    }
}
