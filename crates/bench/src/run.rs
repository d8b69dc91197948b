//! Contestants take turns, round by round.

use crate::caller::{Caller, Counts, SAMPLE_EVERY, Samples};
use crate::check::{CheckError, check};
use crate::clock::TickClock;
use crate::contestant::{Contestant, DIRECT, UnknownContestant, baseline, ours};
use crate::head::{Head, Origin};
use crate::latency::Latencies;
use crate::machine::Machine;
use crate::result::{Benchmark, Case, Clock, Entry, Measured, Named, Round, SCHEMA, Settings};
use crate::scenario::{Scenario, Setup, Worker};
use crate::summary::Summary;
use crate::threads::{self, RoundTotals, ThreadError, allowed_cpus};
use crate::warning;
use iova::{Allocator, Space};

/// Bits of an address within a page of 4 KiB, in which ranges are counted.
const PAGE_BITS: u32 = 12;
/// The first try of finding out how many pairs take a round's time.
const FIRST_PAIRS: u64 = 4;
/// Growth from one try to the next at most: the first ones pay for cold caches.
const GROWTH_MAX: f64 = 16.0;
/// A round may be this much shorter than asked.
const LONG_ENOUGH: f64 = 0.5;
/// So many threads double a round's time: to start them takes longer.
const THREADS_DOUBLING: usize = 256;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The baseline does not take part.
    #[error(transparent)]
    Baseline(#[from] UnknownContestant),
    /// An allocator that is none.
    #[error("{contestant} is no allocator")]
    Check {
        /// Its name.
        contestant: String,
        /// What it did.
        source: CheckError,
    },
    /// Threads could not work.
    #[error(transparent)]
    Crew(#[from] ThreadError),
}

/// Where a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Steps done: of each case its preparation, and its rounds.
    pub done: usize,
    /// Steps in all.
    pub steps: usize,
    /// The scenario.
    pub scenario: Scenario,
    /// How many threads.
    pub threads: usize,
    /// Who is at work.
    pub contestant: &'a str,
}

/// Measures all contestants in all cases.
///
/// # Errors
/// If the baseline takes no part, an allocator hands out what it must not, or threads can't be started.
pub fn run(
    contestants: &[Contestant],
    asked_baseline: Option<&str>,
    settings: Settings,
    origin: Origin,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Benchmark, RunError> {
    let baseline = baseline(contestants, asked_baseline)?;
    let machine = Machine::here();
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
    benchmark.head.warnings = warning::of(&benchmark);
    Ok(benchmark)
}

struct Plan<'a> {
    contestants: &'a [Contestant],
    baseline: &'a str,
    settings: &'a Settings,
    clock: TickClock,
    cpus: Vec<usize>,
}

