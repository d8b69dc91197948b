//! What differs from one boot of a machine to the next, so that the spread over boots shows how certain a count is.

use crate::preset::EmulatedAdapter;
use crate::workload::Workload;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use toll::{Boot, DmaPath};

/// The least guest memory, that of every fifth boot, in MiB.
const MEMORY_LEAST_MIB: u64 = 768;
/// Sizes of a guest's memory differ by a multiple of this, the block size of POWER partitions. Physical addresses, free lists
/// and the sizes of caches change with them.
const MEMORY_STEP_MIB: u64 = 256;
/// The number of sizes. All are below 2 GiB, so that a window of 2 GiB, as of POWER, could hold all of it, and no memory is
/// beyond the reach of 32-bit adapters.
const MEMORY_SIZES: u64 = 5;
/// Guest memory of the first boot, in MiB.
pub const MEMORY_MIB: u64 = memory_mib(0);
/// Lazily unmapped ranges that wait until Linux flushes them together (drivers/iommu/dma-iommu.c, `IOVA_FQ_SIZE`).
const FLUSHED_RANGES: u64 = 256;
/// What may run unmeasured before a workload's first window, in bytes of data: so many ranges of a page.
const WARM_UP_BYTES: u64 = FLUSHED_RANGES * 4096;
/// The most that one range holds: what a disk's driver maps at once, and a frame of Ethernet.
const DISK_RANGE_BYTES: u64 = 128 << 10;
const FRAME_BYTES: u64 = 1500;
/// The fewest and the most windows of a part of a warm-up: lengths that boots draw from, and windows that fill the flush queue.
const WARM_UP_WINDOWS: (u64, u64) = (8, 256);

/// The boots of a run. Those of a shorter run are the first ones of a longer run.
pub fn boots(number: u32) -> Vec<Boot> {
    let boot = |index: u64| Boot { seed: index + 1, memory_mib: memory_mib(index) };
    (0..u64::from(number)).map(boot).collect()
}

/// Guest memory of the boot with this index, in MiB.
const fn memory_mib(index: u64) -> u64 {
    MEMORY_LEAST_MIB + (index + 1) % MEMORY_SIZES * MEMORY_STEP_MIB
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

/// How many windows of a workload run unmeasured in a boot, in addition to those that fill caches: a drawn number, and where
/// invalidations are batched as many as fill the queue once. Each boot and workload draws a number of its own, which another run
/// repeats: windows that always began in the same phase of the kernel's flush queues would all see the same flushes.
pub(crate) fn more_warm_up(boot: Boot, workload: &Workload, dma_path: DmaPath) -> u64 {
    let (fewest, most) = WARM_UP_WINDOWS;
    let window_bytes = (workload.bytes_per_io * workload.ios_per_window).max(1);
    let lengths = (WARM_UP_BYTES / window_bytes).clamp(fewest, most);
    let mix = |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte));
    let mut random = Pcg64Mcg::seed_from_u64(workload.name.bytes().fold(boot.seed, mix));
    let first_turn = if dma_path == DmaPath::TranslatedLazy { flush_turn(workload) } else { 0 };
    first_turn + random.next_u64() % lengths
}

/// About how many windows of a workload fill the flush queue. Until it is flushed for the first time no IOVA of this size returns to
/// the kernel's caches, and each is allocated from its tree.
fn flush_turn(workload: &Workload) -> u64 {
    let (fewest, most) = WARM_UP_WINDOWS;
    let range_bytes = if workload.adapter == EmulatedAdapter::Nvme { DISK_RANGE_BYTES } else { FRAME_BYTES };
    let ranges = workload.ios_per_window * workload.bytes_per_io.div_ceil(range_bytes);
    (FLUSHED_RANGES / ranges.max(1)).clamp(fewest, most)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::collections::BTreeSet;

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
    fn the_length_of_the_warm_up_differs_between_boots_and_workloads() {
        let all = Workload::all();
        let length = |boot, workload| more_warm_up(boot, workload, DmaPath::TranslatedStrict);
        let lengths = |boot| all.iter().map(move |workload| length(boot, workload)).collect::<Vec<_>>();
        let by_boot: Vec<Vec<u64>> = boots(5).into_iter().map(lengths).collect();
        for (index, workload) in all.iter().enumerate() {
            let drawn: BTreeSet<u64> = by_boot.iter().map(|lengths| lengths[index]).collect();
            assert!(drawn.len() > 1, "{}: {drawn:?}", workload.name);
            assert!(drawn.iter().all(|length| *length < 256));
        }
        assert_eq!(by_boot[0], lengths(boots(1)[0]));
        assert!(by_boot[0].iter().collect::<BTreeSet<_>>().len() > 10);
    }

    #[test]
    fn lazy_windows_begin_after_the_first_flush() {
        let [boot, ..] = boots(1)[..] else { panic!("a boot") };
        let all = Workload::all();
        let turn = |name: &str| {
            let workload = all.iter().find(|workload| workload.name == name).unwrap();
            let lazy = more_warm_up(boot, workload, DmaPath::TranslatedLazy);
            lazy - more_warm_up(boot, workload, DmaPath::TranslatedStrict)
        };
        assert_eq!([turn("nvme-read-4k"), turn("nvme-read-128k"), turn("nvme-read-1m")], [256, 256, 32]);
        assert_eq!(
            [turn("nvme-uring-read-4k-plain"), turn("e1000e-udp-64"), turn("e1000e-udp-60k")],
            [8, 256, 8]
        );
    }

    #[test]
    fn the_memory_of_five_boots_has_five_sizes() {
        let sizes: BTreeSet<u64> = boots(5).iter().map(|boot| boot.memory_mib).collect();
        assert_eq!((sizes.len(), boots(1)[0].memory_mib, MEMORY_MIB), (5, 1024, 1024));
        assert!(sizes.iter().all(|mib| (MEMORY_LEAST_MIB..2048).contains(mib)));
    }

    #[test]
    fn a_shorter_run_has_the_first_boots_of_a_longer_one() {
        assert_eq!(boots(2), boots(5)[..2]);
    }
}
