//! The broker: sockets, their new clients, and the threads that serve them.

use super::area::Layout;
use super::session::{Given, Holds, Peer, Session};
use super::share::{OpenShare, Share};
use super::wire::{About, Hello, MESSAGE_BYTES};
use super::worker::Worker;
use super::{BrokerError, socket};
use crate::chunk::{Chunk, Drive, RetryPolicy, Waiting};
use crate::{Controller, Namespace, PAGE_BYTES};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for connections: a stop is noticed after that.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);
/// A new connection must send its message within this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections that have not sent their message.
const STRANGERS_MAX: usize = 64;

/// What a broker takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Threads, each with a queue pair of the controller and a CPU that it keeps busy while its commands are in flight.
    pub threads: usize,
    /// Queues of clients: one for each of their threads that does I/O.
    pub queues: usize,
    /// Requests at once, of each queue and of each thread.
    pub requests: u16,
    /// Most bytes of a request.
    pub request_bytes: u64,
    /// Timeouts and retries of commands.
    pub retry_policy: RetryPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        let retry_policy = RetryPolicy::default();
        Self { threads: 1, queues: 256, requests: 128, request_bytes: 32 << 10, retry_policy }
    }
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerEvent {
    /// A process has a queue.
    Came {
        /// Its number.
        process: i32,
        /// Its user's.
        user: u32,
        /// The share's socket.
        socket: PathBuf,
    },
    /// A queue's process is gone or has closed it, and none of its requests is in flight.
    Left {
        /// Its number.
        process: i32,
        /// Its user's.
        user: u32,
    },
    /// A connection was refused.
    Refused {
        /// Why.
        why: String,
    },
}

/// Serves parts of a namespace to other processes.
pub struct Broker {
    controller: Arc<Mutex<Controller>>,
    namespace: Namespace,
    shares: Vec<Arc<OpenShare>>,
    limits: Limits,
    /// Most bytes of a request: of the limits, or what the controller can.
    request_bytes: u64,
    instance: u64,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Broker").field("shares", &self.shares).finish_non_exhaustive()
    }
}

/// A connection that has not said what it wants.
struct Stranger {
    socket: OwnedFd,
    share: Arc<OpenShare>,
    since: Instant,
}

/// A thread that serves, from outside.
struct Desk {
    new_clients: Sender<Session>,
    wake: OwnedFd,
}

/// A worker, and its desk.
fn hire(disk: Chunk) -> Result<(Worker, Desk), BrokerError> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let wake = wake.map_err(|error| BrokerError::Resource(error.into()))?;
    let (new_clients, to_worker): (Sender<Session>, Receiver<Session>) = channel();
    let copy = wake.try_clone().map_err(BrokerError::Resource)?;
    Ok((Worker::new(disk, to_worker, copy), Desk { new_clients, wake }))
}

impl Broker {
    /// Opens the sockets of shares of a namespace. Shares may overlap: then their processes share blocks, but know nothing of each other's virtual
    /// LUNs.
    ///
    /// # Errors
    /// [`BrokerError::Socket`], [`BrokerError::InUse`], [`BrokerError::NoBlocks`], [`BrokerError::Resource`]
    pub fn new(
        controller: Arc<Mutex<Controller>>,
        namespace: Namespace,
        shares: Vec<Share>,
        limits: Limits,
    ) -> Result<Self, BrokerError> {
        let open = |share| OpenShare::new(share, namespace.format.blocks).map(Arc::new);
        let shares = shares.into_iter().map(open).collect::<Result<_, _>>()?;
        let block_bytes = namespace.format.block_bytes();
        let request_bytes = limits.request_bytes.min(namespace.transfer_bytes_max).max(block_bytes);
        let request_bytes = request_bytes.next_multiple_of(PAGE_BYTES.max(block_bytes));
        let instance = RandomState::new().build_hasher().finish();
        Ok(Self { controller, namespace, shares, limits, request_bytes, instance })
    }

    /// Serves until `stop` is set. Then commands in flight end, and clients get errors for others. It tells `on_event` of clients.
    ///
    /// # Errors
    /// [`BrokerError::Queue`] if the controller has no queue, or fails to delete one; [`BrokerError::Resource`]
    pub fn serve(
        self,
        stop: &AtomicBool,
        on_event: &(dyn Fn(BrokerEvent) + Sync),
    ) -> Result<(), BrokerError> {
        let workers = (0..self.limits.threads.max(1)).map(|_| hire(self.queue()?));
        let (workers, desks): (Vec<_>, Vec<_>) = workers.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let served = thread::scope(|scope| {
            let spawn = |worker: Worker| scope.spawn(move || worker.run(stop, on_event));
            let threads: Vec<_> = workers.into_iter().map(spawn).collect();
            self.welcome(&desks, stop, on_event);
            let end = |thread: thread::ScopedJoinHandle<'_, Result<(), crate::chunk::ChunkError>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(end).collect::<Vec<_>>()
        });
        Ok(served.into_iter().collect::<Result<(), _>>()?)
    }

    /// A queue of the controller for a worker.
    fn queue(&self) -> Result<Chunk, BrokerError> {
        let Limits { requests, retry_policy, .. } = self.limits;
        let (controller, waiting) = (Arc::clone(&self.controller), Waiting::Polling);
        let bytes = self.request_bytes;
        Ok(Drive::open(controller, self.namespace, requests, bytes, waiting, retry_policy)?.into())
    }

