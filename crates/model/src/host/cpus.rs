//! The CPUs of a host: topology and speed.

use des::Span;

/// A host's hardware threads, cores and nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Cpus {
    /// Number of cores.
    pub cores: u32,
    /// Cores per node (chip). A cache line moves faster within a node.
    pub cores_per_node: u32,
    /// Throughput of a core with 1, 2, ... busy threads, relative to one. Its length is the number of threads per
    /// core.
    pub core_capacity: Vec<f64>,
    /// Duration of an instruction on an otherwise idle core.
    pub instruction_ns: f64,
    /// Time to wake an idle CPU.
    pub wake: Span,
    /// Transfer time of a lock's cache line.
    pub line: LineTransfer,
}

/// Transfer time of a cache line to another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTransfer {
    /// On the same node.
    pub same_node: Span,
    /// On another node.
    pub other_node: Span,
}

impl Cpus {
    /// Hardware threads per core.
    pub fn threads_per_core(&self) -> u32 {
        self.core_capacity.len() as u32
    }

    /// All hardware threads.
    pub fn threads(&self) -> u32 {
        self.cores * self.threads_per_core()
    }

    /// Cores used, given the mean number of cores with 0, 1, ... busy threads. A partly busy core counts by its
    /// throughput relative to all threads busy, as AIX reports it since POWER7.
    pub(crate) fn cores_used(&self, by_busy: &[f64]) -> f64 {
        let most = self.core_capacity.last().copied().unwrap_or(1.0);
        by_busy.iter().skip(1).zip(&self.core_capacity).map(|(cores, capacity)| cores * capacity / most).sum()
    }

    /// Number of a hardware thread. They are numbered core by core, as Linux does on POWER.
    fn number(&self, core: u32, thread: u32) -> u32 {
        core * self.threads_per_core() + thread
    }

    /// The core of a hardware thread.
    pub(super) fn core(&self, cpu: u32) -> u32 {
        cpu / self.threads_per_core()
    }

    /// For lock transfers: the core whose first-level cache has the line while this CPU holds it.
    pub(super) fn holder(&self, cpu: u32) -> des::Cpu {
        des::Cpu { number: self.core(cpu), node: self.node(cpu) }
    }

    /// The node of a CPU.
    pub(crate) fn node(&self, cpu: u32) -> u32 {
        self.core(cpu) / self.cores_per_node.max(1)
    }

    /// Duration of instructions on an otherwise idle core.
    pub(crate) fn time_of(&self, instructions: f64) -> Span {
        Span::from_ns_f64(instructions * self.instruction_ns)
    }

    /// The CPU for a queue's interrupts: the first thread of its own core, as far as there are cores.
    pub(crate) fn of_queue(&self, queue: u32) -> u32 {
        self.number(queue % self.cores, 0)
    }

    /// All CPUs in order of distance from this one: same core, same node, others. Threads that take no interrupts
    /// come first.
    pub(super) fn near(&self, cpu: u32) -> impl Iterator<Item = u32> {
        let (core, node) = (self.core(cpu), self.node(cpu));
        let (cores, threads) = (self.cores, self.threads_per_core());
        let is_near = move |other: &u32| other / self.cores_per_node.max(1) == node;
        let all = move || (core..cores).chain(0..core);
        let in_order = all().filter(is_near).chain(all().filter(move |other| !is_near(other)));
        in_order.flat_map(move |core| (1..=threads).map(move |place| self.number(core, place % threads)))
    }

    /// The CPU for an application thread: each core in turn, threads that take interrupts last.
    pub(crate) fn of_thread(&self, thread: u32) -> u32 {
        let place = (thread / self.cores + 1) % self.threads_per_core();
        self.number(thread % self.cores, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_first_run_where_no_interrupt_does() {
        let line = LineTransfer { same_node: Span::ZERO, other_node: Span::ZERO };
        let (core_capacity, wake) = (vec![1.0, 1.2, 1.25], Span::ZERO);
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
