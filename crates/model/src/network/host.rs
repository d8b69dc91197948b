//! A host: its CPUs, paths and adapter.

use super::adapter::{Adapter, Rings};
use super::cpu::{Cpu, Cpus};
use super::mapping::{Mapping, MappingCost, Road};
use super::outcome::Stage;
use super::{NetworkError, Setup};
use des::{Span, Time};

/// A host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its CPUs.
    pub cpus: Cpus,
    /// What an instruction takes, on a core that does nothing else.
    pub instruction_ns: f64,
    /// What it executes.
    pub paths: Paths,
    /// Its adapter.
    pub adapter: Adapter,
    /// How it maps memory.
    pub road: Road,
    /// What that costs.
    pub mapping: MappingCost,
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
    pub(super) setup: Host,
    pub(super) cpus: Vec<Cpu>,
    pub(super) mapping: Mapping,
    pub(super) rings: Rings,
    /// Hardware threads of each core that are busy.
    pub(super) busy_in_core: Vec<u32>,
    /// Time by stage, of what is over.
    stages: [Span; 5],
}

impl State {
    pub(super) fn new(setup: &Host) -> Result<Self, NetworkError> {
        Ok(Self {
            cpus: (0..setup.cpus.threads()).map(|_| Cpu::default()).collect(),
            mapping: Mapping::new(setup.road, setup.mapping, setup.instruction_ns, setup.cpus.threads())?,
            rings: Rings::new(&setup.adapter),
            busy_in_core: vec![0; setup.cpus.cores as usize],
            stages: [Span::ZERO; 5],
            setup: setup.clone(),
        })
    }

    /// How long some instructions take on a core that does nothing else.
    pub(super) fn time_of(&self, instructions: f64) -> Span {
        Span::from_ps_f64(instructions * self.setup.instruction_ns * 1e3)
    }

    /// How much longer anything takes on this CPU, with what else its core does now.
    pub(super) fn slowness(&self, cpu: u32) -> f64 {
        let busy = self.busy_in_core[self.setup.cpus.core(cpu) as usize].max(1);
        let capacity = self.setup.cpus.core_capacity[busy as usize - 1];
        f64::from(busy) / capacity
    }

    /// Interrupts of a ring: on the first thread of a core of its own, as far as there are cores.
    pub(super) fn cpu_of_ring(&self, ring: u32) -> u32 {
        let cpus = &self.setup.cpus;
        cpus.number(ring % cpus.cores, 0)
    }

    /// An instance's thread: on another thread of a core, as long as there are any.
    pub(super) fn cpu_of_flow(&self, flow: u32) -> u32 {
        let cpus = &self.setup.cpus;
        let others = (cpus.threads_per_core() - 1).max(1);
        let thread = (flow / cpus.cores) % others + u32::from(cpus.threads_per_core() > 1);
        cpus.number(flow % cpus.cores, thread)
    }

    /// From now on a CPU does this.
    pub(super) fn set_doing(&mut self, now: Time, cpu: u32, stage: Option<Stage>) {
        if let Some((stage, span)) = self.cpus[cpu as usize].set_doing(now, stage) {
            self.stages[stage as usize] += span;
        }
    }

    /// Time by stage, with what goes on now as far as it is.
    pub(super) fn stages_until(&self, now: Time) -> [Span; 5] {
        let mut stages = self.stages;
        for (stage, span) in self.cpus.iter().filter_map(|cpu| cpu.done_until(now)) {
            stages[stage as usize] += span;
        }
        stages
    }
}

/// Rings by flow: as hashes of addresses do it, each flow has its own place in the order of rings.
pub(super) fn ring_of_flow(setup: &Setup, flow: u32, rings: u32) -> u32 {
    des::Stream::new(setup.seed, u64::from(flow)).below(u64::from(rings)) as u32
}
