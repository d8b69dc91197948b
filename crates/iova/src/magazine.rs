//! Linux's allocator since 4.7 as it stands in 6.x: per-CPU magazines of ranges over one tree.
//!
//! Ranges of up to 32 pages are rounded up to a power of two, aligned to it, and when freed go into a magazine of the CPU
//! that frees them: 127 first pages of one size, a loaded magazine and a previous one for each CPU and each of six sizes.
//! The next allocation takes from there. Full magazines go to a depot of all CPUs, which empty ones are changed for. All
//! else goes to the tree, below one lock: larger ranges, ranges that want more alignment than their size, and what no
//! magazine has. Where the tree has nothing either, all magazines of all CPUs and the depot are given back to it, and it is
//! asked once more.
//!
//! Sources: `drivers/iommu/iova.c` of Linux 6.1 and 6.12, the rounding also of `drivers/iommu/dma-iommu.c`; J. Bonwick and
//! J. Adams, "Magazines and Vmem: Extending the Slab Allocator to Many CPUs and Arbitrary Resources", 2001.
//!
//! Allocating and freeing is O(1) while magazines have and take ranges, except that a limit below most of what a magazine
//! holds makes it be searched; else O(n) in the ranges taken at worst, near O(log n) where sizes are alike. Memory is a
//! node per range in or under the magazines, 1 KiB per magazine, and the record of allocated ranges below.
//!
//! What it can't do: find room for 20 pages where fewer than 32 aligned ones are free in a row, since 20 take 32; find room
//! below 4 GiB for a size that has once failed there, even for a narrower limit, until something below 4 GiB goes back to
//! the tree. A request that fails costs every CPU its magazines.
//!
//! Otherwise than in Linux: wrong frees are found by [`AllocatedRanges`] of one byte per page, written once by an allocation and
//! changed by one atomic instruction by a free, which Linux does without; the trimming of the depot, in Linux every 100 ms
//! as long as there is something to trim, is the caller's to start ([`Magazines::trim`]), as the core has no clock; and
//! every failing request gives back the magazines, as Linux does on the last of its attempts only, for its attempt below
//! 4 GiB is made by the layer above (`iommu_dma_alloc_iova`).

use crate::allocated::AllocatedRanges;
use crate::domain::Domain;
use crate::lock::Lock;
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::array;

/// Sizes that are cached: 1, 2, 4, 8, 16 and 32 pages (`IOVA_RANGE_CACHE_MAX_SIZE`).
const SIZES: usize = 6;

/// The largest of them.
const CACHED_PAGES_MAX: u64 = 1 << (SIZES - 1);

/// First pages in a magazine (`IOVA_MAG_SIZE`), which with their number take 1 KiB.
const MAGAZINE_RANGES: usize = 127;

/// Magazines in a bounded depot (`MAX_GLOBAL_MAGS`).
const DEPOT_MAGAZINES: usize = 32;

/// How many full magazines of a size are kept for all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depot {
    /// 32, and ranges beyond go back to the tree a magazine at a time: Linux up to 6.6.
    Bounded,
    /// All, less what [`Magazines::trim`] takes away: Linux since 6.7 ("iommu/iova: Make the rcache depot scale better",
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
    /// What is out.
    allocated: AllocatedRanges,
}

