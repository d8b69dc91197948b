//! Measurements: the use of both hosts, and what is inside them.

use super::NetworkModel;
use crate::host::{self, HostError};
use crate::latencies::Latencies;
use crate::network::network_host::HostState;
use crate::network::outcome::{HostUsage, Outcome, Totals};
use crate::network::receive_ring::ReceiveRing;
use crate::network::send_ring::SendRing;
use crate::steady::{Level, MeasuredWindow, Sample};
use des::{Span, Time};

/// What a window measures of the load.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) operations: u64,
    pub(super) read_bytes: u64,
    pub(super) latencies: Latencies,
}

impl Measured {
    pub(super) fn new() -> Result<Self, HostError> {
        Ok(Self { operations: 0, read_bytes: 0, latencies: Latencies::new()? })
    }

    /// A new window begins.
    pub(super) fn clear(&mut self) {
        (self.operations, self.read_bytes) = (0, 0);
        self.latencies.clear();
    }
}

/// Time a host has spent since the start.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    cpus: host::Counts,
    wire: Span,
    up: Span,
    down: Span,
    /// Integrals over time of stopped send rings, and of a paused link.
    stopped_ps: u128,
    paused_ps: u128,
}

impl Counts {
    pub(super) fn of(state: &HostState, now: Time) -> Self {
        let rings = &state.rings;
        Self {
            cpus: state.processors.counts(now, &state.mapping),
            wire: rings.wire.busy(now),
            up: rings.up.busy(now),
            down: rings.down.busy(now),
            // Can't fail: simulated time never goes back.
            stopped_ps: rings.stopped.integral_ps(now).unwrap_or_default(),
            paused_ps: rings.paused.integral_ps(now).unwrap_or_default(),
        }
    }

    /// Use between two points in time.
    fn since(&self, from: &Self, window: Span, send_rings: u32) -> HostUsage {
        let share = |busy| self.cpus.share_since(&from.cpus, busy);
        let mean = |from: u128, to: u128| (to - from) as f64 / window.as_ps_f64();
        HostUsage {
            cpus: self.cpus.since(&from.cpus),
            wire_busy_share: share([from.wire, self.wire]),
            link_up_busy_share: share([from.up, self.up]),
            link_down_busy_share: share([from.down, self.down]),
            send_stopped_share: mean(from.stopped_ps, self.stopped_ps) / f64::from(send_rings.max(1)),
            receive_paused_share: mean(from.paused_ps, self.paused_ps),
        }
    }
}

/// What must not pile up in a host, client and server.
const LEVELS: [[&str; 6]; 2] = [
    [
        "the client's mappings",
        "packets in front of the client's send rings",
        "frames in front of the client's adapter",
        "frames in the client's receive rings",
        "tasks of the client's CPUs",
        "entries of the client's IOTLB in use",
    ],
    [
        "the server's mappings",
        "packets in front of the server's send rings",
        "frames in front of the server's adapter",
        "frames in the server's receive rings",
        "tasks of the server's CPUs",
        "entries of the server's IOTLB in use",
    ],
];

fn levels(state: &HostState, names: [&'static str; 6]) -> impl Iterator<Item = Level> + use<> {
    let [names @ .., iotlb] = names;
    let (counters, rings) = (state.mapping.counters, &state.rings);
    let inside = [
        (counters.mappings - counters.unmappings, counters.mappings),
        (rings.packets_waiting(), rings.packets),
        (rings.held.len() as u64, rings.arrived),
        (rings.entries_in_use(), rings.arrived),
        (state.processors.queued(), state.processors.pushed()),
    ];
    let levels = names.into_iter().zip(inside);
    let levels = levels.map(|(name, (inside, entered))| Level { name, inside, entered, is_work: false });
    levels.chain(state.mapping.iotlb_level(iotlb))
}

impl NetworkModel<'_> {
    /// What the steady state is decided by.
    pub(super) fn sample(&self) -> Sample {
        let in_hosts = self.hosts.iter().zip(LEVELS).flat_map(|(state, names)| levels(state, names));
        let Totals { written_bytes, read_bytes, .. } = self.totals;
        let (inside, entered) = (written_bytes - read_bytes, written_bytes);
        let in_flight = Level { name: "bytes in flight", inside, entered, is_work: true };
        Sample { done: read_bytes as f64, levels: in_hosts.chain([in_flight]).collect() }
    }

    pub(super) fn outcome(mut self, window: MeasuredWindow, events: u64) -> Outcome {
        let seconds = window.measured.as_ps_f64() / 1e12;
        for state in &self.hosts {
            self.totals.mappings_left += state.mapping.counters.mappings - state.mapping.counters.unmappings;
            let pieces = state.rings.receive.iter().flat_map(|ring| &ring.pieces);
            self.totals.receive_mappings += pieces.map(|pieces| pieces.mapped.len() as u64).sum::<u64>();
            let most = state.rings.send.iter().map(SendRing::in_use_max).max().unwrap_or_default();
            self.totals.send_entries_max = self.totals.send_entries_max.max(most);
            let most = state.rings.receive.iter().map(ReceiveRing::in_use_max).max().unwrap_or_default();
            self.totals.receive_entries_max = self.totals.receive_entries_max.max(most);
            self.totals.descriptors_left += state.rings.descriptors_in_use();
            self.totals.waiting_left += state.rings.packets_waiting() + state.rings.held.len() as u64;
        }
        let used = |host: usize| {
            let send_rings = self.setup.hosts[host].adapter.send_rings;
            self.after[host].since(&self.before[host], window.measured, send_rings)
        };
        let latencies = &self.measured.latencies;
        Outcome {
            operations_per_second: self.measured.operations as f64 / seconds,
            gigabits_per_second: self.measured.read_bytes as f64 * 8e-9 / seconds,
            latency_mean: latencies.known_mean(),
            latency_p99: latencies.known_quantile(0.99),
            hosts: [used(0), used(1)],
            window,
            totals: self.totals,
            events,
        }
    }
}
