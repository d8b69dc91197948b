//! A command on its way: fetched by the adapter, its data over the link and in the media, and its completion.

use super::{Event, Machine};
use crate::block::adapter::{Adapter, COMMAND_BYTES, COMPLETION_BYTES, WORD_BYTES};
use crate::block::media::For;
use crate::host::Mapped;
use crate::serial::put;
use des::{Calendar, Queue, Time};

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub(super) request: u32,
    pub(super) queue: u32,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
    /// Where its data begins.
    pub(super) die: u32,
    pub(super) mapped: Option<Mapped>,
    /// Pieces of the media that are not read or programmed.
    pub(super) pieces: u32,
}

/// What the adapter reads from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The command itself.
    Command,
    /// The list of its pages.
    List,
    /// The data of a write.
    Data,
}

impl Command {
    fn bytes_of(&self, what: What) -> u64 {
        match what {
            What::Command => COMMAND_BYTES,
            What::List => Adapter::list_bytes(self.bytes),
            What::Data => self.bytes,
        }
    }
}

impl Machine<'_> {
    /// One without data, in the queue of this CPU.
    pub(super) fn new_command(&self, cpu: u32) -> Command {
        let queue = self.adapter().queue_of(cpu, self.setup.host.cpus.threads());
        Command { request: 0, queue, bytes: 0, is_write: false, die: 0, mapped: None, pieces: 0 }
    }

    /// Where a thread's next data begins: anywhere, or behind its last.
    pub(super) fn first_die(&mut self, thread: u32, bytes: u64, is_random: bool) -> u32 {
        let last = if is_random { None } else { self.threads[thread as usize].next_die };
        let first = last.unwrap_or_else(|| self.dies.draw_die());
        self.threads[thread as usize].next_die = Some(self.die_after(first, bytes));
        first
    }

    pub(super) fn die_after(&self, die: u32, bytes: u64) -> u32 {
        let pieces = bytes.div_ceil(self.setup.host.media.page_bytes);
        ((u64::from(die) + pieces) % u64::from(self.setup.host.media.dies)) as u32
    }

    pub(super) fn rung(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        self.totals.commands += 1;
        let _ = self.in_queues.set(now, self.in_queues.level() + 1);
        let there = self.down.take(now, adapter.link.time_of(adapter.link.write_bytes(0, WORD_BYTES)));
        put(calendar, there + adapter.posted, Event::Told { command });
    }

    /// The adapter asks memory for something.
    pub(super) fn fetch(
        &mut self,
        now: Time,
        command: u32,
        what: What,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        let bytes = self.commands[command].bytes_of(what);
        let asked = self.up.take(now, adapter.link.time_of(adapter.link.read_request_bytes(0, bytes)));
        put(calendar, asked + adapter.read, Event::Answered { command, what });
    }

    pub(super) fn answered(
        &mut self,
        now: Time,
        command: u32,
        what: What,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        let bytes = self.commands[command].bytes_of(what);
        let there = self.down.take(now, adapter.link.time_of(adapter.link.completion_bytes(0, bytes)));
        put(calendar, there, Event::Fetched { command, what });
    }

    pub(super) fn fetched(
        &mut self,
        now: Time,
        command: u32,
        what: What,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = self.commands[command];
        let has_list = known.bytes_of(What::List) > 0;
        match what {
            What::Command if has_list => self.fetch(now, command, What::List, calendar),
            What::Command | What::List if known.is_write => self.fetch(now, command, What::Data, calendar),
            What::Command | What::List | What::Data => {
                put(calendar, now + self.adapter().latency, Event::Served { command });
            }
        }
    }

    /// The adapter turns to its media.
    pub(super) fn served(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let Command { bytes, is_write, die, .. } = self.commands[command];
        if !is_write {
            for (die, bytes) in self.dies.pieces(die, bytes) {
                self.commands[command].pieces += 1;
                let sensed = self.dies.read(now, die);
                put(calendar, sensed, Event::Sensed { command, die, bytes: bytes as u32 });
            }
            return;
        }
        self.totals.fetched_bytes += bytes;
        if self.dies.has_buffer() {
            self.dies.wait_for_room(command, bytes);
            return self.fill_buffer(now, calendar);
        }
        for (die, bytes) in self.dies.pieces(die, bytes) {
            self.commands[command].pieces += 1;
            let carried = self.dies.carry(now, die, bytes);
            put(calendar, carried, Event::Carried { to: For::Command(command), die });
        }
    }

    /// Writes that the buffer has room for are answered, and programmed from there.
    fn fill_buffer(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        while let Some(command) = self.dies.buffered() {
            let Command { bytes, die, .. } = self.commands[command];
            for (die, bytes) in self.dies.pieces(die, bytes) {
                let carried = self.dies.carry(now, die, bytes);
                put(calendar, carried, Event::Carried { to: For::Buffer(bytes as u32), die });
            }
            self.complete(now, command, calendar);
        }
    }

    pub(super) fn sensed(
        &mut self,
        now: Time,
        command: u32,
        die: u32,
        bytes: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let carried = self.dies.carry(now, die, bytes.into());
        put(calendar, carried, Event::Read { command });
    }

    /// When all pieces are there, they go to memory.
    pub(super) fn read(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if !self.is_last_piece(command) {
            return;
        }
        let adapter = self.adapter();
        let bytes = self.commands[command].bytes;
        self.totals.stored_bytes += bytes;
        self.up.take(now, adapter.link.time_of(adapter.link.write_bytes(0, bytes)));
        self.complete(now, command, calendar);
    }

    fn is_last_piece(&mut self, command: u32) -> bool {
        let known = &mut self.commands[command];
        known.pieces -= 1;
        known.pieces == 0
    }

    pub(super) fn carried(
        &mut self,
        now: Time,
        to: For,
        die: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let programmed = self.dies.program(now, die);
        put(calendar, programmed, Event::Programmed { to });
    }

    pub(super) fn programmed(
        &mut self,
        now: Time,
        to: For,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match to {
            For::Command(command) => {
                if self.is_last_piece(command) {
                    self.complete(now, command, calendar);
                }
            }
            For::Buffer(bytes) => {
                self.dies.make_room(bytes.into());
                self.fill_buffer(now, calendar);
            }
        }
    }

    /// The completion follows the data.
    fn complete(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let adapter = self.adapter();
        let written = self.up.take(now, adapter.link.time_of(adapter.link.write_bytes(0, COMPLETION_BYTES)));
        put(calendar, written, Event::Posted { command });
    }
}
