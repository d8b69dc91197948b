//! The reference queue: the standard library's binary heap.

use crate::{Entry, Queue, Time};
use std::{cmp::Reverse, collections::BinaryHeap};

/// A binary heap of entries. Tests compare the [`Wheel`](crate::Wheel) with it.
#[derive(Debug, Clone)]
pub struct Heap<E>(BinaryHeap<Reverse<Entry<E>>>);

impl<E> Heap<E> {
    /// The earliest entry.
    pub(crate) fn first(&self) -> Option<&Entry<E>> {
        self.0.peek().map(|Reverse(entry)| entry)
    }

    /// Removes the earliest entry.
    pub(crate) fn pop(&mut self) -> Option<Entry<E>> {
        self.0.pop().map(|Reverse(entry)| entry)
    }

    /// Removes all entries, in any order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry<E>> {
        self.0.drain().map(|Reverse(entry)| entry)
    }
}

impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<E> Queue<E> for Heap<E> {
    fn push(&mut self, entry: Entry<E>) {
        self.0.push(Reverse(entry));
    }

    fn pop_until(&mut self, limit: Time) -> Option<Entry<E>> {
        self.first().filter(|entry| entry.time <= limit)?;
        self.pop()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Reverse<Entry<E>>>()
    }
}