/// The magazines of one CPU by size, on cache lines of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Cpu([Lock<Pair>; SIZES]);

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
    /// All of `space` but what it reserves, for `cpus` CPUs; `cpu` says which a thread is on, taken modulo their number. It
    /// may be wrong: then two threads meet at a lock. `page_32bit` is the last page below 4 GiB: 0xfffff with 4 KiB pages.
    ///
    /// # Errors
    /// If the space is wrong or has more than 2^40 pages.
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

    /// Gives back to the tree one magazine of each size whose depot has more than there are CPUs. Linux does this every
    /// 100 ms while the depot is that large (6.7 and later).
    pub fn trim(&self) {
        for (size, depot) in self.depots.iter().enumerate() {
            let surplus = {
                let mut depot = depot.lock();
                if depot.len() > self.cpus.len() { depot.pop() } else { None }
            };
            surplus.into_iter().for_each(|mut magazine| self.give_back(&mut magazine, size));
        }
    }

    fn pair(&self, size: usize) -> &Lock<Pair> {
        &self.cpus[(self.cpu)() as usize % self.cpus.len()].0[size]
    }

    fn take(&self, request: &Request) -> Option<u64> {
        let Some(size) = size_of_pages(request.pages) else {
            return self.take_from_tree(request.pages, request.alignment_pages(), request.limit);
        };
        let pages = 1 << size;
        let first = match request.alignment_pages() <= pages {
            true => self.pop(size, request.limit),
            false => None,
        };
        first.or_else(|| self.take_from_tree(pages, request.alignment_pages().max(pages), request.limit))
    }

    fn take_from_tree(&self, pages: u64, alignment_pages: u64, limit: u64) -> Option<u64> {
        let take = || self.domain.lock().allocate(pages, alignment_pages, limit);
        take().or_else(|| {
            self.empty_magazines();
            take()
        })
    }

    /// Takes a range that ends at or below the limit from this CPU's magazines, changing empty ones for one of the depot.
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

    /// Puts a range into this CPU's magazines; a full one goes to the depot, or beyond that back to the tree.
    fn push(&self, size: usize, first: u64) {
        let surplus = {
            let mut pair = self.pair(size).lock();
            if pair.loaded.is_full() && !pair.previous.is_full() {
                pair.swap();
            }
            let surplus = match pair.loaded.is_full() {
                true => self.store(size, core::mem::replace(&mut pair.loaded, Magazine::new())),
                false => None,
            };
            pair.loaded.push(first);
            surplus
        };
        surplus.into_iter().for_each(|mut magazine| self.give_back(&mut magazine, size));
    }

    /// Puts a magazine into the depot, and hands it back if that is full.
    fn store(&self, size: usize, full: Box<Magazine>) -> Option<Box<Magazine>> {
        let mut depot = self.depots[size].lock();
        if self.depot == Depot::Bounded && depot.len() >= DEPOT_MAGAZINES {
            return Some(full);
        }
        depot.push(full);
        None
    }

    /// Gives all ranges of a magazine back to the tree, under one hold of its lock.
    fn give_back(&self, magazine: &mut Magazine, size: usize) {
        let mut domain = self.domain.lock();
        for &first in &magazine.firsts[..magazine.len] {
            let freed = domain.free(Range { first, pages: 1 << size });
            debug_assert_eq!(freed, Ok(()), "what is in a magazine is in the tree");
        }
        magazine.len = 0;
    }

    /// Gives all magazines back to the tree.
    fn empty_magazines(&self) {
        for cpu in &self.cpus {
            for (size, pair) in cpu.0.iter().enumerate() {
                let mut pair = pair.lock();
                self.give_back(&mut pair.loaded, size);
                self.give_back(&mut pair.previous, size);
            }
        }
        for (size, depot) in self.depots.iter().enumerate() {
            depot.lock().drain(..).for_each(|mut magazine| self.give_back(&mut magazine, size));
        }
    }

    /// Frees a range of a size that is not cached.
    fn free_to_tree(&self, range: Range) -> Result<(), FreeError> {
        let mut domain = self.domain.lock();
        if self.allocated.pages_at(range.first) > CACHED_PAGES_MAX
            && domain.find(range.first) != Some(range.pages)
        {
            return Err(FreeError::OtherSize);
        }
        self.allocated.strike(range)?;
        domain.free(range)
    }

    fn magazines_bytes(&self) -> u64 {
        let depots: usize = self.depots.iter().map(|depot| depot.lock().len()).sum();
        let held = self.cpus.len() * SIZES * 2;
        (self.cpus.len() * size_of::<Cpu>() + (held + depots) * size_of::<Magazine>()) as u64
    }
}

/// The size, as a power of two, that a number of pages is rounded up to, if that is cached.
fn size_of_pages(pages: u64) -> Option<usize> {
    (pages <= CACHED_PAGES_MAX).then(|| pages.next_power_of_two().trailing_zeros() as usize)
}

impl Pair {
    fn new() -> Self {
        Self { loaded: Magazine::new(), previous: Magazine::new() }
    }

    fn swap(&mut self) {
        core::mem::swap(&mut self.loaded, &mut self.previous);
    }
}

impl Magazine {
    fn new() -> Box<Self> {
        Box::new(Self { len: 0, firsts: [0; MAGAZINE_RANGES] })
    }

    fn is_full(&self) -> bool {
        self.len == MAGAZINE_RANGES
    }

    /// Takes the topmost page up to `first_max`; the top one takes its place.
    fn pop(&mut self, first_max: u64) -> Option<u64> {
        let at = self.firsts[..self.len].iter().rposition(|&first| first <= first_max)?;
        let first = self.firsts[at];
        self.len -= 1;
        self.firsts[at] = self.firsts[self.len];
        Some(first)
    }

