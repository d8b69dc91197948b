//! Threads that map and unmap concurrently, for each IOVA allocator.

use super::{FILE, NAME};
use crate::command_queue::{self, Claim};
use crate::contention::{self, CpuTopology, Locks, Outcome, Setup, Step};
use crate::studies::StudyError;
use crate::studies::about::PointFile;
use crate::studies::changes::read_table;
use crate::studies::parameters::to_integer;
use crate::studies::power7::{Power7, Speeds};
use crate::{Bounds, Chart, Curve, Given, Line, Parameter, Reference};
use des::{Span, TransferCost};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Operations of a simulation in total, and the minimum for each of its CPUs.
const OPERATIONS: u64 = 40_000;
const OPERATIONS_MIN: u64 = 500;
/// Operations per thread in the talk.
const MILLION: f64 = 1e6;

/// The tables of the study file that describe threads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Threads {
    parameters: toml::Table,
    queue: QueueFile,
    jobs: Vec<JobsFile>,
    two_cpus: Vec<TwoCpusFile>,
    charts: Vec<ChartFile>,
}

/// Parameters of the models. Times are those of one map and unmap pair unless stated otherwise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Cache lines that an allocator reads at the start of its critical section.
    lines: Given,
    /// Share of the waiting CPUs that fetch the lock's cache line before its next owner.
    crowd_share: Given,
    power_cores: Given,
    direct_instructions: Given,
    bitmap_instructions: Given,
    pool_instructions: Given,
    tree_instructions: Given,
    magazine_instructions: Given,
    x86_cores: Given,
    x86_smt2_gain: Given,
    x86_tables_ns: Given,
    x86_invalidation_ns: Given,
    /// Transfer time of a cache line between two cores of one group.
    x86_line_ns: Given,
    x86_magazine_ns: Given,
    x86_tree_ns: Given,
    queue_work_ns: Given,
    queue_access_ns: Given,
    queue_sync_ns: Given,
}

/// The parameters of the POWER and the x86 machine.
struct Model {
    own: Parameters,
    power7: Speeds,
    /// Of all random choices.
    seed: u64,
}

/// How IOVAs are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scheme {
    /// Direct DMA at a fixed offset: nothing is allocated.
    Direct,
    /// Nothing is allocated, but the translation table is written.
    TableOnly,
    /// One bitmap, whose lock is held while the table is written: powerpc before Linux 3.6.
    BitmapOverHypercalls,
    /// One bitmap, one lock.
    Bitmap,
    /// Four pools: powerpc since Linux 3.6.
    Pool,
    /// One red-black tree.
    Tree,
    /// Per-CPU magazines: Linux since 4.7.
    Magazine,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveFile {
    name: String,
    #[serde(default)]
    reference: Reference,
    source: String,
    remark: Option<String>,
    points: Vec<PointFile>,
}

/// CPUs that insert commands into one SMMUv3 command queue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueFile {
    rates: CurveFile,
    /// The same, as its author counted it a month later.
    later_rates: CurveFile,
    /// With an atomic addition instead of the compare-and-exchange.
    additions: CurveFile,
    later_additions: CurveFile,
    attempts: CurveFile,
}

/// Jobs of an I/O load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsFile {
    scheme: Scheme,
    /// Thousand I/Os per second of one job with this scheme.
    alone_kiops: f64,
    /// The same without a shared lock.
    unlocked_kiops: f64,
    curve: CurveFile,
}

