//! The server: accepts connections, and has one session at a time.

use super::NetError;
use super::address::ListenAddress;
use super::frame::FrameError;
use super::handshake::{self, Greeting, Keys, Opening, Purpose};
use super::message::Reply;
use super::result::NetTest;
use super::secret::Secret;
use super::session::{Attached, Session};
use super::timed::Limit;
use super::{INSTANCES_MAX, POLL, REPLY_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a stranger may take to prove that it knows the secret.
const HANDSHAKE_MAX: Duration = Duration::from_secs(3);
/// Connections that have not proved anything yet; more are closed at once.
const STRANGERS_MAX: usize = 64;
/// How long a client waits for another's session to end. A session ends at the server a moment after its client: without the wait, a
/// client that starts at once after another could be refused.
const TURN_MAX: Duration = Duration::from_millis(500);

/// What a server allows.
#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// The longest round of a test, in seconds, with its warm-up.
    pub seconds_max: f64,
    /// Instances of a test.
    pub instances_max: u16,
    /// Whether to end after the first session.
    pub is_once: bool,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self { seconds_max: 65.0, instances_max: INSTANCES_MAX, is_once: false }
    }
}

/// What happens at a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// It listens.
    Listening {
        /// Its address and port.
        address: SocketAddr,
    },
    /// A session began.
    Began {
        /// The client.
        peer: SocketAddr,
    },
    /// A test was prepared.
    Test {
        /// The client.
        peer: SocketAddr,
        /// The test.
        test: NetTest,
        /// Bytes of a message.
        bytes: u64,
        /// Sockets.
        instances: u16,
    },
    /// A session ended.
    Ended {
        /// The client.
        peer: SocketAddr,
        /// Why, unless the client was done.
        error: Option<FrameError>,
    },
    /// A connection did not become a session.
    Refused {
        /// Who it was.
        peer: SocketAddr,
        /// Why; `None` if another session was running.
        error: Option<FrameError>,
    },
}

/// The session that is running.
struct Active {
    keys: Keys,
    attached: SyncSender<Attached>,
}

/// What all connections share.
struct Server<'s> {
    secret: &'s Secret,
    limits: &'s ServeLimits,
    made_by: &'s str,
    stop: &'s AtomicBool,
    event: &'s (dyn Fn(ServerEvent) + Sync),
    active: Mutex<Option<Active>>,
    /// `active` has become `None`.
    ended: Condvar,
    strangers: AtomicUsize,
    /// The only session of a server that serves one is over.
    is_done: AtomicBool,
}

/// Serves tests until `stop` is set. `event` may be called by several threads at once.
///
/// # Errors
/// [`NetError::Listen`] if the address can't be used, or connections can't be accepted.
pub fn serve(
    address: ListenAddress,
    secret: &Secret,
    limits: &ServeLimits,
    made_by: &str,
    stop: &AtomicBool,
    event: &(dyn Fn(ServerEvent) + Sync),
) -> Result<(), NetError> {
    super::raise_file_limit();
    let fail = |source| NetError::Listen { address: address.0, source };
    let listener = TcpListener::bind(address.0).map_err(fail)?;
    // Between poll and accept a connection may vanish.
    listener.set_nonblocking(true).map_err(fail)?;
    event(ServerEvent::Listening { address: listener.local_addr().map_err(fail)? });
    let server = Server {
        secret,
        limits,
        made_by,
        stop,
        event,
        active: Mutex::new(None),
        ended: Condvar::new(),
        strangers: AtomicUsize::new(0),
        is_done: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) && !server.is_done.load(Ordering::Relaxed) {
            let Some((stream, peer)) = accept(&listener).map_err(fail)? else { continue };
            if server.strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS_MAX {
                server.strangers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let server = &server;
            let started = thread::Builder::new()
                .name("net".to_owned())
                .spawn_scoped(scope, move || server.handle(stream, peer));
            if started.is_err() {
                server.strangers.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(())
    })
}

/// The next connection; `None` if there is none for a while.
fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: POLL.as_nanos() as i64 };
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    match listener.accept() {
        Ok((stream, peer)) => {
            stream.set_nonblocking(false)?;
            Ok(Some((stream, peer)))
        }
        // accept(2) passes on errors of the network, which concern that connection alone. Without descriptors, others have to end first.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error),
        Err(_) => {
            thread::sleep(Duration::from_millis(1));
            Ok(None)
        }
    }
}

impl<'s> Server<'s> {
    fn active(&self) -> MutexGuard<'_, Option<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection to its end.
    fn handle(&self, stream: TcpStream, peer: SocketAddr) {
        let known = self.identify(stream);
        self.strangers.fetch_sub(1, Ordering::Relaxed);
        match known {
            Ok(None) => {}
            Ok(Some((channel, keys))) => self.serve_client(channel, keys, peer),
            Err(error) => (self.event)(ServerEvent::Refused { peer, error: Some(error) }),
        }
    }

    /// Authenticates a connection. A data connection is passed to its session.
    fn identify(&self, stream: TcpStream) -> Result<Option<(super::frame::Channel, Keys)>, FrameError> {
        let limit = Limit::after(HANDSHAKE_MAX, self.stop);
        let greeted: (Greeting, Opening) = handshake::greet(&stream, limit)?;
        match greeted.1.purpose {
            Purpose::Control => {
                stream.set_nodelay(true)?;
                handshake::accept(stream, self.secret, &greeted, limit).map(Some)
            }
            Purpose::Data { instance, .. } => {
                let active = self.active();
                let owner = active.as_ref().filter(|active| handshake::is_of_session(&active.keys, &greeted));
                let handed = owner.and_then(|owner| owner.attached.try_send((instance, stream)).ok());
                handed.map(|()| None).ok_or(FrameError::Code)
            }
        }
    }

    /// Serves a client that knows the secret, unless another is being served for longer than [`TURN_MAX`].
    fn serve_client(&self, mut channel: super::frame::Channel, keys: Keys, peer: SocketAddr) {
        let (sender, attached) = sync_channel(usize::from(INSTANCES_MAX));
        {
            let is_served = |active: &mut Option<Active>| active.is_some();
            let (mut active, _) = self
                .ended
                .wait_timeout_while(self.active(), TURN_MAX, is_served)
                .unwrap_or_else(PoisonError::into_inner);
            if active.is_some() || self.is_done.load(Ordering::Relaxed) {
                drop(active);
                let _ = channel.send(&Reply::Busy, Limit::after(REPLY_MAX, self.stop));
                (self.event)(ServerEvent::Refused { peer, error: None });
                return;
            }
            *active = Some(Active { keys: keys.clone(), attached: sender });
        }
        (self.event)(ServerEvent::Began { peer });
        let (limits, stop, event) = (self.limits, self.stop, self.event);
        let ended = Session { channel, keys, peer, attached, limits, stop, event }.run(self.made_by);
        // Before another client gets its turn.
        self.is_done.store(limits.is_once, Ordering::Relaxed);
        *self.active() = None;
        self.ended.notify_one();
        event(ServerEvent::Ended { peer, error: ended.err() });
    }
}
