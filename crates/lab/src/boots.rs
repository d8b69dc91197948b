//! What differs from one boot of a machine to the next, so that the spread over boots shows how certain a count is.

use crate::workload::Workload;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use toll::Boot;

/// Guest memory of the first boot, in MiB.
pub const MEMORY_MIB: u64 = 1024;
/// Sizes of a guest's memory differ by a multiple of this, the block size of POWER partitions. Physical addresses, free lists
/// and the sizes of caches change with them.
const MEMORY_STEP_MIB: u64 = 256;
/// The number of sizes. All are below 2 GiB, so that no memory is beyond the reach of 32-bit adapters.
const MEMORY_SIZES: u64 = 4;

/// The boots of a run. Those of a shorter run are the first ones of a longer run.
pub fn boots(number: u32) -> Vec<Boot> {
    let boot = |index: u64| Boot {
        seed: index + 1,
        memory_mib: MEMORY_MIB + index % MEMORY_SIZES * MEMORY_STEP_MIB,
    };
    (0..u64::from(number)).map(boot).collect()
}

/// The workloads in the order in which they run in a boot: sorted in the first, shuffled in others.
pub(crate) fn order(boot: Boot, workloads: &[(u64, Workload)]) -> Vec<(u64, Workload)> {
    let mut ordered = workloads.to_vec();
    if boot.seed > 1 {
        let mut random = Pcg64Mcg::seed_from_u64(boot.seed);
        // Fisher and Yates. The remainder's bias is below 1e-17.
        for last in (1..ordered.len()).rev() {
            ordered.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn each_boot_has_all_workloads_in_an_order_of_its_own() {
        let all: Vec<(u64, Workload)> = (1..).zip(Workload::all()).collect();
        let numbers = |boot| order(boot, &all).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        let orders: Vec<Vec<u64>> = boots(4).into_iter().map(numbers).collect();
        assert!(orders[0].is_sorted());
        for (index, order) in orders.iter().enumerate() {
            assert!(!orders[..index].contains(order));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, orders[0]);
        }
    }

    #[test]
    fn a_shorter_run_has_the_first_boots_of_a_longer_one() {
        assert_eq!(boots(2), boots(5)[..2]);
    }
}
