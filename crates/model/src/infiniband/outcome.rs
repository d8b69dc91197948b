//! What came of it.

use crate::part::Part;
use des::{Misuse, Span};

/// Why there is no outcome.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RunError {
    /// Times here have no room for it.
    #[error("it lasts longer than 100 days of virtual time, which times here do not hold")]
    TooLong,
    /// A fault of this model.
    #[error("a statistic")]
    Misuse(#[from] Misuse),
}

/// What came of it, from the beginning to when nothing was left to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// By node.
    pub nodes: Vec<NodeUsage>,
    /// What went through.
    pub totals: Totals,
    /// How long it took.
    pub elapsed: Span,
    /// Events of the simulation.
    pub events: u64,
}

/// How a node was used; shares are of the whole time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NodeUsage {
    /// Objects that its adapter looked up in its cache.
    pub looked_up: u64,
    /// Those that were not there.
    pub missed: u64,
    /// Bytes of contexts that it fetched.
    pub fetched_bytes: u64,
    /// Bytes of changed ones that it wrote back.
    pub written_back_bytes: u64,
    /// The bus towards memory; of PCI-X the whole bus.
    pub up_busy_share: f64,
    /// The bus from memory; of PCI-X the whole bus.
    pub down_busy_share: f64,
    /// The cable to the switch.
    pub port_busy_share: f64,
    /// The cable from there.
    pub egress_busy_share: f64,
    /// The adapter's memory.
    pub memory_busy_share: f64,
    /// Its engine that sends.
    pub send_busy_share: f64,
    /// And the one that receives.
    pub receive_busy_share: f64,
}

/// What went through: if all is well, what was posted was delivered and completed, and the time that messages were in flight is the
/// sum of the times that each of them took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Messages whose doorbell was rung.
    pub posted: u64,
    /// Those that are where they go.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Those that who asked knows of.
    pub completed: u64,
    /// Bytes of packets that went onto the wire.
    pub sent_bytes: u64,
    /// Messages in flight times how long, by their number at each moment, in picoseconds.
    pub in_flight_ps: u128,
    /// The same summed over each.
    pub stayed_ps: u128,
    /// Messages that are still in flight.
    pub left: u64,
}

impl Outcome {
    /// How busy the parts of the first node were.
    pub(super) fn parts(&self) -> Vec<Part> {
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

    /// Of the look-ups of all nodes, those that missed.
    pub fn miss_share(&self) -> f64 {
        let sum = |of: fn(&NodeUsage) -> u64| self.nodes.iter().map(of).sum::<u64>();
        sum(|node| node.missed) as f64 / sum(|node| node.looked_up).max(1) as f64
    }
}
