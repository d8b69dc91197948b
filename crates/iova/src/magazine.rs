//! Linux's allocator since 4.7, in its form of 6.x: per-CPU magazines of free ranges above one tree.
//!
//! Sizes of up to 32 pages are rounded up to a power of two and aligned to it. A freed range goes into a magazine of the
//! CPU that frees it, and the CPU's next allocation of that size takes it from there. A magazine holds 127 ranges of one
//! size; each CPU has a loaded and a previous magazine for each of six sizes. Full magazines are exchanged for empty ones
//! in a depot that all CPUs share. The tree, with one lock, serves larger ranges, ranges with more alignment than their
//! size, and sizes that no magazine has. If the tree has no fit either, all magazines of all CPUs and of the depot are
//! returned to it, and it is searched once more.
//!
//! Sources: `drivers/iommu/iova.c` of Linux 6.1 and 6.12, the rounding also of `drivers/iommu/dma-iommu.c`; J. Bonwick and
//! J. Adams, "Magazines and Vmem: Extending the Slab Allocator to Many CPUs and Arbitrary Resources", 2001.
//!
//! Allocating and freeing are O(1) while the magazines are neither empty nor full, unless a low limit requires searching a
//! magazine. Otherwise they are O(n) in the allocated ranges at worst, and near O(log n) if sizes are similar. Memory is a
//! tree node per range, allocated or in a magazine, 1 KiB per magazine, and the record of allocated ranges.
//!
//! Limits, as in Linux: 20 pages need 32 aligned free pages, because sizes are rounded up. After a size failed below
//! 4 GiB, it fails there again, even with another limit, until a range below 4 GiB returns to the tree. A
//! request that fails empties the magazines of every CPU.
//!
//! Differences from Linux:
//!
//! - Invalid frees are detected by [`AllocatedRanges`], one byte per page: a store per allocation, and an atomic instruction
//!   per free.
//! - The caller must trim the depot ([`Magazines::trim`]), because this crate has no clock. Linux does so every 100 ms while
//!   the depot is large.
//! - Every failing request returns the magazines to the tree. Linux does so only in its last attempt; the layer above makes
//!   its attempt below 4 GiB (`iommu_dma_alloc_iova`).

use crate::allocated::AllocatedRanges;
use crate::domain::Domain;
use crate::lock::Lock;
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::array;

/// Sizes that are cached: 1, 2, 4, 8, 16 and 32 pages (`IOVA_RANGE_CACHE_MAX_SIZE`).
const SIZES: usize = 6;

/// The largest cached size.
const CACHED_PAGES_MAX: u64 = 1 << (SIZES - 1);

/// Ranges in a magazine (`IOVA_MAG_SIZE`). With their number, a magazine takes 1 KiB.
const MAGAZINE_RANGES: usize = 127;

/// Magazines in a bounded depot (`MAX_GLOBAL_MAGS`).
const DEPOT_MAGAZINES: usize = 32;

/// The number of full magazines per size that the depot keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depot {
    /// 32; further magazines are returned to the tree. Linux up to 6.6.
    Bounded,
    /// All, until [`Magazines::trim`] removes some. Linux since 6.7 ("iommu/iova: Make the rcache depot scale better",
    /// R. Murphy, 2023).
    Unbounded,
}

/// Per-CPU magazines over one tree: Linux 6.x.
#[derive(Debug)]
pub struct Magazines {
    domain: Lock<Domain>,
    cpus: Vec<Cpu>,
    cpu: fn() -> u32,
    #[expect(clippy::vec_box, reason = "magazines change hands as pointers, under a lock")]
    depots: [Lock<Vec<Box<Magazine>>>; SIZES],
    depot: Depot,
    allocated: AllocatedRanges,
}

/// The magazines of one CPU by size, on cache lines of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Cpu([Lock<Pair>; SIZES]);

/// The two magazines of a CPU for one size.
#[derive(Debug)]
struct Pair {
    loaded: Box<Magazine>,
    previous: Box<Magazine>,
}

/// First pages of free ranges of one size, as a stack.
#[derive(Debug)]
struct Magazine {
    len: usize,
    firsts: [u64; MAGAZINE_RANGES],
}

