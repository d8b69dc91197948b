//! Builds simulations of the published machines from the study's parameters.

use super::StudyError;
use crate::infiniband::icm::Profile;
use crate::infiniband::mpi::{Library, run_program};
use crate::infiniband::nas::Kernel;
use crate::infiniband::{
    self, Bus, CacheShape, Hca, HcaHost, Load, Measured, MemoryKind, Pattern, PciX, Replacement, RunError,
    Setup, Verb, Wire,
};
use crate::link::Link;
use crate::studies::parameters::Parameters;

/// What the adapter is plugged into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum BusKind {
    Pcie,
    PciX,
}

#[derive(Debug)]
pub(super) struct Testbed {
    pub(super) link: Link,
    pub(super) given: Parameters,
    /// Of all random choices.
    pub(super) seed: u64,
}

/// A 4X link at single data rate, after 8b/10b coding.
const WIRE_BITS_PER_SECOND: f64 = 8e9;
const MTU_BYTES: u64 = 2048;
const PCIX_BYTES_PER_CLOCK: u64 = 8;
const MESSAGES: u64 = 512;
const PROCESSES_PER_NODE: u16 = 2;
/// Measured iterations of a benchmark. A few suffice because all are alike.
const ROUNDS: u32 = 2;

impl Testbed {
    /// Two nodes whose adapters sit in this kind of slot and keep contexts in this memory.
    pub(super) fn setup(&self, slot: BusKind, contexts: MemoryKind) -> Result<Setup, StudyError> {
        let engine = self.given.ns("engine_ns")?;
        let gap = self.given.ns("engine_gap_ns")?;
        Ok(Setup {
            host: HcaHost {
                bus: self.bus(slot)?,
                read: match slot {
                    BusKind::Pcie => self.given.ns("host_read_ns")?,
                    BusKind::PciX => self.given.ns("pcix_host_read_ns")?,
                },
                post: self.given.ns("post_ns")?,
                poll: self.given.ns("poll_ns")?,
            },
            adapter: Hca {
                send: engine,
                send_gap: gap,
                receive: engine,
                receive_gap: gap,
                works_max: self.given.get("works_max")? as u32,
                packets_max: self.given.get("packets_max")? as u32,
                fetches_max: self.given.get("fetches_max")? as u32,
                cache: self.cache()?,
                profile: self.profile()?,
                memory: self.given.ns("adapter_memory_ns")?,
                memory_bytes_per_second: self.given.get("adapter_memory_mb_per_second")? * 1e6,
            },
            contexts,
            wire: Wire {
                bits_per_second: WIRE_BITS_PER_SECOND,
                overhead_share: self.given.get("wire_overhead_share")?,
                mtu_bytes: MTU_BYTES,
                latency: self.given.ns("switch_ns")?,
            },
            seed: self.seed,
        })
    }

    /// The sizes of the driver's context tables, with the study's queue pair context size.
    pub(super) fn profile(&self) -> Result<Profile, StudyError> {
        Ok(Profile { qp_bytes: self.given.get("qp_bytes")? as u64, ..Profile::default() })
    }

    fn bus(&self, slot: BusKind) -> Result<Bus, StudyError> {
        Ok(match slot {
            BusKind::Pcie => Bus::Pcie(self.link),
            BusKind::PciX => Bus::PciX(PciX {
                clock_hz: self.given.get("pcix_clock_mhz")? * 1e6,
                bytes_per_clock: PCIX_BYTES_PER_CLOCK,
                overhead_clocks: self.given.get("pcix_overhead_clocks")? as u64,
                burst_bytes_max: self.given.get("pcix_burst_bytes")? as u64,
            }),
        })
    }

    /// The adapter's context cache; the number of sets is rounded down to a power of two.
    fn cache(&self) -> Result<CacheShape, StudyError> {
        let line_bytes = self.given.get("cache_line_bytes")? as u64;
        let ways = self.given.get("cache_ways")? as u32;
        let sets = (self.given.get("cache_kib")? * 1024.0) as u64 / line_bytes / u64::from(ways);
        // The number of sets is a power of two.
        let sets = 1 << sets.max(1).ilog2();
        Ok(CacheShape {
            bytes: sets * u64::from(ways) * line_bytes,
            line_bytes,
            ways,
            replacement: Replacement::Lru,
        })
    }

    /// A load of RDMA writes between two nodes, from and to host memory.
    pub(super) fn load(&self, pattern: Pattern, message_bytes: u64, connections: u32) -> Load {
        Load {
            pattern,
            verb: Verb::Write,
            message_bytes,
            connections,
            is_loop: false,
            buffers: MemoryKind::Host,
            messages: MESSAGES,
        }
    }

    /// Simulates a load on two nodes.
    pub(super) fn run(
        &self,
        slot: BusKind,
        contexts: MemoryKind,
        load: &Load,
    ) -> Result<Measured, StudyError> {
        with_study_error(infiniband::run(&self.setup(slot, contexts)?, load))
    }

    /// Time of a message that one adapter copies within the given memory, in us.
    pub(super) fn access_us(
        &self,
        slot: BusKind,
        buffers: MemoryKind,
        bytes: u64,
    ) -> Result<f64, StudyError> {
        let load = Load { is_loop: true, buffers, ..self.load(Pattern::Alone, bytes, 1) };
        Ok(self.run(slot, MemoryKind::Adapter, &load)?.latency_mean.as_ps_f64() / 1e6)
    }

    /// Simulates a stream of long messages on one connection.
    pub(super) fn stream(
        &self,
        contexts: MemoryKind,
        reuse_percent: f64,
        both_ways: bool,
    ) -> Result<Measured, StudyError> {
        let window = self.given.get("stream_window")? as u32;
        let bytes = self.given.kib("stream_message_kib")?;
        let pattern = Pattern::Stream { window, reuse_percent: reuse_percent as u32, both_ways };
        let load = self.load(pattern, bytes, 1);
        self.run(BusKind::Pcie, contexts, &Load { messages: 4 * MESSAGES, ..load })
    }

    /// A benchmark's time with contexts in host memory, divided by its time with contexts in adapter memory.
    pub(super) fn slowdown(&self, kernel: Kernel) -> Result<f64, StudyError> {
        let library = Library {
            processes_per_node: PROCESSES_PER_NODE,
            eager_bytes_max: self.given.kib("mpi_eager_kib")?,
            copy_ps_per_byte: self.given.get("mpi_copy_ps_per_byte")?,
            call: self.given.ns("mpi_call_ns")?,
            shared: self.given.ns("mpi_shared_ns")?,
        };
        let rate = self.given.get(match kernel {
            Kernel::Is => "nas_is_mops",
            Kernel::Mg => "nas_mg_mops",
            Kernel::Lu => "nas_lu_mops",
            Kernel::Cg => "nas_cg_mops",
        })?;
        let program = kernel.program(rate * 1e6, ROUNDS);
        let round = |contexts| -> Result<f64, StudyError> {
            Ok(run_program(&self.setup(BusKind::Pcie, contexts)?, &library, &program)?.round.as_ps_f64())
        };
        Ok(round(MemoryKind::Host)? / round(MemoryKind::Adapter)?)
    }
}

/// Converts the error of a simulation to the study's error.
pub(super) fn with_study_error(run: Result<Measured, RunError>) -> Result<Measured, StudyError> {
    run.map_err(|error| StudyError::Program(error.into()))
}
