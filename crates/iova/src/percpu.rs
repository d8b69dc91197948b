//! An allocator with per-CPU stacks of free ranges, whose CPUs rarely share data.
//!
//! Each CPU has a stack of free ranges for each size: 1, 2, 4 ... 1,024 pages. An allocation pops from the stack of the
//! current CPU and a free pushes to it, in per-CPU steps ([`Cpus`]) without lock or atomic instruction. A range may be freed
//! on another CPU than it was allocated on. A byte per page records the size of the allocated range that begins there, so
//! that a double free, or a free with another size, is detected.
//!
//! ```text
//!    allocate, free                 half a stack at a time                   if the depot is full or empty
//!   <---------------> stack of a CPU <---------------> depot of the class <-----------------> central tree
//! ```
//!
//! A full stack moves half of its ranges to the depot of its size, which all CPUs share, and an empty one fetches as many
//! from it. If the depot is full, the ranges return to the central tree of free ranges, which merges adjacent ones. If the
//! depot is empty, the CPU gets ranges from the tree. If the tree can't satisfy a request, the stacks of all CPUs and all
//! depots are emptied into it, so that every free page is available.
//!
//! Not detected: a range that two threads free at the same time, the second call before the first has returned. It may then
//! be allocated twice, as in an allocator without checks. A second call after the first has returned is always detected.
//!
//! Per-CPU stacks that exchange batches with a depot are the magazines of Bonwick and Adams ("Magazines and Vmem", 2001).
//! Linux has them for IOVAs, with a lock (Peleg, Morrison, Serebrin and Tsafrir, "Utilizing the IOMMU Scalably", 2015).
//! Per-CPU data changed by restartable sequences come from Turner and Hunter (2013) and Desnoyers (Linux 4.18, 2018).

mod central;
mod cpu_stack;
mod cpus;
#[cfg(all(feature = "std", not(loom)))]
mod percpu_stacks;
#[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(loom)))]
mod rseq;
mod shape;
mod sharded;
mod stack;
mod table;

pub use cpus::Cpus;
#[cfg(all(feature = "std", not(loom)))]
pub use percpu_stacks::PercpuStacks;
#[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(loom)))]
pub use rseq::Rseq;
pub use sharded::Sharded;
pub use stack::Stack;

use crate::gaps::Gaps;
use crate::lock::Lock;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use central::Central;
use cpu_stack::CpuStack;
use shape::{CLASSES, KEPT_MAX, Shape, class_of};
use stack::{CLOSED, Closed, NO_PAGE};
use table::Table;

/// How often one request empties all stacks. Once is not always enough: other threads may allocate collected pages, and
/// free them to stacks that were emptied already.
const COLLECTIONS_MAX: usize = 4;
/// A CPU fetches at most this fraction (1/N) of the central tree's free pages at once.
const FREE_PARTS: u64 = if cfg!(loom) { 1 } else { 4 };

/// The per-CPU allocator; see the [module](self).
#[derive(Debug)]
pub struct Percpu<C> {
    cpus: C,
    shape: Shape,
    /// Stacks by CPU, zone and class.
    slots: Box<[CpuStack]>,
    /// The first page of the second zone.
    boundary: u64,
    zones: [Zone; 2],
    /// By page: [`FREE`], or the mark of the allocated range that begins there.
    marks: Table,
    pages: u64,
    /// Held by the thread that empties all stacks.
    collection: Lock<()>,
    /// While a thread empties all stacks, other CPUs fetch only one range at a time.
    is_collecting: AtomicBool,
}

/// A part of the space with its own free ranges. Two zones keep low addresses for requests that need them.
#[derive(Debug)]
struct Zone {
    depots: Box<[Depot]>,
    central: Lock<Central>,
}

/// First pages of free ranges of one class.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Depot(Lock<Vec<u64>>);

/// Mark of a page at which no allocated range begins.
const FREE: u8 = 0;
/// Mark of a range that was allocated from the central tree, which records its size.
const UNCACHED: u8 = u8::MAX;
/// Sizes up to this one have a mark of their own.
const EXACT_PAGES_MAX: u64 = 240;
/// Base-2 logarithm of the step in which larger sizes share marks.
const MARK_STEP_ORDER: u32 = 7;

