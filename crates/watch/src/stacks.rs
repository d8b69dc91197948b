//! CPU time by stage from sampled call stacks.
//!
//! Counters of the CPUs' cycles interrupt each CPU at most 999 times a second, and the kernel records which functions were running. That
//! costs per sample and not per I/O, changes no function, and needs no BPF. It says nothing of single calls, nor of devices.
//!
//! ```text
//!   interrupt   whether samples also come where the kernel has its interrupts off: otherwise nothing is sampled
//!   sampler     a thread that reads what each CPU sampled
//!     +-- event     what takes samples
//!     +-- cycle     how long a cycle takes
//!     +-- cpu_ring  the counter of a CPU
//!     |     +-- ring    the kernel's memory with its records
//!     +-- sample    records
//!     +-- symbols   the kernel's functions by address
//!     +-- chain     which function of a call chain decides
//!     |     +-- stage   what a function's name says
//!     v
//!   Stacks
//! ```

mod chain;
mod cpu_ring;
mod cycle;
mod event;
mod interrupt;
#[cfg(test)]
mod random;
mod ring;
mod sample;
mod sampler;
mod setting;
mod stage;
mod symbols;

pub(crate) use event::Event;
pub use interrupt::Evidence;
pub(crate) use sampler::Sampler;
pub use stage::mapping_stage;

use crate::completed::Completed;
use serde::Serialize;
use std::collections::BTreeMap;
use toll::Stage;

/// 97.5 % of a normal distribution are below so many standard deviations.
const DEVIATIONS_95: f64 = 1.959_964;
/// Different stacks that are listed at most, those with the most samples.
const PATHS_MAX: usize = 1000;

/// What samples of call stacks say.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stacks {
    /// Why they say nothing; then there are no stages.
    pub unknown: Option<String>,
    /// What says that samples also came where the kernel has its interrupts off.
    pub evidence: Option<Evidence>,
    /// CPUs that were sampled.
    pub cpus: usize,
    /// Cycles of a CPU from one sample to the next.
    pub cycles_per_sample: u64,
    /// Nanoseconds that a cycle of iotoll's own work took, at the begin and at the end. Times are by the mean of both; on CPUs that ran faster or slower
    /// they are wrong by as much.
    pub cycle_ns: [f64; 2],
    /// Cycles of all CPUs, counted.
    pub cycles: f64,
    /// Samples of all CPUs.
    pub samples: u64,
    /// Those in the kernel.
    pub kernel_samples: u64,
    /// Those among them that fell where interrupts were off, as far as it can be seen: in a handler of an interrupt, and on x86-64 and POWER
    /// everywhere.
    pub interrupts_off_samples: u64,
    /// Samples in programs that watch functions of DMA mapping; they belong to no stage.
    pub program_samples: u64,
    /// Samples for which there was no room.
    pub lost_samples: u64,
    /// How often the kernel stopped a counter until its next tick, since samples came too fast.
    pub throttled: u64,
    /// Bytes of records that could not be understood.
    pub malformed_bytes: u64,
    /// What all adapters completed meanwhile, by which [`SampledTime::ns_per_io`] divides: `request` or `packet`. `None` if they completed
    /// nothing, or both.
    pub io: Option<CompletedIo>,
    /// DMA mapping altogether.
    pub all: Option<SampledTime>,
    /// Its stages.
    pub stages: Vec<SampledStage>,
    /// Its functions, as for a flame graph.
    pub paths: Vec<SampledPath>,
}

/// I/O of all adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompletedIo {
    /// How many.
    pub number: u64,
    /// Of what.
    pub name: &'static str,
}

/// CPU time by its number of samples.
///
/// Cycles decide how many samples there are, and each is in a stage or not. So a stage's number is binomial, and the interval is Wilson's
/// (E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927), which also holds for few samples and for none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledTime {
    /// How many.
    pub samples: u64,
    /// Time as a share of one core.
    pub cores: f64,
    /// Its 95 % interval.
    pub cores_interval: [f64; 2],
    /// Nanoseconds per I/O of all adapters.
    pub ns_per_io: Option<f64>,
    /// Its 95 % interval.
    pub ns_per_io_interval: Option<[f64; 2]>,
}

