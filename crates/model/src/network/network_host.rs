//! A host: CPUs, code paths and adapter.

use super::Setup;
use super::network_adapter::NetworkAdapter;
use super::rings::Rings;
use super::task::{Effect, Task};
use crate::host::{Cpus, DmaPath, HostError, IommuSetup, Mapping, MappingCost, Memory, Processors};
use des::Span;

/// Parameters of a host.
#[derive(Debug, Clone)]
pub struct NetworkHost {
    /// Its CPUs.
    pub cpus: Cpus,
    /// Lengths of its code paths.
    pub paths: Paths,
    /// Its adapter.
    pub adapter: NetworkAdapter,
    /// DMA path.
    pub dma_path: DmaPath,
    /// Costs of mapping.
    pub mapping: MappingCost,
    /// The IOMMU hardware; `None`: only the mapping calls cost something.
    pub iommu: Option<IommuSetup>,
    /// NUMA distances of its memory; `None`: all memory is local, and copies are part of the code paths.
    pub memory: Option<Memory>,
}

/// Lengths of code paths in instructions, without mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paths {
    /// Writing a message: system call and socket.
    pub write: f64,
    /// Sending a frame, from protocol to adapter.
    pub send: f64,
    /// Receiving a frame, from ring to socket.
    pub receive: f64,
    /// Reading a message, including the wake-up.
    pub read: f64,
    /// An interrupt, entry and exit.
    pub interrupt: f64,
}

/// State of a host.
#[derive(Debug)]
pub(super) struct HostState {
    pub(super) processors: Processors<Task, Effect>,
    pub(super) mapping: Mapping,
    pub(super) memory: Option<Memory>,
    pub(super) paths: Paths,
    pub(super) adapter: NetworkAdapter,
    pub(super) rings: Rings,
}

impl HostState {
    pub(super) fn new(setup: &NetworkHost) -> Result<Self, HostError> {
        let NetworkHost { cpus, paths, adapter, dma_path, mapping, iommu, memory } = setup;
        let queue = iommu.and_then(|iommu| iommu.queue);
        let locks = dma_path.lock_lines(mapping);
        let mapping = Mapping::new(*dma_path, *mapping, cpus)?.with_iommu(iommu.as_ref())?;
        Ok(Self {
            processors: Processors::new(cpus, locks)?.with_queue(queue),
            mapping: mapping.with_memory(*memory),
            memory: *memory,
            paths: *paths,
            rings: Rings::new(adapter),
            adapter: adapter.clone(),
        })
    }

    pub(super) fn cpu_of_ring(&self, ring: u32) -> u32 {
        self.processors.setup.of_queue(ring)
    }

    /// Time for a CPU to copy bytes allocated by another CPU or itself, beyond what its code path includes.
    pub(super) fn copy(&self, cpu: u32, allocated_on: u32, bytes: u64) -> Option<Span> {
        let cpus = &self.processors.setup;
        let span = self.memory?.copy(cpus, cpu, cpus.node(allocated_on), bytes);
        (span > Span::ZERO).then_some(span)
    }
}

/// The ring of a flow. Like a hash of addresses, each flow has its own permutation of the rings.
pub(super) fn ring_of_flow(setup: &Setup, flow: u32, rings: u32) -> u32 {
    des::Stream::new(setup.seed, u64::from(flow)).below(u64::from(rings)) as u32
}
