//! Completions, and what applications are told.

use super::{Application, Event, Machine, schedule_at};
use crate::infiniband::adapter::CQE_BYTES;
use crate::infiniband::message::Place;
use des::{Calendar, Queue, Time};

impl<A: Application> Machine<A> {
    /// Writes the completion of a receiver.
    pub(super) fn notify(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let written = self.write_completion(now, number);
        schedule_at(calendar, written.1, Event::Notified(written.0));
    }

    /// Writes the completion of who asked.
    pub(super) fn complete(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let written = self.write_completion(now, number);
        schedule_at(calendar, written.1, Event::Completed(written.0));
    }

    /// Ends a job with a completion, of a message, that is in memory at a time.
    fn write_completion(&mut self, now: Time, number: u32) -> (u32, Time) {
        let job = self.jobs[number];
        self.jobs.free(number);
        (job.message, self.write_memory(now, job.node, Place::Host, 0, CQE_BYTES))
    }

    /// A message is where it goes, and its receiver knows.
    pub(super) fn delivered(&mut self, now: Time, message: u32) {
        let work = self.messages[message].work;
        self.totals.delivered += 1;
        self.totals.delivered_bytes += work.bytes;
        self.application.delivered(now, &work, &mut self.actions);
        self.ended(message);
    }

    /// Who asked for a message knows that it is done.
    pub(super) fn completed(&mut self, now: Time, message: u32) {
        let one = self.messages[message];
        self.totals.completed += 1;
        // Time never goes back, which is all that this could refuse.
        let _ = self.in_flight.set(now, self.in_flight.level().saturating_sub(1));
        self.stayed += u128::from(now.since(one.posted).unwrap_or_default().as_ps());
        self.application.completed(now, &one.work, one.posted, &mut self.actions);
        self.ended(message);
    }

    /// A message is forgotten once both sides know.
    fn ended(&mut self, message: u32) {
        let one = &mut self.messages[message];
        match one.is_known {
            true => self.messages.free(message),
            false => one.is_known = true,
        }
    }
}
