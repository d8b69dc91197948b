//! An event with its place in the order of all.

use crate::Time;
use std::cmp::Ordering;

/// An event, when it happens, and how many were scheduled before it. Entries are ordered by these two: what happens at the
/// same time happens in the order in which it was scheduled.
#[derive(Debug, Clone, Copy)]
pub struct Entry<E> {
    /// When it happens.
    pub time: Time,
    /// How many events the calendar was given before; no two entries of a calendar share it.
    pub sequence: u64,
    /// What happens.
    pub event: E,
}

impl<E> Entry<E> {
    /// Both in one number, which compares without a branch.
    pub(crate) fn key(&self) -> u128 {
        u128::from(self.time.as_ps()) << 64 | u128::from(self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