    fn push(&mut self, first: u64) {
        self.firsts[self.len] = first;
        self.len += 1;
    }
}

impl Allocator for Magazines {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_sensible() {
            return Err(AllocateError::Senseless);
        }
        let first = self.take(request).ok_or(AllocateError::Full)?;
        self.allocated.enter(request.range(first));
        Ok(first)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        match size_of_pages(range.pages) {
            Some(size) => self.allocated.strike(range).map(|()| self.push(size, range.first)),
            None => self.free_to_tree(range),
        }
    }

    /// What a range has above the pages asked for is neither allocated nor free.
    fn usage(&self) -> Usage {
        let memory_bytes = self.magazines_bytes() + self.allocated.memory_bytes();
        let mut usage = Usage { memory_bytes, ..Usage::default() };
        let domain = self.domain.lock();
        for range in domain.ranges() {
            match self.allocated.pages_at(range.first) {
                0 => usage.cached_pages += range.pages,
                told => usage.allocated_pages += if told > CACHED_PAGES_MAX { range.pages } else { told },
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
    fn the_range_freed_last_is_taken_first_by_its_cpu_alone() {
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
    fn a_limit_is_kept_by_what_comes_from_magazines() {
        let magazines = Magazines::new(&Space::new(1, 999), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let ranges = [take(&magazines, 1), take(&magazines, 1), take(&magazines, 1)];
        assert_eq!(ranges.map(|range| range.first), [999, 998, 997]);
        ranges.iter().rev().for_each(|&range| magazines.free(range).unwrap());
        assert_eq!(magazines.allocate(&Request::new(1, 998)).unwrap(), 998);
        assert_eq!(take(&magazines, 1).first, 999);
    }

    /// Takes and frees so many single pages, and says how many are cached then.
    fn cached(depot: Depot, ranges: u64) -> (Magazines, u64) {
        let magazines = Magazines::new(&Space::new(1, 0xfffff), 0xfffff, 1, || 0, depot).unwrap();
        let out: Vec<Range> = (0..ranges).map(|_| take(&magazines, 1)).collect();
        out.into_iter().for_each(|range| magazines.free(range).unwrap());
        let cached = magazines.usage().cached_pages;
        (magazines, cached)
    }

    #[test]
    fn a_bounded_depot_gives_a_magazine_back_to_the_tree() {
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
    fn magazines_are_given_back_when_nothing_else_is_free() {
        let magazines = Magazines::new(&Space::new(0, 255), 0xfffff, 1, || 0, Depot::Unbounded).unwrap();
        let ranges: Vec<Range> = (0..256).map(|_| take(&magazines, 1)).collect();
        ranges.into_iter().for_each(|range| magazines.free(range).unwrap());
        assert_eq!(take(&magazines, 256), Range { first: 0, pages: 256 });
    }
    #[test]
    fn what_is_on_top_takes_the_place_of_what_a_limit_finds_below() {
        let magazines = Magazines::new(&Space::new(1, 999), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let ranges = [take(&magazines, 1), take(&magazines, 1), take(&magazines, 1)];
        ranges.iter().rev().for_each(|&range| magazines.free(range).unwrap());
        assert_eq!(magazines.allocate(&Request::new(1, 997)).unwrap(), 997);
        assert_eq!([take(&magazines, 1).first, take(&magazines, 1).first], [998, 999]);
    }

    #[test]
    fn the_previous_magazine_comes_before_the_depot() {
        let magazines = Magazines::new(&Space::new(1, 0xfffff), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let ranges: Vec<Range> = (0..3 * MAGAZINE_RANGES).map(|_| take(&magazines, 1)).collect();
        ranges.iter().for_each(|&range| magazines.free(range).unwrap());
        (0..MAGAZINE_RANGES).for_each(|_| _ = take(&magazines, 1));
        assert_eq!(take(&magazines, 1), ranges[MAGAZINE_RANGES - 1], "the first magazine that was full");
    }

    #[test]
    fn sizes_that_the_ledger_does_not_tell_apart_are_told_by_the_tree() {
        let magazines = Magazines::new(&Space::new(1, 999), 0xfffff, 1, || 0, Depot::Bounded).unwrap();
        let range = take(&magazines, 300);
        assert_eq!(magazines.free(Range { pages: 299, ..range }), Err(FreeError::OtherSize));
        assert_eq!(magazines.free(range), Ok(()));
    }
}
