//! The machine: cores with hardware threads, and the placement of threads.

use des::{Cpu, TransferCost};
use iova::{Allocator, Pools, Request, Space};
use std::cell::Cell;

/// Parameters of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuTopology {
    /// Number of cores.
    pub cores: u32,
    /// Throughput of a core with 1, 2 ... busy threads, relative to one. Its length is the number of hardware
    /// threads.
    pub smt_gain: Vec<f64>,
    /// Number of NUMA nodes; cores are divided evenly.
    pub nodes: u32,
    /// Transfer time of a cache line: within a core, within a node, between nodes.
    pub transfer: TransferCost,
}

/// A CPU with a thread on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuPlacement {
    /// Its number. The threads of a core have consecutive numbers.
    pub(super) number: u32,
    core: u32,
    node: u32,
    /// Number of CPUs of its core that have a thread.
    pub(super) of_core: u32,
}

impl CpuPlacement {
    /// Its core. For locks the threads of a core are one, since they share the first-level cache.
    pub(super) fn cpu(self) -> Cpu {
        Cpu { number: self.core, node: self.node }
    }
}

impl CpuTopology {
    /// Places threads: one per core first, then on the cores with the fewest.
    pub(super) fn place_threads(&self, threads: u32) -> Vec<CpuPlacement> {
        let (cores, per_core) = (self.cores.max(1), self.smt_gain.len().max(1) as u32);
        let busy = threads.clamp(1, cores * per_core);
        let place = |index: u32| {
            let core = index % cores;
            CpuPlacement {
                number: core * per_core + index / cores,
                core,
                node: core * self.nodes.max(1) / cores,
                of_core: (busy - core).div_ceil(cores),
            }
        };
        (0..busy).map(place).collect()
    }

    /// Factor by which instructions slow down with this many busy threads on the core.
    pub(super) fn slowdown(&self, of_core: u32) -> f64 {
        let gain = self.smt_gain.get(of_core.saturating_sub(1) as usize).copied().unwrap_or(1.0);
        f64::from(of_core.max(1)) / gain
    }
}

/// Pages of a 2 GiB table, POWER's largest default window.
const TABLE_PAGES: u64 = 1 << 19;
const PAGE_BYTES: u64 = 4096;
/// Four pools share three quarters of the table.
const POOL_PAGES: u64 = TABLE_PAGES * 3 / 4 / 4;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// The allocator pool of each CPU, found by letting powerpc's allocator allocate a page on it.
pub(super) fn pools(places: &[CpuPlacement]) -> Vec<usize> {
    let space = Space::new(0, TABLE_PAGES - 1);
    let Ok(pools) = Pools::new(&space, PAGE_BYTES, || CPU.get()) else { return vec![0; places.len()] };
    let request = Request::new(1, space.last);
    let pool = |place: &CpuPlacement| {
        CPU.set(place.number);
        pools.allocate(&request).map_or(0, |page| (page / POOL_PAGES) as usize)
    };
    places.iter().map(pool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use des::Span;

    fn machine() -> CpuTopology {
        let transfer = TransferCost {
            same_cpu: Span::ZERO,
            same_node: Span::from_ns(50),
            other_node: Span::from_ns(150),
        };
        CpuTopology { cores: 16, smt_gain: vec![1.0, 1.5, 1.7, 1.9], nodes: 2, transfer }
    }

    #[test]
    fn threads_take_cores_before_they_share_them() {
        let of =
            |threads| machine().place_threads(threads).iter().map(|place| place.of_core).collect::<Vec<_>>();
        assert_eq!(of(16), [1; 16]);
        assert_eq!(of(17)[..2], [2, 1]);
        assert_eq!(of(17)[16], 2);
        assert_eq!(of(1024), [4; 64]);
        let mut numbers: Vec<u32> = machine().place_threads(64).iter().map(|place| place.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..64).collect::<Vec<_>>());
        let nodes: Vec<u32> = machine().place_threads(16).iter().map(|place| place.node).collect();
        assert_eq!(nodes, [[0; 8], [1; 8]].concat());
    }

    #[test]
    fn all_pools_have_about_as_many_cpus() {
        let pools = pools(&machine().place_threads(64));
        let of = |pool| pools.iter().filter(|&&one| one == pool).count();
        let counts = [0, 1, 2, 3].map(of);
        assert_eq!(counts.iter().sum::<usize>(), 64);
        assert!(counts.iter().all(|count| (15..=17).contains(count)), "{counts:?}");
    }
}
