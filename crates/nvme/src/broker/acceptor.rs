//! Lets clients in: a thread for each share, so that whoever hinders it hinders no other share.
//!
//! A client passes file descriptors. To look at one or to close it may take as long as its file system or its connection likes. So this
//! happens here, and nobody waits for this thread.

use super::area::Layout;
use super::session::{Given, Holds, Peer, Session};
use super::share::OpenShare;
use super::wire::{About, Hello, MESSAGE_BYTES};
use super::worker::WorkerHandle;
use super::{BrokerError, BrokerEvent, EventHandler, no_resource, socket};
use crate::unflushed::LossReader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for connections: a stop is noticed after that.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);
/// A new connection must send its message within this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections of a share that have not sent their message.
const PENDING_MAX: usize = 64;

/// What all clients of a broker get.
#[derive(Debug)]
pub(super) struct BrokerConfig {
    pub(super) block_shift: u8,
    /// Most queues of a share.
    pub(super) queues: usize,
    /// Most requests of a queue.
    pub(super) requests: u16,
    /// Most bytes of a request.
    pub(super) request_bytes: u64,
    /// Another one for each start of a broker.
    pub(super) instance: u64,
    /// The worker whose turn it is to get a client.
    pub(super) turn: AtomicUsize,
    /// Copied for each client, who is told of each loss.
    pub(super) losses: LossReader,
}

/// The acceptor of a share.
pub(super) struct Acceptor {
    pub(super) share: Arc<OpenShare>,
    pub(super) config: Arc<BrokerConfig>,
    pub(super) handles: Vec<WorkerHandle>,
    pub(super) on_event: EventHandler,
}

/// A connection that has not said what it wants.
struct PendingConnection {
    socket: OwnedFd,
    since: Instant,
}

/// What became of a connection.
enum Answer {
    /// Its message has not come.
    Later(PendingConnection),
    /// It wants no more: it was told of the disk, or has only looked whether somebody listens.
    Ended,
    /// It has a queue.
    Served(Box<Session>),
    /// Why not.
    Refused(String),
}

impl Acceptor {
    /// Accepts connections until `stop` is set, and gives clients to the workers in turn.
    pub(super) fn run(&self, stop: &AtomicBool) {
        let mut pending: Vec<PendingConnection> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.wait_for_connections(&pending);
            self.accept(&mut pending);
            for connection in std::mem::take(&mut pending) {
                match self.answer(connection) {
                    Answer::Later(connection) => pending.push(connection),
                    Answer::Ended => {}
                    Answer::Refused(why) => {
                        let why = format!("{}: {why}", self.share.is.socket.display());
                        (self.on_event)(BrokerEvent::Refused { why });
                    }
                    Answer::Served(session) => {
                        (self.on_event)(session.arrival());
                        let turn = self.config.turn.fetch_add(1, Ordering::Relaxed);
                        self.handles[turn % self.handles.len()].give(*session);
                    }
                }
            }
        }
    }

    /// Waits until somebody connects or sends a message.
    fn wait_for_connections(&self, pending: &[PendingConnection]) {
        let has_room = pending.len() < PENDING_MAX;
        let listener = has_room.then_some(&self.share.listener.socket);
        let files = listener.into_iter().chain(pending.iter().map(|connection| &connection.socket));
        let mut polled: Vec<PollFd<'_>> = files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: ACCEPT_INTERVAL.subsec_nanos().into() };
        // Interrupted or not: what follows looks at all of them.
        let _ = poll(&mut polled, Some(&timeout));
    }

    fn accept(&self, pending: &mut Vec<PendingConnection>) {
        while pending.len() < PENDING_MAX {
            match accept_with(&self.share.listener.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => pending.push(PendingConnection { socket, since: Instant::now() }),
                Err(Errno::AGAIN) => return,
                // No descriptor or memory is left: the connection waits, and so must this.
                Err(_) => return thread::sleep(ACCEPT_INTERVAL),
            }
        }
    }

    /// Answers a connection's message, if it has come.
    fn answer(&self, connection: PendingConnection) -> Answer {
        let refused = |why: &str| Answer::Refused(why.to_owned());
        let mut bytes = [0; MESSAGE_BYTES];
        let (length, files) = match socket::receive(&connection.socket, &mut bytes) {
            Ok((0, _)) => return Answer::Ended,
            Ok(received) => received,
            Err(Errno::AGAIN) if connection.since.elapsed() < HELLO_TIMEOUT => {
                return Answer::Later(connection);
            }
            Err(Errno::AGAIN) => return refused("a connection sent nothing"),
            Err(error) => return refused(&error.to_string()),
        };
        let Some(hello) = Hello::decode(&bytes[..length]) else {
            return refused("a connection speaks another protocol");
        };
        if !files.iter().all(|file| self.share.is_of_locks(file)) {
            return refused("a client sent a file that is not the share's");
        }
        let is_full = Arc::strong_count(&self.share.queues) > self.config.queues;
        match (hello.slots, is_full) {
            (0, _) => {
                let told = self.share.locks_for_client().and_then(|locks| {
                    socket::send(&connection.socket, &self.about(0).encode(), &[locks.as_fd()])
                });
                told.map_or_else(|error| refused(&error.to_string()), |()| Answer::Ended)
            }
            (_, true) => {
                // That no queue was given says why.
                let _ = socket::send(&connection.socket, &self.about(0).encode(), &[]);
                refused("all queues are in use")
            }
            (slots, false) => self.open_session(&connection.socket, slots, files).map_or_else(
                |error| Answer::Refused(error.to_string()),
                |session| Answer::Served(Box::new(session)),
            ),
        }
    }

    /// What the share is.
    fn about(&self, slots: u16) -> About {
        About {
            blocks: self.share.is.blocks,
            block_shift: self.config.block_shift,
            is_writable: self.share.is.is_writable,
            slots,
            request_bytes: self.config.request_bytes,
            instance: self.config.instance,
        }
    }

    /// A session for a client, which is told of it.
    fn open_session(
        &self,
        connection: &OwnedFd,
        slots: u16,
        locks: Vec<OwnedFd>,
    ) -> Result<Session, BrokerError> {
        let (process, user) = socket::peer(connection).map_err(no_resource)?;
        let slots = slots.min(self.config.requests);
        let layout = Layout { slots, request_bytes: self.config.request_bytes };
        let holds = Holds { locks, queue: Arc::clone(&self.share.queues) };
        let peer = Peer { process, user };
        let (session, given) =
            Session::new(peer, Arc::clone(&self.share), layout, holds, self.config.losses.another())?;
        let Given { memory, requested, completed } = &given;
        let files: [BorrowedFd<'_>; 3] = [memory.as_fd(), requested.as_fd(), completed.as_fd()];
        socket::send(connection, &self.about(slots).encode(), &files).map_err(no_resource)?;
        Ok(session)
    }
}