const _: () = assert!(EXACT_PAGES_MAX + (KEPT_MAX >> MARK_STEP_ORDER) < UNCACHED as u64);

/// The mark of an allocated range of a class: its size in one byte, exact up to [`EXACT_PAGES_MAX`] pages.
#[inline(always)]
fn mark_of(pages: u64) -> u8 {
    if pages <= EXACT_PAGES_MAX {
        pages as u8
    } else {
        (EXACT_PAGES_MAX + ((pages - 1) >> MARK_STEP_ORDER)) as u8
    }
}

impl<C: Cpus> Percpu<C> {
    /// An allocator of the space. No range crosses page `boundary`. A request whose limit is above it gets pages below it
    /// only if it finds none above, except in other CPUs' stacks. Pass the page at 4 GiB if devices with 32-bit DMA masks
    /// share the space, else 0.
    ///
    /// # Errors
    /// If the space is invalid.
    pub fn new(space: &Space, boundary: u64, cpus: C) -> Result<Self, SpaceError> {
        let boundary = if space.last < boundary { 0 } else { boundary };
        let (mut low, mut high) = (Gaps::default(), Gaps::default());
        for range in space.free_ranges()? {
            let (below, above) = split_at(range, boundary);
            below.into_iter().for_each(|part| low.add(part));
            above.into_iter().for_each(|part| high.add(part));
        }
        let pages = low.pages() + high.pages();
        let zones = [Zone::new(low), Zone::new(high)];
        let shape = Shape::new(pages, cpus.count());
        let capacity = |index| shape.stack_capacity(cpu_stack::class(index));
        let slots =
            (0..cpus.count() * cpu_stack::PER_CPU).map(|index| CpuStack::new(capacity(index))).collect();
        let marks = Table::new(space.first, space.last);
        let (collection, is_collecting) = (Lock::new(()), AtomicBool::new(false));
        Ok(Self { cpus, shape, slots, boundary, zones, marks, pages, collection, is_collecting })
    }