/// CPU time of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledStage {
    /// Which.
    pub stage: Stage,
    /// Its time.
    #[serde(flatten)]
    pub time: SampledTime,
}

/// Functions that called each other: those of DMA mapping, the outermost first, and at last the one that ran, whatever it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledPath {
    /// Their names.
    pub functions: Vec<String>,
    /// The stage of the innermost that belongs to DMA mapping.
    pub stage: Stage,
    /// Samples in the last function itself.
    pub samples: u64,
}

/// What a sampler counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sampled {
    evidence: Option<Result<Evidence, String>>,
    cpus: usize,
    cycles_per_sample: u64,
    cycle_ns: [f64; 2],
    cycles: f64,
    /// Cycles in a nanosecond of the time that was sampled, all CPUs together.
    cycles_per_ns: f64,
    /// Nanoseconds that were sampled, the mean of all CPUs.
    ns: f64,
    samples: u64,
    kernel: u64,
    interrupts_off: u64,
    programs: u64,
    lost: u64,
    throttled: u64,
    malformed_bytes: u64,
    stages: BTreeMap<Stage, u64>,
    paths: Vec<SampledPath>,
}

impl Stacks {
    /// Nothing, and why.
    pub(crate) fn without_samples(why: String) -> Self {
        Self::of(Sampled { evidence: Some(Err(why)), ..Sampled::default() }, Completed::default())
    }

    /// The result, with what all adapters completed meanwhile.
    pub(crate) fn of(sampled: Sampled, completed: Completed) -> Self {
        let is_one_kind = completed.block_requests == 0 || completed.packets == 0;
        let io = completed.io().filter(|_| is_one_kind).map(|(number, name)| CompletedIo { number, name });
        let time = |samples: u64| sampled.time(samples, io);
        let (unknown, evidence) = match &sampled.evidence {
            Some(Err(why)) => (Some(why.clone()), None),
            Some(Ok(evidence)) => (None, Some(*evidence)),
            None => (None, None),
        };
        let is_known = unknown.is_none();
        let stages: Vec<SampledStage> = sampled
            .stages
            .iter()
            .filter(|_| is_known)
            .map(|(stage, samples)| SampledStage { stage: *stage, time: time(*samples) })
            .collect();
        let all = is_known.then(|| time(sampled.stages.values().sum()));
        let mut paths = sampled.paths;
        paths.sort_by(|one, other| {
            other.samples.cmp(&one.samples).then_with(|| one.functions.cmp(&other.functions))
        });
        paths.truncate(if is_known { PATHS_MAX } else { 0 });
        Self {
            unknown,
            evidence,
            cpus: sampled.cpus,
            cycles_per_sample: sampled.cycles_per_sample,
            cycle_ns: sampled.cycle_ns,
            cycles: sampled.cycles,
            samples: sampled.samples,
            kernel_samples: sampled.kernel,
            interrupts_off_samples: sampled.interrupts_off,
            program_samples: sampled.programs,
            lost_samples: sampled.lost,
            throttled: sampled.throttled,
            malformed_bytes: sampled.malformed_bytes,
            io,
            all,
            stages,
            paths,
        }
    }
}

impl Sampled {
    /// The time of so many of the samples.
    fn time(&self, samples: u64, io: Option<CompletedIo>) -> SampledTime {
        let all_cores = self.cycles_per_ns * (self.cycle_ns[0] + self.cycle_ns[1]) / 2.0;
        let share = samples as f64 / self.samples.max(1) as f64;
        let cores_interval = share_interval(samples, self.samples).map(|share| share * all_cores);
        let per_io = |cores: f64| io.map(|io| cores * self.ns / io.number as f64);
        SampledTime {
            samples,
            cores: share * all_cores,
            cores_interval,
            ns_per_io: per_io(share * all_cores),
            ns_per_io_interval: per_io(cores_interval[0])
                .zip(per_io(cores_interval[1]))
                .map(<[f64; 2]>::from),
        }
    }
}

