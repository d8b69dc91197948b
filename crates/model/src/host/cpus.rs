//! The CPUs that a host has.

use des::Span;

/// The CPUs of a host: hardware threads of cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Cpus {
    /// Cores.
    pub cores: u32,
    /// Cores of a chip, which pass a cache line to each other faster than to others.
    pub cores_per_node: u32,
    /// What a core gets done with 1, 2, ... threads at work, 1 with one; as many as a core has threads.
    pub core_capacity: Vec<f64>,
    /// What an instruction takes, on a core that does nothing else.
    pub instruction_ns: f64,
    /// What a sleeping thread of execution takes to be back on an idle CPU.
    pub wake: Span,
    /// A lock's cache line on its way.
    pub line: LineTransfer,
}

/// How long a cache line takes to another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTransfer {
    /// Of the same chip.
    pub same_node: Span,
    /// Of another.
    pub other_node: Span,
}

impl Cpus {
    /// Hardware threads of a core.
    pub fn threads_per_core(&self) -> u32 {
        self.core_capacity.len() as u32
    }

    /// Hardware threads of all.
    pub fn threads(&self) -> u32 {
        self.cores * self.threads_per_core()
    }

    /// The hardware thread with this place in a core. They are numbered core by core, as Linux does on POWER.
    fn number(&self, core: u32, thread: u32) -> u32 {
        core * self.threads_per_core() + thread
    }

    pub(super) fn core(&self, cpu: u32) -> u32 {
        cpu / self.threads_per_core()
    }

    /// Where a lock's cache line is when this CPU has it: its core's first-level cache.
    pub(super) fn holder(&self, cpu: u32) -> des::Cpu {
        des::Cpu { number: self.core(cpu), node: self.node(cpu) }
    }

    /// The chip of a CPU, by which its memory is told from others'.
    pub(crate) fn node(&self, cpu: u32) -> u32 {
        self.core(cpu) / self.cores_per_node.max(1)
    }

    /// How long some instructions take on a core that does nothing else.
    pub(crate) fn time_of(&self, instructions: f64) -> Span {
        Span::from_ns_f64(instructions * self.instruction_ns)
    }

    /// Interrupts of a queue: on the first thread of a core of its own, as far as there are cores.
    pub(crate) fn of_queue(&self, queue: u32) -> u32 {
        self.number(queue % self.cores, 0)
    }

    /// An application's thread: on another hardware thread of a core, as long as there are any.
    pub(crate) fn of_thread(&self, thread: u32) -> u32 {
        let others = (self.threads_per_core() - 1).max(1);
        let place = (thread / self.cores) % others + u32::from(self.threads_per_core() > 1);
        self.number(thread % self.cores, place)
    }
}
