//! An allocator with per-CPU stacks of free ranges, whose CPUs rarely share data.
//!
//! Each CPU has a stack of free ranges for each size: 1, 2, 4 ... 1,024 pages. An allocation pops from the stack of the
//! current CPU and a free pushes to it, in one per-CPU step ([`Cpus`]) without lock or atomic instruction. A range may be freed
//! on another CPU than it was allocated on.
//!
//! ```text
//!    allocate, free                 half a stack at a time                   if the depot is full or empty
//!   <---------------> stack of a CPU <---------------> depot of the class <-----------------> central tree
//! ```
//!
//! A full stack moves the older half of its ranges to the depot of its size, and an empty one fetches as many from it. A depot
//! has parts, each of which few CPUs use first, so that CPUs seldom wait for each other. If the depot is full, the ranges return
//! to the central tree of free ranges, which merges adjacent ones. If the depot is empty, the CPU gets ranges from the tree. If
//! the tree can't satisfy a request, the stacks of all CPUs and all depots are emptied into it, so that every free page is
//! available.
//!
//! [`Checked`], [`Audited`] and [`Trusting`] differ in how wrong frees are found. [`Checked`] does not find a range that two threads
//! free at the same time, the second call before the first has returned. It may then be allocated twice, and a right free of
//! it may be refused. A second call after the first has returned is found, unless the range was allocated again meanwhile.
//!
//! Per-CPU stacks that exchange batches with a depot are the magazines of Bonwick and Adams ("Magazines and Vmem", 2001).
//! Linux has them for IOVAs, with a lock (Peleg, Morrison, Serebrin and Tsafrir, "Utilizing the IOMMU Scalably", 2015).
//! Per-CPU data changed by restartable sequences come from Turner and Hunter (2013) and Desnoyers (Linux 4.18, 2018).

mod central;
mod cpus;
mod depot;
mod free_check;
mod page_bytes;
#[cfg(all(feature = "std", not(loom)))]
mod restartable;
mod shape;
mod sharded;
mod slabs;

pub use crate::sync::AtomicU64;
pub use cpus::Cpus;
pub use free_check::{Audited, Checked, FreeCheck, Trusting};
#[cfg(all(feature = "std", not(loom)))]
pub use rseq::Rseq;
pub use sharded::Sharded;
pub use slabs::{Slabs, Stack};

use crate::gaps::Gaps;
use crate::lock::Lock;
use crate::sync::{AtomicBool, Ordering};
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use central::Central;
use depot::{Depot, Spare};
use shape::{CLASSES, Shape, batch_ranges, class_of};
use slabs::{Closed, PER_CPU, stack_number};

/// How often one request empties all stacks. Once is not always enough: other threads may allocate collected pages, and
/// free them to stacks that were emptied already.
const COLLECTIONS_MAX: usize = 4;
/// A CPU fetches at most this fraction (1/N) of the central tree's free pages at once.
const FREE_PARTS: u64 = if cfg!(loom) { 1 } else { 4 };
/// CPUs that use the same part of a depot first.
const CPUS_PER_DEPOT_PART: usize = 2;
/// The largest number of parts of a depot.
const DEPOT_PARTS_MAX: usize = 32;

/// The per-CPU allocator; see the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Percpu<C, F = Checked> {
    // What each call reads comes first and in this order, so that it is in few cache lines, which no call writes.
    cpus: C,
    slabs: Slabs,
    /// The first page of the second zone.
    boundary: u64,
    check: F,
    /// The largest number of pages in a stack, by class.
    capacities: [u64; CLASSES],
    pages: u64,
    /// By CPU and stack: held while the stack is closed.
    stack_locks: Box<[StackLocks]>,
    zones: [Zone; 2],
    /// Held by the thread that empties all stacks.
    collection: Lock<()>,
    /// While a thread empties all stacks, other CPUs fetch only one range at a time.
    is_collecting: AtomicBool,
}

/// The locks of a CPU's stacks.
#[derive(Debug)]
#[repr(align(64))]
struct StackLocks([Lock<Spare>; PER_CPU]);

/// A part of the space with its own free ranges. Two zones keep low addresses for requests that need them.
#[derive(Debug)]
#[repr(align(64))]
struct Zone {
    depots: Box<[Depot]>,
    central: Lock<Central>,
}