impl Magazines {
    /// An allocator of all pages of `space` that are not reserved, for `cpus` CPUs. `cpu` returns the current CPU, which is
    /// taken modulo `cpus`; if it is wrong, threads only contend for a lock. `page_32bit` is the last page below 4 GiB:
    /// 0xfffff with 4 KiB pages.
    ///
    /// # Errors
    /// If the space is invalid or has more than 2^40 pages.
    pub fn new(
        space: &Space,
        page_32bit: u64,
        cpus: u32,
        cpu: fn() -> u32,
        depot: Depot,
    ) -> Result<Self, SpaceError> {
        Ok(Self {
            domain: Lock::new(Domain::new(space, page_32bit)?),
            cpus: (0..cpus.max(1)).map(|_| Cpu(array::from_fn(|_| Lock::new(Pair::new())))).collect(),
            cpu,
            depots: array::from_fn(|_| Lock::new(Vec::new())),
            depot,
            allocated: AllocatedRanges::new(space)?,
        })
    }

    /// Returns one magazine of each size to the tree if the depot has more of them than there are CPUs. Linux does this every
    /// 100 ms while the depot is that large (6.7 and later).
    pub fn trim(&self) {
        for (size, depot) in self.depots.iter().enumerate() {
            let surplus = {
                let mut depot = depot.lock();
                if depot.len() > self.cpus.len() { depot.pop() } else { None }
            };
            surplus.into_iter().for_each(|mut magazine| self.return_to_tree(&mut magazine, size));
        }
    }

    /// The magazines of the current CPU for a size.
    fn pair(&self, size: usize) -> &Lock<Pair> {
        &self.cpus[(self.cpu)() as usize % self.cpus.len()].0[size]
    }

    /// Allocates from the magazines, else from the tree.
    fn allocate_range(&self, request: &Request) -> Option<u64> {
        let Some(size) = size_of_pages(request.pages) else {
            return self.allocate_from_tree(request.pages, request.alignment_pages(), request.limit);
        };
        let pages = 1 << size;
        let first = match request.alignment_pages() <= pages {
            true => self.pop(size, request.limit),
            false => None,
        };
        first.or_else(|| self.allocate_from_tree(pages, request.alignment_pages().max(pages), request.limit))
    }

    /// Allocates from the tree; if that fails, returns all magazines to it and tries again.
    fn allocate_from_tree(&self, pages: u64, alignment_pages: u64, limit: u64) -> Option<u64> {
        let take = || self.domain.lock().allocate(pages, alignment_pages, limit);
        take().or_else(|| {
            self.empty_magazines();
            take()
        })
    }

    /// Pops a range that ends at or below the limit from this CPU's magazines. Empty ones are exchanged for one of the depot.
    fn pop(&self, size: usize, limit: u64) -> Option<u64> {
        let first_max = limit.checked_sub((1 << size) - 1)?;
        let mut pair = self.pair(size).lock();
        if pair.loaded.len == 0 {
            if pair.previous.len > 0 {
                pair.swap();
            } else {
                pair.loaded = self.depots[size].lock().pop()?;
            }
        }
        pair.loaded.pop(first_max)
    }

    /// Pushes a range to this CPU's magazines. A full magazine goes to the depot, or to the tree if the depot is full.
    fn push(&self, size: usize, first: u64) {
        let surplus = {
            let mut pair = self.pair(size).lock();
            if pair.loaded.is_full() && !pair.previous.is_full() {
                pair.swap();
            }
            let surplus = match pair.loaded.is_full() {
                true => self.add_to_depot(size, core::mem::replace(&mut pair.loaded, Magazine::new())),
                false => None,
            };
            pair.loaded.push(first);
            surplus
        };
        surplus.into_iter().for_each(|mut magazine| self.return_to_tree(&mut magazine, size));
    }

    /// Adds a magazine to the depot; returns it if the depot is full.
    fn add_to_depot(&self, size: usize, full: Box<Magazine>) -> Option<Box<Magazine>> {
        let mut depot = self.depots[size].lock();
        if self.depot == Depot::Bounded && depot.len() >= DEPOT_MAGAZINES {
            return Some(full);
        }
        depot.push(full);
        None
    }

    /// Returns all ranges of a magazine to the tree, with the lock taken once.
    fn return_to_tree(&self, magazine: &mut Magazine, size: usize) {
        let mut domain = self.domain.lock();
        for &first in &magazine.firsts[..magazine.len] {
            let freed = domain.free(Range { first, pages: 1 << size });
            debug_assert_eq!(freed, Ok(()), "every range in a magazine is in the tree");
        }
        magazine.len = 0;
    }

