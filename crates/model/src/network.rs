//! Two hosts with a network adapter each, and the network between them.
//!
//! ```text
//!   application --write--> sockets, protocol --map--> adapter --wire--> adapter --interrupt--> protocol --> application
//!      on its CPU             table, its locks           link, switch     rings, moderation     unmap, map    is woken
//! ```
//!
//! Code paths are given in instructions and priced. Mapping calls run the real code of `dma` and `iova`, and what
//! they did is priced. A CPU that waits for a lock spins.

mod burst;
mod descriptors;
mod experiment;
mod flow;
mod frame;
mod load;
mod network_adapter;
mod network_error;
mod network_host;
mod network_model;
mod outcome;
mod packet;
mod receive_ring;
mod rings;
mod send_ring;
mod task;

pub use experiment::{HostAnswer, HostsAnswer, HostsExperiment};
pub use flow::{Pattern, Protocol, Work};
pub use load::{Connection, Load, NotModelled};
pub use network_adapter::{NetworkAdapter, ReceiveBuffers};
pub use network_error::NetworkError;
pub use network_host::{NetworkHost, Paths};
pub use outcome::{HostUsage, Outcome, Totals};

use crate::steady::Measurement;
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
    /// Warm-up time before measuring, at least.
    pub warm_up: Span,
    /// Measured time, at least.
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

/// Simulates the load until a measured window is steady.
///
/// # Errors
/// [`NetworkError`]: an invalid setup, or no window was steady.
pub fn run(setup: &Setup) -> Result<Outcome, NetworkError> {
    network_model::run(setup, setup.measurement())
}

/// The same on the reference calendar, a binary heap. It is slower and has the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup) -> Result<Outcome, NetworkError> {
    network_model::run_on_heap(setup, setup.measurement())
}

/// Simulates the load, and measures exactly the window of the setup. Nothing says that it is steady.
///
/// # Errors
/// [`NetworkError`]: an invalid setup.
pub fn run_window(setup: &Setup) -> Result<Outcome, NetworkError> {
    network_model::run(setup, Measurement::fixed(setup.warm_up, setup.measured))
}

const HOST_NAMES: [&str; 2] = ["client", "server"];

impl Setup {
    fn measurement(&self) -> Measurement {
        Measurement::steady("bytes read", self.warm_up, self.measured)
    }

    /// # Errors
    /// [`NetworkError::SendRing`]
    fn check(&self) -> Result<(), NetworkError> {
        for (host, name) in self.hosts.iter().zip(HOST_NAMES) {
            let (entries, needed) =
                (host.adapter.send_entries, host.adapter.descriptors_max(self.work.protocol));
            if u64::from(entries) < needed {
                return Err(NetworkError::SendRing { host: name, entries, needed });
            }
        }
        Ok(())
    }
}
