//! Results of a simulation.

use crate::part::Part;
use crate::steady::Unsteady;
use des::{Misuse, Span};

/// Why there are no results.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunError {
    /// The virtual time would overflow.
    #[error("the simulation lasts longer than 100 days of virtual time, the most that a time can hold")]
    TooLong,
    /// No window was steady.
    #[error(transparent)]
    Unsteady(#[from] Unsteady),
    /// A fault of this model.
    #[error("a statistic was misused, which is a fault of iotoll")]
    Misuse(#[from] Misuse),
}

/// Results of a simulation, from start to end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Use of each node.
    pub nodes: Vec<NodeUsage>,
    /// What all of them did with contexts.
    pub contexts: ContextUse,
    /// Counts over the whole simulation.
    pub totals: Totals,
    /// Simulated time.
    pub elapsed: Span,
    /// Events of the simulation.
    pub events: u64,
}

/// What all adapters did with contexts, from the start or in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextUse {
    /// Lines that the caches have in use; in a window, so many more.
    pub filled: u64,
    /// Lookups in the caches.
    pub looked_up: u64,
    /// Lookups that missed.
    pub missed: u64,
    /// Bytes of contexts fetched.
    pub fetched_bytes: u64,
}

impl ContextUse {
    /// What was done since an earlier point in time.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            filled: self.filled - before.filled,
            looked_up: self.looked_up - before.looked_up,
            missed: self.missed - before.missed,
            fetched_bytes: self.fetched_bytes - before.fetched_bytes,
        }
    }

    /// Share of lookups that missed.
    pub fn miss_share(&self) -> f64 {
        self.missed as f64 / self.looked_up.max(1) as f64
    }
}

/// Use of a node. Shares are of the whole time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NodeUsage {
    /// Lookups in the context cache.
    pub looked_up: u64,
    /// Lookups that missed.
    pub missed: u64,
    /// Bytes of contexts fetched.
    pub fetched_bytes: u64,
    /// Bytes of dirty contexts written back.
    pub written_back_bytes: u64,
    /// Busy share of the bus towards memory; for PCI-X of the whole bus.
    pub up_busy_share: f64,
    /// Busy share of the bus from memory; for PCI-X of the whole bus.
    pub down_busy_share: f64,
    /// Busy share of the cable to the switch.
    pub port_busy_share: f64,
    /// Busy share of the cable from the switch.
    pub egress_busy_share: f64,
    /// Busy share of the adapter's own memory.
    pub memory_busy_share: f64,
    /// Busy share of the send engine.
    pub send_busy_share: f64,
    /// Busy share of the receive engine.
    pub receive_busy_share: f64,
}

/// Counts over the whole simulation. At the end, messages posted equal those delivered and completed, and the two
/// sums of message time are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Messages posted.
    pub posted: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Messages whose requester has seen the completion.
    pub completed: u64,
    /// Bytes sent on the wire.
    pub sent_bytes: u64,
    /// Integral of the messages in flight over time, in picoseconds.
    pub in_flight_ps: u128,
    /// Sum of the messages' durations, in picoseconds.
    pub stayed_ps: u128,
    /// Messages still in flight.
    pub left: u64,
}

impl Outcome {
    /// Busy share of each part of the first node.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let node = self.nodes.first().copied().unwrap_or_default();
        let parts = [
            ("bus to host memory", node.up_busy_share),
            ("bus from host memory", node.down_busy_share),
            ("cable to the switch", node.port_busy_share),
            ("cable from the switch", node.egress_busy_share),
            ("adapter's memory", node.memory_busy_share),
            ("engine that sends", node.send_busy_share),
            ("engine that receives", node.receive_busy_share),
        ];
        parts.map(|(name, busy_share)| Part::new(name, busy_share)).into()
    }
}
