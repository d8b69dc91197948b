//! How both hosts were used while it was measured.

use super::{CLIENT, Machine, SERVER};
use crate::network::cpu::Cpu;
use crate::network::outcome::{HostUsage, Outcome};
use des::{Span, Time};

/// What a host has spent up to a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    at: Time,
    busy: Span,
    stages: [Span; 5],
    wire: Span,
    up: Span,
    down: Span,
    locks: Vec<LockCounts>,
    bill: dma::Bill,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LockCounts {
    busy_ps: u128,
    waited_ps: u128,
    arrivals: u64,
}

impl Machine<'_> {
    pub(super) fn counts(&self, host: usize, now: Time) -> Counts {
        let state = &self.hosts[host];
        let busy = |cpu: &Cpu| cpu.busy_until(now);
        let lock = |lock: &des::Lock<u32>| {
            let usage = lock.usage(now).ok()?;
            let (busy_ps, waited_ps, arrivals) = (usage.busy_ps, usage.waited_ps, usage.arrivals);
            Some(LockCounts { busy_ps, waited_ps, arrivals })
        };
        Counts {
            at: now,
            busy: state.cpus.iter().map(busy).fold(Span::ZERO, |sum, busy| sum + busy),
            stages: state.stages_until(now),
            wire: state.rings.wire.busy(now),
            up: state.rings.up.busy(now),
            down: state.rings.down.busy(now),
            locks: state.mapping.locks.iter().filter_map(lock).collect(),
            bill: state.mapping.bill,
        }
    }

    pub(super) fn usage_until(&self, host: usize, now: Time) -> HostUsage {
        let (from, to) = (&self.before[host], self.counts(host, now));
        let elapsed = now.since(from.at).unwrap_or_default().as_ps_f64();
        let share = |from: Span, to: Span| (to.as_ps_f64() - from.as_ps_f64()) / elapsed;
        let none = LockCounts::default();
        let locks = || to.locks.iter().zip(from.locks.iter().chain(std::iter::repeat(&none)));
        let taken: u64 = locks().map(|(to, from)| to.arrivals - from.arrivals).sum();
        let waited: u128 = locks().map(|(to, from)| to.waited_ps - from.waited_ps).sum();
        let held = locks().map(|(to, from)| (to.busy_ps - from.busy_ps) as f64 / elapsed);
        HostUsage {
            busy_cpus: share(from.busy, to.busy),
            busy_cpus_by_stage: std::array::from_fn(|stage| share(from.stages[stage], to.stages[stage])),
            lock_busy_share: held.fold(0.0, f64::max),
            locked_per_second: taken as f64 * 1e12 / elapsed,
            lock_wait_mean: Span::from_ps_f64(waited as f64 / taken.max(1) as f64),
            wire_busy_share: share(from.wire, to.wire),
            link_up_busy_share: share(from.up, to.up),
            link_down_busy_share: share(from.down, to.down),
            hypercalls_per_second: (to.bill.hypercalls - from.bill.hypercalls) as f64 * 1e12 / elapsed,
            invalidations_per_second: (to.bill.invalidation_waits - from.bill.invalidation_waits) as f64
                * 1e12
                / elapsed,
            bill: self.hosts[host].mapping.bill,
            mappings_refused: self.hosts[host].mapping.refused,
        }
    }

    pub(super) fn outcome(mut self, events: u64) -> Outcome {
        let seconds = self.setup.measured.as_ps_f64() / 1e12;
        let now = Time::ZERO + self.setup.warm_up + self.setup.measured;
        for state in &self.hosts {
            self.totals.mappings_left += state.mapping.bill.mappings - state.mapping.bill.unmappings;
            let pieces = state.rings.receive.iter().flat_map(|ring| &ring.pieces);
            self.totals.receive_mappings += pieces.map(|pieces| pieces.mapped.len() as u64).sum::<u64>();
        }
        let hosts =
            self.usage.take().unwrap_or_else(|| [CLIENT, SERVER].map(|host| self.usage_until(host, now)));
        Outcome {
            operations_per_second: self.operations as f64 / seconds,
            gigabits_per_second: self.read_bytes as f64 * 8e-9 / seconds,
            latency_mean: Span::from_ps_f64(self.latency.mean().unwrap_or_default()),
            latency_p99: self.latencies.quantile(0.99).unwrap_or_default(),
            hosts,
            totals: self.totals,
            events,
        }
    }
}
