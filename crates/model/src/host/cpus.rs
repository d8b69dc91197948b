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

    /// Cores that are used where so many have 0, 1, ... busy hardware threads: each by what these get done of what all do, which is how AIX
    /// tells a core's use since POWER7.
    pub(crate) fn cores_used(&self, by_busy: &[f64]) -> f64 {
        let most = self.core_capacity.last().copied().unwrap_or(1.0);
        by_busy.iter().skip(1).zip(&self.core_capacity).map(|(cores, capacity)| cores * capacity / most).sum()
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

    /// All of them, from this one's core on: those of its node, and then others; of cores the threads that take no interrupts first.
    pub(super) fn near(&self, cpu: u32) -> impl Iterator<Item = u32> {
        let (core, node) = (self.core(cpu), self.node(cpu));
        let (cores, threads) = (self.cores, self.threads_per_core());
        let is_near = move |other: &u32| other / self.cores_per_node.max(1) == node;
        let all = move || (core..cores).chain(0..core);
        let in_order = all().filter(is_near).chain(all().filter(move |other| !is_near(other)));
        in_order.flat_map(move |core| (1..=threads).map(move |place| self.number(core, place % threads)))
    }

    /// An application's thread when it begins: a hardware thread of each core after the other, and last those that take interrupts.
    pub(crate) fn of_thread(&self, thread: u32) -> u32 {
        let place = (thread / self.cores + 1) % self.threads_per_core();
        self.number(thread % self.cores, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_what_interrupts_leave_first() {
        let line = LineTransfer { same_node: Span::ZERO, other_node: Span::ZERO };
        let (core_capacity, wake) = (vec![1.0, 1.2, 1.3], Span::ZERO);
        let cpus = Cpus { cores: 2, cores_per_node: 2, core_capacity, instruction_ns: 1.0, wake, line };
        let places: Vec<u32> = (0..7).map(|thread| cpus.of_thread(thread)).collect();
        assert_eq!(places, [1, 4, 2, 5, 0, 3, 1]);
        assert_eq!([0, 1, 2].map(|queue| cpus.of_queue(queue)), [0, 3, 0]);
        assert_eq!(cpus.near(4).collect::<Vec<_>>(), [4, 5, 3, 1, 2, 0]);
        let apart = Cpus { cores: 4, core_capacity: vec![1.0], ..cpus.clone() };
        assert_eq!(apart.near(1).collect::<Vec<_>>(), [1, 0, 2, 3]);
        let single = Cpus { core_capacity: vec![1.0], ..cpus };
        assert_eq!([0, 1, 2].map(|thread| single.of_thread(thread)), [0, 1, 0]);
    }
}
