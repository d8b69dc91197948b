//! The allocator of powerpc since Linux 3.6: a table divided into pools, each with its own lock and hint.
//!
//! In a table for 1 GiB of bus addresses or more, three quarters are divided into four pools, and the top quarter is the
//! large pool. Smaller tables have one pool beside the large one. CPUs are distributed to the pools by a hash, which reduces
//! lock contention. Requests of up to 15 pages search their CPU's pool from its hint, which is where the last allocation
//! ended (rounded up to 16 entries, a cache line of table entries). Then they search it from its start, the other pools,
//! their own once more, and the large pool. Larger requests start at the large pool. Freeing does not move hints.
//!
//! Source: `arch/powerpc/kernel/iommu.c` of Linux 6.1, after "powerpc/iommu: Implement IOMMU pools to improve multiqueue
//! adapter performance" (Anton Blanchard, 2012); the hash is `hash_32` of `include/linux/hash.h` with the
//! multiplier of 4.9 and later.
//!
//! Allocating is O(n) in the entries of the searched pools, 64 per step, and fast if pages behind the hint are free. Freeing
//! is O(pages). Memory is two bits per page; the second detects wrong frees, as in [`Bitmap`](crate::Bitmap).
//!
//! Limits, as in Linux: it never allocates the last page of a pool, the page of a limit within a pool, a range across
//! pools, or page 0. Alignment refers to the page number, in Linux to the entry's index.
//!
//! If a limit is within the table, Linux searches from the first pool's start up to the limit, across the other pools, and
//! holds only the first pool's lock. Here the pools are searched one by one up to the limit, each with its own lock. That
//! finds the same ranges, except those across pools.

use crate::bitmap::{SMALL_PAGES_MAX, next_hint};
use crate::lock::Lock;
use crate::table::{Table, check_size};
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::vec::Vec;

/// Bits of the hash: the base-2 logarithm of the pools in a table of 1 GiB or more (`IOMMU_NR_POOLS`).
const POOLS_BITS: u32 = 2;

/// Tables for fewer bytes of bus addresses have one pool.
const POOLS_BYTES_MIN: u64 = 1 << 30;

/// The hash's multiplier, about 2^32 divided by the golden ratio (`GOLDEN_RATIO_32`).
const GOLDEN_RATIO_32: u32 = 0x61c8_8647;

/// A table in pools to which CPUs are distributed by a hash: powerpc since Linux 3.6.
#[derive(Debug)]
pub struct Pools {
    /// The small pools, then the large one.
    pools: Vec<Lock<Pool>>,
    first: u64,
    /// Entries of a small pool.
    pool_pages: u64,
    cpu: fn() -> u32,
}

/// A pool, whose entries are numbered from its own start. It has cache lines of its own, as in Linux, to avoid false sharing
/// between CPUs of different pools.
#[derive(Debug)]
#[repr(align(128))]
struct Pool {
    table: Table,
    hint: u64,
}

impl Pools {
    /// An allocator of all pages of `space` that are not reserved, except page 0, in pages of `granule_bytes`. `cpu` returns
    /// the current CPU; it may be wrong, because any thread may use any pool.
    ///
    /// # Errors
    /// If the space is invalid or has more than 2^32 pages.
    pub fn new(space: &Space, granule_bytes: u64, cpu: fn() -> u32) -> Result<Self, SpaceError> {
        let mut space = space.clone();
        space.reserved.push(Range { first: 0, pages: 1 });
        let free = space.free_ranges()?;
        check_size(&space)?;
        let pages = space.pages();
        let (count, pool_pages) = small_pools(pages, granule_bytes);
        let pool = |first, pages| {
            let table = Table::new(Range { first: space.first + first, pages }, &free);
            Lock::new(Pool { table, hint: 0 })
        };
        let mut pools: Vec<_> = (0..count).map(|index| pool(index * pool_pages, pool_pages)).collect();
        pools.push(pool(count * pool_pages, pages - count * pool_pages));
        Ok(Self { pools, first: space.first, pool_pages, cpu })
    }

    /// The number of small pools in a table of 1 GiB or more.
    pub const COUNT_MAX: u32 = 1 << POOLS_BITS;

    /// The pool, of [`COUNT_MAX`](Self::COUNT_MAX), that a CPU is hashed to.
    pub fn of_cpu(cpu: u32) -> u32 {
        cpu.wrapping_mul(GOLDEN_RATIO_32) >> (32 - POOLS_BITS)
    }

    /// The pool of an entry in a table of this many pages. Pools are numbered from 0, and the large one is last, at most
    /// [`COUNT_MAX`](Self::COUNT_MAX).
    pub fn of_entry(pages: u64, granule_bytes: u64, entry: u64) -> u32 {
        let (count, pool_pages) = small_pools(pages, granule_bytes);
        entry.checked_div(pool_pages).unwrap_or(count).min(count) as u32
    }

    /// The index of the large pool.
    fn large(&self) -> usize {
        self.pools.len() - 1
    }

    /// The index of the current CPU's small pool.
    fn own(&self) -> usize {
        Self::of_cpu((self.cpu)()) as usize & (self.large() - 1)
    }

    /// Allocates from the first pool that has a fit.
    fn allocate_from_pools(&self, request: &Request) -> Option<u64> {
        let (own, large) = (self.own(), self.large());
        let home = if request.pages > SMALL_PAGES_MAX { large } else { own };
        let others = (1..=large).map(|step| (own + step) & (large - 1));
        // Two statements, because in one the lock would be held until its end, and the own pool is locked once more.
        let at_home = self.pools[home].lock().allocate_from_hint(request);
        let elsewhere = || others.chain([large]).find_map(|index| self.pools[index].lock().allocate(request));
        at_home.or_else(elsewhere)
    }

