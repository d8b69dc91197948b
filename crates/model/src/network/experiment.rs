//! Two hosts as a user's file describes them.

use super::flow::{Pattern, Protocol, Work};
use super::load::{Connection, DATAGRAM_BYTES_MAX, INSTANCES_MAX, Load, MESSAGE_BYTES_MAX, NotModelled};
use super::network_adapter::{NetworkAdapter, ReceiveBuffers};
use super::network_error::NetworkError;
use super::network_host::{NetworkHost, Paths};
use super::{Setup, Wire, run};
use crate::host::{CpusAnswer, CpusFile, IommuFile, MappingFile, MemoryFile};
use crate::link::Link;
use crate::part::Part;
use crate::replications::{Replications, SEEDS_MAX, default_seeds};
use crate::steady::RunsAnswer;
use crate::uperf::Profile;
use crate::user_file::{self, ExperimentError, InvalidField, wrong_link};
use des::Span;
use serde::{Deserialize, Serialize};
use toll::Estimate;

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
    /// Of all random choices of the first run.
    #[serde(default)]
    seed: u64,
    /// Number of runs, with consecutive seeds.
    #[serde(default = "default_seeds")]
    pub(crate) seeds: u32,
    /// Time before anything is measured, at least.
    warm_up_us: f64,
    /// Time that is measured, at least.
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
    #[serde(default)]
    nodelay: bool,
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
    /// Those of TCP, where `paths` are of UDP alone.
    tcp_paths: Option<PathsFile>,
    adapter: AdapterFile,
    mapping: MappingFile,
    iommu: Option<IommuFile>,
    memory: Option<MemoryFile>,
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
    send_entries: u32,
    latency_ns: f64,
    inline_bytes: u64,
    fragment_bytes: Option<u64>,
    copied_bytes: u64,
    pieces_bytes: Vec<u64>,
    block_bytes: Option<u64>,
    #[serde(default)]
    keeps_buffers: bool,
    receive_delay_ns: f64,
    receive_frames: u32,
    send_delay_ns: f64,
    send_frames: u32,
}

/// What came out, and what limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostsAnswer {
    /// What it is about.
    pub what: String,
    /// How it was measured.
    pub runs: RunsAnswer,
    /// Exchanges in a second; for streams, writes of the client.
    pub operations_per_second: Estimate,
    /// Bytes of applications, both ways together, in 10^9 bits a second.
    pub gigabits_per_second: Estimate,
    /// Mean time of an exchange; nothing for streams.
    pub latency_mean_ns: Option<Estimate>,
    /// What 99 of 100 took at most.
    pub latency_p99_ns: Option<Estimate>,
    /// Whether the file has no server, which is then as the client is.
    pub is_server_as_client: bool,
    /// The client and the server.
    pub hosts: [HostAnswer; 2],
    /// How busy each part was, 0 to 1.
    pub parts: Vec<Part>,
    /// The part that has no more to give.
    pub limit: String,
}

/// What a host does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostAnswer {
    /// Its CPUs.
    #[serde(flatten)]
    pub cpus: CpusAnswer,
    /// Share of time in which a send ring was full and packets waited in front of it, averaged over the send rings.
    pub send_stopped_share: f64,
    /// Share of time in which a receive ring was full and frames waited in front of the adapter.
    pub receive_paused_share: f64,
}

/// Simulated time of the largest experiment, in microseconds: ten seconds.
const TIME_MAX_US: f64 = 1e7;
/// The least that TCP cuts a stream into (RFC 879).
const SEGMENT_BYTES_MIN: u64 = 536;
/// Frames in flight, each of which takes memory.
const IN_FLIGHT_MAX: u64 = 1 << 22;
/// Buffers of an adapter, each of which is mapped.
const BUFFERS_MAX: u64 = 1 << 22;

