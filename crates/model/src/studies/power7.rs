//! POWER7 machines with a 10 Gb/s adapter, described by experiments/power7.toml.

use super::parameters::Parameters;
use super::{Changes, StudyError};
use crate::host::{Cpus, DmaPath, LineTransfer, MappingCost};
use crate::link::{Generation, Link};
use crate::network::{
    self, Connection, Load, NetworkAdapter, NetworkHost, Outcome, Paths, Pattern, ReceiveBuffers, Setup, Wire,
};
use crate::uperf::Profile;
use des::{Span, TransferCost};

const TEXT: &str = include_str!("../../experiments/power7.toml");
/// 10 Gb/s Ethernet.
const WIRE_BITS_PER_SECOND: f64 = 10e9;
const MTU_BYTES: u64 = 1500;
/// Warm-up and measured time of request-response exchanges: some thousands of them.
const EXCHANGES: [Span; 2] = [Span::from_ms(1), Span::from_ms(6)];
/// Warm-up and measured time of streams, which first fill their windows.
const STREAMS: [Span; 2] = [Span::from_ms(12), Span::from_ms(12)];

/// The machines' parameters.
#[derive(Debug)]
pub(super) struct Power7(Parameters);

/// A profile of uperf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Test {
    /// UDP request and response.
    UdpExchange,
    /// TCP request and response.
    TcpExchange,
    /// A TCP stream from the client to the server.
    TcpStream,
}

/// How a driver maps receive buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Driver {
    /// mlx4_en until 2012: each piece of each frame.
    Pieces,
    /// mlx4_en since 2012: whole pages, divided into pieces.
    Pages,
    /// Each frame in one piece; short frames too.
    Frames,
}

/// A host of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Power7Host {
    pub(super) cores: u32,
    pub(super) driver: Driver,
    pub(super) dma_path: DmaPath,
}

/// Speed of the CPUs and the hypervisor.
#[derive(Debug)]
pub(super) struct Speeds {
    /// Work of a core with 1, 2, ... busy threads, relative to one thread.
    pub(super) core_capacity: Vec<f64>,
    pub(super) instruction_ns: f64,
    pub(super) hypercall: Span,
    pub(super) line: LineTransfer,
    /// Cache lines that go with the lock of a window.
    pub(super) window_lock_lines: u32,
    cores_per_chip: u32,
}

/// A load on two machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Run {
    /// The client and the server.
    pub(super) machines: [Power7Host; 2],
    pub(super) test: Test,
    pub(super) message_bytes: u64,
    pub(super) instances: u32,
    /// Of all random choices.
    pub(super) seed: u64,
}

impl Speeds {
    /// Chips of a machine with this number of cores.
    pub(super) fn chips(&self, cores: f64) -> u32 {
        (cores / f64::from(self.cores_per_chip)).ceil() as u32
    }

    /// Transfer times of a cache line, for locks.
    pub(super) fn line_transfer(&self) -> TransferCost {
        let LineTransfer { same_node, other_node } = self.line;
        TransferCost { same_cpu: Span::ZERO, same_node, other_node }
    }
}

impl Test {
    /// The uperf profile of the test: its text and its file name.
    fn profile(self) -> (&'static str, &'static str) {
        match self {
            Self::UdpExchange => (include_str!("../../experiments/uperf/udp-rr.xml"), "udp-rr.xml"),
            Self::TcpExchange => (include_str!("../../experiments/uperf/tcp-rr.xml"), "tcp-rr.xml"),
            Self::TcpStream => (include_str!("../../experiments/uperf/tcp-stream.xml"), "tcp-stream.xml"),
        }
    }
}

impl Power7 {
    /// Parses experiments/power7.toml with the changes applied.
    pub(super) fn read(changes: &Changes) -> Result<Self, StudyError> {
        Parameters::read("power7.toml", TEXT, changes).map(Self)
    }

    pub(super) fn parameters(&self) -> &Parameters {
        &self.0
    }

    /// Simulates a client and a server.
    pub(super) fn run(&self, run: &Run) -> Result<Outcome, StudyError> {
        let Run { machines: [client, server], test, message_bytes, instances, seed } = *run;
        let wire = Wire {
            bits_per_second: WIRE_BITS_PER_SECOND,
            mtu_bytes: MTU_BYTES,
            latency: self.0.us("switch_us")?,
        };
        let Load { work, instances } = self.load(test, message_bytes, instances)?;
        let [warm_up, measured] = if work.pattern == Pattern::Exchange { EXCHANGES } else { STREAMS };
        let setup = Setup {
            hosts: [self.host(client, test)?, self.host(server, test)?],
            wire,
            work,
            instances,
            warm_up,
            measured,
            seed,
        };
        Ok(network::run(&setup)?)
    }

    /// Expands the uperf profile to a load with this message size and number of instances.
    fn load(&self, test: Test, message_bytes: u64, instances: u32) -> Result<Load, StudyError> {
        let (text, file) = test.profile();
        let [size, n] = [message_bytes.to_string(), instances.to_string()];
        let variables = [("size", size), ("n", n), ("h", "server".to_owned())].into_iter().collect();
        let connection = Connection {
            window_bytes: self.0.kib("stream_window_kib")?,
            segment_bytes_max: self.0.kib("segment_kib")?,
        };
        Ok(Load::of(&Profile::read(text, file, &variables)?, connection)?)
    }

