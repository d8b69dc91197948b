//! Measures all contestants in turn, round by round.

use crate::caller::{Caller, Counts, SAMPLE_EVERY, Samples};
use crate::check::{CheckError, check};
use crate::clock::TickClock;
use crate::contestant::{Contestant, DIRECT, UnknownContestant, baseline, built_in_contestants};
use crate::head::{Head, Origin};
use crate::host_summary::HostSummary;
use crate::latency::Latencies;
use crate::result::{
    Benchmark, Case, Clock, Entry, InvalidSetting, Measured, Named, Round, SCHEMA, Settings,
};
use crate::round_time::{PairTimes, RoundTime};
use crate::scenario::{Scenario, Setup, Worker};
use crate::summary::Summary;
use crate::threads::{self, RoundTotals, ThreadError, allowed_cpus};
use crate::warning;
use iova::{Allocator, Space};

/// Bits of an address within a page of 4 KiB.
const PAGE_BITS: u32 = 12;
/// Pairs of the first attempt to find out how many fill a round.
const FIRST_PAIRS: u64 = 4;
/// The largest growth from one attempt to the next, because the first ones run with cold caches.
const GROWTH_MAX: f64 = 16.0;
/// The share of the requested time that is long enough for a round.
const LONG_ENOUGH: f64 = 0.5;
/// The number of threads that doubles a round's time, because starting them takes longer.
const THREADS_DOUBLING: usize = 256;

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The baseline is not among the contestants.
    #[error(transparent)]
    Baseline(#[from] UnknownContestant),
    /// A setting is out of range.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// An allocator is faulty.
    #[error("{contestant} is faulty; expected an allocator that passes the check before the measurement")]
    Check {
        /// The contestant's name.
        contestant: String,
        /// The fault.
        source: CheckError,
    },
    /// Threads could not be started or pinned.
    #[error(transparent)]
    Threads(#[from] ThreadError),
}

/// The progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Steps done. A step prepares a contestant in a case, or measures one of its rounds.
    pub done: usize,
    /// The number of all steps.
    pub steps: usize,
    /// The current scenario.
    pub scenario: Scenario,
    /// Its number of threads.
    pub threads: usize,
    /// The current contestant.
    pub contestant: &'a str,
}

/// Measures all contestants in all cases.
///
/// # Errors
/// If the baseline is not among the contestants, a setting is out of range, an allocator is faulty, or threads can't be started.
pub fn run(
    contestants: &[Contestant],
    requested_baseline: Option<&str>,
    settings: Settings,
    origin: Origin,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Benchmark, RunError> {
    let baseline = baseline(contestants, requested_baseline)?;
    settings.check()?;
    let machine = HostSummary::here();
    let clock = TickClock::new();
    let plan = Plan { contestants, baseline: &baseline, settings: &settings, clock, cpus: allowed_cpus() };
    plan.check()?;
    let cases = plan.cases(progress)?;
    let mut benchmark = Benchmark {
        head: Head::new(SCHEMA, origin, machine),
        clock: Clock { name: clock.name(), overhead_ns: clock.overhead_ns(), sample_every: SAMPLE_EVERY },
        settings,
        baseline,
        contestants: contestants
            .iter()
            .map(|one| Named { name: one.name.clone(), what: one.what.clone() })
            .collect(),
        cases,
    };
    benchmark.head.warnings = warning::of_benchmark(&benchmark);
    Ok(benchmark)
}

/// The inputs of a run.
struct Plan<'a> {
    contestants: &'a [Contestant],
    baseline: &'a str,
    settings: &'a Settings,
    clock: TickClock,
    cpus: Vec<usize>,
}