impl<C: Cpus> Percpu<C, Checked> {
    /// An allocator of the space that detects wrong frees. No range crosses page `boundary`. A request whose limit is above
    /// it gets pages below it only if the caller's CPU and the central tree have none above it and up to the limit: what other CPUs
    /// and the depots hold is left to them. Pass the page at 4 GiB if devices with 32-bit DMA masks share the space, else 0.
    ///
    /// # Errors
    /// If the space is invalid.
    pub fn checked(space: &Space, boundary: u64, cpus: C) -> Result<Self, SpaceError> {
        Self::with_check(space, boundary, cpus)
    }
}

impl<C: Cpus> Percpu<C, Audited> {
    /// Like [`Percpu::checked`], but detects wrong frees only when batches of free ranges leave a CPU.
    ///
    /// # Errors
    /// If the space is invalid.
    pub fn audited(space: &Space, boundary: u64, cpus: C) -> Result<Self, SpaceError> {
        Self::with_check(space, boundary, cpus)
    }
}

impl<C: Cpus> Percpu<C, Trusting> {
    /// Like [`Percpu::checked`], but believes every free.
    ///
    /// # Errors
    /// If the space is invalid.
    pub fn trusting(space: &Space, boundary: u64, cpus: C) -> Result<Self, SpaceError> {
        Self::with_check(space, boundary, cpus)
    }
}

impl<C: Cpus, F: FreeCheck> Percpu<C, F> {
    /// An allocator of the space.
    fn with_check(space: &Space, boundary: u64, cpus: C) -> Result<Self, SpaceError> {
        let boundary = if space.last < boundary { 0 } else { boundary };
        let (mut low, mut high) = (Gaps::default(), Gaps::default());
        for range in space.free_ranges()? {
            let (below, above) = split_at(range, boundary);
            below.into_iter().for_each(|part| low.add(part));
            above.into_iter().for_each(|part| high.add(part));
        }
        let pages = low.pages() + high.pages();
        let shape = Shape::new(pages, cpus.count());
        let zones = [low, high].map(|gaps| Zone::new(gaps, &shape, cpus.count()));
        let locks = |_| StackLocks(core::array::from_fn(|_| Lock::default()));
        Ok(Self {
            check: F::new(space),
            slabs: Slabs::new(cpus.count()),
            capacities: core::array::from_fn(|class| shape.stack_capacity(class)),
            boundary,
            pages,
            stack_locks: (0..cpus.count()).map(locks).collect(),
            zones,
            collection: Lock::default(),
            is_collecting: AtomicBool::new(false),
            cpus,
        })
    }

    /// Moves the free ranges that a CPU holds back to the trees, and returns the number of pages, which is 0 for a CPU that does not
    /// exist. For a CPU that went offline, or will not be used; if it still is, its next calls fetch ranges anew. Without this call
    /// the ranges are not lost: a request that nothing else satisfies finds them.
    pub fn drain(&self, cpu: usize) -> u64 {
        let stacks = (0..self.zones.len()).flat_map(|zone| (0..CLASSES).map(move |class| (zone, class)));
        stacks.filter_map(|(zone, class)| self.collect_stack(cpu, zone, class)).sum()
    }

    /// The zone of a page.
    #[inline(always)]
    fn zone_of(&self, page: u64) -> usize {
        usize::from(page >= self.boundary)
    }

    /// The zones that have pages below a limit, in the order in which they are searched.
    fn zones_below(&self, limit: u64) -> impl Iterator<Item = usize> {
        (limit >= self.boundary).then_some(1).into_iter().chain([0])
    }