/// Two CPUs of this machine. The x value of a point is the transfer time of a cache line in ns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TwoCpusFile {
    locks: LocksFile,
    /// Time of a map and unmap pair by a single thread.
    pair_ns: f64,
    lines: u32,
    curve: CurveFile,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LocksFile {
    One,
    Cpus,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChartFile {
    name: String,
    source: String,
    remark: Option<String>,
    platform: Platform,
    threads: Vec<u32>,
    lines: Vec<LineFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Platform {
    Power,
    X86,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineFile {
    name: String,
    scheme: Scheme,
    bounds: Option<Bounds>,
}

impl Threads {
    /// Runs the models of all curves of threads.
    pub(super) fn build_curves(&self, power7: &Power7, seed: u64) -> Result<Vec<Curve>, StudyError> {
        let given = self.model(power7, seed)?;
        let mut curves = Vec::new();
        for two in &self.two_cpus {
            let ours = |x: f64| Ok(two.simulate(x, seed)?.latency_mean.as_ns_f64());
            curves.push(two.curve.build("cache line transfer, ns", "ns per pair of each thread", ours)?);
        }
        let QueueFile { rates, later_rates, additions, later_additions, attempts } = &self.queue;
        let claims = [
            (rates, Claim::Exchange),
            (later_rates, Claim::Exchange),
            (additions, Claim::Addition),
            (later_additions, Claim::Addition),
        ];
        for (curve, claim) in claims {
            let each = |cpus: f64| Ok(given.simulate_queue(cpus, claim)?.per_second / cpus / 1e3);
            curves.push(curve.build("CPUs", "thousand pairs a second by each CPU", each)?);
        }
        let tries = |cpus: f64| Ok(given.simulate_queue(cpus, Claim::Exchange)?.attempts);
        curves.push(attempts.build("CPUs", "compare-and-exchanges for one that succeeds", tries)?);
        for jobs in &self.jobs {
            let ours = |x: f64| Ok(given.simulate_jobs(jobs, x)?.per_second / 1e3);
            curves.push(jobs.curve.build("jobs", "thousand I/Os a second", ours)?);
        }
        Ok(curves)
    }

    /// Runs the models of all charts of threads.
    pub(super) fn build_charts(&self, power7: &Power7, seed: u64) -> Result<Vec<Chart>, StudyError> {
        let given = self.model(power7, seed)?;
        self.charts.iter().map(|chart| given.build_chart(chart)).collect()
    }

    /// The parameters of threads, for the report.
    pub(super) fn parameter_list(&self) -> Result<Vec<Parameter>, StudyError> {
        let listed: BTreeMap<String, Given> = read_table(FILE, &self.parameters)?;
        let parameter = |(name, Given { value, evidence })| Parameter { name, value, evidence };
        Ok(listed.into_iter().map(parameter).collect())
    }

    fn model(&self, power7: &Power7, seed: u64) -> Result<Model, StudyError> {
        let own: Parameters = read_table(FILE, &self.parameters)?;
        Ok(Model { own, power7: power7.speeds()?, seed })
    }
}

impl CurveFile {
    /// Runs the model `ours` at the x value of each published point.
    fn build(
        &self,
        x_title: &str,
        y_title: &str,
        ours: impl Fn(f64) -> Result<f64, StudyError>,
    ) -> Result<Curve, StudyError> {
        let point = |point: &PointFile| Ok(point.with_model_value(ours(point.x)?));
        Ok(Curve {
            name: self.name.clone(),
            x_title: x_title.to_owned(),
            y_title: y_title.to_owned(),
            reference: self.reference,
            source: self.source.clone(),
            within: None,
            remark: self.remark.clone(),
            points: self.points.iter().map(point).collect::<Result<_, StudyError>>()?,
        })
    }
}

impl TwoCpusFile {
    /// Runs two CPUs between which a cache line takes `line_ns`.
    fn simulate(&self, line_ns: f64, seed: u64) -> Result<Outcome, StudyError> {
        let half = Span::from_ns_f64(self.pair_ns / 2.0);
        let locks = match self.locks {
            LocksFile::One => Locks::One,
            LocksFile::Cpus => Locks::Cpus,
        };
        run(Setup {
            steps: vec![Step::Hold(half); 2],
            locks,
            lines: self.lines,
            is_random: false,
            ..uniform_cores(2, line_ns, seed)
        })
    }
}

impl Model {
    /// Simulates CPUs that map and unmap a page each, and put the invalidation into one command queue of an SMMUv3.
    fn simulate_queue(&self, cpus: f64, claim: Claim) -> Result<command_queue::Outcome, StudyError> {
        let cpus = to_integer("cpus", cpus)?;
        Ok(command_queue::run(&command_queue::Setup {
            cpus,
            work: Span::from_ns_f64(self.own.queue_work_ns.value),
            access: Span::from_ns_f64(self.own.queue_access_ns.value),
            sync: Span::from_ns_f64(self.own.queue_sync_ns.value),
            claim,
            operations: operations_per_thread(cpus),
            seed: self.seed,
        }))
    }

    /// Simulates `count` jobs that each wait only for their own I/Os. The time of an I/O alone is measured; its locked part
    /// follows from the rate without a lock.
    fn simulate_jobs(&self, jobs: &JobsFile, count: f64) -> Result<Outcome, StudyError> {
        let alone_ns = 1e6 / jobs.alone_kiops;
        let line = self.own.x86_line_ns.value;
        let setup = uniform_cores(count as u32, line, self.seed);
        let (steps, locks) = match jobs.scheme {
            Scheme::Tree => {
                let held = alone_ns - 1e6 / jobs.unlocked_kiops + self.own.x86_magazine_ns.value;
                (
                    vec![
                        Step::Wait(Span::from_ns_f64(alone_ns - held)),
                        hold_step(held / 2.0),
                        hold_step(held / 2.0),
                    ],
                    Locks::One,
                )
            }
            // Two words are read and then updated.
            Scheme::Bitmap => (
                vec![Step::Wait(Span::from_ns_f64(alone_ns - 4.0 * line)), Step::Exchange, Step::Exchange],
                Locks::Cpus,
            ),
            _ => (vec![Step::Wait(Span::from_ns_f64(alone_ns))], Locks::Cpus),
        };
        run(Setup {
            steps,
            locks,
            lines: to_integer("lines", self.own.lines.value)?,
            crowd_share: self.own.crowd_share.value,
            ..setup
        })
    }

    /// Computes the seconds of a million pairs per thread, for each scheme and number of threads.
    fn build_chart(&self, chart: &ChartFile) -> Result<Chart, StudyError> {
        let point = |scheme: Scheme, threads: u32| {
            let outcome = run(self.setup(chart.platform, scheme, threads)?)?;
            Ok((f64::from(threads), outcome.seconds(MILLION * f64::from(threads))))
        };
        let line = |line: &LineFile| {
            let points = chart.threads.iter().map(|&threads| point(line.scheme, threads));
            Ok(Line {
                name: line.name.clone(),
                bounds: line.bounds,
                points: points.collect::<Result<_, StudyError>>()?,
            })
        };
        Ok(Chart {
            categories: Vec::new(),
            name: chart.name.clone(),
            x_title: "threads".to_owned(),
            y_title: "seconds for a million pairs by each thread".to_owned(),
            source: chart.source.clone(),
            remark: chart.remark.clone(),
            lines: chart.lines.iter().map(line).collect::<Result<_, StudyError>>()?,
        })
    }

    /// A simulation of threads that only map and unmap.
    fn setup(&self, platform: Platform, scheme: Scheme, threads: u32) -> Result<Setup, StudyError> {
        let machine = self.machine(platform)?;
        let call = Span::from_ns_f64(self.direct_ns(platform));
        let table = self.table_ns(platform) / 2.0;
        let half = self.allocator_ns(platform, scheme) / 2.0;
        let (write, clear) = (Step::Work(Span::from_ns_f64(table)), Step::Work(Span::from_ns_f64(table)));
        let steps = match scheme {
            Scheme::Direct => vec![Step::Work(call)],
            Scheme::TableOnly => vec![write, clear],
            Scheme::BitmapOverHypercalls => {
                vec![Step::Work(call), hold_step(half + table), hold_step(table + half)]
            }
            _ => vec![Step::Work(call), hold_step(half), write, clear, hold_step(half)],
        };
        let locks = match scheme {
            Scheme::Pool => Locks::Pools,
            Scheme::Direct | Scheme::TableOnly | Scheme::Magazine => Locks::Cpus,
            Scheme::Bitmap | Scheme::BitmapOverHypercalls | Scheme::Tree => Locks::One,
        };
        Ok(Setup {
            machine,
            threads,
            steps,
            locks,
            lines: self.lock_lines(platform)?,
            crowd_share: self.own.crowd_share.value,
            access: Span::ZERO,
            operations: operations_per_thread(threads),
            is_random: true,
            seed: self.seed,
        })
    }

    /// The cache lines that go with a lock: on POWER those of Linux's window, on x86 those of our allocators.
    fn lock_lines(&self, platform: Platform) -> Result<u32, StudyError> {
        match platform {
            Platform::Power => Ok(self.power7.window_lock_lines),
            Platform::X86 => to_integer("lines", self.own.lines.value),
        }
    }

    /// The cores, nodes and cache-line transfer times of a platform.
    fn machine(&self, platform: Platform) -> Result<CpuTopology, StudyError> {
        Ok(match platform {
            Platform::Power => CpuTopology {
                cores: to_integer("power_cores", self.own.power_cores.value)?,
                smt_gain: self.power7.core_capacity.clone(),
                nodes: self.power7.chips(self.own.power_cores.value),
                transfer: self.power7.line_transfer(),
            },
            Platform::X86 => CpuTopology {
                cores: to_integer("x86_cores", self.own.x86_cores.value)?,
                smt_gain: vec![1.0, self.own.x86_smt2_gain.value],
                nodes: 1,
                transfer: uniform_transfer(self.own.x86_line_ns.value),
            },
        })
    }

    /// Time that a pair spends on the translation table, in ns: one write and one clear.
    fn table_ns(&self, platform: Platform) -> f64 {
        match platform {
            Platform::Power => 2.0 * self.power7.hypercall.as_ns_f64(),
            Platform::X86 => self.own.x86_tables_ns.value + self.own.x86_invalidation_ns.value,
        }
    }

    /// Time of a map and unmap pair with direct DMA, in ns.
    fn direct_ns(&self, platform: Platform) -> f64 {
        self.own.direct_instructions.value * self.ns_per_instruction(platform)
    }

    /// Time of an IOVA allocation and its release, in ns.
    fn allocator_ns(&self, platform: Platform, scheme: Scheme) -> f64 {
        let instructions = match scheme {
            Scheme::Direct | Scheme::TableOnly => 0.0,
            Scheme::Bitmap | Scheme::BitmapOverHypercalls => self.own.bitmap_instructions.value,
            Scheme::Pool => self.own.pool_instructions.value,
            Scheme::Tree => self.own.tree_instructions.value,
            Scheme::Magazine => self.own.magazine_instructions.value,
        };
        instructions * self.ns_per_instruction(platform)
    }

    /// Time of an instruction, in ns. On x86 it follows from the tree, whose time and instructions were both measured.
    fn ns_per_instruction(&self, platform: Platform) -> f64 {
        match platform {
            Platform::Power => self.power7.instruction_ns,
            Platform::X86 => self.own.x86_tree_ns.value / self.own.tree_instructions.value,
        }
    }
}

/// A simulation of one thread per core, where a cache line takes `line_ns` between any two cores. Its steps are empty.
fn uniform_cores(threads: u32, line_ns: f64, seed: u64) -> Setup {
    Setup {
        machine: CpuTopology {
            cores: threads,
            smt_gain: vec![1.0],
            nodes: 1,
            transfer: uniform_transfer(line_ns),
        },
        threads,
        steps: Vec::new(),
        locks: Locks::Cpus,
        lines: 1,
        crowd_share: 0.0,
        access: Span::from_ns_f64(line_ns),
        operations: operations_per_thread(threads),
        is_random: true,
        seed,
    }
}

/// Operations that each thread performs in a simulation.
fn operations_per_thread(threads: u32) -> u64 {
    (OPERATIONS / u64::from(threads.max(1))).max(OPERATIONS_MIN)
}

/// A cache line takes as long between any two cores.
fn uniform_transfer(line_ns: f64) -> TransferCost {
    let line = Span::from_ns_f64(line_ns);
    TransferCost { same_cpu: Span::ZERO, same_node: line, other_node: line }
}

fn run(setup: Setup) -> Result<Outcome, StudyError> {
    contention::run(&setup).map_err(|source| StudyError::Simulation { study: NAME, source })
}

/// A step that holds the allocator's lock for this many ns.
fn hold_step(span_ns: f64) -> Step {
    Step::Hold(Span::from_ns_f64(span_ns))
}