    /// Reads the speed of the CPUs and the hypervisor.
    pub(super) fn speeds(&self) -> Result<Speeds, StudyError> {
        let capacity = ["core_capacity_2_threads", "core_capacity_3_threads", "core_capacity_4_threads"];
        let more = capacity.into_iter().map(|name| self.0.get(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(Speeds {
            core_capacity: [1.0].into_iter().chain(more).collect(),
            instruction_ns: self.0.get("instruction_ns")?,
            hypercall: self.0.us("hypercall_us")?,
            line: self.line()?,
            window_lock_lines: self.0.count("window_lock_lines")?,
            cores_per_chip: self.0.count("cores_per_chip")?,
        })
    }

    /// Transfer times of a cache line.
    pub(super) fn line(&self) -> Result<LineTransfer, StudyError> {
        let same_node = self.0.ns("line_same_chip_ns")?;
        let other_node = Span::from_ps_f64(same_node.as_ps_f64() * self.0.get("line_other_chip_times")?);
        Ok(LineTransfer { same_node, other_node })
    }

    /// A host of the simulation.
    fn host(&self, machine: Power7Host, test: Test) -> Result<NetworkHost, StudyError> {
        let Speeds { core_capacity, instruction_ns, line, cores_per_chip, .. } = self.speeds()?;
        Ok(NetworkHost {
            cpus: Cpus {
                cores: machine.cores,
                cores_per_node: cores_per_chip,
                core_capacity,
                instruction_ns,
                wake: self.0.us("wake_us")?,
                line,
            },
            paths: self.paths(test)?,
            adapter: self.adapter(machine)?,
            dma_path: machine.dma_path,
            mapping: self.mapping()?,
            // The delays of the host bridge and of memory are unknown.
            iommu: None,
            memory: None,
        })
    }

    /// Instructions of the network stack for a test.
    fn paths(&self, test: Test) -> Result<Paths, StudyError> {
        let [write, read, send, receive] = match test {
            Test::UdpExchange => [
                "udp_write_instructions",
                "udp_read_instructions",
                "udp_send_instructions",
                "udp_receive_instructions",
            ],
            Test::TcpExchange | Test::TcpStream => [
                "tcp_write_instructions",
                "tcp_read_instructions",
                "tcp_send_instructions",
                "tcp_receive_instructions",
            ],
        };
        Ok(Paths {
            write: self.0.get(write)?,
            send: self.0.get(send)?,
            receive: self.0.get(receive)?,
            read: self.0.get(read)?,
            interrupt: self.0.get("interrupt_instructions")?,
        })
    }

    /// The adapter and its driver's receive buffers.
    fn adapter(&self, machine: Power7Host) -> Result<NetworkAdapter, StudyError> {
        let pieces_bytes = vec![self.0.count("piece_1_bytes")?, self.0.count("piece_2_bytes")?];
        let whole = pieces_bytes.iter().sum();
        let maps_short = machine.driver == Driver::Frames;
        Ok(NetworkAdapter {
            link: link(),
            receive_rings: machine.cores.min(self.0.count("receive_rings_max")?),
            receive_entries: self.0.count("receive_ring_entries")?,
            send_rings: self.0.count("send_rings")?,
            send_entries: self.0.count("send_ring_entries")?,
            latency: self.0.us("adapter_us")?,
            inline_bytes: if maps_short { 0 } else { self.0.count("inline_bytes")? },
            fragment_bytes: None,
            keeps_buffers: false,
            copied_bytes: if maps_short { 0 } else { self.0.count("copied_bytes")? },
            buffers: match machine.driver {
                Driver::Pieces => ReceiveBuffers::EachFrame { pieces_bytes },
                Driver::Pages => {
                    ReceiveBuffers::Blocks { block_bytes: self.0.kib("block_kib")?, pieces_bytes }
                }
                Driver::Frames => ReceiveBuffers::EachFrame { pieces_bytes: vec![whole] },
            },
            receive_delay: self.0.us("receive_delay_us")?,
            receive_frames: self.0.count("receive_delay_frames")?,
            send_delay: self.0.us("send_delay_us")?,
            send_frames: self.0.count("send_delay_frames")?,
        })
    }

    /// Costs of mapping in a DMA window or directly.
    fn mapping(&self) -> Result<MappingCost, StudyError> {
        Ok(MappingCost {
            direct_instructions: self.0.get("direct_map_instructions")?,
            window_instructions: self.0.get("window_map_instructions")?,
            locked_instructions: self.0.get("window_locked_instructions")?,
            // These machines have no tables in memory.
            translated_instructions: 0.0,
            submit_instructions: 0.0,
            invalidation: Span::ZERO,
            hypercall: self.0.us("hypercall_us")?,
            entry: self.0.ns("hypercall_entry_ns")?,
            lock_lines: self.0.get("window_lock_lines")?,
        })
    }
}

/// PCIe 2.0 x8, which is far from full with 10 Gb/s.
fn link() -> Link {
    Link {
        generation: Generation::Gen2,
        lanes: 8,
        payload_bytes_max: 256,
        read_request_bytes_max: 512,
        completion_boundary_bytes: 64,
        overhead_share: 0.055,
    }
}
