//! Cores with hardware threads, and who runs where.

use des::{Cpu, TransferCost};
use iova::{Allocator, Pools, Request, Space};
use std::cell::Cell;

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its cores.
    pub cores: u32,
    /// What 1, 2 ... threads of a core do together, over one alone: as many as it has hardware threads, which are the CPUs.
    pub smt_gain: Vec<f64>,
    /// Nodes that the cores belong to, as many to each.
    pub nodes: u32,
    /// How long a cache line is on its way: within a core, between cores of a node, between nodes.
    pub transfer: TransferCost,
}

/// A CPU with a thread on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its number, the threads of a core one after the other.
    pub(super) number: u32,
    core: u32,
    node: u32,
    /// CPUs of its core that have a thread.
    pub(super) of_core: u32,
}

impl Place {
    /// For locks, the threads of a core are one: they share their nearest cache.
    pub(super) fn cpu(self) -> Cpu {
        Cpu { number: self.core, node: self.node }
    }
}

impl Machine {
    /// Where so many threads run: on a core each as long as there are any, then on those with the fewest.
    pub(super) fn places(&self, threads: u32) -> Vec<Place> {
        let (cores, per_core) = (self.cores.max(1), self.smt_gain.len().max(1) as u32);
        let busy = threads.clamp(1, cores * per_core);
        let place = |index: u32| {
            let core = index % cores;
            Place {
                number: core * per_core + index / cores,
                core,
                node: core * self.nodes.max(1) / cores,
                of_core: (busy - core).div_ceil(cores),
            }
        };
        (0..busy).map(place).collect()
    }

    /// How many times as long as alone instructions take beside others of the core.
    pub(super) fn slowdown(&self, of_core: u32) -> f64 {
        let gain = self.smt_gain.get(of_core.saturating_sub(1) as usize).copied().unwrap_or(1.0);
        f64::from(of_core.max(1)) / gain
    }
}

/// Pages of a table of 2 GiB, the largest of POWER's default windows.
const TABLE_PAGES: u64 = 1 << 19;
const PAGE_BYTES: u64 = 4096;
/// Of such a table three quarters are four pools.
const POOL_PAGES: u64 = TABLE_PAGES * 3 / 4 / 4;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// The pool of each CPU, as powerpc's allocator itself has it: where it hands out the CPU's first page.
pub(super) fn pools(places: &[Place]) -> Vec<usize> {
    let space = Space::new(0, TABLE_PAGES - 1);
    let Ok(pools) = Pools::new(&space, PAGE_BYTES, || CPU.get()) else { return vec![0; places.len()] };
    let request = Request::new(1, space.last);
    let pool = |place: &Place| {
        CPU.set(place.number);
        pools.allocate(&request).map_or(0, |page| (page / POOL_PAGES) as usize)
    };
    places.iter().map(pool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use des::Span;

    fn machine() -> Machine {
        let transfer = TransferCost {
            same_cpu: Span::ZERO,
            same_node: Span::from_ns(50),
            other_node: Span::from_ns(150),
        };
        Machine { cores: 16, smt_gain: vec![1.0, 1.5, 1.7, 1.9], nodes: 2, transfer }
    }

    #[test]
    fn threads_take_cores_before_they_share_them() {
        let of = |threads| machine().places(threads).iter().map(|place| place.of_core).collect::<Vec<_>>();
        assert_eq!(of(16), [1; 16]);
        assert_eq!(of(17)[..2], [2, 1]);
        assert_eq!(of(17)[16], 2);
        assert_eq!(of(1024), [4; 64]);
        let mut numbers: Vec<u32> = machine().places(64).iter().map(|place| place.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..64).collect::<Vec<_>>());
        let nodes: Vec<u32> = machine().places(16).iter().map(|place| place.node).collect();
        assert_eq!(nodes, [[0; 8], [1; 8]].concat());
    }

    #[test]
    fn all_pools_have_about_as_many_cpus() {
        let pools = pools(&machine().places(64));
        let of = |pool| pools.iter().filter(|&&one| one == pool).count();
        let counts = [0, 1, 2, 3].map(of);
        assert_eq!(counts.iter().sum::<usize>(), 64);
        assert!(counts.iter().all(|count| (15..=17).contains(count)), "{counts:?}");
    }
}