    /// Allocates when the current CPU's stack could not satisfy the request in one step.
    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        if request.pages > self.pages {
            return Err(AllocateError::Full);
        }
        let class = self.cached_class(request.pages);
        let fits = class.filter(|class| request.alignment_order as usize <= *class);
        // A zone's stack and depot may have only ranges above the limit, while its tree has others.
        let first = self.zones_below(request.limit).find_map(|zone| {
            let cached = fits.and_then(|class| self.allocate_cached(request, class, zone));
            cached.or_else(|| self.allocate_central_of(zone, request, class))
        });
        first.or_else(|| self.allocate_all(request, class)).ok_or(AllocateError::Full)
    }

    /// The class of a size, if it is cached.
    fn cached_class(&self, pages: u64) -> Option<usize> {
        class_of(pages).filter(|class| self.capacities[*class] > 0)
    }

    /// Allocates from the current CPU's stack, which is filled first if it is empty. `None` if its topmost range is above the
    /// limit, or nothing is free to fill it.
    fn allocate_cached(&self, request: &Request, class: usize, zone: usize) -> Option<u64> {
        let cpu = self.cpus.current();
        let stack = self.slabs.stack(cpu, stack_number(zone, class))?;
        let mut spare = self.stack_lock(cpu, zone, class)?.lock();
        let mut stack = self.close(cpu, stack, class);
        if stack.is_empty() {
            self.fill(&mut stack, &mut spare, cpu, zone, class);
        }
        let first = stack.pop(request.pages, request.limit)?;
        Some(self.check.allocate(request.range(first)))
    }

    /// Frees a range of a class when it could not be pushed to the current CPU's stack in one step.
    #[cold]
    #[inline(never)]
    fn free_slowly(&self, range: Range, class: usize) -> Result<(), FreeError> {
        if self.capacities[class] == 0 {
            return self.free_central(range);
        }
        let (cpu, zone) = (self.cpus.current(), self.zone_of(range.first));
        let stack = self.slabs.stack(cpu, stack_number(zone, class));
        let (Some(stack), Some(lock)) = (stack, self.stack_lock(cpu, zone, class)) else {
            if self.check.may_leave(class, range.first) {
                self.zones[zone].central.lock().take_back(class, [range.first]);
            }
            return self.check.report();
        };
        let mut spare = lock.lock();
        let mut stack = self.close(cpu, stack, class);
        if stack.is_full() {
            self.empty(&mut stack, &mut spare, cpu, zone, class);
        }
        stack.push(range.first);
        self.check.report()
    }

    /// Frees a range that `release` did not accept: allocated from the central tree, far up in the table, or wrong.
    #[cold]
    #[inline(never)]
    fn free_otherwise(&self, range: Range) -> Result<(), FreeError> {
        match class_of(range.pages) {
            Some(class) if self.check.release_slowly(range) => self.free_slowly(range, class),
            _ => self.free_central(range),
        }
    }

    /// Frees a range that the central tree allocated, or finds out what is wrong with it.
    #[cold]
    #[inline(never)]
    fn free_central(&self, range: Range) -> Result<(), FreeError> {
        self.check.check_central(range.first)?;
        self.zones[self.zone_of(range.first)].central.lock().free(range)
    }

    /// The lock of a CPU's stack.
    fn stack_lock(&self, cpu: usize, zone: usize, class: usize) -> Option<&Lock<Spare>> {
        self.stack_locks.get(cpu)?.0.get(stack_number(zone, class))
    }

    /// Closes a CPU's stack for its steps. The caller must hold the stack's lock.
    fn close<'a>(&self, cpu: usize, stack: Stack<'a>, class: usize) -> Closed<'a> {
        let count = stack.count;
        let count = self.cpus.close(cpu, count).unwrap_or_else(|| self.close_from_afar(cpu, count));
        stack.closed(count, self.capacities[class])
    }

    /// Closes a stack from another CPU, and returns its former value.
    fn close_from_afar(&self, cpu: usize, word: &AtomicU64) -> u64 {
        loop {
            let was = word.swap(Stack::CLOSED, Ordering::SeqCst);
            self.cpus.fence(cpu);
            // A step that began before the swap may have overwritten it. Steps that began later found it closed.
            if word.load(Ordering::SeqCst) == Stack::CLOSED {
                return was;
            }
        }
    }

    /// Fills an empty stack from the depot, or else from the central tree.
    fn fill(&self, stack: &mut Closed<'_>, spare: &mut Spare, cpu: usize, zone: usize, class: usize) {
        let zone = &self.zones[zone];
        if self.is_collecting.load(Ordering::Relaxed) {
            return self.carve(stack, zone, class, 1);
        }
        match zone.depots[class].take(cpu, spare) {
            Some(mut batch) => {
                self.check.enter(class, batch.firsts());
                batch.firsts().iter().for_each(|first| stack.push(*first));
                spare.keep(batch);
            }
            // A power of two, which is one run of pages.
            None => self.carve(stack, zone, class, batch_ranges(self.capacities[class]).next_power_of_two()),
        }
    }

    /// Fills an empty stack with up to `wanted` ranges of the central tree, from as few contiguous runs as possible.
    fn carve(&self, stack: &mut Closed<'_>, zone: &Zone, class: usize, wanted: u64) {
        let mut central = zone.central.lock();
        let fair = (central.gaps().pages() >> class) / FREE_PARTS;
        let mut left = wanted.min(fair).max(1);
        let mut run = 1 << left.ilog2();
        while left > 0 {
            run = run.min(1 << left.ilog2());
            let pages = run << class;
            match central.take(&Request::size_aligned(pages, u64::MAX)) {
                Some(range) => {
                    // In descending order, so that the lowest is allocated first.
                    for first in (0..run).rev().map(|place| range.first + (place << class)) {
                        self.check.enter(class, &[first]);
                        stack.push(first);
                    }
                    left -= run;
                }
                None if run == 1 => break,
                None => run /= 2,
            }
        }
    }

    /// Moves half of a full stack's ranges to the depot, or to the central tree if the depot is full.
    fn empty(&self, stack: &mut Closed<'_>, spare: &mut Spare, cpu: usize, zone: usize, class: usize) {
        let zone = &self.zones[zone];
        // The oldest, which this CPU's cache is least likely to have.
        let count = batch_ranges(self.capacities[class]) as usize;
        let leaving = stack.oldest(count).filter(|first| self.check.may_leave(class, *first));
        let batch = spare.filled(leaving);
        stack.remove_oldest(count);
        if let Err(mut batch) = zone.depots[class].add(cpu, batch, spare) {
            zone.central.lock().take_back(class, batch.firsts());
            spare.keep(batch);
        }
    }

    /// Empties all stacks and depots into the central trees, and allocates from them.
    fn allocate_all(&self, request: &Request, class: Option<usize>) -> Option<u64> {
        // One thread at a time: pages that another thread is collecting are not in the tree yet, but will be.
        let _alone = self.collection.lock();
        for _ in 0..COLLECTIONS_MAX {
            if let Some(first) = self.allocate_central(request, class) {
                return Some(first);
            }
            if self.collect(request.limit) == 0 {
                break;
            }
        }
        self.allocate_central(request, class)
    }

    /// Allocates from the central trees as they are.
    fn allocate_central(&self, request: &Request, class: Option<usize>) -> Option<u64> {
        self.zones_below(request.limit).find_map(|zone| self.allocate_central_of(zone, request, class))
    }

    /// Allocates from a zone's central tree as it is. If the check does not know sizes, a range of a class has the class's size
    /// and alignment, because it will be freed to a stack.
    fn allocate_central_of(&self, zone: usize, request: &Request, class: Option<usize>) -> Option<u64> {
        let mut central = self.zones[zone].central.lock();
        let first = match class {
            Some(class) if !F::KNOWS_SIZES => {
                let alignment_order = request.alignment_order.max(class as u32);
                central.take(&Request { pages: 1 << class, alignment_order, ..*request })?.first
            }
            _ => central.allocate(request)?,
        };
        self.check.allocate_central(first, class);
        Some(first)
    }

    /// Empties all stacks and depots of the zones below a limit into the central tree. Returns the number of pages moved.
    fn collect(&self, limit: u64) -> u64 {
        self.is_collecting.store(true, Ordering::Relaxed);
        let pages = self.zones_below(limit).map(|zone| self.collect_zone(zone)).sum();
        self.is_collecting.store(false, Ordering::Relaxed);
        pages
    }

    /// Empties the stacks and depots of a zone. The depots come last, because stacks that are not emptied yet may overflow
    /// into them.
    fn collect_zone(&self, zone: usize) -> u64 {
        let stacks = (0..self.cpus.count()).flat_map(|cpu| (0..CLASSES).map(move |class| (cpu, class)));
        let stacks: u64 = stacks.filter_map(|(cpu, class)| self.collect_stack(cpu, zone, class)).sum();
        let depots = self.zones[zone].depots.iter().enumerate().map(|(class, depot)| {
            let firsts = depot.drain();
            self.zones[zone].central.lock().take_back(class, firsts)
        });
        stacks + depots.sum::<u64>()
    }

    /// Empties a stack and returns the number of pages moved.
    fn collect_stack(&self, cpu: usize, zone: usize, class: usize) -> Option<u64> {
        let stack = self.slabs.stack(cpu, stack_number(zone, class))?;
        // The lock of the stack, too: holding it keeps the stack from being closed by another thread.
        let _spare = self.stack_lock(cpu, zone, class)?.lock();
        if stack.len() == 0 {
            return None;
        }
        let mut stack = self.close(cpu, stack, class);
        let leaving = stack.oldest(usize::MAX).filter(|first| self.check.may_leave(class, *first));
        let firsts: Vec<u64> = leaving.collect();
        stack.remove_oldest(usize::MAX);
        drop(stack);
        Some(self.zones[zone].central.lock().take_back(class, firsts))
    }
}