    /// Returns the ranges of all magazines to the tree.
    fn empty_magazines(&self) {
        for cpu in &self.cpus {
            for (size, pair) in cpu.0.iter().enumerate() {
                let mut pair = pair.lock();
                self.return_to_tree(&mut pair.loaded, size);
                self.return_to_tree(&mut pair.previous, size);
            }
        }
        for (size, depot) in self.depots.iter().enumerate() {
            depot.lock().drain(..).for_each(|mut magazine| self.return_to_tree(&mut magazine, size));
        }
    }

    /// Frees a range of a size that is not cached.
    fn free_to_tree(&self, range: Range) -> Result<(), FreeError> {
        let mut domain = self.domain.lock();
        if self.allocated.pages_at(range.first) > CACHED_PAGES_MAX
            && domain.pages_at(range.first) != Some(range.pages)
        {
            return Err(FreeError::OtherSize);
        }
        self.allocated.remove(range)?;
        domain.free(range)
    }

    /// The memory of all magazines.
    fn magazines_bytes(&self) -> u64 {
        let depots: usize = self.depots.iter().map(|depot| depot.lock().len()).sum();
        let held = self.cpus.len() * SIZES * 2;
        (self.cpus.len() * size_of::<Cpu>() + (held + depots) * size_of::<Magazine>()) as u64
    }
}

/// The index of the cached size (its base-2 logarithm) that a number of pages is rounded up to; `None` for larger ones.
fn size_of_pages(pages: u64) -> Option<usize> {
    (pages <= CACHED_PAGES_MAX).then(|| pages.next_power_of_two().trailing_zeros() as usize)
}

impl Pair {
    /// Two empty magazines.
    fn new() -> Self {
        Self { loaded: Magazine::new(), previous: Magazine::new() }
    }

    /// Exchanges the loaded and the previous magazine.
    fn swap(&mut self) {
        core::mem::swap(&mut self.loaded, &mut self.previous);
    }
}

impl Magazine {
    /// An empty magazine.
    fn new() -> Box<Self> {
        Box::new(Self { len: 0, firsts: [0; MAGAZINE_RANGES] })
    }

    /// Whether it has no room for another range.
    fn is_full(&self) -> bool {
        self.len == MAGAZINE_RANGES
    }

    /// Removes the topmost range that begins at or below `first_max`, and moves the top one into its place.
    fn pop(&mut self, first_max: u64) -> Option<u64> {
        let at = self.firsts[..self.len].iter().rposition(|&first| first <= first_max)?;
        let first = self.firsts[at];
        self.len -= 1;
        self.firsts[at] = self.firsts[self.len];
        Some(first)
    }

    /// Adds a range by its first page.
    fn push(&mut self, first: u64) {
        self.firsts[self.len] = first;
        self.len += 1;
    }
}

