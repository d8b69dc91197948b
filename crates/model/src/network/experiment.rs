//! Two hosts as a user's file describes them.

use super::adapter::{Adapter, ReceiveBuffers};
use super::cpu::Cpus;
use super::flow::{Pattern, Protocol, Work};
use super::host::{Host, Paths};
use super::load::{Connection, DATAGRAM_BYTES_MAX, INSTANCES_MAX, Load, MESSAGE_BYTES_MAX, NotModelled};
use super::mapping::{Forgets, LineTransfer, Locking, MappingCost, Road};
use super::outcome::{HostUsage, Stage};
use super::{NetworkError, Setup, Wire, run};
use crate::experiment::{ExperimentError, LIMITS_FROM, Part, Wrong, wrong_link};
use crate::link::Link;
use crate::uperf::Profile;
use des::Span;
use serde::{Deserialize, Serialize};

/// What a file says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostsExperiment {
    /// What it is about, for people.
    what: String,
    /// What is between the hosts.
    wire: WireFile,
    /// What each instance does, unless a profile of uperf says it.
    work: WorkFile,
    /// The host that begins.
    client: HostFile,
    /// The other one; as the client where there is none.
    server: Option<HostFile>,
    /// Of all random choices.
    #[serde(default)]
    seed: u64,
    /// Time before anything is measured.
    warm_up_us: f64,
    /// Time that is measured.
    measured_us: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFile {
    gigabits_per_second: f64,
    mtu_bytes: u64,
    latency_ns: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkFile {
    pattern: PatternFile,
    protocol: ProtocolFile,
    message_bytes: u64,
    instances: u32,
    window_bytes: u64,
    segment_bytes_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PatternFile {
    Exchange,
    Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProtocolFile {
    Udp,
    Tcp,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    cpus: CpusFile,
    paths: PathsFile,
    adapter: AdapterFile,
    mapping: MappingFile,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpusFile {
    cores: u32,
    cores_per_node: u32,
    core_capacity: Vec<f64>,
    instruction_ns: f64,
    wake_ns: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathsFile {
    write_instructions: f64,
    send_instructions: f64,
    receive_instructions: f64,
    read_instructions: f64,
    interrupt_instructions: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdapterFile {
    link: Link,
    receive_rings: u32,
    receive_entries: u32,
    send_rings: u32,
    latency_ns: f64,
    inline_bytes: u64,
    copied_bytes: u64,
    pieces_bytes: Vec<u64>,
    block_bytes: Option<u64>,
    receive_delay_ns: f64,
    receive_frames: u32,
    send_delay_ns: f64,
    send_frames: u32,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MappingFile {
    road: RoadFile,
    window_bytes: u64,
    direct_instructions: f64,
    window_instructions: f64,
    locked_instructions: f64,
    translated_instructions: f64,
    submit_instructions: f64,
    invalidation_ns: f64,
    hypercall_ns: f64,
    entry_ns: f64,
    line_same_node_ns: f64,
    line_other_node_ns: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RoadFile {
    Direct,
    TableLock,
    BitmapLock,
    Pools,
    TranslatedStrict,
    TranslatedLazy,
}

/// What came out, and what limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostsAnswer {
    /// What it is about.
    pub what: String,
    /// Exchanges in a second; for streams, writes of the client.
    pub operations_per_second: f64,
    /// Bytes of applications, both ways together, in 10^9 bits a second.
    pub gigabits_per_second: f64,
    /// Mean time of an exchange; nothing for streams, or where none ended.
    pub latency_mean_ns: Option<f64>,
    /// What 99 of 100 took at most.
    pub latency_p99_ns: Option<f64>,
    /// The client and the server.
    pub hosts: [HostAnswer; 2],
    /// How busy each part was, 0 to 1.
    pub parts: Vec<Part>,
    /// The part that has no more to give.
    pub limit: String,
}

/// How a host was used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostAnswer {
    /// Hardware threads that were busy, on average.
    pub busy_cpus: f64,
    /// The same by what they did.
    pub stages: Vec<StageAnswer>,
    /// Calls of the hypervisor in a second.
    pub hypercalls_per_second: f64,
    /// Invalidations that were waited for in a second.
    pub invalidations_per_second: f64,
    /// How long each waited for a lock of the mapping layer, on average.
    pub lock_wait_mean_ns: f64,
    /// Mappings that could not be made.
    pub mappings_refused: u64,
}

/// What CPUs did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageAnswer {
    /// What.
    pub name: &'static str,
    /// Hardware threads that did it, on average.
    pub busy_cpus: f64,
}

/// Simulated time of the largest experiment, in microseconds: ten seconds.
const TIME_MAX_US: f64 = 1e7;
const NS_MAX: f64 = 1e9;
const INSTRUCTIONS_MAX: f64 = 1e9;

impl HostsExperiment {
    /// Reads a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let form = |source| ExperimentError::Form { file: file.to_owned(), source };
        let experiment: Self = toml::from_str(text).map_err(form)?;
        match experiment.wrong() {
            None => Ok(experiment),
            Some(Wrong { field, value, expected }) => {
                Err(ExperimentError::Value { file: file.to_owned(), field, value, expected })
            }
        }
    }

    /// The same with the load of a profile.
    ///
    /// # Errors
    /// [`NotModelled`]
    pub fn with_profile(self, profile: &Profile) -> Result<Self, NotModelled> {
        let WorkFile { window_bytes, segment_bytes_max, .. } = self.work;
        let Load { work, instances } = Load::of(profile, Connection { window_bytes, segment_bytes_max })?;
        let (pattern, window_bytes) = match work.pattern {
            Pattern::Exchange => (PatternFile::Exchange, window_bytes),
            Pattern::Stream { window_bytes } => (PatternFile::Stream, window_bytes),
        };
        let protocol = match work.protocol {
            Protocol::Udp => ProtocolFile::Udp,
            Protocol::Tcp { .. } => ProtocolFile::Tcp,
        };
        let message_bytes = work.message_bytes;
        let work = WorkFile { pattern, protocol, message_bytes, instances, window_bytes, segment_bytes_max };
        let what = format!("profile {} of uperf on: {}", profile.name, self.what);
        Ok(Self { what, work, ..self })
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`NetworkError`]
    pub fn run(&self) -> Result<HostsAnswer, NetworkError> {
        let setup = self.setup();
        let outcome = run(&setup)?;
        let parts = outcome.parts(&setup);
        let busiest = parts.iter().max_by(|a, b| a.busy_share.total_cmp(&b.busy_share));
        let limit = busiest.filter(|part| part.busy_share >= LIMITS_FROM);
        let limit =
            limit.map_or_else(|| "the time of each exchange or window".to_owned(), |part| part.name.clone());
        let has_ended = setup.work.pattern == Pattern::Exchange && outcome.operations_per_second > 0.0;
        let ns = |span: Span| has_ended.then(|| span.as_ps_f64() / 1e3);
        Ok(HostsAnswer {
            what: self.what.clone(),
            operations_per_second: outcome.operations_per_second,
            gigabits_per_second: outcome.gigabits_per_second,
            latency_mean_ns: ns(outcome.latency_mean),
            latency_p99_ns: ns(outcome.latency_p99),
            hosts: outcome.hosts.each_ref().map(HostAnswer::of),
            parts,
            limit,
        })
    }

    /// What runs.
    pub fn setup(&self) -> Setup {
        let WorkFile { message_bytes, instances, window_bytes, segment_bytes_max, .. } = self.work;
        let work = Work {
            pattern: match self.work.pattern {
                PatternFile::Exchange => Pattern::Exchange,
                PatternFile::Stream => Pattern::Stream { window_bytes },
            },
            protocol: match self.work.protocol {
                ProtocolFile::Udp => Protocol::Udp,
                ProtocolFile::Tcp => Protocol::Tcp { segment_bytes_max },
            },
            message_bytes,
        };
        Setup {
            hosts: [self.client.host(), self.server.as_ref().unwrap_or(&self.client).host()],
            wire: Wire {
                bits_per_second: self.wire.gigabits_per_second * 1e9,
                mtu_bytes: self.wire.mtu_bytes,
                latency: ns(self.wire.latency_ns),
            },
            work,
            instances,
            warm_up: ns(self.warm_up_us * 1e3),
            measured: ns(self.measured_us * 1e3),
            seed: self.seed,
        }
    }

    /// The first value that no machine has.
    fn wrong(&self) -> Option<Wrong> {
        let WireFile { gigabits_per_second, mtu_bytes, latency_ns } = self.wire;
        let is_rate = (0.001..=10_000.0).contains(&gigabits_per_second);
        let is_time = |us: f64| (1.0..=TIME_MAX_US).contains(&us);
        let no_stream = self.work.pattern == PatternFile::Stream && self.work.protocol == ProtocolFile::Udp;
        let message_bytes_max = match self.work.protocol {
            ProtocolFile::Udp => DATAGRAM_BYTES_MAX,
            ProtocolFile::Tcp => MESSAGE_BYTES_MAX,
        };
        let own = [
            Wrong::unless(is_rate, "wire.gigabits_per_second", gigabits_per_second, "0.001 to 10000"),
            Wrong::unless((576..=65_535).contains(&mtu_bytes), "wire.mtu_bytes", mtu_bytes, "576 to 65535"),
            Wrong::unless_time("wire.latency_ns", latency_ns),
            Wrong::unless(is_time(self.warm_up_us), "warm_up_us", self.warm_up_us, "1 to 1e7"),
            Wrong::unless(is_time(self.measured_us), "measured_us", self.measured_us, "1 to 1e7"),
            Wrong::unless(!no_stream, "work.pattern", "stream", "exchange over UDP: nothing bounds a stream"),
            Wrong::unless_count("work.message_bytes", self.work.message_bytes, message_bytes_max),
            Wrong::unless_count("work.instances", self.work.instances.into(), INSTANCES_MAX.into()),
            Wrong::unless_count("work.window_bytes", self.work.window_bytes, 1 << 30),
            Wrong::unless_count("work.segment_bytes_max", self.work.segment_bytes_max, 1 << 20),
        ];
        own.into_iter()
            .flatten()
            .next()
            .or_else(|| self.client.wrong().map(|wrong| wrong.of("client")))
            .or_else(|| self.server.as_ref()?.wrong().map(|wrong| wrong.of("server")))
    }
}

impl HostFile {
    fn host(&self) -> Host {
        let CpusFile { cores, cores_per_node, ref core_capacity, instruction_ns, wake_ns } = self.cpus;
        Host {
            cpus: Cpus { cores, cores_per_node, core_capacity: core_capacity.clone(), wake: ns(wake_ns) },
            instruction_ns,
            paths: Paths {
                write: self.paths.write_instructions,
                send: self.paths.send_instructions,
                receive: self.paths.receive_instructions,
                read: self.paths.read_instructions,
                interrupt: self.paths.interrupt_instructions,
            },
            adapter: self.adapter.adapter(),
            road: self.mapping.road(),
            mapping: self.mapping.cost(),
        }
    }

    fn wrong(&self) -> Option<Wrong> {
        self.cpus
            .wrong()
            .or_else(|| self.paths.wrong())
            .or_else(|| self.adapter.wrong())
            .or_else(|| self.mapping.wrong())
    }
}

impl CpusFile {
    fn wrong(&self) -> Option<Wrong> {
        let threads = self.core_capacity.len();
        let is_capacity = self.core_capacity.iter().all(|capacity| (0.01..=64.0).contains(capacity));
        let wrong = [
            Wrong::unless_count("cpus.cores", self.cores.into(), 4096),
            Wrong::unless_count("cpus.cores_per_node", self.cores_per_node.into(), 4096),
            Wrong::unless(
                (1..=8).contains(&threads),
                "cpus.core_capacity",
                threads,
                "a number for each of 1 to 8 threads",
            ),
            Wrong::unless(
                is_capacity,
                "cpus.core_capacity",
                format!("{:?}", self.core_capacity),
                "each 0.01 to 64",
            ),
            Wrong::unless(
                (0.001..=1e3).contains(&self.instruction_ns),
                "cpus.instruction_ns",
                self.instruction_ns,
                "0.001 to 1000",
            ),
            Wrong::unless_time("cpus.wake_ns", self.wake_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl PathsFile {
    fn wrong(&self) -> Option<Wrong> {
        let wrong = [
            Wrong::unless_instructions("paths.write_instructions", self.write_instructions),
            Wrong::unless_instructions("paths.send_instructions", self.send_instructions),
            Wrong::unless_instructions("paths.receive_instructions", self.receive_instructions),
            Wrong::unless_instructions("paths.read_instructions", self.read_instructions),
            Wrong::unless_instructions("paths.interrupt_instructions", self.interrupt_instructions),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl AdapterFile {
    fn adapter(&self) -> Adapter {
        let pieces_bytes = self.pieces_bytes.clone();
        Adapter {
            link: self.link,
            receive_rings: self.receive_rings,
            receive_entries: self.receive_entries,
            send_rings: self.send_rings,
            latency: ns(self.latency_ns),
            inline_bytes: self.inline_bytes,
            copied_bytes: self.copied_bytes,
            buffers: match self.block_bytes {
                None => ReceiveBuffers::EachFrame { pieces_bytes },
                Some(block_bytes) => ReceiveBuffers::Blocks { block_bytes, pieces_bytes },
            },
            receive_delay: ns(self.receive_delay_ns),
            receive_frames: self.receive_frames,
            send_delay: ns(self.send_delay_ns),
            send_frames: self.send_frames,
        }
    }

    fn wrong(&self) -> Option<Wrong> {
        let is_piece = |bytes: &u64| (64..=1 << 20).contains(bytes);
        let are_pieces = self.pieces_bytes.len() <= 16 && self.pieces_bytes.iter().all(is_piece);
        let wrong = [
            Wrong::unless_count("adapter.receive_rings", self.receive_rings.into(), 1024),
            Wrong::unless_count("adapter.receive_entries", self.receive_entries.into(), 1 << 16),
            Wrong::unless_count("adapter.send_rings", self.send_rings.into(), 1024),
            Wrong::unless_time("adapter.latency_ns", self.latency_ns),
            Wrong::unless(
                are_pieces,
                "adapter.pieces_bytes",
                format!("{:?}", self.pieces_bytes),
                "up to 16, each 64 to 1048576",
            ),
            Wrong::unless_count("adapter.block_bytes", self.block_bytes.unwrap_or(1), 1 << 24),
            Wrong::unless(
                self.block_bytes.is_none_or(|bytes| self.pieces_bytes.iter().all(|piece| *piece <= bytes)),
                "adapter.block_bytes",
                self.block_bytes.unwrap_or_default(),
                "the largest of adapter.pieces_bytes or more",
            ),
            Wrong::unless_time("adapter.receive_delay_ns", self.receive_delay_ns),
            Wrong::unless_count("adapter.receive_frames", self.receive_frames.into(), 1 << 16),
            Wrong::unless_time("adapter.send_delay_ns", self.send_delay_ns),
            Wrong::unless_count("adapter.send_frames", self.send_frames.into(), 1 << 16),
        ];
        wrong.into_iter().flatten().next().or_else(|| wrong_link(&self.link).map(|wrong| wrong.of("adapter")))
    }
}

impl MappingFile {
    fn road(&self) -> Road {
        let bytes = self.window_bytes;
        match self.road {
            RoadFile::Direct => Road::Direct,
            RoadFile::TableLock => Road::Window { bytes, locking: Locking::Table },
            RoadFile::BitmapLock => Road::Window { bytes, locking: Locking::Bitmap },
            RoadFile::Pools => Road::Window { bytes, locking: Locking::Pools },
            RoadFile::TranslatedStrict => Road::Translated { forgets: Forgets::AtOnce },
            RoadFile::TranslatedLazy => Road::Translated { forgets: Forgets::Later },
        }
    }

    fn cost(&self) -> MappingCost {
        MappingCost {
            direct_instructions: self.direct_instructions,
            window_instructions: self.window_instructions,
            locked_instructions: self.locked_instructions,
            translated_instructions: self.translated_instructions,
            submit_instructions: self.submit_instructions,
            invalidation: ns(self.invalidation_ns),
            hypercall: ns(self.hypercall_ns),
            entry: ns(self.entry_ns),
            line: LineTransfer {
                same_node: ns(self.line_same_node_ns),
                other_node: ns(self.line_other_node_ns),
            },
        }
    }

    fn wrong(&self) -> Option<Wrong> {
        let bytes = self.window_bytes;
        let is_window = bytes.is_power_of_two() && (2 << 20..=4 << 30).contains(&bytes);
        let wrong = [
            Wrong::unless(is_window, "mapping.window_bytes", bytes, "a power of two from 2 MiB to 4 GiB"),
            Wrong::unless_instructions("mapping.direct_instructions", self.direct_instructions),
            Wrong::unless_instructions("mapping.window_instructions", self.window_instructions),
            Wrong::unless_instructions("mapping.locked_instructions", self.locked_instructions),
            Wrong::unless_instructions("mapping.translated_instructions", self.translated_instructions),
            Wrong::unless_instructions("mapping.submit_instructions", self.submit_instructions),
            Wrong::unless_time("mapping.invalidation_ns", self.invalidation_ns),
            Wrong::unless_time("mapping.hypercall_ns", self.hypercall_ns),
            Wrong::unless_time("mapping.entry_ns", self.entry_ns),
            Wrong::unless_time("mapping.line_same_node_ns", self.line_same_node_ns),
            Wrong::unless_time("mapping.line_other_node_ns", self.line_other_node_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl Wrong {
    /// The same of this host.
    fn of(self, host: &str) -> Self {
        Self { field: format!("{host}.{}", self.field).into(), ..self }
    }

    fn unless_count(field: &'static str, value: u64, most: u64) -> Option<Self> {
        let is_count = (1..=most).contains(&value);
        (!is_count).then(|| Self {
            field: field.into(),
            value: value.to_string(),
            expected: format!("1 to {most}").into(),
        })
    }

    fn unless_instructions(field: &'static str, value: f64) -> Option<Self> {
        Self::unless((0.0..=INSTRUCTIONS_MAX).contains(&value), field, value, "0 to 1e9")
    }
}

impl HostAnswer {
    fn of(usage: &HostUsage) -> Self {
        let stages = Stage::ALL.iter().zip(usage.busy_cpus_by_stage);
        Self {
            busy_cpus: usage.busy_cpus,
            stages: stages.map(|(stage, busy_cpus)| StageAnswer { name: stage.words(), busy_cpus }).collect(),
            hypercalls_per_second: usage.hypercalls_per_second,
            invalidations_per_second: usage.invalidations_per_second,
            lock_wait_mean_ns: usage.lock_wait_mean.as_ps_f64() / 1e3,
            mappings_refused: usage.mappings_refused,
        }
    }
}

fn ns(ns: f64) -> Span {
    Span::from_ps_f64(ns.clamp(0.0, NS_MAX * 1e4) * 1e3)
}