impl Plan<'_> {
    /// The space that a scenario allocates from.
    fn space(&self, scenario: Scenario) -> Space {
        let bits = if scenario.is_full() { self.settings.full_bits } else { self.settings.bits };
        Space::new(1, (1 << (bits - PAGE_BITS)) - 1)
    }

    /// Checks that every contestant works.
    fn check(&self) -> Result<(), RunError> {
        let space = self.space(Scenario::Pairs);
        for contestant in self.contestants {
            // A contestant that does not support the space is reported as absent in each case.
            let Ok(allocator) = contestant.allocator(&space) else { continue };
            check(allocator.as_ref(), &space)
                .map_err(|source| RunError::Check { contestant: contestant.name.clone(), source })?;
        }
        Ok(())
    }

    /// Measures all cases.
    fn cases(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Vec<Case>, RunError> {
        let with_threads =
            |scenario: &Scenario| self.settings.threads.iter().map(|threads| (*scenario, *threads)).collect();
        let combinations: Vec<(Scenario, usize)> = self
            .settings
            .scenarios
            .iter()
            .flat_map(|scenario| -> Vec<_> { with_threads(scenario) })
            .collect();
        let turns = |(scenario, _): &(Scenario, usize)| {
            (scenario.rounds(self.settings.rounds) + 1) * self.contestants.len()
        };
        let (mut done, steps) = (0, combinations.iter().map(turns).sum());
        let mut cases = Vec::new();
        for (scenario, threads) in combinations {
            let mut step = |contestant: &str| {
                progress(Progress { done, steps, scenario, threads, contestant });
                done += 1;
            };
            cases.extend(self.case(scenario, threads, &mut step)?);
        }
        Ok(cases)
    }

    /// Measures one case; `None` if the scenario does not support this number of threads.
    fn case(
        &self,
        scenario: Scenario,
        threads: usize,
        step: &mut dyn FnMut(&str),
    ) -> Result<Option<Case>, RunError> {
        let settings = self.settings;
        let setup = Setup {
            threads,
            space: self.space(scenario),
            held_max: settings.held,
            burst_max: settings.burst,
            seed: settings.seed,
        };
        if scenario.workers(&setup).is_none() {
            return Ok(None);
        }
        let mut participants = Vec::new();
        for contestant in self.contestants {
            step(&contestant.name);
            participants.push(self.prepare(contestant, scenario, &setup)?);
        }
        // The queue's own cost is measured in turn with the others, even if `direct` was not requested.
        let built_in = built_in_contestants();
        let direct = built_in.iter().find(|one| one.name == DIRECT && scenario.hands_over());
        let mut queue = direct.map(|direct| self.prepare(direct, scenario, &setup)).transpose()?;
        for round in 0..scenario.rounds(settings.rounds) {
            // The order rotates, so that no contestant always runs first.
            let first = round % participants.len().max(1);
            for place in 0..participants.len() {
                let participant = &mut participants[(first + place) % self.contestants.len()];
                step(&participant.contestant.name);
                participant.round(self)?;
            }
            queue.as_mut().map_or(Ok(()), |queue| queue.round(self))?;
        }
        Ok(Some(self.results(scenario, &setup, &participants, queue.as_ref())))
    }

    /// The results of a case.
    fn results(
        &self,
        scenario: Scenario,
        setup: &Setup,
        participants: &[Participant<'_>],
        queue: Option<&Participant<'_>>,
    ) -> Case {
        let cpus = self.cpus.len().max(1);
        let used = setup.threads.min(cpus);
        let base = participants.iter().find(|participant| participant.contestant.name == self.baseline);
        let queue =
            queue.and_then(|queue| Summary::of(queue.times().iter().map(|round| round.ns_per_pair(used))));
        Case {
            scenario,
            what: scenario.describe(setup),
            sizes: scenario.sizes().describe(),
            threads: setup.threads,
            cpus,
            queue_ns_per_pair: queue.map(|queue| queue.median),
            entries: participants.iter().map(|participant| participant.entry(used, base)).collect(),
        }
    }

    /// Prepares a contestant: creates and fills the allocator, warms up and finds the length of its rounds.
    fn prepare<'c>(
        &self,
        contestant: &'c Contestant,
        scenario: Scenario,
        setup: &Setup,
    ) -> Result<Participant<'c>, RunError> {
        let mut participant = Participant::new(contestant);
        match contestant.allocator(&setup.space) {
            Err(why) => participant.absent = Some(why),
            Ok(allocator) => {
                let mut workers = scenario.workers(setup).unwrap_or_default();
                let mut unused = Samples::with_capacity_for(0, self.clock);
                let mut caller = Caller::new(allocator.as_ref(), &mut unused, 0);
                workers.iter_mut().for_each(|worker| worker.fill(&mut caller));
                participant.counts = caller.finish(0);
                let mut prepared = Prepared { allocator, workers, pairs: FIRST_PAIRS };
                participant.warm(self, &mut prepared)?;
                participant.prepared = Some(prepared);
            }
        }
        Ok(participant)
    }

    /// The CPUs to pin threads to; empty without pinning.
    fn cpus_to_pin(&self) -> &[usize] {
        if self.settings.pin { &self.cpus } else { &[] }
    }

    /// The requested time of a round with this number of threads.
    fn round_ns(&self, threads: usize) -> f64 {
        let longer = 1.0 + threads as f64 / THREADS_DOUBLING as f64;
        self.settings.round_ms as f64 * 1e6 * longer
    }
}

