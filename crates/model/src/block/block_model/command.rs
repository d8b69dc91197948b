//! The stages of a command: fetched by the adapter, data over the link and in the media, completion.

use super::{BlockModel, Event};
use crate::block::media::ProgramTarget;
use crate::block::nvme_adapter::{COMMAND_BYTES, COMPLETION_BYTES, NvmeAdapter, WORD_BYTES};
use crate::host::Mapped;
use crate::serial_server::schedule_at;
use des::{Calendar, Queue, Time};

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub(super) request: u32,
    pub(super) queue: u32,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
    /// The die that holds its first page.
    pub(super) die: u32,
    pub(super) mapped: Option<Mapped>,
    /// Pages that are not read or programmed yet.
    pub(super) pieces: u32,
}

/// What the adapter reads from memory for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// The submission queue entry.
    Command,
    /// The PRP list.
    PrpList,
    /// The data of a write.
    Data,
}

impl Command {
    /// Bytes that a fetch reads.
    fn bytes_of(&self, fetch: Fetch) -> u64 {
        match fetch {
            Fetch::Command => COMMAND_BYTES,
            Fetch::PrpList => NvmeAdapter::list_bytes(self.bytes),
            Fetch::Data => self.bytes,
        }
    }
}

impl BlockModel<'_> {
    /// A command without data, for the queue of this CPU.
    pub(super) fn new_command(&self, cpu: u32) -> Command {
        let queue = self.adapter().queue_of(cpu, self.setup.host.cpus.threads());
        Command { request: 0, queue, bytes: 0, is_write: false, die: 0, mapped: None, pieces: 0 }
    }

    /// The die of a thread's next request: a random one, or the one after its last.
    pub(super) fn first_die(&mut self, thread: u32, bytes: u64, is_random: bool) -> u32 {
        let last = if is_random { None } else { self.threads[thread as usize].next_die };
        let first = last.unwrap_or_else(|| self.dies.draw_die());
        self.threads[thread as usize].next_die = Some(self.die_after(first, bytes));
        first
    }

    /// The die that follows the pages of a request.
    pub(super) fn die_after(&self, die: u32, bytes: u64) -> u32 {
        let pieces = bytes.div_ceil(self.setup.host.media.page_bytes);
        ((u64::from(die) + pieces) % u64::from(self.setup.host.media.dies)) as u32
    }

    pub(super) fn ring_doorbell(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        self.totals.commands += 1;
        let _ = self.in_queues.set(now, self.in_queues.level() + 1);
        let there = self.down.occupy(now, adapter.link.time_of(adapter.link.write_bytes(0, WORD_BYTES)));
        schedule_at(calendar, there + adapter.posted, Event::Doorbell { command });
    }

    /// The adapter reads something from memory.
    pub(super) fn fetch(
        &mut self,
        now: Time,
        command: u32,
        fetch: Fetch,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        let bytes = self.commands[command].bytes_of(fetch);
        let asked = self.up.occupy(now, adapter.link.time_of(adapter.link.read_request_bytes(0, bytes)));
        schedule_at(calendar, asked + adapter.read, Event::MemoryAnswers { command, fetch });
    }

    pub(super) fn transfer_from_memory(
        &mut self,
        now: Time,
        command: u32,
        fetch: Fetch,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        let bytes = self.commands[command].bytes_of(fetch);
        let there = self.down.occupy(now, adapter.link.time_of(adapter.link.completion_bytes(0, bytes)));
        schedule_at(calendar, there, Event::Fetched { command, fetch });
    }

    pub(super) fn process_fetched(
        &mut self,
        now: Time,
        command: u32,
        fetch: Fetch,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = self.commands[command];
        let has_list = known.bytes_of(Fetch::PrpList) > 0;
        match fetch {
            Fetch::Command if has_list => self.fetch(now, command, Fetch::PrpList, calendar),
            Fetch::Command | Fetch::PrpList if known.is_write => {
                self.fetch(now, command, Fetch::Data, calendar)
            }
            Fetch::Command | Fetch::PrpList | Fetch::Data => {
                schedule_at(calendar, now + self.adapter().latency, Event::MediaStart { command });
            }
        }
    }

    /// The adapter starts reading or writing its media.
    pub(super) fn access_media(
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
                schedule_at(calendar, sensed, Event::PageSensed { command, die, bytes: bytes as u32 });
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
            schedule_at(calendar, carried, Event::PageAtDie { to: ProgramTarget::Command(command), die });
        }
    }

    /// Completes writes whose data fits into the buffer now, and starts programming it.
    fn fill_buffer(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        while let Some(command) = self.dies.buffered() {
            let Command { bytes, die, .. } = self.commands[command];
            for (die, bytes) in self.dies.pieces(die, bytes) {
                let carried = self.dies.carry(now, die, bytes);
                schedule_at(
                    calendar,
                    carried,
                    Event::PageAtDie { to: ProgramTarget::Buffer(bytes as u32), die },
                );
            }
            self.complete(now, command, calendar);
        }
    }

    pub(super) fn transfer_sensed_page(
        &mut self,
        now: Time,
        command: u32,
        die: u32,
        bytes: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let carried = self.dies.carry(now, die, bytes.into());
        schedule_at(calendar, carried, Event::PageRead { command });
    }

    /// When all pages are read, writes the data to memory.
    pub(super) fn finish_page_read(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if !self.finish_piece(command) {
            return;
        }
        let adapter = self.adapter();
        let bytes = self.commands[command].bytes;
        self.totals.stored_bytes += bytes;
        self.up.occupy(now, adapter.link.time_of(adapter.link.write_bytes(0, bytes)));
        self.complete(now, command, calendar);
    }

    /// Counts a page of the command as done. Returns whether it was the last one.
    fn finish_piece(&mut self, command: u32) -> bool {
        let known = &mut self.commands[command];
        known.pieces -= 1;
        known.pieces == 0
    }

    /// Programs a page into a die.
    pub(super) fn program_page(
        &mut self,
        now: Time,
        to: ProgramTarget,
        die: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let programmed = self.dies.program(now, die);
        schedule_at(calendar, programmed, Event::PageProgrammed { to });
    }

    /// A die has programmed a page: the command may be complete, or more of the cache can be emptied.
    pub(super) fn finish_programming(
        &mut self,
        now: Time,
        to: ProgramTarget,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match to {
            ProgramTarget::Command(command) => {
                if self.finish_piece(command) {
                    self.complete(now, command, calendar);
                }
            }
            ProgramTarget::Buffer(bytes) => {
                self.dies.make_room(bytes.into());
                self.fill_buffer(now, calendar);
            }
        }
    }

    /// Posts the completion, after the data on the same link.
    fn complete(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let adapter = self.adapter();
        let written =
            self.up.occupy(now, adapter.link.time_of(adapter.link.write_bytes(0, COMPLETION_BYTES)));
        schedule_at(calendar, written, Event::CompletionPosted { command });
    }
}
