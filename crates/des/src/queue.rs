//! The interface of a calendar's priority queue.

use crate::{Entry, Time};

/// A priority queue of entries. [`Wheel`](crate::Wheel) is the fast one; [`Heap`](crate::Heap) is the simple
/// reference.
pub trait Queue<E>: Default {
    /// Adds an entry.
    fn push(&mut self, entry: Entry<E>);

    /// Removes the first entry, if its time is at most `limit`.
    fn pop_until(&mut self, limit: Time) -> Option<Entry<E>>;

    /// Number of entries.
    fn len(&self) -> usize;

    /// Whether it is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory in use, in bytes.
    fn bytes(&self) -> usize;
}