/// The CPUs of this host: with restartable sequences if it supports them, else shards.
#[cfg(feature = "std")]
pub fn host_cpus() -> Box<dyn Cpus + Send> {
    #[cfg(not(loom))]
    if let Ok(cpus) = Rseq::new() {
        return Box::new(cpus);
    }
    Box::new(Sharded::by_thread())
}

/// The fastest per-CPU allocator that this host supports: with restartable sequences, or else with locks. No range crosses page
/// `boundary`, and pages below it are given last to those who could have others. Pass the page at 4 GiB if devices with 32-bit
/// DMA masks share the space, else 0.
///
/// # Errors
/// If the space is invalid.
#[cfg(feature = "std")]
pub fn host_percpu<F: FreeCheck + 'static>(
    space: &Space,
    boundary: u64,
) -> Result<Box<dyn Allocator + Send + Sync>, SpaceError> {
    #[cfg(not(loom))]
    if let Ok(cpus) = Rseq::new() {
        return Ok(Box::new(Percpu::<_, F>::with_check(space, boundary, cpus)?));
    }
    Ok(Box::new(Percpu::<_, F>::with_check(space, boundary, Sharded::by_thread())?))
}

/// The parts of a range below a boundary, and from it on.
fn split_at(range: Range, boundary: u64) -> (Option<Range>, Option<Range>) {
    let below = Range::between(range.first, range.last().min(boundary.wrapping_sub(1)));
    let above = Range::between(range.first.max(boundary), range.last());
    ((range.first < boundary).then_some(below), (range.last() >= boundary).then_some(above))
}