impl HostsExperiment {
    /// Reads a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        user_file::read(text, file, Self::invalid_field)
    }

    /// The same with the load of a profile.
    ///
    /// # Errors
    /// [`NotModelled`]
    pub fn with_profile(self, profile: &Profile) -> Result<Self, NotModelled> {
        let WorkFile { window_bytes, segment_bytes_max, .. } = self.work;
        let load = Load::of(profile, Connection { window_bytes, segment_bytes_max })?;
        let Load { work, instances } = load;
        let (pattern, window_bytes) = match work.pattern {
            Pattern::Exchange => (PatternFile::Exchange, window_bytes),
            Pattern::Stream { window_bytes } => (PatternFile::Stream, window_bytes),
        };
        let protocol = match work.protocol {
            Protocol::Udp => ProtocolFile::Udp,
            Protocol::Tcp { .. } => ProtocolFile::Tcp,
        };
        let message_bytes = work.message_bytes;
        let nodelay = work.is_nodelay;
        let work = WorkFile {
            pattern,
            protocol,
            message_bytes,
            instances,
            window_bytes,
            segment_bytes_max,
            nodelay,
        };
        // What the file says of its own load is not what runs.
        let what = format!("{load} (profile {} of uperf)", profile.name);
        Ok(Self { what, work, ..self })
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`NetworkError`]
    pub fn run(&self) -> Result<HostsAnswer, NetworkError> {
        let setup = self.setup();
        let runs = Replications::run(self.seed, self.seeds, |seed| run(&Setup { seed, ..setup.clone() }))?;
        let parts = runs.parts(|run| run.parts(&setup));
        let limit =
            Part::limiting(&parts).unwrap_or_else(|| "the time of each exchange or window".to_owned());
        let ns = |span: Span| span.as_ns_f64();
        Ok(HostsAnswer {
            what: self.what.clone(),
            runs: RunsAnswer::of(&runs, self.warm_up_us, |run| run.window),
            operations_per_second: runs.estimate(|run| run.operations_per_second),
            gigabits_per_second: runs.estimate(|run| run.gigabits_per_second),
            latency_mean_ns: runs.estimate_known(|run| run.latency_mean.map(ns)),
            latency_p99_ns: runs.estimate_known(|run| run.latency_p99.map(ns)),
            is_server_as_client: self.server.is_none(),
            hosts: [0, 1].map(|host| HostAnswer {
                cpus: CpusAnswer::of(&runs, |run| &run.hosts[host].cpus),
                send_stopped_share: runs.mean(|run| run.hosts[host].send_stopped_share),
                receive_paused_share: runs.mean(|run| run.hosts[host].receive_paused_share),
            }),
            parts,
            limit,
        })
    }

    /// What runs.
    pub fn setup(&self) -> Setup {
        let WorkFile { message_bytes, instances, window_bytes, .. } = self.work;
        let work = Work {
            pattern: match self.work.pattern {
                PatternFile::Exchange => Pattern::Exchange,
                PatternFile::Stream => Pattern::Stream { window_bytes },
            },
            protocol: self.work.protocol(),
            message_bytes,
            is_nodelay: self.work.nodelay,
        };
        Setup {
            hosts: [&self.client, self.server.as_ref().unwrap_or(&self.client)]
                .map(|host| host.host(self.work.protocol)),
            wire: Wire {
                bits_per_second: self.wire.gigabits_per_second * 1e9,
                mtu_bytes: self.wire.mtu_bytes,
                latency: Span::from_ns_f64(self.wire.latency_ns),
            },
            work,
            instances,
            warm_up: Span::from_ns_f64(self.warm_up_us * 1e3),
            measured: Span::from_ns_f64(self.measured_us * 1e3),
            seed: self.seed,
        }
    }

    /// More frames in flight than there may be, in rings, in front of them and on their way: as many as the messages or
    /// windows of all instances have, where the shortest packets are a frame's worth, or a message that is sent at once.
    fn too_much_in_flight(&self, protocol: Protocol) -> Option<InvalidField> {
        let WorkFile { message_bytes, window_bytes, instances, pattern, nodelay, .. } = self.work;
        let is_stream = pattern == PatternFile::Stream;
        let bytes = if is_stream { window_bytes.max(message_bytes) } else { message_bytes };
        let payload_bytes = self.wire.mtu_bytes - protocol.header_bytes();
        let frame_bytes = if is_stream && nodelay { message_bytes.min(payload_bytes) } else { payload_bytes };
        let frames = u64::from(instances) * bytes.div_ceil(frame_bytes.max(1));
        let expected = "with work.message_bytes and work.window_bytes, at most 4194304 frames in flight";
        InvalidField::unless(frames <= IN_FLIGHT_MAX, "work.instances", instances, expected)
    }

    /// The first value that no machine has.
    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let WireFile { gigabits_per_second, mtu_bytes, latency_ns } = self.wire;
        let is_rate = (0.001..=10_000.0).contains(&gigabits_per_second);
        let is_time = |us: f64| (1.0..=TIME_MAX_US).contains(&us);
        let protocol = self.work.protocol();
        let no_stream = self.work.pattern == PatternFile::Stream && self.work.protocol == ProtocolFile::Udp;
        let message_bytes_max = match self.work.protocol {
            ProtocolFile::Udp => DATAGRAM_BYTES_MAX,
            ProtocolFile::Tcp => MESSAGE_BYTES_MAX,
        };
        let own = [
            InvalidField::unless(is_rate, "wire.gigabits_per_second", gigabits_per_second, "0.001 to 10000"),
            InvalidField::unless(
                (576..=65_535).contains(&mtu_bytes),
                "wire.mtu_bytes",
                mtu_bytes,
                "576 to 65535",
            ),
            InvalidField::unless_time("wire.latency_ns", latency_ns),
            InvalidField::unless(is_time(self.warm_up_us), "warm_up_us", self.warm_up_us, "1 to 1e7"),
            InvalidField::unless(is_time(self.measured_us), "measured_us", self.measured_us, "1 to 1e7"),
            InvalidField::unless(
                !no_stream,
                "work.pattern",
                "stream",
                "exchange over UDP: nothing bounds a stream",
            ),
            InvalidField::unless_count("work.message_bytes", self.work.message_bytes, message_bytes_max),
            InvalidField::unless_count("seeds", self.seeds.into(), SEEDS_MAX.into()),
            InvalidField::unless_count("work.instances", self.work.instances.into(), INSTANCES_MAX.into()),
            InvalidField::unless_count("work.window_bytes", self.work.window_bytes, 1 << 30),
            InvalidField::unless(
                (SEGMENT_BYTES_MIN..=1 << 20).contains(&self.work.segment_bytes_max),
                "work.segment_bytes_max",
                self.work.segment_bytes_max,
                "536 to 1048576",
            ),
        ];
        own.into_iter()
            .flatten()
            .next()
            .or_else(|| self.too_much_in_flight(protocol))
            .or_else(|| self.client.invalid_field(protocol).map(|wrong| wrong.of("client")))
            .or_else(|| self.server.as_ref()?.invalid_field(protocol).map(|wrong| wrong.of("server")))
    }
}

