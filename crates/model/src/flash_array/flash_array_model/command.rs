//! The stages of a command: to the adapter, over the cable, through the array and back, unless the link is lost.

use super::{Event, FlashArrayModel};
use crate::flash_array::array_adapter::time_of;
use crate::flash_array::path::PathId;
use crate::host::Mapped;
use crate::serial_server::schedule_at;
use des::{Calendar, Queue, Span, Time};

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub(super) request: u32,
    /// Index among all queues.
    pub(super) queue: u32,
    pub(super) path: PathId,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
    pub(super) mapped: Option<Mapped>,
    /// The link it was sent over; if there was none, the last one.
    pub(super) link: u32,
    /// The link was lost, so it has failed.
    pub(super) is_lost: bool,
}

/// The stages of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandStage {
    /// The doorbell write has reached the adapter.
    Doorbell,
    /// The adapter has read the command from memory.
    Fetched,
    /// Memory answers the adapter's read of a write's data.
    WriteDataArrives,
    /// The adapter has the write's data.
    ReadyToSend,
    /// The array has received the command.
    AtArray,
    /// The array has read or written the data.
    Served,
    /// The adapter has received the response.
    ResponseReceived,
    /// The completion is in its queue.
    CompletionPosted,
}

impl Command {
    pub(super) fn new(request: u32, queue: u32, path: PathId, bytes: u64, is_write: bool) -> Self {
        Self { request, queue, path, bytes, is_write, mapped: None, link: 0, is_lost: false }
    }

    /// Bytes sent to the array, and received from it.
    fn data(&self) -> [u64; 2] {
        if self.is_write { [self.bytes, 0] } else { [0, self.bytes] }
    }
}

impl FlashArrayModel<'_> {
    pub(super) fn ring_doorbell(&mut self, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.totals.commands += 1;
        schedule_stage(self.adapter().posted, command, CommandStage::Doorbell, calendar);
    }

    pub(super) fn advance_command(
        &mut self,
        now: Time,
        command: u32,
        stage: CommandStage,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        match stage {
            CommandStage::Doorbell => {
                schedule_stage(adapter.latency + adapter.memory, command, CommandStage::Fetched, calendar)
            }
            CommandStage::Fetched if self.commands[command].is_write => {
                schedule_stage(adapter.memory, command, CommandStage::WriteDataArrives, calendar)
            }
            CommandStage::WriteDataArrives => {
                let there = self.cross_bus(now, command, 1);
                schedule_at(
                    calendar,
                    there,
                    Event::CommandStage { command, stage: CommandStage::ReadyToSend },
                );
            }
            CommandStage::Fetched | CommandStage::ReadyToSend => self.send_to_array(now, command, calendar),
            CommandStage::AtArray => self.serve(now, command, calendar),
            CommandStage::Served => self.send_response(now, command, calendar),
            CommandStage::ResponseReceived => self.receive_response(now, command, calendar),
            CommandStage::CompletionPosted => self.post_completion(command, calendar),
        }
    }

    /// Reserves the adapter's bus for a command's data, to memory (0) or from it (1). Returns when the data has
    /// crossed.
    fn cross_bus(&mut self, now: Time, command: u32, direction: usize) -> Time {
        let known = self.commands[command];
        let bus = &mut self.buses[self.setup.adapter_of(known.path) as usize][direction];
        bus.occupy(now, time_of(known.bytes, self.setup.adapter.bus_bytes_per_second))
    }

    /// Sends a command, and the data of a write, to the array.
    fn send_to_array(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let adapter = self.adapter();
        let known = &mut self.commands[command];
        let cable = &mut self.cables[known.path.0 as usize];
        known.link = cable.last_link();
        if cable.link().is_none() {
            return self.fail_command(now, command, calendar);
        }
        let sent = cable.send(now, known.data()[0], adapter);
        schedule_at(
            calendar,
            sent + adapter.wire,
            Event::CommandStage { command, stage: CommandStage::AtArray },
        );
    }

    /// Whether the link that carried a command was lost.
    fn is_cut(&self, command: u32) -> bool {
        let known = &self.commands[command];
        self.cables[known.path.0 as usize].link() != Some(known.link)
    }

    /// The array works on a command.
    fn serve(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.is_cut(command) {
            return self.fail_command(now, command, calendar);
        }
        let known = self.commands[command];
        let served = self.modules.serve(now, known.bytes, known.is_write);
        schedule_at(calendar, served, Event::CommandStage { command, stage: CommandStage::Served });
    }

    /// Sends a status, and the data of a read, from the array.
    fn send_response(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.is_cut(command) {
            return self.fail_command(now, command, calendar);
        }
        let adapter = self.adapter();
        let known = &self.commands[command];
        let sent = self.cables[known.path.0 as usize].receive(now, known.data()[1], adapter);
        schedule_at(
            calendar,
            sent + adapter.wire,
            Event::CommandStage { command, stage: CommandStage::ResponseReceived },
        );
    }

    /// The response has arrived at the adapter.
    fn receive_response(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if self.is_cut(command) {
            return self.fail_command(now, command, calendar);
        }
        self.totals.answered += 1;
        let there = if self.commands[command].is_write { now } else { self.cross_bus(now, command, 0) };
        schedule_at(
            calendar,
            there + self.adapter().posted,
            Event::CommandStage { command, stage: CommandStage::CompletionPosted },
        );
    }

    /// Fails a command: the adapter reports it some time after the link was lost.
    fn fail_command(&mut self, now: Time, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.commands[command].is_lost = true;
        self.totals.given_up += 1;
        let adapter = self.adapter();
        let cable = &self.cables[self.commands[command].path.0 as usize];
        let noticed = now.max(cable.pulled_at() + adapter.detection);
        schedule_at(
            calendar,
            noticed + adapter.posted,
            Event::CommandStage { command, stage: CommandStage::CompletionPosted },
        );
    }
}

/// Schedules a command's next stage.
fn schedule_stage(
    span: Span,
    command: u32,
    stage: CommandStage,
    calendar: &mut Calendar<Event, impl Queue<Event>>,
) {
    calendar.schedule_in(span, Event::CommandStage { command, stage });
}