    /// Accepts connections, and gives clients to the workers in turn.
    fn welcome(&self, desks: &[Desk], stop: &AtomicBool, on_event: &(dyn Fn(BrokerEvent) + Sync)) {
        let mut strangers: Vec<Stranger> = Vec::new();
        // Each queue has a copy.
        let queues = Arc::new(());
        let mut next_desks = desks.iter().cycle();
        while !stop.load(Ordering::Relaxed) {
            self.wait_for_connections(&strangers);
            self.accept(&mut strangers);
            for stranger in std::mem::take(&mut strangers) {
                match self.answer(stranger, &queues) {
                    Answer::Later(stranger) => strangers.push(stranger),
                    Answer::Told => {}
                    Answer::Refused(why) => on_event(BrokerEvent::Refused { why }),
                    Answer::Served(session) => {
                        let Some(desk) = next_desks.next() else { return };
                        on_event(session.arrival());
                        if desk.new_clients.send(*session).is_ok() {
                            desk.wake();
                        }
                    }
                }
            }
        }
        desks.iter().for_each(Desk::wake);
    }

    /// Waits until somebody connects or sends a message.
    fn wait_for_connections(&self, strangers: &[Stranger]) {
        let has_room = strangers.len() < STRANGERS_MAX;
        let listeners = self.shares.iter().filter(|_| has_room).map(|share| &share.listener);
        let files = listeners.chain(strangers.iter().map(|stranger| &stranger.socket));
        let mut polled: Vec<PollFd<'_>> = files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: ACCEPT_INTERVAL.subsec_nanos().into() };
        // Interrupted or not: what follows looks at all of them.
        let _ = poll(&mut polled, Some(&timeout));
    }

    fn accept(&self, strangers: &mut Vec<Stranger>) {
        for share in &self.shares {
            while strangers.len() < STRANGERS_MAX {
                match accept_with(&share.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                    Ok(socket) => {
                        strangers.push(Stranger { socket, share: Arc::clone(share), since: Instant::now() });
                    }
                    Err(Errno::AGAIN) => break,
                    // No descriptor or memory is left: the connection waits, and so must this.
                    Err(_) => {
                        thread::sleep(ACCEPT_INTERVAL);
                        break;
                    }
                }
            }
        }
    }

    /// Answers a connection's message, if it has come.
    fn answer(&self, stranger: Stranger, queues: &Arc<()>) -> Answer {
        let refused = |why: &str| Answer::Refused(format!("{}: {why}", stranger.share.is.socket.display()));
        let mut bytes = [0; MESSAGE_BYTES];
        let (length, files) = match socket::receive(&stranger.socket, &mut bytes) {
            Ok(received) => received,
            Err(Errno::AGAIN) if stranger.since.elapsed() < HELLO_TIMEOUT => return Answer::Later(stranger),
            Err(Errno::AGAIN) => return refused("a connection sent nothing"),
            Err(error) => return refused(&error.to_string()),
        };
        let Some(hello) = Hello::decode(&bytes[..length]) else {
            return refused("a connection speaks another protocol");
        };
        if !files.iter().all(|file| stranger.share.is_of_locks(file)) {
            return refused("a client sent a file that is not the share's");
        }
        let is_full = Arc::strong_count(queues) > self.limits.queues;
        match (hello.slots, is_full) {
            (0, _) => {
                let about = self.about(&stranger.share, 0).encode();
                let sent = socket::send(&stranger.socket, &about, &[stranger.share.locks.as_fd()]);
                sent.map_or_else(|error| refused(&error.to_string()), |()| Answer::Told)
            }
            (_, true) => {
                // That no queue was given says why.
                let _ = socket::send(&stranger.socket, &self.about(&stranger.share, 0).encode(), &[]);
                refused("all queues are in use")
            }
            (slots, false) => {
                let socket = stranger.share.is.socket.clone();
                let opened = self.open_session(stranger, slots, files, Arc::clone(queues));
                opened.map_or_else(
                    |error| Answer::Refused(format!("{}: {error}", socket.display())),
                    |session| Answer::Served(Box::new(session)),
                )
            }
        }
    }

    /// What a share is.
    fn about(&self, share: &OpenShare, slots: u16) -> About {
        About {
            blocks: share.is.blocks,
            block_shift: self.namespace.format.block_shift,
            is_writable: share.is.is_writable,
            slots,
            request_bytes: self.request_bytes,
            instance: self.instance,
        }
    }

    /// A session for a client, which is told of it.
    fn open_session(
        &self,
        stranger: Stranger,
        slots: u16,
        locks: Vec<OwnedFd>,
        queue: Arc<()>,
    ) -> Result<Session, BrokerError> {
        let no_resource = |error: Errno| BrokerError::Resource(error.into());
        let Stranger { socket, share, .. } = stranger;
        let credentials = sockopt::socket_peercred(&socket).map_err(no_resource)?;
        let peer = Peer { process: credentials.pid.as_raw_nonzero().get(), user: credentials.uid.as_raw() };
        let slots = slots.min(self.limits.requests);
        let about = self.about(&share, slots).encode();
        let copy = socket.try_clone().map_err(BrokerError::Resource)?;
        let layout = Layout { slots, request_bytes: self.request_bytes };
        let (session, given) = Session::new(socket, peer, share, layout, Holds { locks, queue })?;
        let Given { memory, requested, completed } = &given;
        let files: [BorrowedFd<'_>; 3] = [memory.as_fd(), requested.as_fd(), completed.as_fd()];
        socket::send(&copy, &about, &files).map_err(no_resource)?;
        Ok(session)
    }
}

/// What became of a connection.
enum Answer {
    /// Its message has not come.
    Later(Stranger),
    /// It was told of the disk, and wants no more.
    Told,
    /// It has a queue.
    Served(Box<Session>),
    /// Why not.
    Refused(String),
}

impl Desk {
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}