impl Plan<'_> {
    fn space(&self, scenario: Scenario) -> Space {
        let bits = if scenario.is_full() { self.settings.full_bits } else { self.settings.bits };
        Space::new(1, (1 << (bits - PAGE_BITS)) - 1)
    }

    fn check(&self) -> Result<(), RunError> {
        let space = self.space(Scenario::Pairs);
        for contestant in self.contestants {
            // Who has no such space is told so case by case.
            let Ok(allocator) = contestant.allocator(&space) else { continue };
            check(allocator.as_ref(), &space)
                .map_err(|source| RunError::Check { contestant: contestant.name.clone(), source })?;
        }
        Ok(())
    }

    fn cases(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Vec<Case>, RunError> {
        let asked =
            |scenario: &Scenario| self.settings.threads.iter().map(|threads| (*scenario, *threads)).collect();
        let asked: Vec<(Scenario, usize)> =
            self.settings.scenarios.iter().flat_map(|scenario| -> Vec<_> { asked(scenario) }).collect();
        let turns = |(scenario, _): &(Scenario, usize)| {
            (scenario.rounds(self.settings.rounds) + 1) * self.contestants.len()
        };
        let (mut done, steps) = (0, asked.iter().map(turns).sum());
        let mut cases = Vec::new();
        for (scenario, threads) in asked {
            let mut step = |contestant: &str| {
                progress(Progress { done, steps, scenario, threads, contestant });
                done += 1;
            };
            cases.extend(self.case(scenario, threads, &mut step)?);
        }
        Ok(cases)
    }

    /// One case; `None` if the scenario can't be played by so many threads.
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
        let mut lanes = Vec::new();
        for contestant in self.contestants {
            step(&contestant.name);
            lanes.push(self.lane(contestant, scenario, &setup)?);
        }
        // What the queue costs is measured among the others, whoever takes part.
        let ours = ours();
        let direct = ours.iter().find(|one| one.name == DIRECT && scenario.hands_over());
        let mut queue = direct.map(|direct| self.lane(direct, scenario, &setup)).transpose()?;
        for round in 0..scenario.rounds(settings.rounds) {
            // Each begins once in a while: none has always the same one before it.
            let first = round % lanes.len().max(1);
            for place in 0..lanes.len() {
                let lane = &mut lanes[(first + place) % self.contestants.len()];
                step(&lane.contestant.name);
                lane.round(self)?;
            }
            queue.as_mut().map_or(Ok(()), |queue| queue.round(self))?;
        }
        Ok(Some(self.told(scenario, &setup, &lanes, queue.as_ref())))
    }

    fn told(&self, scenario: Scenario, setup: &Setup, lanes: &[Lane<'_>], queue: Option<&Lane<'_>>) -> Case {
        let cpus = self.cpus.len().max(1);
        let used = setup.threads.min(cpus);
        let base = lanes.iter().find(|lane| lane.contestant.name == self.baseline);
        let queue = queue.and_then(|queue| Summary::of(queue.times(used)));
        Case {
            scenario,
            what: scenario.what(setup),
            sizes: scenario.sizes().words(),
            threads: setup.threads,
            cpus,
            queue_ns_per_pair: queue.map(|queue| queue.median),
            entries: lanes.iter().map(|lane| lane.entry(used, base)).collect(),
        }
    }

    /// A contestant that is ready for rounds: filled, warm, and its rounds of the right length.
    fn lane<'c>(
        &self,
        contestant: &'c Contestant,
        scenario: Scenario,
        setup: &Setup,
    ) -> Result<Lane<'c>, RunError> {
        let mut lane = Lane::new(contestant);
        match contestant.allocator(&setup.space) {
            Err(why) => lane.absent = Some(why),
            Ok(allocator) => {
                let mut workers = scenario.workers(setup).unwrap_or_default();
                let mut unused = Samples::of_calls(0, self.clock);
                let mut caller = Caller::new(allocator.as_ref(), &mut unused, 0);
                workers.iter_mut().for_each(|hand| hand.fill(&mut caller));
                lane.counts = caller.done(0);
                let mut stand = Stand { allocator, workers, pairs: FIRST_PAIRS };
                lane.warm(self, &mut stand)?;
                lane.stand = Some(stand);
            }
        }
        Ok(lane)
    }

    fn cpus_to_pin(&self) -> &[usize] {
        if self.settings.pin { &self.cpus } else { &[] }
    }

    fn round_ns(&self, threads: usize) -> f64 {
        let longer = 1.0 + threads as f64 / THREADS_DOUBLING as f64;
        self.settings.round_ms as f64 * 1e6 * longer
    }
}

/// One contestant in one case.
struct Lane<'c> {
    contestant: &'c Contestant,
    absent: Option<String>,
    stand: Option<Stand>,
    rounds: Vec<Round>,
    allocations: Latencies,
    frees: Latencies,
    /// Of filling, warming up and all rounds.
    counts: Counts,
}

/// Its allocator, and the threads' parts with what they hold.
struct Stand {
    allocator: Box<dyn Allocator>,
    workers: Vec<Box<dyn Worker>>,
    /// Of each thread in a round.
    pairs: u64,
}

