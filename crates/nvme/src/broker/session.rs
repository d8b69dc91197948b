//! A client, as the broker sees it.

use super::area::{BrokerArea, Layout};
use super::ring::Broken;
use super::share::OpenShare;
use super::wire::{Outcome, Request, Said};
use super::{BrokerError, BrokerEvent, memory, no_resource, socket};
use crate::chunk::{ChunkError, Operation};
use crate::unflushed::{LossReader, Losses};
use dma::Ram;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Who a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) process: i32,
    pub(super) user: u32,
}

/// A client with a queue.
#[derive(Debug)]
pub(super) struct Session {
    /// Declared before the socket, so that it is closed before: the client waits for the socket's end.
    _holds: Holds,
    /// Written by the client when it has begun requests while the broker sleeps. The client has the same description and may make it block,
    /// so it is neither read nor written here.
    requested: OwnedFd,
    /// Wakes the client when requests have ended while it sleeps. Its end is the client's.
    completed: OwnedFd,
    area: BrokerArea,
    share: Arc<OpenShare>,
    /// By slot: whether its request is in flight.
    in_flight: Vec<bool>,
    number_in_flight: usize,
    /// The client is gone or sent what can't be. Nothing more is taken from it.
    is_leaving: bool,
    peer: Peer,
    losses: LossReader,
    /// The losses that results have told, until the client says that it has fetched them.
    untold: Option<Losses>,
}

/// What is freed when a client has left and its requests have ended.
#[derive(Debug)]
#[expect(dead_code, reason = "only kept")]
pub(super) struct Holds {
    /// Locks on blocks that its requests may write.
    pub(super) locks: Vec<OwnedFd>,
    /// Counts as one of the broker's queues.
    pub(super) queue: Arc<()>,
}

/// What a new client gets.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) memory: OwnedFd,
    pub(super) requested: OwnedFd,
    pub(super) completed: OwnedFd,
}

/// A client's next request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    /// There is none.
    Nothing,
    /// It is not allowed, and has ended.
    Refused,
    /// It is to be executed.
    Allowed {
        slot: u16,
        /// On the namespace's blocks.
        operation: Operation,
    },
}

impl Session {
    /// A session with new memory.
    pub(super) fn new(
        peer: Peer,
        share: Arc<OpenShare>,
        layout: Layout,
        holds: Holds,
        losses: LossReader,
    ) -> Result<(Self, Given), BrokerError> {
        let bytes = layout.bytes(rustix::param::page_size() as u64);
        let memory = memory::of_fixed_size("iotoll-client", bytes).map_err(no_resource)?;
        let ram = Ram::of_file(memory.as_fd()).map_err(BrokerError::Resource)?;
        let area = BrokerArea::of_broker(ram, layout);
        let area = area.map_err(|error| BrokerError::Resource(io::Error::other(error)))?;
        let requested = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(no_resource)?;
        let (completed, woken) = socket::waker().map_err(no_resource)?;
        let copy = requested.try_clone().map_err(BrokerError::Resource)?;
        let given = Given { memory, requested: copy, completed: woken };
        let session = Self {
            requested,
            completed,
            area,
            share,
            in_flight: vec![false; layout.slots.into()],
            number_in_flight: 0,
            is_leaving: false,
            _holds: holds,
            peer,
            losses,
            untold: None,
        };
        Ok((session, given))
    }

    /// That it has come.
    pub(super) fn arrival(&self) -> BrokerEvent {
        let Peer { process, user } = self.peer;
        BrokerEvent::Came { process, user, socket: self.share.is.socket.clone() }
    }

    /// That it has left.
    pub(super) fn departure(&self) -> BrokerEvent {
        let Peer { process, user } = self.peer;
        BrokerEvent::Left { process, user }
    }

    /// Has `events` tell of this client. They come once for each change: what has come is not taken from the files.
    pub(super) fn watch(&self, events: &OwnedFd) -> Result<(), Errno> {
        let once = epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(0);
        epoll::add(events, &self.requested, data, epoll::EventFlags::IN | once)?;
        epoll::add(events, &self.completed, data, epoll::EventFlags::HUP | once)
    }

    /// Ends that: the client may have copies of these files.
    pub(super) fn forget(&self, events: &OwnedFd) {
        let _ = epoll::delete(events, &self.requested);
        let _ = epoll::delete(events, &self.completed);
    }

    /// The most bytes of a request: the size of its buffer.
    pub(super) fn request_bytes(&self) -> usize {
        self.area.layout().request_bytes as usize
    }

    /// Notes that the client is gone, if it is.
    pub(super) fn look_for_end(&mut self) {
        self.is_leaving |= socket::has_ended(&self.completed);
    }

    /// Whether nothing more is taken from the client.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Whether nothing of the client is left to do.
    pub(super) fn has_left(&self) -> bool {
        self.is_leaving && self.number_in_flight == 0
    }

    /// The client's next request.
    pub(super) fn next(&mut self, blocks_max: u64) -> Next {
        if self.is_leaving {
            return Next::Nothing;
        }
        self.take(blocks_max).unwrap_or_else(|Broken| {
            self.is_leaving = true;
            Next::Nothing
        })
    }

    fn take(&mut self, blocks_max: u64) -> Result<Next, Broken> {
        let Some(words) = self.area.requests.pop()? else { return Ok(Next::Nothing) };
        let (said, is_told) = Said::decode(words).ok_or(Broken)?;
        if let Some(losses) = self.untold.take_if(|_| is_told) {
            self.losses.note_told(&losses);
        }
        let Said::Request(Request { slot, operation }) = said else {
            self.is_leaving = true;
            return Ok(Next::Nothing);
        };
        let is_in_flight = self.in_flight.get_mut(usize::from(slot)).ok_or(Broken)?;
        if std::mem::replace(is_in_flight, true) {
            return Err(Broken);
        }
        self.number_in_flight += 1;
        Ok(match self.share.is.allow(operation, blocks_max) {
            Some(operation) => Next::Allowed { slot, operation },
            None => {
                self.end(slot, Outcome::Refused);
                Next::Refused
            }
        })
    }

    /// Copies a write's data.
    pub(super) fn copy_in(&self, slot: u16, into: &mut [u8]) -> bool {
        self.area.read(slot, into).is_ok()
    }

    /// Copies a read's data.
    pub(super) fn copy_out(&self, slot: u16, from: &[u8]) -> bool {
        self.area.write(slot, from).is_ok()
    }

    /// Ends a flush. It fails if writes were lost with a path, of whichever client, that this one was not told of.
    pub(super) fn end_flush(&mut self, slot: u16, error: Option<&ChunkError>) {
        let outcome = match self.losses.news() {
            Some(losses) if error.is_none() => {
                self.untold = Some(losses);
                Outcome::WritesLost
            }
            _ => Outcome::of(error),
        };
        self.end(slot, outcome);
    }

    /// Ends a request. The client sees it after [`publish`](Self::publish).
    pub(super) fn end(&mut self, slot: u16, outcome: Outcome) {
        if let Some(is_in_flight) = self.in_flight.get_mut(usize::from(slot)) {
            self.number_in_flight -= usize::from(std::mem::replace(is_in_flight, false));
            self.area.results.push(outcome.encode(slot));
        }
    }

    /// Shows the client what has ended, and wakes it if it sleeps.
    pub(super) fn publish(&mut self) {
        if self.area.results.publish() {
            socket::wake(&self.completed);
        }
    }

    /// Says to the client that the broker is about to sleep. Returns false if there are requests.
    pub(super) fn announce_sleep(&self) -> bool {
        self.is_leaving || self.area.requests.announce_sleep()
    }
}
