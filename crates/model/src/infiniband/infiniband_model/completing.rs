//! Completions, and how applications learn of them.

use super::{Application, Event, InfinibandModel, schedule_at};
use crate::infiniband::hca::CQE_BYTES;
use crate::infiniband::message::MemoryKind;
use des::{Calendar, Queue, Time};

impl<A: Application> InfinibandModel<A> {
    /// Writes the receiver's completion.
    pub(super) fn notify(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let written = self.write_completion(now, number);
        schedule_at(calendar, written.1, Event::Notified(written.0));
    }

    /// Writes the requester's completion.
    pub(super) fn complete(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let written = self.write_completion(now, number);
        schedule_at(calendar, written.1, Event::Completed(written.0));
    }

    /// Ends a job. Returns its message, and when the completion is in memory.
    fn write_completion(&mut self, now: Time, number: u32) -> (u32, Time) {
        let job = self.jobs[number];
        self.jobs.free(number);
        (job.message, self.write_memory(now, job.node, MemoryKind::Host, 0, CQE_BYTES))
    }

    /// The receiver has seen a message's completion.
    pub(super) fn delivered(&mut self, now: Time, message: u32) {
        let work = self.messages[message].work;
        self.totals.delivered += 1;
        self.totals.delivered_bytes += work.bytes;
        self.application.delivered(now, &work, &mut self.actions);
        self.ended(message);
    }

    /// The requester has seen a message's completion.
    pub(super) fn completed(&mut self, now: Time, message: u32) {
        let one = self.messages[message];
        self.totals.completed += 1;
        // Can't fail: simulated time never goes back.
        let _ = self.in_flight.set(now, self.in_flight.level().saturating_sub(1));
        self.stayed += u128::from(now.since(one.posted).unwrap_or_default().as_ps());
        self.application.completed(now, &one.work, one.posted, &mut self.actions);
        self.ended(message);
    }

    /// Frees a message once both sides have seen its completion.
    fn ended(&mut self, message: u32) {
        let one = &mut self.messages[message];
        match one.is_known {
            true => self.messages.free(message),
            false => one.is_known = true,
        }
    }
}
