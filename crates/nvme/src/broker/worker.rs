//! A thread with a queue pair that executes requests of its clients.

use super::session::{Next, Session};
use super::wire::Outcome;
use super::{BrokerError, EventHandler, no_resource};
use crate::chunk::{Chunk, ChunkError, Operation};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Rounds without anything to do before the thread sleeps: some 20 us.
const IDLE_ROUNDS: u32 = 200;
/// Requests that one client has begun before all others are looked at, and results.
const REQUESTS_MAX: usize = 32;
/// Time between two looks whether clients are gone, and the longest sleep.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The longest sleep: a stop is noticed after that.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// A command of the disk.
#[derive(Debug, Clone, Copy)]
struct Command {
    /// The client's place.
    client: usize,
    /// The client's slot.
    slot: u16,
    operation: Operation,
}

/// A thread's queue and clients.
pub(super) struct Worker {
    disk: Chunk,
    /// By the disk's slot.
    commands: Vec<Option<Command>>,
    in_flight: usize,
    /// A client keeps its place as long as it has requests in flight.
    clients: Vec<Option<Session>>,
    new_clients: Receiver<Session>,
    /// Tells of new clients, of what they begin while the thread sleeps, and of the disk's interrupts.
    events: OwnedFd,
    /// The client whose turn is next, where not all requests have a slot.
    turn: usize,
    /// Data of one request, on its way between the client's memory and the controller's.
    data: Vec<u8>,
    /// When to look next whether clients are gone.
    next_check: Instant,
}

/// Where a worker gets clients.
pub(super) struct WorkerHandle {
    new_clients: Sender<Session>,
    wake: OwnedFd,
}

impl WorkerHandle {
    /// The same handle for another thread.
    pub(super) fn copy(&self) -> Result<Self, BrokerError> {
        let wake = self.wake.try_clone().map_err(BrokerError::Resource)?;
        Ok(Self { new_clients: self.new_clients.clone(), wake })
    }

