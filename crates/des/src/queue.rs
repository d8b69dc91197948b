//! What a calendar keeps its entries in.

use crate::{Entry, Time};

/// Entries that come out in their order. [`Wheel`](crate::Wheel) is the one to use, [`Heap`](crate::Heap) the one that is
/// plain enough to be believed.
pub trait Queue<E>: Default {
    /// Takes an entry.
    fn push(&mut self, entry: Entry<E>);

    /// The first of all entries, if it happens no later than `limit`.
    fn pop_until(&mut self, limit: Time) -> Option<Entry<E>>;

    /// How many entries are in it.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it holds for entries, those of the future included.
    fn bytes(&self) -> usize;
}
