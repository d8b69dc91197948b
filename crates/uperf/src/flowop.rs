//! One step of a transaction.

use des::Span;

/// A step, with its options; where an option is absent, uperf's own default holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flowop {
    /// Its line in the file, from 1.
    pub line: u32,
    /// What is done.
    pub operation: Operation,
    /// Of which connection; the last that was opened where this is absent.
    pub connection: Option<u32>,
    /// The other host.
    pub remote_host: Option<String>,
    /// The address on this one.
    pub local_host: Option<String>,
    /// The port on the other host.
    pub port: Option<u16>,
    /// The protocol of a new connection.
    pub protocol: Option<Protocol>,
    /// What is transferred at a time.
    pub size: Option<Size>,
    /// What the other side transfers at a time, where that is something else.
    pub other_size_bytes: Option<u32>,
    /// How often the step is done in a transaction.
    pub count: u32,
    /// How many calls each of these makes.
    pub repeat: u32,
    /// Messages of one call.
    pub batch_size: u32,
    /// The socket's buffers.
    pub window_bytes: Option<u32>,
    /// How long it takes, or may take.
    pub duration: Option<Span>,
    /// How long it waits for data.
    pub timeout: Option<Span>,
    /// Small segments are sent at once.
    pub is_nodelay: bool,
    /// It doesn't wait in the kernel.
    pub is_nonblocking: bool,
    /// It keeps its CPU while it waits.
    pub is_busy: bool,
    /// The transaction goes on if it fails.
    pub may_fail: bool,
    /// Options of uperf that say nothing of what is transferred, as they stand in the profile.
    pub settings: Vec<Setting>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opens a connection.
    Connect,
    /// Has the other side open one.
    Accept,
    /// Closes one.
    Disconnect,
    /// Reads as many bytes as asked for.
    Read,
    /// Writes them.
    Write,
    /// Reads once, whatever comes.
    Receive,
    /// Writes once.
    Send,
    /// Sends a file.
    SendFile,
    /// Sends several files with one call.
    SendFiles,
    /// Waits, or computes.
    Think,
    /// Nothing.
    Nop,
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// TLS over TCP.
    Ssl,
    /// Reliable datagrams.
    Rds,
    /// Between a host and its guests.
    Vsock,
}

/// How much is transferred at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// So many bytes.
    Bytes(u32),
    /// Another number each time.
    Random {
        /// The least.
        bytes_min: u32,
        /// The most.
        bytes_max: u32,
    },
}

/// An option as it stands in the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value; none where the name says it all.
    pub value: Option<String>,
}

impl Operation {
    pub(super) const NAMES: &str =
        "connect, accept, disconnect, read, write, send, recv, sendfile, sendfilev, think or nop";

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "connect" => Self::Connect,
            "accept" => Self::Accept,
            "disconnect" => Self::Disconnect,
            "read" => Self::Read,
            "write" => Self::Write,
            "recv" => Self::Receive,
            "send" => Self::Send,
            "sendfile" => Self::SendFile,
            "sendfilev" => Self::SendFiles,
            "think" => Self::Think,
            "nop" => Self::Nop,
            _ => return None,
        })
    }
}

impl Protocol {
    pub(super) const NAMES: &str = "tcp, udp, sctp, ssl, rds or vsock";

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "tcp" => Self::Tcp,
            "udp" => Self::Udp,
            "sctp" => Self::Sctp,
            "ssl" => Self::Ssl,
            "rds" => Self::Rds,
            "vsock" => Self::Vsock,
            _ => return None,
        })
    }
}

impl Flowop {
    /// Without options: once, by one call with one message.
    pub(super) fn new(operation: Operation, line: u32) -> Self {
        Self {
            line,
            operation,
            connection: None,
            remote_host: None,
            local_host: None,
            port: None,
            protocol: None,
            size: None,
            other_size_bytes: None,
            count: 1,
            repeat: 1,
            batch_size: 1,
            window_bytes: None,
            duration: None,
            timeout: None,
            is_nodelay: false,
            is_nonblocking: false,
            is_busy: false,
            may_fail: false,
            settings: Vec::new(),
        }
    }
}