    /// Gives the worker a client.
    pub(super) fn give(&self, session: Session) {
        // A worker that has ended needs none.
        if self.new_clients.send(session).is_ok() {
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Worker {
    /// A worker, and its handle.
    pub(super) fn with_handle(disk: Chunk) -> Result<(Self, WorkerHandle), BrokerError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(no_resource)?;
        let (new_clients, to_worker) = channel();
        let worker = Self::new(disk, to_worker, &wake).map_err(no_resource)?;
        Ok((worker, WorkerHandle { new_clients, wake }))
    }

    /// A worker without clients. `wake` can be read when there are new ones.
    fn new(disk: Chunk, new_clients: Receiver<Session>, wake: &OwnedFd) -> Result<Self, Errno> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let once = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&events, wake, epoll::EventData::new_u64(0), once)?;
        if let Some(completed) = disk.as_fd() {
            epoll::add(&events, completed, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Self {
            commands: vec![None; disk.requests()],
            data: vec![0; disk.request_bytes()],
            disk,
            in_flight: 0,
            clients: Vec::new(),
            new_clients,
            events,
            turn: 0,
            next_check: Instant::now(),
        })
    }

    /// Serves clients until `stop` is set, and then until no command is in flight. Sets it when the disk is lost.
    pub(super) fn run(mut self, stop: &AtomicBool, on_event: &EventHandler) -> Result<(), BrokerError> {
        let mut idle_rounds = 0;
        while !stop.load(Ordering::Relaxed) {
            self.admit();
            let taken = self.take_requests();
            let ended = self.end_requests();
            if self.drop_departed(on_event) && self.disk.lost().is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            if taken + ended > 0 {
                idle_rounds = 0;
                continue;
            }
            idle_rounds += 1;
            if idle_rounds <= IDLE_ROUNDS {
                std::hint::spin_loop();
            } else if self.in_flight == 0 || self.disk.as_fd().is_some() {
                // With interrupts it may also sleep while commands are in flight.
                self.sleep();
                idle_rounds = 0;
            } else {
                std::thread::yield_now();
            }
        }
        while self.in_flight > 0 {
            self.end_requests();
        }
        let lost = self.disk.lost().map(|why| BrokerError::Lost { why: why.to_owned() });
        let closed = self.disk.close();
        match lost {
            Some(lost) => Err(lost),
            None => Ok(closed?),
        }
    }

    /// Takes on new clients.
    fn admit(&mut self) {
        for new in self.new_clients.try_iter() {
            // One that can't be watched is dropped, which ends its connection.
            if new.watch(&self.events).is_err() {
                continue;
            }
            match self.clients.iter_mut().find(|client| client.is_none()) {
                Some(place) => *place = Some(new),
                None => self.clients.push(Some(new)),
            }
        }
    }

    /// Begins requests of all clients in turn, as many as there are slots. Returns how many it has taken: with few clients up to
    /// [`REQUESTS_MAX`] of each, however fast one makes more.
    fn take_requests(&mut self) -> usize {
        let (number, first) = (self.clients.len(), self.turn);
        let mut all = 0;
        for _ in 0..REQUESTS_MAX {
            let before = all;
            for client in (0..number).map(|more| (first + more) % number) {
                if self.in_flight == self.commands.len() {
                    self.turn = client;
                    return all;
                }
                all += usize::from(self.take_request(client));
            }
            if all == before {
                break;
            }
        }
        all
    }

    /// Begins the next request of a client, if there is one.
    fn take_request(&mut self, client: usize) -> bool {
        let Some(session) = &mut self.clients[client] else { return false };
        let bytes_max = self.disk.request_bytes().min(session.request_bytes());
        let blocks_max = (bytes_max / self.disk.block_bytes()) as u64;
        let (slot, operation) = match session.next(blocks_max) {
            Next::Nothing if session.is_leaving() => {
                self.next_check = Instant::now();
                return false;
            }
            Next::Nothing => return false,
            Next::Refused => return true,
            Next::Allowed { slot, operation } => (slot, operation),
        };
        let block_bytes = self.disk.block_bytes();
        let (to_write, to_read) =
            (operation.blocks_written() * block_bytes, operation.blocks_read() * block_bytes);
        let data = &mut self.data[..to_write];
        if !session.copy_in(slot, data) {
            session.end(slot, Outcome::Refused);
            return true;
        }
        match self.disk.begin(operation, data, to_read) {
            Ok(request) => {
                let command = Command { client, slot, operation };
                self.commands[request.slot()] = Some(command);
                self.in_flight += 1;
            }
            Err(error) => end(session, slot, operation, Some(&error)),
        }
        true
    }

    /// Ends requests whose commands have ended. Returns their number.
    fn end_requests(&mut self) -> usize {
        let Self { disk, commands, clients, data, in_flight, .. } = self;
        let block_bytes = disk.block_bytes();
        disk.ring_doorbell();
        let ended = disk.poll(|completion| {
            let Some(command) = commands[completion.request().slot()].take() else { return };
            *in_flight -= 1;
            let Some(session) = &mut clients[command.client] else { return };
            let data = &mut data[..command.operation.blocks_read() * block_bytes];
            let result = completion.finish(data);
            if result.is_ok() && !data.is_empty() {
                session.copy_out(command.slot, data);
            }
            end(session, command.slot, command.operation, result.as_ref().err());
        });
        clients.iter_mut().flatten().for_each(Session::publish);
        ended
    }

    /// Drops clients that are gone, now and then. Returns whether it has looked.
    fn drop_departed(&mut self, on_event: &EventHandler) -> bool {
        let now = Instant::now();
        if now < self.next_check {
            return false;
        }
        self.next_check = now + CHECK_INTERVAL;
        for place in &mut self.clients {
            if let Some(session) = place {
                session.look_for_end();
            }
            if let Some(gone) = place.take_if(|session| session.has_left()) {
                gone.forget(&self.events);
                on_event(gone.departure());
            }
        }
        true
    }

    /// Sleeps until a client has begun a request or has ended, a new one comes, or the disk has completed a command.
    fn sleep(&mut self) {
        if !self.clients.iter().flatten().all(Session::announce_sleep) || !self.disk.announce_sleep() {
            return;
        }
        // Commands in flight may have to be aborted.
        let longest = if self.in_flight > 0 { CHECK_INTERVAL } else { SLEEP_MAX };
        let timeout = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        // Interrupted or not: what follows looks at all clients.
        let mut events = [MaybeUninit::uninit(); 64];
        let _ = epoll::wait(&self.events, &mut events, Some(&timeout));
        self.next_check = Instant::now();
    }
}

/// Ends a client's request as its command has ended.
fn end(session: &mut Session, slot: u16, operation: Operation, error: Option<&ChunkError>) {
    match operation {
        Operation::Flush => session.end_flush(slot, error),
        _ => session.end(slot, Outcome::of(error)),
    }
}
