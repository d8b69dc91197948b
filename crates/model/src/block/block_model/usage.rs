//! Measurements: latencies of requests and the use of every part.

use super::BlockModel;
use crate::block::outcome::{Outcome, Served, Totals};
use crate::host::{self, HostError};
use crate::latencies::Latencies;
use crate::steady::{Level, MeasuredWindow, Sample};
use des::{Span, Time};

/// Latencies of each job's requests, and of all.
#[derive(Debug)]
pub(super) struct Measured {
    jobs: Vec<Latencies>,
    all: Latencies,
}

/// Time spent since the start.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    cpus: host::Counts,
    each_cpu: Vec<Span>,
    up: Span,
    down: Span,
    media: [Span; 2],
    interrupts: u64,
    /// Integrals over time of the requests in flight and of the commands in queues.
    in_flight_ps: u128,
    in_queues_ps: u128,
}

impl Counts {
    /// The counts at the start.
    pub(super) fn beginning(cpus: host::Counts, threads: u32) -> Self {
        Self {
            cpus,
            each_cpu: vec![Span::ZERO; threads as usize],
            up: Span::ZERO,
            down: Span::ZERO,
            media: [Span::ZERO; 2],
            interrupts: 0,
            in_flight_ps: 0,
            in_queues_ps: 0,
        }
    }
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
        for of in [&mut self.jobs[job as usize], &mut self.all] {
            of.record(latency);
        }
    }
}

fn served(of: &Latencies, bytes_each: f64, seconds: f64) -> Served {
    let per_second = of.per_second(seconds);
    Served {
        per_second,
        gigabytes_per_second: per_second * bytes_each / 1e9,
        latency_mean: of.mean(),
        latency_p50: of.quantile(0.5),
        latency_p99: of.quantile(0.99),
        latency_p99_9: of.quantile(0.999),
    }
}

impl BlockModel<'_> {
    pub(super) fn counts(&self, now: Time) -> Counts {
        let each_cpu = (0..self.setup.host.cpus.threads()).map(|cpu| self.processors.busy_until(now, cpu));
        Counts {
            cpus: self.processors.counts(now, &self.mapping),
            each_cpu: each_cpu.collect(),
            up: self.up.busy(now),
            down: self.down.busy(now),
            media: self.dies.busy(now),
            interrupts: self.interrupts,
            // Can't fail: simulated time never goes back.
            in_flight_ps: self.in_flight.integral_ps(now).unwrap_or_default(),
            in_queues_ps: self.in_queues.integral_ps(now).unwrap_or_default(),
        }
    }

    /// What the steady state is decided by.
    pub(super) fn sample(&self) -> Sample {
        let (counters, totals) = (self.mapping.counters, &self.totals);
        let level = |name, inside, entered| Level { name, inside, entered, is_work: false };
        let mut levels = vec![
            level("mappings", counters.mappings - counters.unmappings, counters.mappings),
            Level {
                is_work: true,
                ..level("reads and writes in flight", totals.asked - totals.got, totals.asked)
            },
            level("commands in queues", totals.commands - totals.completions, totals.commands),
            level("bytes in the write buffer", self.dies.buffered_bytes(), totals.fetched_bytes),
            level("tasks of the CPUs", self.processors.queued(), self.processors.pushed()),
        ];
        levels.extend(self.mapping.iotlb_level("entries of the IOTLB in use"));
        Sample { done: totals.got as f64, levels }
    }

    pub(super) fn outcome(self, window: MeasuredWindow, events: u64) -> Outcome {
        let (from, to) = (&self.before, &self.after);
        let measured_ps = window.measured.as_ps_f64();
        let share = |from: Span, to: Span| (to.as_ps_f64() - from.as_ps_f64()) / measured_ps;
        let mean = |from: u128, to: u128| (to - from) as f64 / measured_ps;
        let busiest = from.each_cpu.iter().zip(&to.each_cpu).map(|(from, to)| share(*from, *to));
        let entries = self.queues.len() as f64 * f64::from(self.setup.host.adapter.queue_entries - 1);
        let (all, jobs) = self.served_by_job(window.measured);
        Outcome {
            all,
            jobs,
            depth_mean: mean(from.in_flight_ps, to.in_flight_ps),
            interrupts_per_second: (to.interrupts - from.interrupts) as f64 * 1e12 / measured_ps,
            cpus: to.cpus.since(&from.cpus),
            busiest_cpu_share: busiest.fold(0.0, f64::max),
            link_up_busy_share: share(from.up, to.up),
            link_down_busy_share: share(from.down, to.down),
            die_busy_share: share(from.media[0], to.media[0]),
            channel_busy_share: share(from.media[1], to.media[1]),
            queue_busy_share: mean(from.in_queues_ps, to.in_queues_ps) / entries,
            window,
            totals: self.totals_at_end(),
            events,
        }
    }

    /// All jobs together, and each.
    fn served_by_job(&self, measured: Span) -> (Served, Vec<Served>) {
        let seconds = measured.as_ps_f64() / 1e12;
        let jobs = self.setup.jobs.iter().zip(&self.measured.jobs);
        let jobs: Vec<Served> = jobs.map(|(job, of)| served(of, job.block_bytes as f64, seconds)).collect();
        let gigabytes_per_second = jobs.iter().map(|served| served.gigabytes_per_second).sum();
        (Served { gigabytes_per_second, ..served(&self.measured.all, 0.0, seconds) }, jobs)
    }

    fn totals_at_end(&self) -> Totals {
        let counters = self.mapping.counters;
        Totals {
            mappings: counters.mappings,
            mappings_left: counters.mappings - counters.unmappings,
            ..self.totals
        }
    }
}