impl WorkFile {
    fn protocol(&self) -> Protocol {
        match self.protocol {
            ProtocolFile::Udp => Protocol::Udp,
            ProtocolFile::Tcp => Protocol::Tcp { segment_bytes_max: self.segment_bytes_max },
        }
    }
}

impl HostFile {
    fn host(&self, protocol: ProtocolFile) -> NetworkHost {
        let tcp_paths = self.tcp_paths.as_ref().filter(|_| protocol == ProtocolFile::Tcp);
        NetworkHost {
            cpus: self.cpus.cpus(),
            paths: tcp_paths.unwrap_or(&self.paths).paths(),
            adapter: self.adapter.adapter(),
            dma_path: self.mapping.dma_path(),
            mapping: self.mapping.cost(),
            iommu: self.iommu.as_ref().map(IommuFile::iommu),
            memory: self.memory.as_ref().map(MemoryFile::memory),
        }
    }

    fn invalid_field(&self, protocol: Protocol) -> Option<InvalidField> {
        self.cpus
            .invalid_field()
            .or_else(|| self.paths.invalid_field("paths"))
            .or_else(|| self.tcp_paths.as_ref()?.invalid_field("tcp_paths"))
            .or_else(|| self.adapter.invalid_field())
            .or_else(|| self.adapter.short_send_ring(protocol))
            .or_else(|| self.mapping.invalid_field())
            .or_else(|| self.iommu.as_ref()?.invalid_field())
            .or_else(|| self.memory.as_ref()?.invalid_field(&self.cpus))
    }
}

impl PathsFile {
    fn paths(&self) -> Paths {
        Paths {
            write: self.write_instructions,
            send: self.send_instructions,
            receive: self.receive_instructions,
            read: self.read_instructions,
            interrupt: self.interrupt_instructions,
        }
    }