impl Allocator for Magazines {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        let first = self.allocate_range(request).ok_or(AllocateError::Full)?;
        self.allocated.record(request.range(first));
        Ok(first)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        match size_of_pages(range.pages) {
            Some(size) => self.allocated.remove(range).map(|()| self.push(size, range.first)),
            None => self.free_to_tree(range),
        }
    }

    fn empty_caches(&self) {
        self.empty_magazines();
    }

    /// Pages by which a range was rounded up count neither as allocated nor as free.
    fn usage(&self) -> Usage {
        let memory_bytes = self.magazines_bytes() + self.allocated.memory_bytes();
        let mut usage = Usage { memory_bytes, ..Usage::default() };
        let domain = self.domain.lock();
        for range in domain.ranges() {
            match self.allocated.pages_at(range.first) {
                0 => usage.cached_pages += range.pages,
                pages => usage.allocated_pages += if pages > CACHED_PAGES_MAX { range.pages } else { pages },
            }
        }
        domain.count(&mut usage);
        usage.free_pages += usage.cached_pages;
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};

    fn take(magazines: &Magazines, pages: u64) -> Range {
        let request = Request::new(pages, u64::MAX);
        request.range(magazines.allocate(&request).unwrap())
    }

    #[test]
    fn a_cpu_allocates_first_the_range_that_it_freed_last() {
        static CPU: AtomicU32 = AtomicU32::new(0);
        let cpu = || CPU.load(Ordering::Relaxed);
        let magazines = Magazines::new(&Space::new(1, 0xfffff), 0xfffff, 2, cpu, Depot::Bounded).unwrap();
        let ranges = [take(&magazines, 5), take(&magazines, 8)];
        assert_eq!(ranges.map(|range| range.first), [0xffff8, 0xffff0], "5 are rounded up to 8");
        ranges.iter().for_each(|&range| magazines.free(range).unwrap());
        assert_eq!(magazines.usage().cached_pages, 16);
        CPU.store(1, Ordering::Relaxed);
        assert_eq!(take(&magazines, 8).first, 0xfffe8, "another CPU has none");
        CPU.store(0, Ordering::Relaxed);
        assert_eq!(take(&magazines, 7).first, 0xffff0);
    }

    #[test]
    fn ranges_from_magazines_respect_the_limit() {
        let magazines = Magazines::new(&Space::new(1, 999), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let ranges = [take(&magazines, 1), take(&magazines, 1), take(&magazines, 1)];
        assert_eq!(ranges.map(|range| range.first), [999, 998, 997]);
        ranges.iter().rev().for_each(|&range| magazines.free(range).unwrap());
        assert_eq!(magazines.allocate(&Request::new(1, 998)).unwrap(), 998);
        assert_eq!(take(&magazines, 1).first, 999);
    }

    /// Allocates and frees single pages, and returns how many are cached then.
    fn cached(depot: Depot, ranges: u64) -> (Magazines, u64) {
        let magazines = Magazines::new(&Space::new(1, 0xfffff), 0xfffff, 1, || 0, depot).unwrap();
        let out: Vec<Range> = (0..ranges).map(|_| take(&magazines, 1)).collect();
        out.into_iter().for_each(|range| magazines.free(range).unwrap());
        let cached = magazines.usage().cached_pages;
        (magazines, cached)
    }

    #[test]
    fn a_full_bounded_depot_returns_a_magazine_to_the_tree() {
        assert_eq!(cached(Depot::Bounded, 34 * 127).1, 34 * 127, "32 in the depot, two of the CPU");
        assert_eq!(cached(Depot::Bounded, 34 * 127 + 1).1, 33 * 127 + 1);
    }

    #[test]
    fn an_unbounded_depot_is_trimmed_to_the_number_of_cpus() {
        let (magazines, cached) = cached(Depot::Unbounded, 40 * 127);
        assert_eq!(cached, 40 * 127);
        magazines.trim();
        assert_eq!(magazines.usage().cached_pages, 39 * 127);
        (0..100).for_each(|_| magazines.trim());
        assert_eq!(magazines.usage().cached_pages, 3 * 127, "one magazine in the depot, two of the CPU");
    }

    #[test]
    fn magazines_return_to_the_tree_when_nothing_else_is_free() {
        let magazines = Magazines::new(&Space::new(0, 255), 0xfffff, 1, || 0, Depot::Unbounded).unwrap();
        let ranges: Vec<Range> = (0..256).map(|_| take(&magazines, 1)).collect();
        ranges.into_iter().for_each(|range| magazines.free(range).unwrap());
        assert_eq!(take(&magazines, 256), Range { first: 0, pages: 256 });
    }
    #[test]
    fn the_top_of_a_magazine_replaces_a_range_that_is_removed_below_it() {
        let magazines = Magazines::new(&Space::new(1, 999), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let ranges = [take(&magazines, 1), take(&magazines, 1), take(&magazines, 1)];
        ranges.iter().rev().for_each(|&range| magazines.free(range).unwrap());
        assert_eq!(magazines.allocate(&Request::new(1, 997)).unwrap(), 997);
        assert_eq!([take(&magazines, 1).first, take(&magazines, 1).first], [998, 999]);
    }

    #[test]
    fn the_previous_magazine_is_used_before_the_depot() {
        let magazines = Magazines::new(&Space::new(1, 0xfffff), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let ranges: Vec<Range> = (0..3 * MAGAZINE_RANGES).map(|_| take(&magazines, 1)).collect();
        ranges.iter().for_each(|&range| magazines.free(range).unwrap());
        (0..MAGAZINE_RANGES).for_each(|_| _ = take(&magazines, 1));
        assert_eq!(take(&magazines, 1), ranges[MAGAZINE_RANGES - 1], "the first magazine that was full");
    }

    #[test]
    fn the_tree_distinguishes_sizes_that_the_record_does_not() {
        let magazines = Magazines::new(&Space::new(1, 999), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let range = take(&magazines, 300);
        assert_eq!(magazines.free(Range { pages: 299, ..range }), Err(FreeError::OtherSize));
        assert_eq!(magazines.free(range), Ok(()));
    }
}
