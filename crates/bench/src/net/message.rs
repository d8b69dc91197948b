//! What client and server say to each other.

use super::path::NetPath;
use super::result::{NetTest, Usage};
use super::socket_options::SocketOptions;
use crate::host_summary::HostSummary;
use serde::{Deserialize, Serialize};

/// What a client asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Request {
    /// Sockets for a test.
    Prepare(Preparation),
    /// To answer from now on.
    Begin,
    /// The counts and CPU times until now.
    Sample,
    /// To close the test's sockets.
    End,
}

/// What the sockets are for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Preparation {
    /// The test.
    pub(super) test: NetTest,
    /// Bytes of a message.
    pub(super) bytes: u64,
    /// Sockets.
    pub(super) instances: u16,
    /// How long the test may take.
    pub(super) seconds: f64,
    /// Of the sockets.
    pub(super) options: SocketOptions,
    /// The client's ports, one for each instance of a test over UDP.
    pub(super) ports: Vec<u16>,
}

/// What a server replies.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    /// The session begins.
    Welcome(Box<Welcome>),
    /// The server serves somebody else.
    Busy,
    /// The sockets are there, with their ports if they are of UDP.
    Prepared {
        /// The number of the test in this session.
        cell: u64,
        /// The server's ports.
        ports: Vec<u16>,
    },
    /// It answers.
    Begun,
    /// Counts and CPU times.
    Sampled(Usage),
    /// The sockets are closed.
    Ended,
    /// What was asked for can't be had.
    Failed(String),
}

/// The server and what it allows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Welcome {
    /// The program and its version.
    pub(super) made_by: String,
    /// The machine.
    pub(super) machine: HostSummary,
    /// CPUs of the whole host, also those that the server may not run on; `None` if they can't be read.
    pub(super) host_cpus: Option<usize>,
    /// The way to the client.
    pub(super) path: NetPath,
    /// The boot of its kernel, to know whether both run on one.
    pub(super) boot: Option<String>,
    /// Reasons to doubt its figures.
    pub(super) warnings: Vec<String>,
    /// The longest test.
    pub(super) seconds_max: f64,
}
