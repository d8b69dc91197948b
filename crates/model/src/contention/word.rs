//! A word in memory that many CPUs change: its cache line goes from one to the next.
//!
//! Each access takes the line away from whoever had it. Of those who ask for it any may be next, for no hardware queues them in
//! order. A compare-and-exchange fails if somebody changed the word since its CPU saw it last; what it saw now is what it
//! tries with next. Of n CPUs that all try, one in about 1.25 times the root of n succeeds: the others are drawn first, until one
//! comes up who was drawn since the last change (the birthday problem).

use des::{Span, Stream};

/// Draws nobody else does.
const ENTITY: u64 = u64::MAX;

/// What a CPU wants of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Errand {
    /// To know it.
    #[default]
    Look,
    /// To change it if it is still as it was at that change.
    Exchange(u64),
    /// To change it.
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

    /// A CPU wants the line. Who has it next, and for how long, if nobody has it now.
    pub(super) fn request(&mut self, cpu: u32) -> Option<(u32, Span)> {
        self.waiting.push(cpu);
        if self.is_busy { None } else { self.turn() }
    }

    /// Who has the line next, after the one who had it.
    pub(super) fn turn(&mut self) -> Option<(u32, Span)> {
        if self.is_busy || self.waiting.is_empty() {
            return None;
        }
        let next = self.stream.below(self.waiting.len() as u64) as usize;
        self.is_busy = true;
        Some((self.waiting.swap_remove(next), self.access))
    }

    /// A CPU has had the line, to this end; what it is still to do.
    pub(super) fn accessed(&mut self, errand: Errand) -> Option<Errand> {
        self.is_busy = false;
        match errand {
            Errand::Look => return Some(Errand::Exchange(self.changes)),
            Errand::Write => self.changes += 1,
            Errand::Exchange(seen) => {
                self.attempts += 1;
                if seen != self.changes {
                    return Some(Errand::Exchange(self.changes));
                }
                (self.changes, self.successes) = (self.changes + 1, self.successes + 1);
            }
        }
        None
    }

    pub(super) fn attempts_mean(&self) -> f64 {
        self.attempts as f64 / self.successes.max(1) as f64
    }
}