/// The 95 % interval of the share that `part` of `all` is a sample of, by Wilson's formula.
fn share_interval(part: u64, all: u64) -> [f64; 2] {
    if all == 0 {
        return [0.0, 1.0];
    }
    let (part, all) = (part as f64, all as f64);
    let (share, square) = (part / all, DEVIATIONS_95 * DEVIATIONS_95);
    let middle = share + square / (2.0 * all);
    let half = DEVIATIONS_95 * (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt();
    let scale = 1.0 + square / all;
    [((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn sampled(stages: &[(Stage, u64)]) -> Sampled {
        Sampled {
            evidence: Some(Ok(Evidence::Seen)),
            cpus: 2,
            cycles_per_sample: 3_000_001,
            cycle_ns: [0.30, 0.36],
            cycles: 3e10,
            cycles_per_ns: 3.0,
            ns: 1e10,
            samples: 10_000,
            kernel: 6_000,
            stages: stages.iter().copied().collect(),
            ..Sampled::default()
        }
    }

    fn requests(block_requests: u64, packets: u64) -> Completed {
        Completed { block_requests, packets, ..Completed::default() }
    }

    /// 3 cycles a nanosecond at 0.33 ns are 0.99 cores; a tenth of the samples is 0.099 of them, and in 10 s a million requests.
    #[test]
    fn samples_become_cores_and_time_per_request() {
        let stages = [(Stage::TableWrite, 1000), (Stage::Invalidation, 250)];
        let stacks = Stacks::of(sampled(&stages), requests(1_000_000, 0));
        assert_eq!(stacks.io, Some(CompletedIo { number: 1_000_000, name: "request" }));
        let time = stacks.stages[0].time;
        assert!(
            (time.cores - 0.099).abs() < 1e-9 && (time.ns_per_io.unwrap() - 990.0).abs() < 1e-6,
            "{time:?}"
        );
        let all = stacks.all.unwrap();
        assert!(all.samples == 1250 && (all.cores - 0.12375).abs() < 1e-9, "{all:?}");
        let [low, high] = time.cores_interval;
        assert!(low < time.cores && time.cores < high && high - low < 0.013, "{time:?}");
        assert_eq!(
            time.ns_per_io_interval.unwrap().map(f64::round),
            [low, high].map(|one| (one * 1e4).round())
        );
    }

    #[test]
    fn requests_and_packets_have_no_common_divisor() {
        let stages = [(Stage::Iova, 10)];
        for (requests, packets, name) in
            [(5, 5, None), (5, 0, Some("request")), (0, 5, Some("packet")), (0, 0, None)]
        {
            let stacks = Stacks::of(sampled(&stages), self::requests(requests, packets));
            assert_eq!(stacks.io.map(|io| io.name), name);
            assert_eq!(stacks.stages[0].time.ns_per_io.is_some(), name.is_some());
        }
    }

    #[test]
    fn what_is_not_believed_has_no_stages() {
        let made = Sampled { evidence: Some(Err("why".to_owned())), ..sampled(&[(Stage::Iova, 10)]) };
        let stacks = Stacks::of(made, requests(1, 0));
        assert_eq!((stacks.unknown.as_deref(), stacks.all, stacks.stages.len()), (Some("why"), None, 0));
        assert_eq!(stacks.samples, 10_000, "how many there were is known");
    }

    /// R. G. Newcombe, "Two-sided confidence intervals for the single proportion: comparison of seven methods", 1998, table I, method 3.
    #[test]
    fn intervals_are_those_that_were_published() {
        for (part, all, expected) in [
            (81, 263, [0.2553, 0.3662]),
            (15, 148, [0.0624, 0.1605]),
            (0, 20, [0.0, 0.1611]),
            (1, 29, [0.0061, 0.1718]),
        ] {
            let found = share_interval(part, all);
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 6e-5, "{part} of {all}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_share_is_in_its_interval() {
        for seed in 0..10_000 {
            let mut random = random::Random::of(seed);
            let bits = random.below(40);
            let all = random.below(1 << bits);
            let part = random.below(all + 1);
            let [low, high] = share_interval(part, all);
            let share = part as f64 / all.max(1) as f64;
            let is_in = 0.0 <= low && low <= share + 1e-12 && share <= high + 1e-12 && high <= 1.0;
            assert!(is_in, "{part} of {all}: {low} {high}");
        }
    }
}
