//! The calendar: pending events and the current time.

use crate::{Entry, Queue, Span, Time, Wheel};
use std::marker::PhantomData;

/// Pending events, in order of time. Events of equal time are handled in the order in which they were scheduled.
#[derive(Debug, Clone)]
pub struct Calendar<E, Q = Wheel<E>> {
    queue: Q,
    now: Time,
    scheduled: u64,
    events: PhantomData<E>,
}

/// An event was scheduled for a time before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event was scheduled for {at:?}, but the time is already {now:?}")]
pub struct InThePast {
    /// The event's time.
    pub at: Time,
    /// The time when it was scheduled.
    pub now: Time,
}

impl<E: Copy, Q: Queue<E>> Calendar<E, Q> {
    /// An empty calendar at time 0.
    pub fn new() -> Self {
        Self { queue: Q::default(), now: Time::ZERO, scheduled: 0, events: PhantomData }
    }

    /// The current time: that of the latest event, or the limit of the latest `pop_until`.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Schedules an event. At the current time it comes after the events already scheduled for that time.
    ///
    /// # Errors
    /// [`InThePast`] if `at` is before [`now`](Self::now).
    #[inline]
    pub fn schedule(&mut self, at: Time, event: E) -> Result<(), InThePast> {
        if at < self.now {
            return Err(InThePast { at, now: self.now });
        }
        self.put(at, event);
        Ok(())
    }

    /// Schedules an event after a delay, at [`Time::MAX`] at the latest.
    #[inline]
    pub fn schedule_in(&mut self, delay: Span, event: E) {
        self.put(self.now + delay, event);
    }

    /// Adds an event to the queue. Its sequence number orders events of the same time.
    #[inline(always)]
    fn put(&mut self, time: Time, event: E) {
        self.queue.push(Entry { time, sequence: self.scheduled, event });
        self.scheduled += 1;
    }

    /// Removes the next event and advances the time to it.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry<E>> {
        let entry = self.queue.pop_until(Time::MAX)?;
        self.now = entry.time;
        Some(entry)
    }

    /// Removes the next event and advances the time to it, if its time is at most `limit`. Otherwise advances the time to `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: Time) -> Option<Entry<E>> {
        let entry = self.queue.pop_until(limit);
        self.now = entry.as_ref().map_or(self.now.max(limit), |entry| entry.time);
        entry
    }

    /// Number of pending events.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Number of events scheduled so far.
    pub fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.queue.bytes()
    }
}

impl<E: Copy, Q: Queue<E>> Default for Calendar<E, Q> {
    fn default() -> Self {
        Self::new()
    }
}