impl Stand {
    fn work(&mut self, plan: &Plan<'_>) -> Result<RoundTotals, ThreadError> {
        threads::work(&mut self.workers, self.allocator.as_ref(), plan.clock, self.pairs, plan.cpus_to_pin())
    }
}

impl<'c> Lane<'c> {
    fn new(contestant: &'c Contestant) -> Self {
        Self {
            contestant,
            absent: None,
            stand: None,
            rounds: Vec::new(),
            allocations: Latencies::new(),
            frees: Latencies::new(),
            counts: Counts::default(),
        }
    }

    /// Works until caches are warm and a round takes its time.
    fn warm(&mut self, plan: &Plan<'_>, stand: &mut Stand) -> Result<(), RunError> {
        let threads = stand.workers.len().max(1);
        if let Some(pairs) = plan.settings.pairs {
            stand.pairs = (pairs / threads as u64).max(1);
            self.counts = self.counts.plus(stand.work(plan)?.counts);
            return Ok(());
        }
        let wanted_ns = plan.round_ns(threads);
        loop {
            let shift = stand.work(plan)?;
            self.counts = self.counts.plus(shift.counts);
            let short = wanted_ns / shift.wall_ns as f64;
            let is_long_enough = short * LONG_ENOUGH <= 1.0;
            stand.pairs = ((stand.pairs as f64 * short.min(GROWTH_MAX)) as u64).max(1);
            if is_long_enough {
                return Ok(());
            }
        }
    }

    fn round(&mut self, plan: &Plan<'_>) -> Result<(), RunError> {
        let Some(stand) = &mut self.stand else { return Ok(()) };
        let shift = stand.work(plan)?;
        let cached = self.contestant.tells_caches().then(|| stand.allocator.usage().cached_pages);
        for samples in &shift.samples {
            self.allocations.record(&samples.allocations_ticks, &plan.clock);
            self.frees.record(&samples.frees_ticks, &plan.clock);
        }
        self.counts = self.counts.plus(shift.counts);
        self.rounds.push(Round {
            pairs: shift.counts.calls / 2,
            wall_ns: shift.wall_ns,
            cpu_ns: shift.cpu_ns,
            failed: shift.counts.failed,
            cached_pages: cached,
        });
        Ok(())
    }

    /// Nanoseconds of a pair, round by round.
    fn times(&self, cpus: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round.ns_per_pair(cpus)).collect()
    }

    fn cpu_times(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.cpu_ns as f64 / round.pairs.max(1) as f64).collect()
    }

    fn entry(&self, cpus: usize, base: Option<&Lane<'_>>) -> Entry {
        let contestant = self.contestant.name.clone();
        Entry { contestant, absent: self.absent.clone(), measured: self.measured(cpus, base) }
    }

    fn measured(&self, cpus: usize, base: Option<&Lane<'_>>) -> Option<Measured> {
        let stand = self.stand.as_ref()?;
        let of = |value: &dyn Fn(&Round) -> f64| Summary::of(self.rounds.iter().map(value));
        let usage = stand.allocator.usage();
        let over = |ours: Vec<f64>, base: Vec<f64>| {
            Summary::of(ours.iter().zip(base).map(|(ours, base)| ours / base))
        };
        Some(Measured {
            ns_per_pair: of(&|round| round.ns_per_pair(cpus))?,
            cpu_ns_per_pair: Summary::of(self.cpu_times())?,
            pairs_per_second: of(&|round| round.pairs as f64 * 1e9 / round.wall_ns as f64)?,
            over_baseline: base.and_then(|base| over(self.times(cpus), base.times(cpus))),
            cpu_over_baseline: base.and_then(|base| over(self.cpu_times(), base.cpu_times())),
            allocate: self.allocations.told(),
            free: self.frees.told(),
            memory_bytes: self.contestant.tells_memory().then_some(usage.memory_bytes),
            cached_pages: self.contestant.tells_caches().then_some(usage.cached_pages),
            failed: self.counts.failed,
            refused: self.counts.refused,
            pairs_per_thread: stand.pairs,
            rounds: self.rounds.clone(),
        })
    }
}
