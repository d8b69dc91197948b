//! What is going to happen, and what time it is.

use crate::{Entry, Queue, Span, Time, Wheel};
use std::marker::PhantomData;

/// Events to come. They happen in the order of their times; those of the same time in the order in which they were
/// scheduled.
#[derive(Debug, Clone)]
pub struct Calendar<E, Q = Wheel<E>> {
    queue: Q,
    now: Time,
    scheduled: u64,
    events: PhantomData<E>,
}

/// An event was to happen before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event was scheduled for {at}, but it is {now} already")]
pub struct InThePast {
    /// When it was to happen.
    pub at: Time,
    /// When that was asked.
    pub now: Time,
}

impl<E: Copy, Q: Queue<E>> Calendar<E, Q> {
    /// Nothing is going to happen, and it is the beginning of time.
    pub fn new() -> Self {
        Self { queue: Q::default(), now: Time::ZERO, scheduled: 0, events: PhantomData }
    }

    /// When the last event happened, or up to when none did.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets an event happen at a time that is not over: now is allowed, and comes after what is already scheduled for now.
    #[inline]
    pub fn schedule(&mut self, at: Time, event: E) -> Result<(), InThePast> {
        if at < self.now {
            return Err(InThePast { at, now: self.now });
        }
        self.put(at, event);
        Ok(())
    }

    /// Lets an event happen after a delay, which ends at [`Time::MAX`].
    #[inline]
    pub fn schedule_in(&mut self, delay: Span, event: E) {
        self.put(self.now + delay, event);
    }

    #[inline]
    fn put(&mut self, time: Time, event: E) {
        self.queue.push(Entry { time, sequence: self.scheduled, event });
        self.scheduled += 1;
    }

    /// What happens next. From then on it is that time.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry<E>> {
        let entry = self.queue.pop_until(Time::MAX)?;
        self.now = entry.time;
        Some(entry)
    }

    /// What happens next, if it happens no later than `limit`; if nothing does, it is `limit` from then on.
    #[inline]
    pub fn pop_until(&mut self, limit: Time) -> Option<Entry<E>> {
        let entry = self.queue.pop_until(limit);
        self.now = entry.as_ref().map_or(self.now.max(limit), |entry| entry.time);
        entry
    }

    /// How many events are going to happen.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// How many events were scheduled since the beginning.
    pub fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        self.queue.bytes()
    }
}

impl<E: Copy, Q: Queue<E>> Default for Calendar<E, Q> {
    fn default() -> Self {
        Self::new()
    }
}
