//! A command on its way: to the adapter, over the wire, through the array and back, or never back.

use super::{Event, Machine};
use crate::flash_array::adapter::time_of;
use crate::flash_array::path::PathId;
use crate::host::Mapped;
use crate::serial::put;
use des::{Calendar, Queue, Span, Time};

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub(super) request: u32,
    /// Of all queues.
    pub(super) queue: u32,
    pub(super) path: PathId,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
    pub(super) mapped: Option<Mapped>,
    /// The link that it went by, or would have.
    pub(super) link: u32,
    /// It is not answered, and given up.
    pub(super) is_lost: bool,
}

/// Where a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The adapter knows of it.
    Told,
    /// It has read it from memory.
    Fetched,
    /// The data of a write comes from memory.
    Answered,
    /// It has all that is to be sent.
    Ready,
    /// The array has it.
    Array,
    /// The array has read or written.
    Served,
    /// The adapter has the answer.
    Returned,
    /// It is in its queue of completions.
    Posted,
}

impl Command {
    pub(super) fn new(request: u32, queue: u32, path: PathId, bytes: u64, is_write: bool) -> Self {
        Self { request, queue, path, bytes, is_write, mapped: None, link: 0, is_lost: false }
    }

    /// Bytes that go to the array, and that come from it.
    fn data(&self) -> [u64; 2] {
        if self.is_write { [self.bytes, 0] } else { [0, self.bytes] }
    }
}

impl Machine<'_> {
    pub(super) fn rung(&mut self, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.totals.commands += 1;
        after(self.adapter().posted, command, Place::Told, calendar);
    }

    pub(super) fn at(
        &mut self,
        now: Time,
        command: u32,
        place: Place,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        match place {
            Place::Told => after(adapter.latency + adapter.memory, command, Place::Fetched, calendar),
            Place::Fetched if self.commands[command].is_write => {
                after(adapter.memory, command, Place::Answered, calendar)
            }
            Place::Answered => {
                let there = self.carry(now, command, 1);
                put(calendar, there, Event::At { command, place: Place::Ready });
            }
            Place::Fetched | Place::Ready => self.send(now, command, calendar),
            Place::Array => self.serve(now, command, calendar),
            Place::Served => self.answer(now, command, calendar),
            Place::Returned => self.back(now, command, calendar),
            Place::Posted => self.posted(command, calendar),
        }
    }

    /// When a command's data has crossed its adapter's bus: to memory, or from it.
    fn carry(&mut self, now: Time, command: u32, direction: usize) -> Time {
        let known = self.commands[command];
        let bus = &mut self.buses[self.setup.adapter_of(known.path) as usize][direction];
        bus.take(now, time_of(known.bytes, self.setup.adapter.bus_bytes_per_second))
    }

    fn send(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let adapter = self.adapter();
        let known = &mut self.commands[command];
        let cable = &mut self.cables[known.path.0 as usize];
        known.link = cable.last_link();
        if cable.link().is_none() {
            return self.lose(now, command, calendar);
        }
        let sent = cable.send(now, known.data()[0], adapter);
        put(calendar, sent + adapter.wire, Event::At { command, place: Place::Array });
    }

    /// Whether the link that a command went by is there no more.
    fn is_cut(&self, command: u32) -> bool {
        let known = &self.commands[command];
        self.cables[known.path.0 as usize].link() != Some(known.link)
    }

    fn serve(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.is_cut(command) {
            return self.lose(now, command, calendar);
        }
        let known = self.commands[command];
        let served = self.modules.serve(now, known.bytes, known.is_write);
        put(calendar, served, Event::At { command, place: Place::Served });
    }

    fn answer(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.is_cut(command) {
            return self.lose(now, command, calendar);
        }
        let adapter = self.adapter();
        let known = &self.commands[command];
        let sent = self.cables[known.path.0 as usize].receive(now, known.data()[1], adapter);
        put(calendar, sent + adapter.wire, Event::At { command, place: Place::Returned });
    }

    fn back(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.is_cut(command) {
            return self.lose(now, command, calendar);
        }
        self.totals.answered += 1;
        let there = if self.commands[command].is_write { now } else { self.carry(now, command, 0) };
        put(calendar, there + self.adapter().posted, Event::At { command, place: Place::Posted });
    }

    /// Nothing will come: the adapter says so some time after the link was lost.
    fn lose(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.commands[command].is_lost = true;
        self.totals.given_up += 1;
        let adapter = self.adapter();
        let cable = &self.cables[self.commands[command].path.0 as usize];
        let noticed = now.max(cable.lost_at() + adapter.detection);
        put(calendar, noticed + adapter.posted, Event::At { command, place: Place::Posted });
    }
}

fn after(span: Span, command: u32, place: Place, calendar: &mut Calendar<Event, impl Queue<Event>>) {
    calendar.schedule_in(span, Event::At { command, place });
}