    /// The slot of a CPU, zone and class; `None` if the CPU's number is too large.
    #[inline(always)]
    fn slot(&self, cpu: usize, zone: usize, class: usize) -> Option<&CpuStack> {
        self.slots.get(cpu_stack::index(cpu, zone, class))
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

    /// The slots of a zone, each with its CPU and class.
    fn slots_of(&self, zone: usize) -> impl Iterator<Item = (usize, usize, &CpuStack)> {
        self.slots.chunks(cpu_stack::PER_CPU).enumerate().flat_map(move |(cpu, slots)| {
            (0..CLASSES).map(move |class| (cpu, class, &slots[cpu_stack::index(0, zone, class)]))
        })
    }

    /// Marks a range that was popped from a stack, and returns its first page.
    #[inline(always)]
    fn mark_allocated(&self, first: u64, pages: u64) -> Result<u64, AllocateError> {
        match self.marks.near(first) {
            Some(mark) => {
                mark.store(mark_of(pages), Ordering::Relaxed);
                Ok(first)
            }
            None => self.mark_allocated_far(first, pages),
        }
    }

    /// Allocates when the current CPU's stack could not satisfy the request in one step.
    #[cold]
    fn allocate_slowly(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        let is_cached = |class: &usize| {
            self.shape.stack_capacity(*class) > 0 && request.alignment_order as usize <= *class
        };
        let class = class_of(request.pages).filter(is_cached);
        let first = class.and_then(|class| {
            let mut zones = self.zones_below(request.limit);
            zones.find_map(|zone| self.allocate_cached(request, class, zone))
        });
        first.or_else(|| self.allocate_uncached(request)).ok_or(AllocateError::Full)
    }

    /// Allocates from the current CPU's stack, which is filled first if it is empty. `None` if its topmost range is above the
    /// limit, or nothing is free to fill it.
    fn allocate_cached(&self, request: &Request, class: usize, zone: usize) -> Option<u64> {
        let cpu = self.cpus.current();
        let slot = self.slot(cpu, zone, class)?;
        let zone = &self.zones[zone];
        let _closing = slot.closing.lock();
        let mut stack = self.close(cpu, slot);
        if stack.is_empty() {
            self.fill(&mut stack, zone, class);
        }
        let first = stack.pop(request.pages, request.limit)?;
        self.mark(first, mark_of(request.pages));
        Some(first)
    }

    /// Frees a range when it could not be pushed to the current CPU's stack in one step.
    #[cold]
    #[inline(never)]
    fn free_slowly(&self, first: u64, class: usize) -> Result<(), FreeError> {
        let cpu = self.cpus.current();
        let number = self.zone_of(first);
        let zone = &self.zones[number];
        let Some(slot) = self.slot(cpu, number, class) else {
            zone.central.lock().take_back(class, [first]);
            return Ok(());
        };
        let _closing = slot.closing.lock();
        let mut stack = self.close(cpu, slot);
        if stack.is_full() {
            self.empty(&mut stack, zone, class);
        }
        stack.push(first);
        Ok(())
    }

    /// Closes a CPU's stack for its steps. The caller must hold the slot's lock.
    fn close<'a>(&self, cpu: usize, slot: &'a CpuStack) -> Closed<'a> {
        let count = &slot.stack.count;
        let count = self.cpus.close(cpu, &slot.stack).unwrap_or_else(|| self.close_from_afar(cpu, count));
        slot.stack.closed(count)
    }

    /// Closes a stack's count, or its top, from another CPU, and returns its former value.
    fn close_from_afar(&self, cpu: usize, word: &AtomicU64) -> u64 {
        loop {
            let was = word.swap(CLOSED, Ordering::SeqCst);
            self.cpus.fence(cpu);
            // A step that began before the swap may have overwritten it. Steps that began later found it closed.
            if word.load(Ordering::SeqCst) == CLOSED {
                return was;
            }
        }
    }

    /// Fills an empty stack from the depot, or else from the central tree.
    fn fill(&self, stack: &mut Closed<'_>, zone: &Zone, class: usize) {
        let wanted = if self.is_collecting.load(Ordering::Relaxed) { 1 } else { stack.batch() };
        let mut depot = zone.depots[class].0.lock();
        let from = depot.len().saturating_sub(wanted);
        depot.drain(from..).for_each(|first| stack.push(first));
        drop(depot);
        if stack.is_empty() {
            self.carve(stack, zone, class, wanted as u64);
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
                    let firsts = (0..run).rev().map(|place| range.first + (place << class));
                    firsts.for_each(|first| stack.push(first));
                    left -= run;
                }
                None if run == 1 => break,
                None => run /= 2,
            }
        }
    }

    /// Moves half of a full stack's ranges to the depot, or to the central tree if the depot is full.
    fn empty(&self, stack: &mut Closed<'_>, zone: &Zone, class: usize) {
        let batch = stack.batch();
        let mut depot = zone.depots[class].0.lock();
        if depot.len() + batch <= self.shape.depot_capacity(class) {
            depot.extend(stack.take(batch));
        } else {
            drop(depot);
            let firsts: Vec<u64> = stack.take(batch).collect();
            zone.central.lock().take_back(class, firsts);
        }
    }

    /// Allocates from the central tree. If that fails, empties all stacks and depots into it and tries again.
    fn allocate_uncached(&self, request: &Request) -> Option<u64> {
        if let Some(first) = self.allocate_central(request) {
            return Some(first);
        }
        // One thread at a time: pages that another thread is collecting are not in the tree yet, but will be.
        let _alone = self.collection.lock();
        for _ in 0..COLLECTIONS_MAX {
            if let Some(first) = self.allocate_central(request) {
                return Some(first);
            }
            if self.collect(request.limit) == 0 {
                break;
            }
        }
        self.allocate_central(request)
    }

    /// Allocates from the central tree as it is.
    fn allocate_central(&self, request: &Request) -> Option<u64> {
        self.zones_below(request.limit).map(|zone| &self.zones[zone]).find_map(|zone| {
            let first = zone.central.lock().allocate(request)?;
            self.mark(first, UNCACHED);
            Some(first)
        })
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
    fn collect_zone(&self, number: usize) -> u64 {
        let zone = &self.zones[number];
        let slots = self.slots_of(number);
        let stacks: u64 = slots.map(|(cpu, class, slot)| self.collect_stack(zone, cpu, class, slot)).sum();
        let depots = zone.depots.iter().enumerate().map(|(class, depot)| {
            let firsts = core::mem::take(&mut *depot.0.lock());
            zone.central.lock().take_back(class, firsts)
        });
        stacks + depots.sum::<u64>()
    }

    /// Empties a stack and returns the number of pages moved.
    fn collect_stack(&self, zone: &Zone, cpu: usize, class: usize, slot: &CpuStack) -> u64 {
        let _closing = slot.closing.lock();
        if slot.stack.len() == 0 {
            return 0;
        }
        let mut firsts: Vec<u64> = self.close(cpu, slot).take(usize::MAX).collect();
        if slot.stack.top.load(Ordering::Relaxed) != NO_PAGE {
            firsts.extend(Some(self.close_from_afar(cpu, &slot.stack.top)).filter(|top| *top != NO_PAGE));
            slot.stack.top.store(NO_PAGE, Ordering::Release);
        }
        zone.central.lock().take_back(class, firsts)
    }

    /// Frees a range whose mark is known: if it is right for a class, to the current CPU's stack.
    #[inline(always)]
    fn free_marked(&self, mark: &AtomicU8, range: Range) -> Result<(), FreeError> {
        match class_of(range.pages) {
            Some(class) if mark.load(Ordering::Relaxed) == mark_of(range.pages) => {
                // Before another thread can allocate the range.
                mark.store(FREE, Ordering::Relaxed);
                let cpu = self.cpus.current();
                let slot = self.slot(cpu, self.zone_of(range.first), class);
                let put = |stack: &Stack| {
                    self.cpus.put_top(cpu, stack, range.first) || self.cpus.push(cpu, stack, range.first)
                };
                match slot.is_some_and(|slot| put(&slot.stack)) {
                    true => Ok(()),
                    false => self.free_slowly(range.first, class),
                }
            }
            _ => self.free_uncached(range),
        }
    }

    /// Frees a range whose mark is not in the table's first leaf.
    #[cold]
    #[inline(never)]
    fn free_far(&self, range: Range) -> Result<(), FreeError> {
        self.marks.get(range.first).map_or(Err(FreeError::NotAllocated), |mark| self.free_marked(mark, range))
    }

    /// Like [`Self::mark_allocated`], for a mark that is not in the table's first leaf.
    #[cold]
    #[inline(never)]
    fn mark_allocated_far(&self, first: u64, pages: u64) -> Result<u64, AllocateError> {
        self.mark(first, mark_of(pages));
        Ok(first)
    }

    /// Sets the mark of a page.
    fn mark(&self, first: u64, mark: u8) {
        if let Some(place) = self.marks.reach(first) {
            place.store(mark, Ordering::Relaxed);
        }
    }

    /// Frees a range that has not the mark of a class and its size: one of the central tree, or a wrong free.
    #[cold]
    #[inline(never)]
    fn free_uncached(&self, range: Range) -> Result<(), FreeError> {
        let zone = &self.zones[self.zone_of(range.first)];
        let mark = self.marks.get(range.first).ok_or(FreeError::NotAllocated)?;
        match mark.load(Ordering::Relaxed) {
            FREE => Err(FreeError::NotAllocated),
            UNCACHED => {
                let mut central = zone.central.lock();
                central.free(range)?;
                mark.store(FREE, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(FreeError::OtherSize),
        }
    }
}

/// The parts of a range below a boundary, and from it on.
fn split_at(range: Range, boundary: u64) -> (Option<Range>, Option<Range>) {
    let below = Range::between(range.first, range.last().min(boundary.wrapping_sub(1)));
    let above = Range::between(range.first.max(boundary), range.last());
    ((range.first < boundary).then_some(below), (range.last() >= boundary).then_some(above))
}

impl Zone {
    /// A zone of free ranges, with empty depots.
    fn new(gaps: Gaps) -> Self {
        let depots = (0..CLASSES).map(|_| Depot::default()).collect();
        Self { depots, central: Lock::new(Central::new(gaps)) }
    }
}

impl<C: Cpus> Allocator for Percpu<C> {
    #[inline]
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if let Some(class) = class_of(request.pages)
            && request.alignment_order as usize <= class
        {
            let cpu = self.cpus.current();
            let (more, limit) = (request.pages - 1, request.limit);
            if let Some(slot) = self.slot(cpu, self.zone_of(limit), class)
                && let top = self.cpus.take_top(cpu, &slot.stack, more, limit)
                && let Some(first) = top.or_else(|| self.cpus.pop(cpu, &slot.stack, more, limit))
            {
                return self.mark_allocated(first, request.pages);
            }
        }
        self.allocate_slowly(request)
    }

    #[inline]
    fn free(&self, range: Range) -> Result<(), FreeError> {
        match self.marks.near(range.first) {
            Some(mark) => self.free_marked(mark, range),
            None => self.free_far(range),
        }
    }

    fn usage(&self) -> Usage {
        let slots = size_of_val(&*self.slots) as u64;
        let mut usage = Usage { memory_bytes: slots, ..Usage::default() };
        let mut reached_pages = 0;
        for (number, zone) in self.zones.iter().enumerate() {
            for (_, class, slot) in self.slots_of(number) {
                let _closing = slot.closing.lock();
                usage.cached_pages += slot.stack.len() << class;
                usage.memory_bytes += size_of_val(&*slot.stack.pages) as u64;
            }
            for (class, depot) in zone.depots.iter().enumerate() {
                let depot = depot.0.lock();
                usage.cached_pages += (depot.len() as u64) << class;
                usage.memory_bytes += (depot.capacity() * size_of::<u64>()) as u64;
            }
            let central = zone.central.lock();
            let gaps = central.gaps();
            usage.free_pages += gaps.pages();
            usage.free_ranges += gaps.len();
            usage.largest_free_pages = usage.largest_free_pages.max(gaps.largest_pages());
            usage.memory_bytes += central.memory_bytes();
            reached_pages += central.reached_pages();
        }
        usage.memory_bytes += self.marks.memory_bytes(reached_pages);
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

    impl Cpus for LateCpu<'_> {
        fn count(&self) -> usize {
            1
        }

        fn current(&self) -> usize {
            0
        }

        fn take_top(&self, _cpu: usize, _stack: &Stack, _more: u64, _limit: u64) -> Option<u64> {
            None
        }

        fn put_top(&self, _cpu: usize, _stack: &Stack, _page: u64) -> bool {
            false
        }

        fn pop(&self, _cpu: usize, _stack: &Stack, _more: u64, _limit: u64) -> Option<u64> {
            None
        }

        fn push(&self, _cpu: usize, _stack: &Stack, _page: u64) -> bool {
            false
        }

        fn close(&self, _cpu: usize, _stack: &Stack) -> Option<u64> {
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
        let allocator = Percpu::new(&Space::new(0, 9), 0, cpus).unwrap();
        assert_eq!(allocator.close_from_afar(0, &word), 7);
        assert_eq!(word.load(Ordering::SeqCst), CLOSED);
    }

    #[test]
    fn sizes_of_different_classes_have_different_marks() {
        for pages in 1..=KEPT_MAX {
            assert!(![FREE, UNCACHED].contains(&mark_of(pages)), "{pages}");
            let is_distinct = pages <= EXACT_PAGES_MAX || pages % (1 << MARK_STEP_ORDER) == 0;
            assert_eq!(mark_of(pages) < mark_of(pages + 1), is_distinct, "{pages}");
            assert!(class_of(pages) == class_of(pages + 1) || is_distinct, "{pages}");
        }
    }

    fn of_one_cpu(space: &Space, boundary: u64) -> Percpu<crate::Sharded> {
        Percpu::new(space, boundary, crate::Sharded::new(1, || 0)).expect("a small space is possible")
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
        assert!(allocator.marks.near(boundary).is_none());
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
        let stacks: usize = allocator.slots.iter().map(|slot| size_of_val(&*slot.stack.pages)).sum();
        let own = (size_of_val(&*allocator.slots) + stacks) as u64;
        assert_eq!(before, own + zones[0].0 + zones[1].0 + allocator.marks.memory_bytes(4));
        let mut depot = allocator.zones[1].depots[3].0.lock();
        depot.reserve_exact(1000);
        let capacity = depot.capacity() as u64;
        drop(depot);
        assert_eq!(allocator.usage().memory_bytes - before, 8 * capacity);
    }

    #[test]
    fn low_addresses_are_allocated_first_on_request() {
        let allocator = Percpu::new(&Space::new(0, 31), 16, crate::Sharded::new(1, || 0)).unwrap();
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
