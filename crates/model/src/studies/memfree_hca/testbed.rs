//! The published machines, by their parameters.

use super::StudyError;
use crate::infiniband::icm::Profile;
use crate::infiniband::mpi::{Library, run_program};
use crate::infiniband::nas::Kernel;
use crate::infiniband::{
    self, Adapter, Bus, CacheShape, Host, Load, Measured, MemoryKind, Pattern, PciX, Replacement, RunError,
    Setup, Verb, Wire,
};
use crate::link::Link;
use crate::studies::parameters::Parameters;

/// What the adapter is plugged into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Slot {
    Pcie,
    PciX,
}

#[derive(Debug)]
pub(super) struct Testbed {
    pub(super) link: Link,
    pub(super) given: Parameters,
}

/// 4X at single data rate, without the line code.
const WIRE_BITS_PER_SECOND: f64 = 8e9;
const MTU_BYTES: u64 = 2048;
const PCIX_BYTES_PER_CLOCK: u64 = 8;
const MESSAGES: u64 = 512;
const SEED: u64 = 1;
const PROCESSES_PER_NODE: u16 = 2;
/// Iterations of a benchmark that are measured: all are alike.
const ROUNDS: u32 = 2;

impl Testbed {
    pub(super) fn setup(&self, slot: Slot, contexts: MemoryKind) -> Result<Setup, StudyError> {
        let engine = self.given.ns("engine_ns")?;
        let gap = self.given.ns("engine_gap_ns")?;
        Ok(Setup {
            host: Host {
                bus: self.bus(slot)?,
                read: match slot {
                    Slot::Pcie => self.given.ns("host_read_ns")?,
                    Slot::PciX => self.given.ns("pcix_host_read_ns")?,
                },
                post: self.given.ns("post_ns")?,
                poll: self.given.ns("poll_ns")?,
            },
            adapter: Adapter {
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
            seed: SEED,
        })
    }

    /// The driver's tables, with contexts of the given size.
    pub(super) fn profile(&self) -> Result<Profile, StudyError> {
        Ok(Profile { qp_bytes: self.given.get("qp_bytes")? as u64, ..Profile::default() })
    }

    fn bus(&self, slot: Slot) -> Result<Bus, StudyError> {
        Ok(match slot {
            Slot::Pcie => Bus::Pcie(self.link),
            Slot::PciX => Bus::PciX(PciX {
                clock_hz: self.given.get("pcix_clock_mhz")? * 1e6,
                bytes_per_clock: PCIX_BYTES_PER_CLOCK,
                overhead_clocks: self.given.get("pcix_overhead_clocks")? as u64,
                burst_bytes_max: self.given.get("pcix_burst_bytes")? as u64,
            }),
        })
    }

    fn cache(&self) -> Result<CacheShape, StudyError> {
        let line_bytes = self.given.get("cache_line_bytes")? as u64;
        let ways = self.given.get("cache_ways")? as u32;
        let sets = (self.given.get("cache_kib")? * 1024.0) as u64 / line_bytes / u64::from(ways);
        // The next smaller one that there is.
        let sets = 1 << sets.max(1).ilog2();
        Ok(CacheShape {
            bytes: sets * u64::from(ways) * line_bytes,
            line_bytes,
            ways,
            replacement: Replacement::Lru,
        })
    }

    /// RDMA writes between two nodes, from and to host memory.
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

    pub(super) fn run(&self, slot: Slot, contexts: MemoryKind, load: &Load) -> Result<Measured, StudyError> {
        measured(infiniband::run(&self.setup(slot, contexts)?, load))
    }

    /// A message from one memory to the same, by one adapter.
    pub(super) fn access_us(&self, slot: Slot, buffers: MemoryKind, bytes: u64) -> Result<f64, StudyError> {
        let load = Load { is_loop: true, buffers, ..self.load(Pattern::Alone, bytes, 1) };
        Ok(self.run(slot, MemoryKind::Adapter, &load)?.latency_mean.as_ps_f64() / 1e6)
    }

    /// Long messages on one connection.
    pub(super) fn bytes_per_second(
        &self,
        contexts: MemoryKind,
        reuse_percent: f64,
        both_ways: bool,
    ) -> Result<f64, StudyError> {
        let window = self.given.get("stream_window")? as u32;
        let bytes = self.given.kib("stream_message_kib")?;
        let pattern = Pattern::Stream { window, reuse_percent: reuse_percent as u32, both_ways };
        let load = self.load(pattern, bytes, 1);
        Ok(self.run(Slot::Pcie, contexts, &Load { messages: 4 * MESSAGES, ..load })?.bytes_per_second)
    }

    /// A benchmark's time without memory over that with memory.
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
            Ok(run_program(&self.setup(Slot::Pcie, contexts)?, &library, &program)?.round.as_ps_f64())
        };
        Ok(round(MemoryKind::Host)? / round(MemoryKind::Adapter)?)
    }
}

pub(super) fn measured(run: Result<Measured, RunError>) -> Result<Measured, StudyError> {
    run.map_err(|error| StudyError::Program(error.into()))
}
