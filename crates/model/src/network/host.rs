//! A host: its CPUs, paths and adapter.

use super::Setup;
use super::adapter::{Adapter, Rings};
use super::task::{Effect, Task};
use crate::host::{Cpus, DmaPath, HostError, IommuSetup, Mapping, MappingCost, Memory, Processors};
use des::Span;

/// A host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its CPUs.
    pub cpus: Cpus,
    /// What it executes.
    pub paths: Paths,
    /// Its adapter.
    pub adapter: Adapter,
    /// How it maps memory.
    pub dma_path: DmaPath,
    /// What that costs.
    pub mapping: MappingCost,
    /// The hardware's side of its IOMMU; without, it costs nothing but what the mapping layer does.
    pub iommu: Option<IommuSetup>,
    /// Where its memory lies; without, all of it is as near, and copying it is in the paths alone.
    pub memory: Option<Memory>,
}

/// Instructions, without those of mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paths {
    /// To write a message: the system call, the socket.
    pub write: f64,
    /// To send a frame, from the protocol to the adapter.
    pub send: f64,
    /// To receive one, from the ring to the socket.
    pub receive: f64,
    /// To read a message, and be woken for it.
    pub read: f64,
    /// To take an interrupt, and to be back from it.
    pub interrupt: f64,
}

/// A host at work.
#[derive(Debug)]
pub(super) struct State {
    pub(super) processors: Processors<Task, Effect>,
    pub(super) mapping: Mapping,
    pub(super) memory: Option<Memory>,
    pub(super) paths: Paths,
    pub(super) adapter: Adapter,
    pub(super) rings: Rings,
}

impl State {
    pub(super) fn new(setup: &Host) -> Result<Self, HostError> {
        let Host { cpus, paths, adapter, dma_path, mapping, iommu, memory } = setup;
        let queue = iommu.and_then(|iommu| iommu.queue);
        let mapping = Mapping::new(*dma_path, *mapping, cpus)?.with_iommu(iommu.as_ref())?;
        Ok(Self {
            processors: Processors::new(cpus, dma_path.locks())?.with_queue(queue),
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

    /// What a CPU takes to copy bytes that were allocated on another, or on itself, besides its path.
    pub(super) fn copy(&self, cpu: u32, allocated_on: u32, bytes: u64) -> Option<Span> {
        let cpus = &self.processors.setup;
        let span = self.memory?.copy(cpus, cpu, cpus.node(allocated_on), bytes);
        (span > Span::ZERO).then_some(span)
    }
}

/// Rings by flow: as hashes of addresses do it, each flow has its own place in the order of rings.
pub(super) fn ring_of_flow(setup: &Setup, flow: u32, rings: u32) -> u32 {
    des::Stream::new(setup.seed, u64::from(flow)).below(u64::from(rings)) as u32
}
