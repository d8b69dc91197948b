//! Measurements: the use of both hosts.

use super::NetworkModel;
use crate::host;
use crate::network::network_host::HostState;
use crate::network::outcome::{HostUsage, Outcome};
use des::{Span, Time};

/// Time a host has spent since the start.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    cpus: host::Counts,
    wire: Span,
    up: Span,
    down: Span,
}

impl Counts {
    pub(super) fn of(state: &HostState, now: Time) -> Self {
        Self {
            cpus: state.processors.counts(now, &state.mapping),
            wire: state.rings.wire.busy(now),
            up: state.rings.up.busy(now),
            down: state.rings.down.busy(now),
        }
    }

    /// Use between two points in time.
    fn since(&self, from: &Self) -> HostUsage {
        let share = |busy| self.cpus.share_since(&from.cpus, busy);
        HostUsage {
            cpus: self.cpus.since(&from.cpus),
            wire_busy_share: share([from.wire, self.wire]),
            link_up_busy_share: share([from.up, self.up]),
            link_down_busy_share: share([from.down, self.down]),
        }
    }
}

impl NetworkModel<'_> {
    pub(super) fn outcome(mut self, events: u64) -> Outcome {
        let seconds = self.setup.measured.as_ps_f64() / 1e12;
        for state in &self.hosts {
            self.totals.mappings_left += state.mapping.counters.mappings - state.mapping.counters.unmappings;
            let pieces = state.rings.receive.iter().flat_map(|ring| &ring.pieces);
            self.totals.receive_mappings += pieces.map(|pieces| pieces.mapped.len() as u64).sum::<u64>();
        }
        let used = |host: usize| self.after[host].since(&self.before[host]);
        Outcome {
            operations_per_second: self.operations as f64 / seconds,
            gigabits_per_second: self.read_bytes as f64 * 8e-9 / seconds,
            latency_mean: self.latency.mean().map(Span::from_ps_f64),
            latency_p99: self.latencies.quantile(0.99),
            hosts: [used(0), used(1)],
            totals: self.totals,
            events,
        }
    }
}