    /// The pool that contains a page.
    fn pool_of(&self, page: u64) -> &Lock<Pool> {
        let entry = page.saturating_sub(self.first);
        let index = entry.checked_div(self.pool_pages).map_or(self.large(), |index| index as usize);
        &self.pools[index.min(self.large())]
    }
}

/// The number of small pools in a table, and the pages of each.
fn small_pools(pages: u64, granule_bytes: u64) -> (u64, u64) {
    let count = if pages.saturating_mul(granule_bytes) >= POOLS_BYTES_MIN { 1 << POOLS_BITS } else { 1 };
    (count, pages * 3 / 4 / count)
}

impl Pool {
    /// Allocates from the hint to the pool's end, or else anywhere in the pool.
    fn allocate_from_hint(&mut self, request: &Request) -> Option<u64> {
        let hint = if self.hint < self.table.entries() { self.hint } else { 0 };
        self.allocate_from(request, hint).or_else(|| self.allocate(request))
    }

    /// Allocates from the pool's start. If nothing fits, the start becomes the hint.
    fn allocate(&mut self, request: &Request) -> Option<u64> {
        self.hint = 0;
        self.allocate_from(request, 0)
    }

    /// Allocates from an entry on, and moves the hint.
    fn allocate_from(&mut self, request: &Request, from: u64) -> Option<u64> {
        let end = self.table.end(request.limit, self.table.entries());
        let first = self.table.take(request, from, end)?;
        self.hint = next_hint(request, first + request.pages);
        Some(self.table.page(first))
    }
}

impl Allocator for Pools {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        self.allocate_from_pools(request).ok_or(AllocateError::Full)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        self.pool_of(range.first).lock().table.free(range)
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.pools.iter().for_each(|pool| pool.lock().table.count(&mut usage));
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};

    /// The pools of CPUs 0 to 15 with this multiplier, computed by hand.
    const POOLS: [u64; 16] = [0, 1, 3, 0, 2, 3, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2];

    #[test]
    fn cpus_are_hashed_to_pools_and_large_requests_use_the_large_pool() {
        static CPU: AtomicU32 = AtomicU32::new(0);
        // 2 GiB in pages of 4 KiB: four pools of 98,304 pages and a large one of 131,072.
        let space = Space::new(0, (1 << 19) - 1);
        let pools = Pools::new(&space, 4096, || CPU.load(Ordering::Relaxed)).unwrap();
        for (cpu, &pool) in (0..).zip(&POOLS) {
            CPU.store(cpu, Ordering::Relaxed);
            let small = pools.allocate(&Request::new(15, u64::MAX)).unwrap();
            assert_eq!(small / 98_304, pool, "CPU {cpu}");
        }
        assert_eq!(pools.allocate(&Request::new(16, u64::MAX)).unwrap(), 4 * 98_304);
        let entries = [0, 98_303, 98_304, 4 * 98_304 - 1, 4 * 98_304, (1 << 19) - 1];
        assert_eq!(entries.map(|entry| Pools::of_entry(1 << 19, 4096, entry)), [0, 0, 1, 3, 4, 4]);
        assert_eq!([0, 767, 768].map(|entry| Pools::of_entry(1024, 4096, entry)), [0, 0, 1]);
    }

    #[test]
    fn small_ranges_begin_at_cache_lines_of_entries() {
        let pools = Pools::new(&Space::new(0, 1023), 4096, || 0).unwrap();
        let firsts = [3, 1, 15, 1].map(|pages| pools.allocate(&Request::new(pages, 1023)).unwrap());
        assert_eq!(firsts, [1, 16, 32, 48]);
    }

    #[test]
    fn freed_pages_are_reused_only_after_the_search_has_wrapped_around() {
        let pools = Pools::new(&Space::new(0, 1023), 4096, || 0).unwrap();
        let request = Request::new(1, 1023);
        let range = request.range(pools.allocate(&request).unwrap());
        pools.free(range).unwrap();
        assert_eq!(pools.allocate(&request).unwrap(), 16);
    }
    #[test]
    fn a_table_of_less_than_1_gib_has_one_pool_beside_the_large_one() {
        let first = |pages: u64| {
            let pools = Pools::new(&Space::new(0, pages - 1), 4096, || 2).unwrap();
            pools.allocate(&Request::new(1, u64::MAX)).unwrap()
        };
        assert_eq!([first((1 << 18) - 1), first(1 << 18)], [1, 3 * 49_152]);
    }
    #[test]
    fn a_pool_is_searched_again_before_the_one_above_it() {
        // Pools of 24 pages, whose last page is never allocated; CPU 4 uses the third pool.
        let pools = Pools::new(&Space::new(0, 127), 1 << 30, || 4).unwrap();
        let page = Request::new(1, 127);
        pools.free(page.range(pools.allocate(&page).unwrap())).unwrap();
        let firsts = [15, 15].map(|pages| pools.allocate(&Request::new(pages, 127)).unwrap());
        assert_eq!(firsts, [48, 72]);
    }

    #[test]
    fn a_failed_search_moves_the_hint_to_the_start() {
        let pools = Pools::new(&Space::new(0, 1023), 4096, || 0).unwrap();
        let page = Request::new(1, 1023);
        let range = page.range(pools.allocate(&page).unwrap());
        assert_eq!(pools.allocate(&Request::new(15, 5)), Err(AllocateError::Full));
        pools.free(range).unwrap();
        assert_eq!(pools.allocate(&page), Ok(range.first));
    }
}
