//! Two hosts with an adapter each, and the network between them.
//!
//! ```text
//!   application --write--> sockets, protocol --map--> adapter --wire--> adapter --interrupt--> protocol --> application
//!      on its CPU             table, its locks           link, switch     rings, moderation     unmap, map    is woken
//! ```
//!
//! Instructions are given by path, and priced; what a mapping does is asked of the real code of `dma` and `iova`, call by call,
//! and what it did is priced. A CPU that waits for a lock spins.

mod adapter;
mod experiment;
mod flow;
mod host;
mod load;
mod machine;
mod outcome;
mod task;

pub use adapter::{Adapter, ReceiveBuffers};
pub use experiment::{HostsAnswer, HostsExperiment};
pub use flow::{Pattern, Protocol, Work};
pub use host::{Host, Paths};
pub use load::{Connection, Load, NotModelled};
pub use outcome::{HostUsage, Outcome, Totals};

use crate::host::HostError;
use des::Span;

/// Two hosts that talk to each other.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The client, which begins, and the server.
    pub hosts: [Host; 2],
    /// What is between their adapters.
    pub wire: Wire,
    /// What each instance does.
    pub work: Work,
    /// Threads of the client, each with one of the server.
    pub instances: u32,
    /// Time before anything is measured.
    pub warm_up: Span,
    /// Time that is measured.
    pub measured: Span,
    /// Of all random choices.
    pub seed: u64,
}

/// A cable and a switch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wire {
    /// Bits in a second, each way.
    pub bits_per_second: f64,
    /// Bytes of a frame's payload at most: what IP has.
    pub mtu_bytes: u64,
    /// From an adapter to the other, besides a frame's own length.
    pub latency: Span,
}

/// Preamble, header, checksum and gap of an Ethernet frame.
const FRAME_OVERHEAD_BYTES: u64 = 8 + 14 + 4 + 12;
/// The least that a frame's payload is padded to.
const FRAME_PAYLOAD_MIN_BYTES: u64 = 46;

impl Wire {
    /// How long a frame with so many bytes for IP takes.
    fn time_of(&self, bytes: u64) -> Span {
        let all = bytes.max(FRAME_PAYLOAD_MIN_BYTES) + FRAME_OVERHEAD_BYTES;
        Span::from_ps_f64(all as f64 * 8e12 / self.bits_per_second)
    }
}

/// Lets them talk, and says what came of it.
///
/// # Errors
/// What can't be mapped or built that way.
pub fn run(setup: &Setup) -> Result<Outcome, HostError> {
    machine::run(setup)
}

/// The same on the reference calendar, a plain heap: slower, with the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup) -> Result<Outcome, HostError> {
    machine::run_on_heap(setup)
}
