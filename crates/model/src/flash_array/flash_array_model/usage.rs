//! Measurements: latencies of requests and the use of every part.

use super::FlashArrayModel;
use crate::flash_array::lock::LockKind;
use crate::flash_array::outcome::{LockUsage, Outcome, Served, Totals};
use crate::host::{self, HostError};
use crate::latencies::Latencies;
use crate::serial_server::SerialServer;
use crate::steady::{Level, MeasuredWindow, Sample};
use des::{Span, Time};
use dma::DmaCounters;

/// Latencies of each job's requests, and of all.
#[derive(Debug)]
pub(super) struct Measured {
    jobs: Vec<Latencies>,
    all: Latencies,
}

/// Time and instructions spent since the start.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    /// `None` until measuring begins.
    cpus: Option<host::Counts>,
    each_cpu: Vec<Span>,
    buses: Vec<[Span; 2]>,
    cables: Vec<[Span; 2]>,
    modules: Span,
    interrupts: u64,
    instructions: [f64; 2],
    /// Integral of the requests in flight over time.
    in_flight_ps: u128,
}

impl Measured {
    pub(super) fn new(jobs: usize) -> Result<Self, HostError> {
        let jobs = (0..jobs).map(|_| Latencies::new()).collect::<Result<_, _>>()?;
        Ok(Self { jobs, all: Latencies::new()? })
    }

    /// A new window begins.
    pub(super) fn clear(&mut self) {
        self.jobs.iter_mut().for_each(Latencies::clear);
        self.all.clear();
    }

    pub(super) fn record(&mut self, job: u32, latency: Span) {
        self.jobs[job as usize].record(latency);
        self.all.record(latency);
    }
}

fn served(of: &Latencies, seconds: f64) -> Served {
    Served {
        per_second: of.per_second(seconds),
        latency_mean: of.mean(),
        latency_p50: of.quantile(0.5),
        latency_p99: of.quantile(0.99),
    }
}

impl FlashArrayModel<'_> {
    pub(super) fn counts(&self, now: Time) -> Counts {
        let each_cpu = (0..self.setup.cpus.threads()).map(|cpu| self.processors.busy_until(now, cpu));
        let bus = |[up, down]: &[SerialServer; 2]| [up.busy(now), down.busy(now)];
        let refused = self.mappings.iter().map(|mapping| mapping.refused).sum();
        Counts {
            cpus: Some(self.processors.spent(now).with(self.counters(), refused)),
            each_cpu: each_cpu.collect(),
            buses: self.buses.iter().map(bus).collect(),
            cables: self.cables.iter().map(|cable| cable.busy(now)).collect(),
            modules: self.modules.busy(now),
            interrupts: self.interrupts,
            instructions: [self.instructions[0] + self.polling_instructions(now), self.instructions[1]],
            // Can't fail: simulated time never goes back.
            in_flight_ps: self.in_flight.integral_ps(now).unwrap_or_default(),
        }
    }

    fn counters(&self) -> DmaCounters {
        let mut counters = DmaCounters::default();
        self.mappings.iter().for_each(|mapping| counters += mapping.counters);
        counters
    }

    /// What the steady state is decided by.
    pub(super) fn sample(&self) -> Sample {
        let (counters, totals) = (self.counters(), &self.totals);
        let level = |name, inside, entered| Level { name, inside, entered, is_work: false };
        let mut levels = vec![
            level("mappings", counters.mappings - counters.unmappings, counters.mappings),
            Level {
                is_work: true,
                ..level("reads and writes in flight", totals.asked - totals.got, totals.asked)
            },
            level("reads and writes without a path", self.paths.waiting(), totals.asked),
            level("tasks of the CPUs", self.processors.queued(), self.processors.pushed()),
        ];
        let iotlb = "entries of an adapter's IOTLB in use";
        levels.extend(self.mappings.iter().filter_map(|mapping| mapping.iotlb_level(iotlb)));
        Sample { done: totals.got as f64, levels }
    }

    pub(super) fn outcome(self, window: MeasuredWindow, events: u64) -> Outcome {
        let (from, to) = (&self.before, &self.after);
        let seconds = window.measured.as_ps_f64() / 1e12;
        let share = |from: Span, to: Span| (to.as_ps_f64() - from.as_ps_f64()) / 1e12 / seconds;
        let busiest = from.each_cpu.iter().zip(&to.each_cpu).map(|(from, to)| share(*from, *to));
        let busiest_of = |from: &[[Span; 2]], to: &[[Span; 2]]| {
            let shares = |way: usize| from.iter().zip(to).map(move |(from, to)| share(from[way], to[way]));
            [0, 1].map(|way| shares(way).fold(0.0, f64::max))
        };
        let cpus = self.cpus_used();
        Outcome {
            all: served(&self.measured.all, seconds),
            jobs: self.measured.jobs.iter().map(|job| served(job, seconds)).collect(),
            depth_mean: (to.in_flight_ps - from.in_flight_ps) as f64 / 1e12 / seconds,
            interrupts_per_second: (to.interrupts - from.interrupts) as f64 / seconds,
            cores_used: self.setup.cpus.cores_used(&cpus.cores_by_busy_threads),
            locks: self.lock_usage(&cpus),
            cpus,
            instructions_per_second: [0, 1].map(|of| (to.instructions[of] - from.instructions[of]) / seconds),
            busiest_cpu_share: busiest.fold(0.0, f64::max),
            bus_busy_shares: busiest_of(&from.buses, &to.buses),
            cable_busy_shares: busiest_of(&from.cables, &to.cables),
            module_busy_share: share(from.modules, to.modules),
            window,
            totals: self.totals_at_end(),
            log: self.paths.into_log(),
            events,
        }
    }

    fn cpus_used(&self) -> host::CpuUsage {
        let end = self.after.cpus.clone().unwrap_or_else(|| self.processors.spent(Time::ZERO));
        let begin = self.before.cpus.clone().unwrap_or_else(|| end.clone());
        end.since(&begin)
    }

    /// For each kind of lock: the busiest one, and the CPUs waiting for any of them.
    fn lock_usage(&self, cpus: &host::CpuUsage) -> Vec<LockUsage> {
        let mut first = 0;
        let mut of_kind = |(kind, count): (LockKind, u32)| {
            let range = first..first + count as usize;
            first = range.end;
            let busy_share = cpus.lock_busy_shares[range.clone()].iter().copied().fold(0.0, f64::max);
            LockUsage { kind, busy_share, waiting_cpus: cpus.lock_waiting_cpus[range].iter().sum() }
        };
        self.locks.counts().into_iter().filter(|(_, count)| *count > 0).map(&mut of_kind).collect()
    }

    fn totals_at_end(&self) -> Totals {
        let counters = self.counters();
        Totals {
            waiting: self.paths.waiting(),
            mappings: counters.mappings,
            mappings_left: counters.mappings - counters.unmappings,
            ..self.totals
        }
    }
}