impl Zone {
    /// A zone of free ranges, with empty depots.
    fn new(gaps: Gaps, shape: &Shape, cpus: usize) -> Self {
        let parts = cpus.div_ceil(CPUS_PER_DEPOT_PART).min(DEPOT_PARTS_MAX);
        let depot = |class| {
            let batch = batch_ranges(shape.stack_capacity(class)) as usize;
            Depot::new(parts, shape.depot_capacity(class).checked_div(batch).unwrap_or(0))
        };
        Self { depots: (0..CLASSES).map(depot).collect(), central: Lock::new(Central::new(gaps)) }
    }
}

impl<C: Cpus, F: FreeCheck> Allocator for Percpu<C, F> {
    #[inline]
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if let Some(class) = class_of(request.pages) {
            if request.alignment_order as usize <= class {
                let number = stack_number(self.zone_of(request.limit), class);
                if let Some(first) = self.cpus.pop(&self.slabs, number, request.pages - 1, request.limit) {
                    return Ok(self.check.allocate(request.range(first)));
                }
            }
        }
        self.allocate_slowly(request)
    }

    #[inline]
    fn free(&self, range: Range) -> Result<(), FreeError> {
        match class_of(range.pages) {
            Some(class) if self.check.release(range) => {
                let number = stack_number(self.zone_of(range.first), class);
                match self.cpus.push(&self.slabs, number, self.capacities[class], range.first) {
                    true => Ok(()),
                    false => self.free_slowly(range, class),
                }
            }
            _ => self.free_otherwise(range),
        }
    }

    fn empty_caches(&self) {
        let _alone = self.collection.lock();
        self.collect(u64::MAX);
    }

    fn usage(&self) -> Usage {
        let memory_bytes = self.slabs.memory_bytes() + size_of_val(&*self.stack_locks) as u64;
        let mut usage = Usage { memory_bytes, ..Usage::default() };
        let mut reached_pages = 0;
        for (number, zone) in self.zones.iter().enumerate() {
            for (class, depot) in zone.depots.iter().enumerate() {
                let (ranges, bytes) = depot.usage();
                usage.cached_pages += ranges << class;
                usage.memory_bytes += bytes;
                for cpu in 0..self.cpus.count() {
                    // The lock of the stack, too: holding it keeps the stack from being closed.
                    let spare = self.stack_lock(cpu, number, class).map(Lock::lock);
                    usage.memory_bytes += spare.as_ref().map_or(0, |spare| spare.memory_bytes());
                    let stack = self.slabs.stack(cpu, stack_number(number, class));
                    usage.cached_pages += stack.map_or(0, Stack::len) << class;
                }
            }
            let central = zone.central.lock();
            let gaps = central.gaps();
            usage.free_pages += gaps.pages();
            usage.free_ranges += gaps.len();
            usage.largest_free_pages = usage.largest_free_pages.max(gaps.largest_pages());
            usage.memory_bytes += central.memory_bytes();
            reached_pages += central.reached_pages();
        }
        usage.memory_bytes += self.check.memory_bytes(reached_pages);
        usage.free_pages += usage.cached_pages;
        usage.allocated_pages = self.pages.saturating_sub(usage.free_pages);
        usage
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A CPU whose steps in progress end only when another thread waits for them by a fence.
    struct LateCpu<'a> {
        word: &'a AtomicU64,
        stores: Lock<Vec<u64>>,
    }

    // SAFETY: it has no steps, and one thread uses it.
    #[allow(unsafe_code, reason = "the trait of per-CPU steps is unsafe")]
    unsafe impl Cpus for LateCpu<'_> {
        fn count(&self) -> usize {
            1
        }

        fn current(&self) -> usize {
            0
        }

        fn pop(&self, _slabs: &Slabs, _number: usize, _more: u64, _limit: u64) -> Option<u64> {
            None
        }

        fn push(&self, _slabs: &Slabs, _number: usize, _capacity: u64, _page: u64) -> bool {
            false
        }

        fn close(&self, _cpu: usize, _count: &AtomicU64) -> Option<u64> {
            None
        }

        fn fence(&self, _cpu: usize) {
            self.stores.lock().pop().into_iter().for_each(|store| self.word.store(store, Ordering::SeqCst));
        }
    }

    #[test]
    fn the_result_of_a_step_that_overwrites_the_closed_mark_is_not_lost() {
        let word = AtomicU64::new(5);
        let cpus = LateCpu { word: &word, stores: Lock::new([7, 6].into()) };
        let allocator = Percpu::checked(&Space::new(0, 9), 0, cpus).unwrap();
        assert_eq!(allocator.close_from_afar(0, &word), 7);
        assert_eq!(word.load(Ordering::SeqCst), Stack::CLOSED);
    }

    fn of_one_cpu(space: &Space, boundary: u64) -> Percpu<Sharded> {
        Percpu::checked(space, boundary, Sharded::new(1, || 0)).expect("a small space is possible")
    }

    #[test]
    fn a_cpu_takes_at_most_a_quarter_of_the_free_pages() {
        for (pages, cached_pages) in [(1, 1), (2, 0)] {
            let allocator = of_one_cpu(&Space::new(0, 7), 0);
            assert_eq!(allocator.allocate(&Request::size_aligned(pages, 7)), Ok(0));
            assert_eq!(allocator.usage().cached_pages, cached_pages, "{pages} pages");
        }
    }

    #[test]
    fn a_stack_is_filled_from_single_pages_where_no_longer_run_is_free() {
        let reserved = (0..16).map(|pair| Range { first: 2 * pair + 1, pages: 1 }).collect();
        let allocator = of_one_cpu(&Space { first: 0, last: 31, reserved }, 0);
        assert!(allocator.allocate(&Request::new(1, 31)).is_ok());
        assert_eq!(allocator.usage().cached_pages, 3);
    }

    #[test]
    fn a_range_that_ends_at_the_limit_comes_from_the_stack() {
        let allocator = of_one_cpu(&Space::new(0, 7), 0);
        assert_eq!([0; 2].map(|_| allocator.allocate(&Request::new(1, 7))), [Ok(0), Ok(1)]);
        let second = Range { first: 1, pages: 1 };
        assert_eq!(allocator.free(second), Ok(()));
        assert_eq!(allocator.allocate(&Request::new(1, 1)), Ok(1));
        assert_eq!(allocator.free(second), Ok(()));
        // The slow path would have emptied the stack to find it, and it would have gone back to the tree.
        assert_eq!(allocator.usage().cached_pages, 1);
    }

    #[test]
    fn pages_far_up_come_from_the_stack_too() {
        let (boundary, last) = (1 << 22, 1 << 23);
        let allocator = of_one_cpu(&Space::new(0, last), boundary);
        for page in boundary..boundary + 200 {
            assert_eq!(allocator.allocate(&Request::new(1, last)), Ok(page));
        }
        for page in boundary..boundary + 200 {
            let resized = Range { first: page, pages: 2 };
            assert_eq!(allocator.free(resized), Err(FreeError::OtherSize));
            assert_eq!(allocator.free(Range { first: page, pages: 1 }), Ok(()));
            assert_eq!(allocator.free(Range { first: page, pages: 1 }), Err(FreeError::NotAllocated));
        }
    }

    /// Else requests without a limit would look for ranges in the stacks of a zone that has none.
    #[test]
    fn a_boundary_is_ignored_above_the_space_only() {
        for (boundary, free_ranges) in [(0, 1), (1, 2), (31, 2), (32, 1), (u64::MAX, 1)] {
            let allocator = of_one_cpu(&Space::new(0, 31), boundary);
            assert_eq!(allocator.usage().free_ranges, free_ranges, "{boundary}");
            assert_eq!(allocator.zone_of(31), allocator.zone_of(u64::MAX), "{boundary}");
        }
    }

    #[test]
    fn usage_counts_the_batch_that_a_stack_keeps() {
        let allocator = of_one_cpu(&Space::new(0, 31), 0);
        let page = Request::new(1, 31);
        let firsts = [(); 9].map(|()| allocator.allocate(&page).unwrap());
        let rest = |allocator: &Percpu<Sharded>| {
            let trees = allocator.zones.iter().map(|zone| zone.central.lock().memory_bytes()).sum::<u64>();
            allocator.usage().memory_bytes - trees
        };
        let before = rest(&allocator);
        // The ninth finds a full stack. The depot has no room for half of it, so the batch stays here when it is empty.
        firsts.into_iter().for_each(|first| allocator.free(page.range(first)).unwrap());
        assert_eq!(rest(&allocator) - before, size_of::<depot::Batch>() as u64);
    }

    #[test]
    fn usage_counts_all_parts() {
        let allocator = of_one_cpu(&Space::new(0, 31), 16);
        assert_eq!(allocator.usage().free_ranges, 2);
        assert_eq!(allocator.allocate(&Request::new(3, 15)), Ok(0));
        let before = allocator.usage().memory_bytes;
        let zones = allocator.zones.each_ref().map(|zone| {
            let central = zone.central.lock();
            (central.memory_bytes(), central.reached_pages())
        });
        assert_eq!(zones.map(|(_, reached_pages)| reached_pages), [4, 0]);
        let depots = allocator.zones.iter().flat_map(|zone| &zone.depots).map(|depot| depot.usage().1);
        let own = allocator.slabs.memory_bytes()
            + size_of_val(&*allocator.stack_locks) as u64
            + depots.sum::<u64>();
        assert_eq!(before, own + zones[0].0 + zones[1].0 + allocator.check.memory_bytes(4));
    }

    #[test]
    fn low_addresses_are_allocated_first_on_request() {
        let allocator = Percpu::checked(&Space::new(0, 31), 16, Sharded::new(1, || 0)).unwrap();
        let request = Request::new(8, 31);
        let firsts: Vec<u64> = (0..4).map(|_| allocator.allocate_low_first(&request, 15).unwrap()).collect();
        assert_eq!(firsts, [0, 8, 16, 24]);
        assert_eq!(allocator.allocate_low_first(&request, 15), Err(AllocateError::Full));
        assert_eq!(
            allocator.allocate_low_first(&Request::new(0, 31), 15),
            Err(AllocateError::InvalidRequest)
        );
    }
}
