//! An experiment on a flash array, as a user's TOML file describes it.

use super::array::{Array, SECTOR_BYTES, Service};
use super::array_adapter::ArrayAdapter;
use super::fault::{Change, Fault};
use super::load::{IoInterface, Job};
use super::multipath::{LogEntry, Multipath, PathChange, Policy};
use super::outcome::{Outcome, Served};
use super::path::PathId;
use super::setup::{FlashArrayError, Setup, Translation};
use super::stack::{Library, Module, Stack};
use crate::host::{CpusAnswer, CpusFile, MappingFile};
use crate::part::Part;
use crate::replications::{Replications, SEEDS_MAX, default_seeds};
use crate::steady::RunsAnswer;
use crate::user_file::{self, ExperimentError, InvalidField};
use des::Span;
use serde::{Deserialize, Serialize};
use toll::Estimate;

/// A user's file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashArrayExperiment {
    /// Description, for people.
    what: String,
    cpus: CpusFile,
    stack: StackFile,
    library: LibraryFile,
    /// `None` if adapters use virtual addresses, as CAPI does.
    mapping: Option<MappingFile>,
    adapter: AdapterFile,
    multipath: MultipathFile,
    array: ArrayFile,
    loads: Vec<LoadFile>,
    #[serde(default)]
    faults: Vec<FaultFile>,
    /// Seed of all random choices of the first run.
    #[serde(default)]
    seed: u64,
    /// Number of runs, with consecutive seeds.
    #[serde(default = "default_seeds")]
    pub(crate) seeds: u32,
    /// Warm-up time before measuring, at least.
    warm_up_us: f64,
    /// Measured time, at least; with faults after the warm-up, exactly.
    measured_us: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct StackFile {
    system_call_instructions: f64,
    file_system_instructions: f64,
    interrupt_instructions: f64,
    sleep_instructions: f64,
    wake_instructions: f64,
    disk: ModuleFile,
    protocol: Option<ModuleFile>,
    adapter: ModuleFile,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleFile {
    submit_instructions: f64,
    complete_instructions: f64,
    locked_share: f64,
    lock_lines: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryFile {
    submit_instructions: f64,
    complete_instructions: f64,
    poll_instructions: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdapterFile {
    count: u32,
    ports: u32,
    kernel_queues: u32,
    queues_max: u32,
    latency_ns: f64,
    memory_ns: f64,
    posted_ns: f64,
    bus_megabytes_per_second: f64,
    port_megabytes_per_second: f64,
    wire_ns: f64,
    detection_ns: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MultipathFile {
    policy: PolicyFile,
    health_check_us: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PolicyFile {
    FailOver,
    RoundRobin,
    ShortestQueue,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayFile {
    disks: u32,
    modules: u32,
    read_ns: f64,
    write_ns: f64,
    reads_per_second: f64,
    writes_per_second: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadFile {
    way: IoInterfaceFile,
    threads: u32,
    depth: u32,
    read_share: f64,
    io_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum IoInterfaceFile {
    Kernel,
    User,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    at_us: f64,
    path: u32,
    change: ChangeFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ChangeFile {
    Pulled,
    Plugged,
}

/// Results, and what limits them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlashArrayAnswer {
    /// Description from the file.
    pub what: String,
    /// How it was measured.
    pub runs: RunsAnswer,
    /// All loads together.
    #[serde(flatten)]
    pub all: FlashArrayServed,
    /// Each load.
    pub loads: Vec<FlashArrayServed>,
    /// Mean number of requests in flight.
    pub depth_mean: Estimate,
    /// Interrupts per second.
    pub interrupts_per_second: Estimate,
    /// Instructions per request, including the hypervisor's; `None` if no request ended.
    pub instructions_each: Option<Estimate>,
    /// Cores used; a partly busy SMT core counts by its throughput relative to all its threads busy.
    pub cores_used: Estimate,
    /// Use of the host's CPUs.
    pub cpus: CpusAnswer,
    /// Use of the kernel's locks, by kind.
    pub locks: Vec<LockAnswer>,
    /// The error log of paths in the first run.
    pub log: Vec<LogAnswer>,
    /// Requests still waiting for a path at the end of the first run.
    pub waiting: u64,
    /// Busy share of each part, 0 to 1.
    pub parts: Vec<Part>,
    /// The part that limits the throughput.
    pub limit: String,
}

/// Completed requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlashArrayServed {
    /// Requests per second.
    pub operations_per_second: Estimate,
    /// Mean time from a thread's first instruction for a request until it has the result; `None` if none ended.
    pub latency_mean_ns: Option<Estimate>,
    /// Median latency.
    pub latency_p50_ns: Option<Estimate>,
    /// 99th percentile of the latency.
    pub latency_p99_ns: Option<Estimate>,
}

/// Use of one kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockAnswer {
    /// The kind.
    pub name: &'static str,
    /// Share of time in which the busiest lock of this kind was held.
    pub busy_share: f64,
    /// Mean number of hardware threads waiting for any of them.
    pub waiting_cpus: f64,
}

/// An entry of the error log.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogAnswer {
    /// Time since the start.
    pub at_us: f64,
    /// The path, counted over all adapters.
    pub path: u32,
    /// What happened.
    pub what: &'static str,
    /// Requests affected.
    pub ios: u64,
}

/// Longest simulated time, in microseconds: ten seconds.
const TIME_MAX_US: f64 = 1e7;
/// Least instructions per poll. An idle thread does nothing else, so fewer would mean too many polls to simulate.
const POLL_MIN: f64 = 10.0;
const IO_BYTES_MAX: u64 = 16 << 20;

impl FlashArrayExperiment {
    /// Parses a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        user_file::read(text, file, Self::invalid_field)
    }

    /// Runs the simulation.
    ///
    /// # Errors
    /// [`FlashArrayError`]: too many threads with their own queue, or an invalid host.
    pub fn run(&self) -> Result<FlashArrayAnswer, FlashArrayError> {
        let setup = self.setup();
        let runs =
            Replications::run(self.seed, self.seeds, |seed| super::run(&Setup { seed, ..setup.clone() }))?;
        Ok(self.answer(&runs))
    }

    /// The simulation's setup.
    pub fn setup(&self) -> Setup {
        let translation =
            |mapping: &MappingFile| Translation { dma_path: mapping.dma_path(), cost: mapping.cost() };
        Setup {
            cpus: self.cpus.cpus(),
            stack: self.stack.stack(),
            library: self.library.library(),
            translation: self.mapping.as_ref().map(translation),
            adapters: self.adapter.count,
            adapter: self.adapter.adapter(),
            multipath: self.multipath.multipath(),
            array: self.array.array(),
            disks: self.array.disks,
            jobs: self.loads.iter().map(LoadFile::job).collect(),
            faults: self.faults.iter().map(FaultFile::fault).collect(),
            warm_up: us(self.warm_up_us),
            measured: us(self.measured_us),
            seed: self.seed,
        }
    }

    fn answer(&self, runs: &Replications<Outcome>) -> FlashArrayAnswer {
        let parts = runs.parts(Outcome::parts);
        let first = runs.first();
        let lock = |(place, lock): (usize, &super::LockUsage)| LockAnswer {
            name: lock.kind.words(),
            busy_share: runs.mean(|run| run.locks[place].busy_share),
            waiting_cpus: runs.mean(|run| run.locks[place].waiting_cpus),
        };
        let served = |place: usize| FlashArrayServed::of(runs, |run| &run.jobs[place]);
        FlashArrayAnswer {
            what: self.what.clone(),
            runs: RunsAnswer::of(runs, self.warm_up_us, |run| run.window),
            all: FlashArrayServed::of(runs, |run| &run.all),
            loads: (0..first.jobs.len()).map(served).collect(),
            depth_mean: runs.estimate(|run| run.depth_mean),
            interrupts_per_second: runs.estimate(|run| run.interrupts_per_second),
            instructions_each: runs
                .estimate_known(|run| (run.all.per_second > 0.0).then(|| run.instructions_each())),
            cores_used: runs.estimate(|run| run.cores_used),
            cpus: CpusAnswer::of(runs, |run| &run.cpus),
            locks: first.locks.iter().enumerate().map(lock).collect(),
            log: first.log.iter().map(LogAnswer::from).collect(),
            waiting: first.totals.waiting,
            limit: Part::limiting(&parts).unwrap_or_else(|| "the number of requests in flight".to_owned()),
            parts,
        }
    }

    /// The first invalid field.
    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let is_time = |us: f64| (1.0..=TIME_MAX_US).contains(&us);
        let own = [
            InvalidField::unless(is_time(self.warm_up_us), "warm_up_us", self.warm_up_us, "1 to 1e7"),
            InvalidField::unless(is_time(self.measured_us), "measured_us", self.measured_us, "1 to 1e7"),
            InvalidField::unless_count("seeds", self.seeds.into(), SEEDS_MAX.into()),
        ];
        let paths = u64::from(self.adapter.count) * u64::from(self.adapter.ports);
        own.into_iter()
            .flatten()
            .next()
            .or_else(|| self.cpus.invalid_field())
            .or_else(|| self.stack.invalid_field())
            .or_else(|| self.library.invalid_field())
            .or_else(|| self.mapping.as_ref()?.invalid_field())
            .or_else(|| self.adapter.invalid_field())
            .or_else(|| self.multipath.invalid_field())
            .or_else(|| self.array.invalid_field())
            .or_else(|| self.loads.iter().find_map(LoadFile::invalid_field))
            .or_else(|| self.faults.iter().find_map(|fault| fault.invalid_field(paths)))
    }
}

impl StackFile {
    fn stack(&self) -> Stack {
        Stack {
            system_call: self.system_call_instructions,
            file_system: self.file_system_instructions,
            disk: self.disk.module(),
            protocol: self.protocol.as_ref().map(ModuleFile::module),
            adapter: self.adapter.module(),
            interrupt: self.interrupt_instructions,
            sleep: self.sleep_instructions,
            wake: self.wake_instructions,
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let all = [
            ("stack.system_call_instructions", self.system_call_instructions),
            ("stack.file_system_instructions", self.file_system_instructions),
            ("stack.interrupt_instructions", self.interrupt_instructions),
            ("stack.sleep_instructions", self.sleep_instructions),
            ("stack.wake_instructions", self.wake_instructions),
        ];
        let own = all.into_iter().find_map(|(field, value)| InvalidField::unless_instructions(field, value));
        own.or_else(|| self.disk.invalid_field("stack.disk"))
            .or_else(|| self.protocol.as_ref()?.invalid_field("stack.protocol"))
            .or_else(|| self.adapter.invalid_field("stack.adapter"))
    }
}

impl ModuleFile {
    fn module(&self) -> Module {
        Module {
            submit: self.submit_instructions,
            complete: self.complete_instructions,
            locked_share: self.locked_share,
            lines: self.lock_lines,
        }
    }

    fn invalid_field(&self, of: &str) -> Option<InvalidField> {
        let (share, lines) = (self.locked_share, self.lock_lines);
        let wrong = [
            InvalidField::unless_instructions("submit_instructions", self.submit_instructions),
            InvalidField::unless_instructions("complete_instructions", self.complete_instructions),
            InvalidField::unless((0.0..=1.0).contains(&share), "locked_share", share, "0 to 1"),
            InvalidField::unless((0.0..=1e3).contains(&lines), "lock_lines", lines, "0 to 1000"),
        ];
        wrong.into_iter().flatten().next().map(|wrong| wrong.of(of))
    }
}

impl LibraryFile {
    fn library(&self) -> Library {
        Library {
            submit: self.submit_instructions,
            complete: self.complete_instructions,
            poll: self.poll_instructions,
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let poll = self.poll_instructions;
        let wrong = [
            InvalidField::unless_instructions("library.submit_instructions", self.submit_instructions),
            InvalidField::unless_instructions("library.complete_instructions", self.complete_instructions),
            InvalidField::unless(
                (POLL_MIN..=1e9).contains(&poll),
                "library.poll_instructions",
                poll,
                "10 to 1e9",
            ),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl AdapterFile {
    fn adapter(&self) -> ArrayAdapter {
        ArrayAdapter {
            ports: self.ports,
            kernel_queues: self.kernel_queues,
            queues_max: self.queues_max,
            latency: Span::from_ns_f64(self.latency_ns),
            memory: Span::from_ns_f64(self.memory_ns),
            posted: Span::from_ns_f64(self.posted_ns),
            bus_bytes_per_second: self.bus_megabytes_per_second * 1e6,
            port_bytes_per_second: self.port_megabytes_per_second * 1e6,
            wire: Span::from_ns_f64(self.wire_ns),
            detection: Span::from_ns_f64(self.detection_ns),
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let wrong = [
            InvalidField::unless_count("adapter.count", self.count.into(), 64),
            InvalidField::unless_count("adapter.ports", self.ports.into(), 16),
            InvalidField::unless_count("adapter.queues_max", self.queues_max.into(), 4096),
            InvalidField::unless_count(
                "adapter.kernel_queues",
                self.kernel_queues.into(),
                self.queues_max.into(),
            ),
            InvalidField::unless_time("adapter.latency_ns", self.latency_ns),
            InvalidField::unless_time("adapter.memory_ns", self.memory_ns),
            InvalidField::unless_time("adapter.posted_ns", self.posted_ns),
            unless_rate("adapter.bus_megabytes_per_second", self.bus_megabytes_per_second),
            unless_rate("adapter.port_megabytes_per_second", self.port_megabytes_per_second),
            InvalidField::unless_time("adapter.wire_ns", self.wire_ns),
            InvalidField::unless_time("adapter.detection_ns", self.detection_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl MultipathFile {
    fn multipath(&self) -> Multipath {
        let policy = match self.policy {
            PolicyFile::FailOver => Policy::FailOver,
            PolicyFile::RoundRobin => Policy::RoundRobin,
            PolicyFile::ShortestQueue => Policy::ShortestQueue,
        };
        Multipath { policy, health_check: us(self.health_check_us) }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let every = self.health_check_us;
        InvalidField::unless(
            (1.0..=TIME_MAX_US).contains(&every),
            "multipath.health_check_us",
            every,
            "1 to 1e7",
        )
    }
}

impl ArrayFile {
    fn array(&self) -> Array {
        let service = |ns: f64, per_second: f64| Service { latency: Span::from_ns_f64(ns), per_second };
        Array {
            modules: self.modules,
            read: service(self.read_ns, self.reads_per_second),
            write: service(self.write_ns, self.writes_per_second),
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let rate = |field, value: f64| {
            InvalidField::unless((1.0..=1e12).contains(&value), field, value, "1 to 1e12")
        };
        let wrong = [
            InvalidField::unless_count("array.disks", self.disks.into(), 65_536),
            InvalidField::unless_count("array.modules", self.modules.into(), 65_536),
            InvalidField::unless_time("array.read_ns", self.read_ns),
            InvalidField::unless_time("array.write_ns", self.write_ns),
            rate("array.reads_per_second", self.reads_per_second),
            rate("array.writes_per_second", self.writes_per_second),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl LoadFile {
    fn job(&self) -> Job {
        let way = match self.way {
            IoInterfaceFile::Kernel => IoInterface::Kernel,
            IoInterfaceFile::User => IoInterface::User,
        };
        let Self { threads, depth, read_share, io_bytes, .. } = *self;
        Job { way, threads, depth, read_share, io_bytes }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let (share, bytes) = (self.read_share, self.io_bytes);
        let is_size = bytes.is_multiple_of(SECTOR_BYTES) && (1..=IO_BYTES_MAX).contains(&bytes);
        let wrong = [
            InvalidField::unless_count("loads.threads", self.threads.into(), 4096),
            InvalidField::unless_count("loads.depth", self.depth.into(), 4096),
            InvalidField::unless((0.0..=1.0).contains(&share), "loads.read_share", share, "0 to 1"),
            InvalidField::unless(is_size, "loads.io_bytes", bytes, "a multiple of 4096 up to 16777216"),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl FaultFile {
    fn fault(&self) -> Fault {
        let change = match self.change {
            ChangeFile::Pulled => Change::Pulled,
            ChangeFile::Plugged => Change::Plugged,
        };
        Fault { at: us(self.at_us), path: PathId(self.path), change }
    }

    fn invalid_field(&self, paths: u64) -> Option<InvalidField> {
        let (at, path) = (self.at_us, self.path);
        let is_path = u64::from(path) < paths;
        let wrong = [
            InvalidField::unless((0.0..=TIME_MAX_US).contains(&at), "faults.at_us", at, "0 to 1e7"),
            InvalidField::unless(is_path, "faults.path", path, "less than adapter.count times adapter.ports"),
        ];
        wrong.into_iter().flatten().next()
    }
}

fn unless_rate(field: &'static str, megabytes_per_second: f64) -> Option<InvalidField> {
    InvalidField::unless(
        (0.1..=1e6).contains(&megabytes_per_second),
        field,
        megabytes_per_second,
        "0.1 to 1000000",
    )
}

fn us(us: f64) -> Span {
    Span::from_ns_f64(us * 1e3)
}

impl FlashArrayServed {
    /// Means over the runs; `of` is what was served in one.
    fn of(runs: &Replications<Outcome>, of: impl Fn(&Outcome) -> &Served) -> Self {
        let latency = |latency: fn(&Served) -> Span| {
            runs.estimate_known(|run| (of(run).per_second > 0.0).then(|| latency(of(run)).as_ns_f64()))
        };
        Self {
            operations_per_second: runs.estimate(|run| of(run).per_second),
            latency_mean_ns: latency(|served| served.latency_mean),
            latency_p50_ns: latency(|served| served.latency_p50),
            latency_p99_ns: latency(|served| served.latency_p99),
        }
    }
}

impl From<&LogEntry> for LogAnswer {
    fn from(entry: &LogEntry) -> Self {
        Self {
            at_us: entry.at.as_ps() as f64 / 1e6,
            path: entry.path.0,
            what: match entry.what {
                PathChange::Failed => "failed",
                PathChange::Recovered => "recovered",
            },
            ios: entry.ios,
        }
    }
}
