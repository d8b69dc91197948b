//! Benchmark of the network between two hosts: requests and answers over UDP and TCP, and streams over TCP.
//!
//! ```text
//!   client: run_net                          server: serve
//!     |  handshake     both prove that they know the secret; keys of this session
//!     v                                        v
//!   frame::Channel   <-- requests, replies -->   session       one at a time
//!     |                                        |
//!   load             <-- datagrams, streams -->  responder     a socket and a thread for each instance, on both sides
//!     v                                        v
//!   cpu_time         read on both sides before and after the measured time; the server sends its readings over the channel
//! ```
//!
//! # What is measured
//!
//! - The round trip of an application: from before the system call that sends to after the one that receives. It contains both hosts' network
//!   stacks, adapters and schedulers, and the network.
//! - Each instance has one request in flight (a closed loop). A slow answer delays the requests after it, so latencies are service times under
//!   this load, not what requests at a fixed rate would see ("coordinated omission", Gil Tene, 2013).
//! - A datagram without an answer is sent again after [`LOST_AFTER`]. It counts as lost, and as no latency.
//! - CPU time of the whole host includes interrupts and softirqs, where drivers map and unmap most buffers. With CONFIG_IRQ_TIME_ACCOUNTING
//!   the process's time excludes them; without it, it includes those that interrupted the process, as a softirq within `sendmsg` does.
//!
//! # Pitfalls
//!
//! - The secret authenticates both sides and all frames of the channel. Nothing is encrypted, and whoever is on the path can read a session's
//!   tokens and send datagrams in its name: these disturb figures, and nothing else.

mod address;
mod client;
mod cpu_time;
mod frame;
mod handshake;
mod load;
mod message;
mod path;
mod plausibility;
mod profile;
mod responder;
mod result;
mod secret;
mod server;
mod session;
mod socket_options;
mod timed;
mod warning;

pub use address::{BadAddress, HostPort, ListenAddress, PORT_DEFAULT};
pub use client::run_net;
pub use frame::FrameError;
pub use path::{NetAdapter, NetPath};
pub use profile::NotRun;
pub use result::{
    HostCpu, NET_SCHEMA, NetBenchmark, NetCell, NetCpu, NetHost, NetModel, NetRound, NetSettings, NetTest,
    SideCpu, Usage,
};
pub use secret::{Secret, SecretError};
pub use server::{ServeLimits, ServerEvent, serve};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Instances of a test, at most.
pub const INSTANCES_MAX: u16 = 1024;
/// The payload of the largest UDP datagram over IPv4.
pub const UDP_BYTES_MAX: u64 = 65_507;
/// The largest message over TCP.
pub const TCP_BYTES_MAX: u64 = 1 << 20;
/// Token and number of a datagram: the smallest message over UDP.
pub const UDP_BYTES_MIN: u64 = 16;
/// A datagram without an answer after this time is lost.
pub const LOST_AFTER: Duration = Duration::from_millis(200);

/// How long a read waits before it is asked whether to end.
const POLL: Duration = Duration::from_millis(50);
/// How long the other side may take to answer, besides the time of a test.
const REPLY_MAX: Duration = Duration::from_secs(10);
/// The longest round, whatever a server is told to allow: a day.
const SECONDS_MAX: f64 = 86_400.0;
/// Without progress for so long, an instance gives up.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// Of a thread that moves data, whose buffers are on the heap.
const STACK_BYTES: usize = 128 << 10;

/// Allows this process as many open files as it may have: 1,024 instances need more than the usual limit.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without more, what can't be opened is an error of its own.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Why a measurement or a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The server's address can't be found.
    #[error("{host}: no address of this name")]
    NoAddress {
        /// The host.
        host: String,
        /// The reason.
        source: io::Error,
    },
    /// The server can't be reached.
    #[error("{address}: can't connect; expected `iotoll bench net --listen` there, and no firewall between")]
    Connect {
        /// Its address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The address to listen on can't be used.
    #[error("{address}: can't listen; expected an address of this host and a free port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The handshake failed.
    #[error("{address}: no session; expected `iotoll bench net --listen` there, with the same secret")]
    Handshake {
        /// The other side.
        address: SocketAddr,
        /// The reason.
        source: FrameError,
    },
    /// The server serves somebody else.
    #[error("{address} refuses: {reason}")]
    Refused {
        /// The server.
        address: SocketAddr,
        /// Its reason.
        reason: String,
    },
    /// The session ended before its time.
    #[error("the session with {address} ended")]
    Session {
        /// The other side.
        address: SocketAddr,
        /// The reason.
        source: FrameError,
    },
    /// A socket of a test failed.
    #[error("{cell}: {what}")]
    Socket {
        /// The test, size and number of instances.
        cell: String,
        /// What was tried.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// No answer came for a long time.
    #[error(
        "{cell}: nothing came back for {} s; expected no firewall between the hosts for the server's UDP ports, and a network that carries datagrams of this size",
        STALLED_AFTER.as_secs()
    )]
    Stalled {
        /// The test, size and number of instances.
        cell: String,
    },
    /// A size that a test can't have.
    #[error("{test} with messages of {bytes} bytes; expected {min} to {max}")]
    Size {
        /// The test.
        test: NetTest,
        /// The size.
        bytes: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// The server allows less time.
    #[error("{seconds} s for a round; expected at most {max} s, or a server with a larger --seconds-max")]
    Seconds {
        /// What was asked for.
        seconds: f64,
        /// What the server allows.
        max: f64,
    },
    /// A server counted more bytes of a stream than were sent.
    #[error(
        "{cell}: {address} says that it received {received} bytes; expected at most {sent}, as many as were sent"
    )]
    Received {
        /// The test, size and number of instances.
        cell: String,
        /// The server.
        address: SocketAddr,
        /// What it counted.
        received: u64,
        /// What the client sent.
        sent: u64,
    },
    /// A thread can't be started, or panicked.
    #[error("a thread failed")]
    Thread(#[source] io::Error),
    /// The caller's flag was set.
    #[error("stopped before the end: no figures")]
    Stopped,
}
