//! A cache line in memory that many CPUs access, as one word.
//!
//! Each access moves the line to the accessing CPU. Hardware does not queue the requests, so any waiting CPU
//! may be next. A compare-and-exchange fails if the word changed since its CPU read it; the CPU then retries with the
//! new value. With n CPUs retrying, about one attempt in 1.25 sqrt(n) succeeds: attempts continue until a CPU gets
//! the line twice between two changes (the birthday problem).

use des::{Span, Stream};

/// Entity number of the first word's random stream; further words count down from it.
const ENTITY: u64 = u64::MAX;

/// An access to the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WordAccess {
    /// Read it, then change it by compare-and-exchange.
    #[default]
    Claim,
    /// Change it if it has not changed since this version.
    Exchange(u64),
    /// Write it, or add to it: this never fails.
    Write,
    /// Only read it.
    Read,
}

/// A word, and the CPUs that wait for its line.
#[derive(Debug)]
pub(crate) struct Word {
    access: Span,
    stream: Stream,
    waiting: Vec<u32>,
    is_busy: bool,
    /// The CPU whose cache has the line; `None` if an access by the CPU that had it last costs as much as any other.
    holder: Option<u32>,
    keeps_line: bool,
    changes: u64,
    attempts: u64,
    successes: u64,
}

impl Word {
    /// A word whose line is fetched anew for each access.
    pub(crate) fn new(access: Span, seed: u64) -> Self {
        let stream = Stream::new(seed, ENTITY);
        Self {
            access,
            stream,
            waiting: Vec::new(),
            is_busy: false,
            holder: None,
            keeps_line: false,
            changes: 0,
            attempts: 0,
            successes: 0,
        }
    }

    /// One of several words. Its line stays in a CPU's cache until another CPU accesses it.
    pub(crate) fn cached(access: Span, seed: u64, number: u64) -> Self {
        Self { stream: Stream::new(seed, ENTITY - number), keeps_line: true, ..Self::new(access, seed) }
    }

    /// Requests the line. If it is free, returns the next owner and the duration of its access.
    pub(crate) fn request(&mut self, cpu: u32) -> Option<(u32, Span)> {
        self.waiting.push(cpu);
        if self.is_busy { None } else { self.turn() }
    }

    /// Ends the current ownership. Returns the next owner and the duration of its access.
    pub(crate) fn turn(&mut self) -> Option<(u32, Span)> {
        if self.is_busy || self.waiting.is_empty() {
            return None;
        }
        let next = self.stream.below(self.waiting.len() as u64) as usize;
        let next = self.waiting.swap_remove(next);
        let is_held = self.keeps_line && self.holder == Some(next);
        (self.is_busy, self.holder) = (true, Some(next));
        Some((next, if is_held { Span::ZERO } else { self.access }))
    }

    /// Performs a CPU's access. Returns its next access, if the operation is not finished.
    pub(crate) fn accessed(&mut self, access_kind: WordAccess) -> Option<WordAccess> {
        self.is_busy = false;
        match access_kind {
            WordAccess::Claim => return Some(WordAccess::Exchange(self.changes)),
            WordAccess::Write => self.changes += 1,
            WordAccess::Read => {}
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
    pub(crate) fn attempts_mean(&self) -> f64 {
        self.attempts as f64 / self.successes.max(1) as f64
    }
}
