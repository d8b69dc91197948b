//! Two hosts with a network adapter each, and the network between them.
//!
//! ```text
//!   application --write--> sockets, protocol --map--> adapter --wire--> adapter --interrupt--> protocol --> application
//!      on its CPU             table, its locks           link, switch     rings, moderation     unmap, map    is woken
//! ```
//!
//! Code paths are given in instructions and priced. Mapping calls run the real code of `dma` and `iova`, and what
//! they did is priced. A CPU that waits for a lock spins.

mod experiment;
mod flow;
mod load;
mod network_adapter;
mod network_host;
mod network_model;
mod outcome;
mod task;

pub use experiment::{HostsAnswer, HostsExperiment};
pub use flow::{Pattern, Protocol, Work};
pub use load::{Connection, Load, NotModelled};
pub use network_adapter::{NetworkAdapter, ReceiveBuffers};
pub use network_host::{NetworkHost, Paths};
pub use outcome::{HostUsage, Outcome, Totals};

use crate::host::HostError;
use des::Span;

/// Two hosts, the network, and the load.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Client and server. The client begins.
    pub hosts: [NetworkHost; 2],
    /// The network between the adapters.
    pub wire: Wire,
    /// What each instance does.
    pub work: Work,
    /// Client threads, each connected to one server thread.
    pub instances: u32,
    /// Warm-up time before measuring.
    pub warm_up: Span,
    /// Measured time.
    pub measured: Span,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Cable and switch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wire {
    /// Bit rate in each direction.
    pub bits_per_second: f64,
    /// MTU: most bytes of a frame's payload, for IP.
    pub mtu_bytes: u64,
    /// Latency between the adapters, without the frame's own duration.
    pub latency: Span,
}

/// Preamble, header, checksum and inter-frame gap of Ethernet.
const FRAME_OVERHEAD_BYTES: u64 = 8 + 14 + 4 + 12;
/// Shortest payload; less is padded.
const FRAME_PAYLOAD_MIN_BYTES: u64 = 46;

impl Wire {
    /// Time of a frame with `bytes` of IP packet on the wire.
    fn time_of(&self, bytes: u64) -> Span {
        let all = bytes.max(FRAME_PAYLOAD_MIN_BYTES) + FRAME_OVERHEAD_BYTES;
        Span::from_ps_f64(all as f64 * 8e12 / self.bits_per_second)
    }
}

/// Simulates the load.
///
/// # Errors
/// An invalid host, or a DMA path that can't be built.
pub fn run(setup: &Setup) -> Result<Outcome, HostError> {
    network_model::run(setup)
}

/// The same on the reference calendar, a binary heap. It is slower and has the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup) -> Result<Outcome, HostError> {
    network_model::run_on_heap(setup)
}
