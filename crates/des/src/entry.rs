//! An entry of the calendar.

use crate::Time;
use std::cmp::Ordering;

/// An event with its time and sequence number. Entries are ordered by these two, so events of equal time keep the
/// order in which they were scheduled.
#[derive(Debug, Clone, Copy)]
pub struct Entry<E> {
    /// Time of the event.
    pub time: Time,
    /// Number of events scheduled before it; unique within a calendar.
    pub sequence: u64,
    /// The event.
    pub event: E,
}

impl<E> Entry<E> {
    /// Time and sequence in one number, which is compared without a branch.
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
