//! The way of packets from the wire to memory.

use super::{Application, Event, InfinibandModel, Stage, schedule_at};
use crate::infiniband::message::Verb;
use des::{Calendar, Queue, Time};

impl<A: Application> InfinibandModel<A> {
    /// A packet arrives at its destination adapter.
    pub(super) fn arrived(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let job = self.jobs[number];
        let verb = self.messages[job.message].work.verb;
        let stage = match job.stage {
            Stage::Packet if verb == Verb::Send && job.offset == 0 => Stage::Accept,
            Stage::Packet => Stage::WritePacket,
            other => other,
        };
        let job = &mut self.jobs[number];
        (job.stage, job.step) = (stage, 0);
        self.advance(now, number, calendar);
    }

    /// Writes a packet to memory. After the last one, notifies the other side.
    pub(super) fn place(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let job = self.jobs[number];
        let work = self.messages[job.message].work;
        let into = if work.verb == Verb::Read { work.local } else { work.remote };
        let placed = self.write_memory(now, job.node, into.place, into.offset + job.offset, job.bytes);
        let message = &mut self.messages[job.message];
        message.placed += job.bytes;
        if message.placed < work.bytes {
            self.jobs.free(number);
            return;
        }
        schedule_at(calendar, placed, Event::Placed(job.message));
        match work.verb {
            Verb::Send | Verb::Write => {
                let bytes = self.setup.wire.acknowledgement_bytes();
                self.transmit(now, number, Stage::Complete, bytes, calendar);
            }
            Verb::Read => {
                let job = &mut self.jobs[number];
                (job.stage, job.step) = (Stage::Complete, 0);
                self.advance(now, number, calendar);
            }
        }
    }

    /// All of a message is in memory.
    pub(super) fn placed(
        &mut self,
        now: Time,
        message: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match self.messages[message].work.verb {
            Verb::Send => {
                let [_, other] = self.ends(message);
                self.start(now, Stage::Notify, message, other.node, calendar);
            }
            Verb::Write | Verb::Read => self.delivered(now, message),
        }
    }
}
