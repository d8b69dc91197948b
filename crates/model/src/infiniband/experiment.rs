//! InfiniBand adapters as a user's file describes them: with their contexts in the host's memory, and beside it in their own.

use super::icm::{Chunks, Profile, doorbell_bytes};
use super::mpi::{Library, PACKETS_MAX, Program, ProgramError, ProgramOutcome, run_program};
use super::nas::{Kernel, PROCESSES};
use super::trace::{Trace, TraceError};
use super::verbs;
use super::{
    Bus, CacheShape, ContextUse, Hca, HcaHost, Load, MemoryKind, Outcome, Pattern, PciX, Replacement,
    RunError, Setup, Verb, Wire, run,
};
use crate::link::Link;
use crate::part::Part;
use crate::replications::{Replications, SEEDS_MAX, default_seeds};
use crate::steady::{CountedRunsAnswer, MeasuredWindow};
use crate::user_file::{self, ExperimentError, InvalidField, wrong_link};
use des::Span;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use toll::Estimate;

/// What a file says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptersExperiment {
    /// What it is about, for people.
    what: String,
    host: HostFile,
    adapter: AdapterFile,
    wire: WireFile,
    /// What two processes do over verbs; or else `processes`.
    verbs: Option<VerbsFile>,
    /// What processes do that pass messages.
    processes: Option<ProcessesFile>,
    /// Of all random choices of the first run.
    #[serde(default)]
    seed: u64,
    /// Number of runs, with consecutive seeds, if anything depends on the seed.
    #[serde(default = "default_seeds")]
    pub(crate) seeds: u32,
    /// A trace in place of a benchmark.
    #[serde(skip)]
    trace: Option<Trace>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    pcie: Option<Link>,
    pcix: Option<PciXFile>,
    read_ns: f64,
    post_ns: f64,
    poll_ns: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PciXFile {
    clock_mhz: f64,
    bytes_per_clock: u64,
    overhead_clocks: u64,
    burst_bytes_max: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdapterFile {
    send_ns: f64,
    send_gap_ns: f64,
    receive_ns: f64,
    receive_gap_ns: f64,
    works_max: u32,
    packets_max: u32,
    fetches_max: u32,
    memory_ns: f64,
    memory_gigabytes_per_second: f64,
    qp_bytes: u64,
    cache: CacheFile,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheFile {
    kib: u64,
    line_bytes: u64,
    ways: u32,
    replacement: Replacement,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFile {
    gigabits_per_second: f64,
    overhead_share: f64,
    mtu_bytes: u64,
    latency_ns: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct VerbsFile {
    pattern: PatternFile,
    verb: Verb,
    message_bytes: u64,
    connections: u32,
    messages: u64,
    #[serde(default = "one")]
    window: u32,
    #[serde(default = "default_reuse_percent")]
    reuse_percent: u32,
    #[serde(default)]
    both_ways: bool,
    #[serde(default)]
    is_loop: bool,
    #[serde(default = "host")]
    buffers: MemoryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PatternFile {
    Alone,
    PingPong,
    Scatter,
    Stream,
    Random,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessesFile {
    /// A trace replaces it.
    benchmark: Option<Kernel>,
    #[serde(default = "million")]
    operations_per_second: f64,
    #[serde(default = "one")]
    rounds: u32,
    per_node: u16,
    eager_bytes_max: u64,
    copy_ps_per_byte: f64,
    call_ns: f64,
    shared_ns: f64,
}

/// Why nothing came out.
#[derive(Debug, thiserror::Error)]
pub enum AdaptersError {
    /// A trace's line.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No line's fault.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdaptersAnswer {
    /// What it is about.
    pub what: String,
    /// How it was measured, with contexts in the host's memory.
    pub runs: CountedRunsAnswer,
    /// With contexts in the host's memory.
    pub memory_less: PlacedAnswer,
    /// With contexts in the adapter's.
    pub with_memory: PlacedAnswer,
    /// What an adapter without memory takes more time, as a share.
    pub cost_share: Estimate,
    /// Host memory that contexts take without memory of their own, for the connections of one adapter; translations of buffers
    /// come to it.
    pub host_memory_bytes: u64,
}

/// What was measured of one placement.
#[derive(Debug)]
struct Times {
    window: MeasuredWindow<u64>,
    mean: Span,
    p99: Option<Span>,
    messages_per_second: f64,
    /// Bytes of a message, on average.
    bytes_per_message: f64,
    /// What the adapters did with contexts, and for how many messages.
    contexts: ContextUse,
    messages: u64,
    unreceived: u64,
}

/// What came out of one placement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacedAnswer {
    /// Mean time of a message, of a scatter, or of a round of processes.
    pub latency_mean_ns: Estimate,
    /// What 99 of 100 messages or scatters took at most.
    pub latency_p99_ns: Option<Estimate>,
    /// Messages in a second.
    pub messages_per_second: Estimate,
    /// Messages that were sent and that nobody received.
    pub unreceived: u64,
    /// Bytes of messages in a second, in 10^9 bits.
    pub gigabits_per_second: Estimate,
    /// Of look-ups of contexts, those that missed.
    pub miss_share: f64,
    /// Bytes of contexts that were fetched for each message.
    pub fetched_bytes_per_message: f64,
    /// How busy each part of the first node was, 0 to 1.
    pub parts: Vec<Part>,
}

const MESSAGE_BYTES_MAX: u64 = 16 << 20;
const CONNECTIONS_MAX: u32 = 200_000;
const MESSAGES_MAX: u64 = 10_000_000;
const WINDOW_MAX: u32 = 1 << 16;
/// Lines of a cache.
const LINES_MAX: u64 = 1 << 18;

impl AdaptersExperiment {
    /// Reads a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        user_file::read(text, file, Self::invalid_field)
    }

    /// The experiment with a trace instead of a benchmark. `None` if the file has no processes.
    pub fn with_trace(self, trace: Trace) -> Option<Self> {
        self.processes.as_ref()?;
        let what = format!("trace {}", trace.file);
        Some(Self { what, trace: Some(trace), ..self })
    }

    /// Whether the file has processes, but neither a benchmark nor a trace to run on them.
    pub fn needs_trace(&self) -> bool {
        let has_benchmark = |processes: &ProcessesFile| processes.benchmark.is_some();
        self.trace.is_none() && self.processes.as_ref().is_some_and(|processes| !has_benchmark(processes))
    }

    /// Runs it with both placements.
    ///
    /// # Errors
    /// [`AdaptersError`]
    pub fn run(&self) -> Result<AdaptersAnswer, AdaptersError> {
        let run = |seed| -> Result<_, AdaptersError> {
            Ok([self.outcome(MemoryKind::Host, seed)?, self.outcome(MemoryKind::Adapter, seed)?])
        };
        let runs = match self.is_random() {
            true => Replications::run(self.seed, self.seeds, run)?,
            false => Replications::run_once(|| run(self.seed))?,
        };
        let connections = self.connections();
        let mut chunks = Chunks::new(self.profile());
        (0..connections).for_each(|number| chunks.connect(number));
        Ok(AdaptersAnswer {
            what: self.what.clone(),
            runs: CountedRunsAnswer::of(&runs, self.is_random(), |[memory_less, _]| memory_less.0.window),
            memory_less: PlacedAnswer::of(&runs, 0),
            with_memory: PlacedAnswer::of(&runs, 1),
            cost_share: runs.estimate(|[memory_less, with_memory]| self.cost(&memory_less.0, &with_memory.0)),
            host_memory_bytes: chunks.bytes() + doorbell_bytes(connections),
        })
    }

    /// Runs it without memory, and says how many events that took.
    ///
    /// # Errors
    /// [`AdaptersError`]
    pub fn events(&self) -> Result<u64, AdaptersError> {
        self.outcome(MemoryKind::Host, self.seed).map(|(_, outcome)| outcome.events)
    }

    /// Where as much as possible is sent it is the rate that counts, else the time of each.
    fn cost(&self, memory_less: &Times, with_memory: &Times) -> f64 {
        let is_full = |verbs: &VerbsFile| matches!(verbs.pattern, PatternFile::Stream | PatternFile::Random);
        let (more, less) = if self.verbs.as_ref().is_some_and(is_full) {
            (with_memory.messages_per_second, memory_less.messages_per_second)
        } else {
            (memory_less.mean.as_ns_f64(), with_memory.mean.as_ns_f64())
        };
        // What takes no time in either costs nothing.
        if more == less { 0.0 } else { more / less - 1.0 }
    }

    /// Whether anything depends on the seed.
    fn is_random(&self) -> bool {
        let draws = |verbs: &VerbsFile| verbs.pattern == PatternFile::Random;
        self.verbs.as_ref().is_some_and(draws) || self.adapter.cache.replacement == Replacement::Random
    }

    /// What was measured, where messages have a time each, and everything else.
    fn outcome(&self, contexts: MemoryKind, seed: u64) -> Result<(Times, Outcome), AdaptersError> {
        let setup = Setup { seed, ..self.setup(contexts) };
        if let Some(verbs) = &self.verbs {
            let measured = run(&setup, &verbs.load()).map_err(ProgramError::from)?;
            let times = Times {
                window: measured.window,
                mean: measured.latency_mean,
                p99: Some(measured.latency_p99),
                messages_per_second: measured.messages_per_second,
                bytes_per_message: verbs.message_bytes as f64,
                contexts: measured.contexts,
                messages: measured.messages,
                unreceived: 0,
            };
            return Ok((times, measured.outcome));
        }
        // One of both there is, as was checked.
        let Some(processes) = &self.processes else {
            return Err(ProgramError::from(RunError::TooLong).into());
        };
        let program = self.program(processes);
        let ran = run_program(&setup, &processes.library(), &program).map_err(|error| {
            let place = self.trace.as_ref().and_then(|trace| trace.place(&error));
            place.map_or_else(|| AdaptersError::from(error), AdaptersError::from)
        })?;
        let ProgramOutcome { round, messages, bytes, unreceived, outcome } = ran;
        let seconds = round.as_ps_f64() / 1e12;
        let rounds = program.rounds.into();
        let window = MeasuredWindow {
            warm_up: 1,
            measured: rounds,
            is_extended: false,
            is_checked: false,
            is_noisy: false,
        };
        let times = Times {
            window,
            mean: round,
            p99: None,
            messages_per_second: if seconds > 0.0 { messages as f64 / seconds } else { 0.0 },
            bytes_per_message: bytes as f64 / messages.max(1) as f64,
            contexts: outcome.contexts,
            // And the round before those that are measured.
            messages: messages * (u64::from(program.rounds) + 1),
            unreceived,
        };
        Ok((times, outcome))
    }

    /// A trace may be long, and is not copied.
    fn program(&self, processes: &ProcessesFile) -> Cow<'_, Program> {
        let benchmark = || {
            let kernel = processes.benchmark?;
            Some(Cow::Owned(kernel.program(processes.operations_per_second, processes.rounds)))
        };
        let of_trace = self.trace.as_ref().map(|trace| Cow::Borrowed(&trace.program));
        of_trace.or_else(benchmark).unwrap_or_default()
    }

    /// Connections of one adapter.
    fn connections(&self) -> u64 {
        let of_processes = |processes: &ProcessesFile| {
            let all =
                self.trace.as_ref().map_or(u64::from(PROCESSES), |trace| trace.program.ops.len() as u64);
            let near = u64::from(processes.per_node).min(all);
            near * (all - near)
        };
        let of_verbs =
            self.verbs.as_ref().map(|verbs| u64::from(verbs.connections) * if verbs.is_loop { 2 } else { 1 });
        of_verbs.or_else(|| self.processes.as_ref().map(of_processes)).unwrap_or_default()
    }

    /// Tables as large as the driver's defaults, or as the connections need.
    fn profile(&self) -> Profile {
        let needed = (self.connections() + 16).next_power_of_two();
        let default = Profile::default();
        Profile {
            qps: default.qps.max(needed),
            cqs: default.cqs.max(needed),
            regions: default.regions.max(2 * needed),
            segments: default.segments,
            qp_bytes: self.adapter.qp_bytes,
            extended_qp_bytes: default.extended_qp_bytes,
        }
    }

    fn setup(&self, contexts: MemoryKind) -> Setup {
        let (host, adapter, wire) = (&self.host, &self.adapter, &self.wire);
        Setup {
            host: HcaHost {
                bus: host.bus(),
                read: Span::from_ns_f64(host.read_ns),
                post: Span::from_ns_f64(host.post_ns),
                poll: Span::from_ns_f64(host.poll_ns),
            },
            adapter: Hca {
                send: Span::from_ns_f64(adapter.send_ns),
                send_gap: Span::from_ns_f64(adapter.send_gap_ns),
                receive: Span::from_ns_f64(adapter.receive_ns),
                receive_gap: Span::from_ns_f64(adapter.receive_gap_ns),
                works_max: adapter.works_max,
                packets_max: adapter.packets_max,
                fetches_max: adapter.fetches_max,
                cache: adapter.cache.shape(),
                profile: self.profile(),
                memory: Span::from_ns_f64(adapter.memory_ns),
                memory_bytes_per_second: adapter.memory_gigabytes_per_second * 1e9,
            },
            contexts,
            wire: Wire {
                bits_per_second: wire.gigabits_per_second * 1e9,
                overhead_share: wire.overhead_share,
                mtu_bytes: wire.mtu_bytes,
                latency: Span::from_ns_f64(wire.latency_ns),
            },
            seed: self.seed,
        }
    }

    /// The first value that no machine has.
    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let loads = usize::from(self.verbs.is_some()) + usize::from(self.processes.is_some());
        InvalidField::unless(loads == 1, "what is done", loads, "one of [verbs] and [processes]")
            .or_else(|| InvalidField::unless_count("seeds", self.seeds.into(), SEEDS_MAX.into()))
            .or_else(|| self.host.invalid_field())
            .or_else(|| self.adapter.invalid_field())
            .or_else(|| self.wire.invalid_field())
            .or_else(|| self.verbs.as_ref()?.invalid_field(self.wire.mtu_bytes))
            .or_else(|| self.processes.as_ref()?.invalid_field())
    }
}

impl PlacedAnswer {
    /// Means over the runs, of the placement at this index.
    fn of(runs: &Replications<[(Times, Outcome); 2]>, place: usize) -> Self {
        let times = |run: &[(Times, Outcome); 2], of: fn(&Times) -> f64| of(&run[place].0);
        let gigabits = |times: &Times| times.messages_per_second * times.bytes_per_message * 8e-9;
        let fetched = |times: &Times| times.contexts.fetched_bytes as f64 / times.messages.max(1) as f64;
        Self {
            latency_mean_ns: runs.estimate(|run| times(run, |times| times.mean.as_ns_f64())),
            latency_p99_ns: runs.estimate_known(|run| run[place].0.p99.map(Span::as_ns_f64)),
            messages_per_second: runs.estimate(|run| times(run, |times| times.messages_per_second)),
            unreceived: runs.first()[place].0.unreceived,
            gigabits_per_second: runs.estimate(|run| times(run, gigabits)),
            miss_share: runs.mean(|run| run[place].0.contexts.miss_share()),
            fetched_bytes_per_message: runs.mean(|run| fetched(&run[place].0)),
            parts: runs.parts(|run| run[place].1.parts()),
        }
    }
}

impl HostFile {
    fn bus(&self) -> Bus {
        match (self.pcix, self.pcie) {
            (Some(PciXFile { clock_mhz, bytes_per_clock, overhead_clocks, burst_bytes_max }), _) => {
                Bus::PciX(PciX {
                    clock_hz: clock_mhz * 1e6,
                    bytes_per_clock,
                    overhead_clocks,
                    burst_bytes_max,
                })
            }
            (None, Some(link)) => Bus::Pcie(link),
            // Refused before.
            (None, None) => {
                Bus::PciX(PciX { clock_hz: 1.0, bytes_per_clock: 1, overhead_clocks: 1, burst_bytes_max: 1 })
            }
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let buses = usize::from(self.pcie.is_some()) + usize::from(self.pcix.is_some());
        let wrong = [
            InvalidField::unless(
                buses == 1,
                "host",
                format!("{buses} buses"),
                "one of [host.pcie] and [host.pcix]",
            ),
            InvalidField::unless_time("host.read_ns", self.read_ns),
            InvalidField::unless_time("host.post_ns", self.post_ns),
            InvalidField::unless_time("host.poll_ns", self.poll_ns),
        ];
        let link = || {
            let wrong = wrong_link(self.pcie.as_ref()?)?;
            Some(InvalidField { field: wrong.field.replacen("link", "host.pcie", 1).into(), ..wrong })
        };
        wrong.into_iter().flatten().next().or_else(link).or_else(|| self.pcix?.invalid_field())
    }
}

impl PciXFile {
    fn invalid_field(&self) -> Option<InvalidField> {
        let is_burst = self.burst_bytes_max.is_power_of_two() && (64..=4096).contains(&self.burst_bytes_max);
        let wrong = [
            InvalidField::unless(
                (1.0..=1e4).contains(&self.clock_mhz),
                "host.pcix.clock_mhz",
                self.clock_mhz,
                "1 to 10000",
            ),
            InvalidField::unless_count("host.pcix.bytes_per_clock", self.bytes_per_clock, 64),
            InvalidField::unless_count("host.pcix.overhead_clocks", self.overhead_clocks, 1000),
            InvalidField::unless(
                is_burst,
                "host.pcix.burst_bytes_max",
                self.burst_bytes_max,
                "a power of two from 64 to 4096",
            ),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl AdapterFile {
    fn invalid_field(&self) -> Option<InvalidField> {
        let is_context = self.qp_bytes.is_power_of_two() && (64..=4096).contains(&self.qp_bytes);
        let wrong = [
            InvalidField::unless_time("adapter.send_ns", self.send_ns),
            InvalidField::unless_time("adapter.send_gap_ns", self.send_gap_ns),
            InvalidField::unless_time("adapter.receive_ns", self.receive_ns),
            InvalidField::unless_time("adapter.receive_gap_ns", self.receive_gap_ns),
            InvalidField::unless_count("adapter.works_max", self.works_max.into(), 1 << 16),
            InvalidField::unless_count("adapter.packets_max", self.packets_max.into(), 1 << 16),
            InvalidField::unless_count("adapter.fetches_max", self.fetches_max.into(), 1 << 16),
            InvalidField::unless_time("adapter.memory_ns", self.memory_ns),
            InvalidField::unless(
                (0.001..=1e5).contains(&self.memory_gigabytes_per_second),
                "adapter.memory_gigabytes_per_second",
                self.memory_gigabytes_per_second,
                "0.001 to 100000",
            ),
            InvalidField::unless(
                is_context,
                "adapter.qp_bytes",
                self.qp_bytes,
                "a power of two from 64 to 4096",
            ),
        ];
        wrong.into_iter().flatten().next().or_else(|| self.cache.invalid_field())
    }
}

impl CacheFile {
    fn shape(&self) -> CacheShape {
        let Self { kib, line_bytes, ways, replacement } = *self;
        CacheShape { bytes: kib << 10, line_bytes, ways, replacement }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let is_line = self.line_bytes.is_power_of_two() && (8..=4096).contains(&self.line_bytes);
        let sets = |set_bytes: u64| (self.kib << 10) / set_bytes;
        let is_whole =
            |set_bytes: u64| (self.kib << 10).is_multiple_of(set_bytes) && sets(set_bytes).is_power_of_two();
        InvalidField::unless_count("adapter.cache.kib", self.kib, 1 << 18)
            .or_else(|| InvalidField::unless_count("adapter.cache.ways", self.ways.into(), 1 << 12))
            .or_else(|| {
                let expected = "a power of two from 8 to 4096";
                InvalidField::unless(is_line, "adapter.cache.line_bytes", self.line_bytes, expected)
            })
            .or_else(|| {
                let lines = (self.kib << 10) / self.line_bytes;
                InvalidField::unless(
                    lines <= LINES_MAX,
                    "adapter.cache.kib",
                    self.kib,
                    "262144 lines at most",
                )
            })
            .or_else(|| {
                let set_bytes = self.line_bytes * u64::from(self.ways);
                let expected = "a power of two of sets, of so many ways each";
                InvalidField::unless(is_whole(set_bytes), "adapter.cache.kib", self.kib, expected)
            })
    }
}

impl WireFile {
    fn invalid_field(&self) -> Option<InvalidField> {
        let Self { gigabits_per_second, overhead_share, mtu_bytes, latency_ns } = *self;
        let is_mtu = matches!(mtu_bytes, 256 | 512 | 1024 | 2048 | 4096);
        let is_rate = (0.001..=100_000.0).contains(&gigabits_per_second);
        let wrong = [
            InvalidField::unless(is_rate, "wire.gigabits_per_second", gigabits_per_second, "0.001 to 100000"),
            InvalidField::unless(
                (0.0..=0.9).contains(&overhead_share),
                "wire.overhead_share",
                overhead_share,
                "0 to 0.9",
            ),
            InvalidField::unless(is_mtu, "wire.mtu_bytes", mtu_bytes, "256, 512, 1024, 2048 or 4096"),
            InvalidField::unless_time("wire.latency_ns", latency_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl VerbsFile {
    fn load(&self) -> Load {
        let Self { window, reuse_percent, both_ways, .. } = *self;
        Load {
            pattern: match self.pattern {
                PatternFile::Alone => Pattern::Alone,
                PatternFile::PingPong => Pattern::PingPong,
                PatternFile::Scatter => Pattern::Scatter,
                PatternFile::Stream => Pattern::Stream { window, reuse_percent, both_ways },
                PatternFile::Random => Pattern::Random { window },
            },
            verb: self.verb,
            message_bytes: self.message_bytes,
            connections: self.connections,
            is_loop: self.is_loop,
            buffers: self.buffers,
            messages: self.messages,
        }
    }

    fn invalid_field(&self, mtu_bytes: u64) -> Option<InvalidField> {
        let messages = verbs::messages(self.messages, self.connections, self.window);
        let packets = messages.saturating_mul(self.message_bytes.div_ceil(mtu_bytes));
        let no_answer = self.pattern == PatternFile::PingPong && self.verb == Verb::Read;
        let wrong = [
            InvalidField::unless(
                self.message_bytes <= MESSAGE_BYTES_MAX,
                "verbs.message_bytes",
                self.message_bytes,
                "0 to 16777216",
            ),
            InvalidField::unless_count("verbs.connections", self.connections.into(), CONNECTIONS_MAX.into()),
            InvalidField::unless_count("verbs.messages", self.messages, MESSAGES_MAX),
            InvalidField::unless(
                packets <= PACKETS_MAX,
                "verbs.messages",
                self.messages,
                "67108864 packets of wire.mtu_bytes in all at most, with those before the measured ones, by verbs.message_bytes and verbs.connections",
            ),
            InvalidField::unless_count("verbs.window", self.window.into(), WINDOW_MAX.into()),
            InvalidField::unless(
                self.reuse_percent <= 100,
                "verbs.reuse_percent",
                self.reuse_percent,
                "0 to 100",
            ),
            InvalidField::unless(
                !no_answer,
                "verbs.verb",
                "read",
                "send or write: the other side sees no read",
            ),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl ProcessesFile {
    fn library(&self) -> Library {
        Library {
            processes_per_node: self.per_node,
            eager_bytes_max: self.eager_bytes_max,
            copy_ps_per_byte: self.copy_ps_per_byte,
            call: Span::from_ns_f64(self.call_ns),
            shared: Span::from_ns_f64(self.shared_ns),
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let is_rate = (1e3..=1e15).contains(&self.operations_per_second);
        let wrong = [
            InvalidField::unless(
                is_rate,
                "processes.operations_per_second",
                self.operations_per_second,
                "1e3 to 1e15",
            ),
            InvalidField::unless_count("processes.rounds", self.rounds.into(), 1000),
            InvalidField::unless_count("processes.per_node", self.per_node.into(), 256),
            InvalidField::unless_count("processes.eager_bytes_max", self.eager_bytes_max, 1 << 20),
            InvalidField::unless_time("processes.copy_ps_per_byte", self.copy_ps_per_byte),
            InvalidField::unless_time("processes.call_ns", self.call_ns),
            InvalidField::unless_time("processes.shared_ns", self.shared_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

/// The default of counts in experiments.
fn one() -> u32 {
    1
}

/// The default share of reused buffers, in percent.
fn default_reuse_percent() -> u32 {
    100
}

fn million() -> f64 {
    1e6
}

fn host() -> MemoryKind {
    MemoryKind::Host
}