    fn invalid_field(&self, table: &str) -> Option<InvalidField> {
        let wrong = [
            InvalidField::unless_instructions("write_instructions", self.write_instructions),
            InvalidField::unless_instructions("send_instructions", self.send_instructions),
            InvalidField::unless_instructions("receive_instructions", self.receive_instructions),
            InvalidField::unless_instructions("read_instructions", self.read_instructions),
            InvalidField::unless_instructions("interrupt_instructions", self.interrupt_instructions),
        ];
        wrong.into_iter().flatten().next().map(|wrong| wrong.of(table))
    }
}

impl AdapterFile {
    /// That frames are received into.
    fn buffers(&self) -> u64 {
        u64::from(self.receive_rings) * u64::from(self.receive_entries) * self.pieces_bytes.len() as u64
    }

    fn adapter(&self) -> NetworkAdapter {
        let pieces_bytes = self.pieces_bytes.clone();
        NetworkAdapter {
            link: self.link,
            receive_rings: self.receive_rings,
            receive_entries: self.receive_entries,
            send_rings: self.send_rings,
            send_entries: self.send_entries,
            latency: Span::from_ns_f64(self.latency_ns),
            inline_bytes: self.inline_bytes,
            fragment_bytes: self.fragment_bytes,
            copied_bytes: self.copied_bytes,
            buffers: match self.block_bytes {
                None => ReceiveBuffers::EachFrame { pieces_bytes },
                Some(block_bytes) => ReceiveBuffers::Blocks { block_bytes, pieces_bytes },
            },
            keeps_buffers: self.keeps_buffers,
            receive_delay: Span::from_ns_f64(self.receive_delay_ns),
            receive_frames: self.receive_frames,
            send_delay: Span::from_ns_f64(self.send_delay_ns),
            send_frames: self.send_frames,
        }
    }

    /// A send ring that can't hold the longest packet.
    fn short_send_ring(&self, protocol: Protocol) -> Option<InvalidField> {
        let needed = self.adapter().descriptors_max(protocol);
        (u64::from(self.send_entries) < needed).then(|| InvalidField {
            field: "adapter.send_entries".into(),
            value: self.send_entries.to_string(),
            expected: format!("at least {needed}, the descriptors of a segment of work.segment_bytes_max")
                .into(),
        })
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let is_piece = |bytes: &u64| (64..=1 << 20).contains(bytes);
        let are_pieces = self.pieces_bytes.len() <= 16 && self.pieces_bytes.iter().all(is_piece);
        let wrong = [
            InvalidField::unless_count("adapter.receive_rings", self.receive_rings.into(), 1024),
            InvalidField::unless_count("adapter.receive_entries", self.receive_entries.into(), 1 << 16),
            InvalidField::unless(
                self.buffers() <= BUFFERS_MAX,
                "adapter.receive_entries",
                self.receive_entries,
                "at most 4194304 buffers of all rings, with adapter.receive_rings and adapter.pieces_bytes",
            ),
            InvalidField::unless_count("adapter.send_rings", self.send_rings.into(), 1024),
            InvalidField::unless_count("adapter.send_entries", self.send_entries.into(), 1 << 16),
            InvalidField::unless_time("adapter.latency_ns", self.latency_ns),
            InvalidField::unless(
                self.fragment_bytes.is_none_or(|bytes| (512..=1 << 24).contains(&bytes)),
                "adapter.fragment_bytes",
                self.fragment_bytes.unwrap_or_default(),
                "512 to 16777216",
            ),
            InvalidField::unless(
                are_pieces,
                "adapter.pieces_bytes",
                format!("{:?}", self.pieces_bytes),
                "up to 16, each 64 to 1048576",
            ),
            InvalidField::unless_count("adapter.block_bytes", self.block_bytes.unwrap_or(1), 1 << 24),
            InvalidField::unless(
                self.block_bytes.is_none_or(|bytes| self.pieces_bytes.iter().all(|piece| *piece <= bytes)),
                "adapter.block_bytes",
                self.block_bytes.unwrap_or_default(),
                "the largest of adapter.pieces_bytes or more",
            ),
            InvalidField::unless_time("adapter.receive_delay_ns", self.receive_delay_ns),
            InvalidField::unless_count("adapter.receive_frames", self.receive_frames.into(), 1 << 16),
            InvalidField::unless_time("adapter.send_delay_ns", self.send_delay_ns),
            InvalidField::unless_count("adapter.send_frames", self.send_frames.into(), 1 << 16),
        ];
        wrong.into_iter().flatten().next().or_else(|| wrong_link(&self.link).map(|wrong| wrong.of("adapter")))
    }
}