/// A contestant in a case, with its results so far.
struct Participant<'c> {
    contestant: &'c Contestant,
    absent: Option<String>,
    prepared: Option<Prepared>,
    rounds: Vec<Round>,
    allocations: Latencies,
    frees: Latencies,
    /// Counts of filling, warm-up and all rounds.
    counts: Counts,
}

/// A filled allocator with the workers that use it.
struct Prepared {
    allocator: Box<dyn Allocator>,
    workers: Vec<Box<dyn Worker>>,
    /// Pairs of each thread in a round.
    pairs: u64,
}

impl Prepared {
    /// Runs one round in all threads.
    fn work(&mut self, plan: &Plan<'_>) -> Result<RoundTotals, ThreadError> {
        threads::work(&mut self.workers, self.allocator.as_ref(), plan.clock, self.pairs, plan.cpus_to_pin())
    }
}

impl<'c> Participant<'c> {
    fn new(contestant: &'c Contestant) -> Self {
        Self {
            contestant,
            absent: None,
            prepared: None,
            rounds: Vec::new(),
            allocations: Latencies::new(),
            frees: Latencies::new(),
            counts: Counts::default(),
        }
    }

    /// Warms up and finds the number of pairs that fill a round.
    fn warm(&mut self, plan: &Plan<'_>, prepared: &mut Prepared) -> Result<(), RunError> {
        let threads = prepared.workers.len().max(1);
        if let Some(pairs) = plan.settings.pairs {
            prepared.pairs = (pairs / threads as u64).max(1);
            self.counts = self.counts.plus(prepared.work(plan)?.counts);
            return Ok(());
        }
        let wanted_ns = plan.round_ns(threads);
        loop {
            let totals = prepared.work(plan)?;
            self.counts = self.counts.plus(totals.counts);
            let short = wanted_ns / totals.wall_ns as f64;
            let is_long_enough = short * LONG_ENOUGH <= 1.0;
            prepared.pairs = ((prepared.pairs as f64 * short.min(GROWTH_MAX)) as u64).max(1);
            if is_long_enough {
                return Ok(());
            }
        }
    }

    /// Measures and records a round.
    fn round(&mut self, plan: &Plan<'_>) -> Result<(), RunError> {
        let Some(prepared) = &mut self.prepared else { return Ok(()) };
        let totals = prepared.work(plan)?;
        let cached = self.contestant.reports_caches().then(|| prepared.allocator.usage().cached_pages);
        for samples in &totals.samples {
            self.allocations.record(&samples.allocations_ticks, &plan.clock);
            self.frees.record(&samples.frees_ticks, &plan.clock);
        }
        self.counts = self.counts.plus(totals.counts);
        self.rounds.push(Round {
            pairs: totals.counts.calls / 2,
            wall_ns: totals.wall_ns,
            cpu_ns: totals.cpu_ns,
            failed: totals.counts.failed,
            cached_pages: cached,
        });
        Ok(())
    }

    /// Pairs and times of each round.
    fn times(&self) -> Vec<RoundTime> {
        self.rounds.iter().map(Round::time).collect()
    }

    /// The participant's results; `base` is the baseline.
    fn entry(&self, cpus: usize, base: Option<&Participant<'_>>) -> Entry {
        let contestant = self.contestant.name.clone();
        Entry { contestant, absent: self.absent.clone(), measured: self.measured(cpus, base) }
    }

    /// The measured figures; `None` if the contestant does not support the space.
    fn measured(&self, cpus: usize, base: Option<&Participant<'_>>) -> Option<Measured> {
        let prepared = self.prepared.as_ref()?;
        let usage = prepared.allocator.usage();
        let base = base.map(Participant::times);
        let PairTimes { ns_per_pair, cpu_ns_per_pair, pairs_per_second, over_baseline, cpu_over_baseline } =
            PairTimes::of(&self.times(), cpus, base.as_deref())?;
        Some(Measured {
            ns_per_pair,
            cpu_ns_per_pair,
            pairs_per_second,
            over_baseline,
            cpu_over_baseline,
            allocate: self.allocations.percentiles(),
            free: self.frees.percentiles(),
            memory_bytes: self.contestant.reports_memory().then_some(usage.memory_bytes),
            cached_pages: self.contestant.reports_caches().then_some(usage.cached_pages),
            failed: self.counts.failed,
            refused: self.counts.refused,
            pairs_per_thread: prepared.pairs,
            rounds: self.rounds.clone(),
        })
    }
}
