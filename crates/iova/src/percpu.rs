//! An allocator whose CPUs keep out of each other's way.
//!
//! Each CPU has a stack of free ranges for each size: 1, 2, 4 ... 1,024 pages. A range is allocated by taking the topmost and
//! freed by putting it on top, in steps on that CPU ([`Cpus`]), without lock or atomic instruction, wherever it
//! came from. A byte for each page says what is out, so that a range freed twice, or as one of another size, is noticed.
//!
//! ```text
//!    allocate, free                 half a stack at a time                what the depot doesn't hold
//!   <---------------> stack of a CPU <---------------> depot of the class <-----------------> central tree
//! ```
//!
//! A stack that runs dry or over exchanges half of itself with the depot of its size, which all CPUs share. What the depot has
//! no room for goes back to the central tree of free ranges, where neighbours become one; where the depot is empty, the
//! CPU gets a piece of that tree. When the tree can't satisfy a request, all stacks and depots are emptied into it, those of
//! other CPUs too: no free page is out of reach.
//!
//! What is not noticed: a range freed twice, where the second call begins before the first has ended. Then it may be handed
//! out twice, as in any allocator that trusts its callers. One call after the other is always noticed.
//!
//! Stacks of objects by CPU that exchange batches with a depot are Bonwick and Adams's magazines ("Magazines and Vmem", 2001),
//! which Linux keeps of I/O addresses under a lock (Leizarovich, Morrison and Tsafrir, "Utilizing the IOMMU Scalably", 2015);
//! per-CPU data changed by restartable sequences come from Turner and Hunter (2013) and Desnoyers (Linux 4.18, 2018).

mod central;
mod cpus;
#[cfg(all(feature = "std", not(loom)))]
mod host;
#[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(loom)))]
mod rseq;
mod shape;
mod sharded;
mod slot;
mod stack;
mod table;

pub use cpus::Cpus;
#[cfg(all(feature = "std", not(loom)))]
pub use host::Host;
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
use shape::{CLASSES, KEPT_MAX, Shape, class_of};
use slot::Slot;
use stack::{CLOSED, Closed, NO_PAGE};
use table::Table;

/// Times that what CPUs keep is collected for one request: others may allocate what was collected, and free it where it
/// was collected before.
const COLLECTIONS_MAX: usize = 4;
/// A CPU takes no more than this part of what is free.
const FREE_PARTS: u64 = if cfg!(loom) { 1 } else { 4 };

/// See the [module](self).
#[derive(Debug)]
pub struct Percpu<C> {
    cpus: C,
    shape: Shape,
    /// By CPU, zone and class.
    slots: Box<[Slot]>,
    /// Pages from here up are those of the second zone.
    boundary: u64,
    zones: [Zone; 2],
    /// By page: [`FREE`], or what is out and begins there.
    marks: Table,
    pages: u64,
    /// Held by the thread that collects what CPUs keep.
    alone: Lock<()>,
    /// While that thread is at it, CPUs take what they need at once and no more.
    is_collecting: AtomicBool,
}

/// A part of the space with its own ranges, so that requests for low addresses find some however many others there are.
#[derive(Debug)]
struct Zone {
    depots: Box<[Depot]>,
    central: Lock<Central>,
}

/// First pages of free ranges of one class.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Depot(Lock<Vec<u64>>);

/// Nothing begins at this page, or it is free.
const FREE: u8 = 0;
/// A range of no class, whose size the central tree knows.
const LOOSE: u8 = u8::MAX;
/// Sizes up to this one have a mark each.
const TOLD_PAGES_MAX: u64 = 240;
/// Larger ones share one with those of so many pages, as a power of two.
const TOLD_ORDER: u32 = 7;

const _: () = assert!(TOLD_PAGES_MAX + (KEPT_MAX >> TOLD_ORDER) < LOOSE as u64);

/// What is out where a range of a class begins. A byte, as what is in no cache is to be little.
#[inline(always)]
fn mark_of(pages: u64) -> u8 {
    if pages <= TOLD_PAGES_MAX { pages as u8 } else { (TOLD_PAGES_MAX + ((pages - 1) >> TOLD_ORDER)) as u8 }
}

impl<C: Cpus> Percpu<C> {
    /// An allocator of the space. No range crosses `boundary`, and requests whose limit is above it get pages below only
    /// when none above are at hand, be it that other CPUs keep them: the page at 4 GiB where adapters with 32-bit masks share
    /// the space, else 0.
    ///
    /// # Errors
    /// If the space has no page, or some that no bus has.
    pub fn new(space: &Space, boundary: u64, cpus: C) -> Result<Self, SpaceError> {
        let boundary = if space.last < boundary { 0 } else { boundary };
        let (mut low, mut high) = (Gaps::default(), Gaps::default());
        for range in space.free_ranges()? {
            let (below, above) = parts(range, boundary);
            below.into_iter().for_each(|part| low.add(part));
            above.into_iter().for_each(|part| high.add(part));
        }
        let pages = low.pages() + high.pages();
        let zones = [Zone::new(low), Zone::new(high)];
        let shape = Shape::new(pages, cpus.count());
        let capacity = |place| shape.stack(slot::class(place));
        let slots = (0..cpus.count() * slot::PER_CPU).map(|place| Slot::new(capacity(place))).collect();
        let marks = Table::new(space.first, space.last);
        let (alone, is_collecting) = (Lock::new(()), AtomicBool::new(false));
        Ok(Self { cpus, shape, slots, boundary, zones, marks, pages, alone, is_collecting })
    }

    /// Nothing for a CPU that is not supposed to exist.
    #[inline(always)]
    fn slot(&self, cpu: usize, zone: usize, class: usize) -> Option<&Slot> {
        self.slots.get(slot::place(cpu, zone, class))
    }

    #[inline(always)]
    fn zone_of(&self, page: u64) -> usize {
        usize::from(page >= self.boundary)
    }

    /// The zones that have pages below a limit, in the order in which they are searched.
    fn zones_below(&self, limit: u64) -> impl Iterator<Item = usize> {
        (limit >= self.boundary).then_some(1).into_iter().chain([0])
    }

    /// The slots of a zone, each with its CPU and class.
    fn slots_of(&self, zone: usize) -> impl Iterator<Item = (usize, usize, &Slot)> {
        let cpus = 0..self.slots.len() / slot::PER_CPU;
        let all = cpus.flat_map(|cpu| (0..CLASSES).map(move |class| (cpu, class)));
        all.filter_map(move |(cpu, class)| Some((cpu, class, self.slot(cpu, zone, class)?)))
    }

    /// Marks what came from a stack.
    #[inline(always)]
    fn allocated(&self, first: u64, pages: u64) -> Result<u64, AllocateError> {
        match self.marks.near(first) {
            Some(mark) => {
                mark.store(mark_of(pages), Ordering::Relaxed);
                Ok(first)
            }
            None => self.allocated_far(first, pages),
        }
    }

    /// An allocation for which the CPU's stack did not do.
    #[cold]
    fn allocate_slowly(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_sensible() {
            return Err(AllocateError::Senseless);
        }
        let is_kept =
            |class: &usize| self.shape.stack(*class) > 0 && request.alignment_order as usize <= *class;
        let class = class_of(request.pages).filter(is_kept);
        let first = class.and_then(|class| {
            let mut zones = self.zones_below(request.limit);
            zones.find_map(|zone| self.allocate_kept(request, class, zone))
        });
        first.or_else(|| self.allocate_loose(request)).ok_or(AllocateError::Full)
    }

    /// From the CPU's stack, filled if it is empty. Nothing if its topmost is above the limit, or there are none to fill it with.
    fn allocate_kept(&self, request: &Request, class: usize, zone: usize) -> Option<u64> {
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

    /// Frees a range for which the CPU's stack had no room.
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

    /// Takes a stack from its CPU. Its slot is locked.
    fn close<'a>(&self, cpu: usize, slot: &'a Slot) -> Closed<'a> {
        let count = &slot.stack.count;
        let count = self.cpus.close(cpu, &slot.stack).unwrap_or_else(|| self.close_from_afar(cpu, count));
        slot.stack.closed(count)
    }

    /// Closes a stack's count, or its top, from another CPU, and says what it was.
    fn close_from_afar(&self, cpu: usize, word: &AtomicU64) -> u64 {
        loop {
            let was = word.swap(CLOSED, Ordering::SeqCst);
            self.cpus.fence(cpu);
            // A step that had begun before may have opened it again by its store; those since then found it closed.
            if word.load(Ordering::SeqCst) == CLOSED {
                return was;
            }
        }
    }

    /// Puts ranges into an empty stack: from the depot, else from the central tree.
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

    /// Puts pieces of the central tree into an empty stack, in as few runs as can be had.
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
                    // So that the lowest is the next one that is allocated.
                    let firsts = (0..run).rev().map(|place| range.first + (place << class));
                    firsts.for_each(|first| stack.push(first));
                    left -= run;
                }
                None if run == 1 => break,
                None => run /= 2,
            }
        }
    }

    /// Takes half of the ranges out of a full stack.
    fn empty(&self, stack: &mut Closed<'_>, zone: &Zone, class: usize) {
        let batch = stack.batch();
        let mut depot = zone.depots[class].0.lock();
        if depot.len() + batch <= self.shape.depot(class) {
            depot.extend(stack.take(batch));
        } else {
            drop(depot);
            let firsts: Vec<u64> = stack.take(batch).collect();
            zone.central.lock().take_back(class, firsts);
        }
    }

    /// From the central tree; if need be with what CPUs and depots have.
    fn allocate_loose(&self, request: &Request) -> Option<u64> {
        if let Some(first) = self.allocate_central(request) {
            return Some(first);
        }
        // One at a time: what another is just collecting isn't gone, only on its way.
        let _alone = self.alone.lock();
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

    fn allocate_central(&self, request: &Request) -> Option<u64> {
        self.zones_below(request.limit).map(|zone| &self.zones[zone]).find_map(|zone| {
            let first = zone.central.lock().allocate(request)?;
            self.mark(first, LOOSE);
            Some(first)
        })
    }

    /// Moves what CPUs and depots keep to the central tree, and says how many pages that is.
    fn collect(&self, limit: u64) -> u64 {
        self.is_collecting.store(true, Ordering::Relaxed);
        let pages = self.zones_below(limit).map(|zone| self.collect_zone(zone)).sum();
        self.is_collecting.store(false, Ordering::Relaxed);
        pages
    }

    /// The depots come last: a stack that was not yet emptied may run over into one, and none is filled from there meanwhile.
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

    fn collect_stack(&self, zone: &Zone, cpu: usize, class: usize, slot: &Slot) -> u64 {
        let _closing = slot.closing.lock();
        if slot.stack.len() == 0 {
            return 0;
        }
        let mut firsts: Vec<u64> = self.close(cpu, slot).take(usize::MAX).collect();
        if slot.stack.top.load(Ordering::Relaxed) < CLOSED {
            firsts.extend(Some(self.close_from_afar(cpu, &slot.stack.top)).filter(|top| *top != NO_PAGE));
            slot.stack.top.store(NO_PAGE, Ordering::Release);
        }
        zone.central.lock().take_back(class, firsts)
    }

    /// Frees what has the mark of its size into the CPU's stack.
    #[inline(always)]
    fn free_marked(&self, mark: &AtomicU8, range: Range) -> Result<(), FreeError> {
        match class_of(range.pages) {
            Some(class) if mark.load(Ordering::Relaxed) == mark_of(range.pages) => {
                // Before anyone else can have it.
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
            _ => self.free_loose(range),
        }
    }

    /// Frees, and marks what was allocated, where the mark is not near.
    #[cold]
    #[inline(never)]
    fn free_far(&self, range: Range) -> Result<(), FreeError> {
        self.marks.get(range.first).map_or(Err(FreeError::NotAllocated), |mark| self.free_marked(mark, range))
    }

    #[cold]
    #[inline(never)]
    fn allocated_far(&self, first: u64, pages: u64) -> Result<u64, AllocateError> {
        self.mark(first, mark_of(pages));
        Ok(first)
    }

    /// Says what begins at a page.
    fn mark(&self, first: u64, mark: u8) {
        if let Some(place) = self.marks.reach(first) {
            place.store(mark, Ordering::Relaxed);
        }
    }

    /// Frees what has no mark of the class it is said to be of.
    #[cold]
    #[inline(never)]
    fn free_loose(&self, range: Range) -> Result<(), FreeError> {
        let zone = &self.zones[self.zone_of(range.first)];
        let mark = self.marks.get(range.first).ok_or(FreeError::NotAllocated)?;
        match mark.load(Ordering::Relaxed) {
            FREE => Err(FreeError::NotAllocated),
            LOOSE => {
                let mut central = zone.central.lock();
                central.free(range)?;
                mark.store(FREE, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(FreeError::OtherSize),
        }
    }
}

/// What of a range is below a boundary, and what is not.
fn parts(range: Range, boundary: u64) -> (Option<Range>, Option<Range>) {
    let below = Range::between(range.first, range.last().min(boundary.wrapping_sub(1)));
    let above = Range::between(range.first.max(boundary), range.last());
    ((range.first < boundary).then_some(below), (range.last() >= boundary).then_some(above))
}

impl Zone {
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
                return self.allocated(first, request.pages);
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

    /// A CPU on which steps in progress end when someone waits for it.
    struct Late<'a> {
        word: &'a AtomicU64,
        stores: Lock<Vec<u64>>,
    }

    impl Cpus for Late<'_> {
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
    fn a_step_that_opens_what_is_being_closed_is_not_lost() {
        let word = AtomicU64::new(5);
        let cpus = Late { word: &word, stores: Lock::new([7, 6].into()) };
        let allocator = Percpu::new(&Space::new(0, 9), 0, cpus).unwrap();
        assert_eq!(allocator.close_from_afar(0, &word), 7);
        assert_eq!(word.load(Ordering::SeqCst), CLOSED);
    }

    #[test]
    fn sizes_of_two_classes_have_two_marks() {
        for pages in 1..=KEPT_MAX {
            assert!(![FREE, LOOSE].contains(&mark_of(pages)), "{pages}");
            let is_told = pages <= TOLD_PAGES_MAX || pages % (1 << TOLD_ORDER) == 0;
            assert_eq!(mark_of(pages) != mark_of(pages + 1), is_told, "{pages}");
            assert!(class_of(pages) == class_of(pages + 1) || is_told, "{pages}");
        }
    }

    #[test]
    fn low_addresses_come_first_when_asked_for() {
        let allocator = Percpu::new(&Space::new(0, 31), 16, crate::Sharded::new(1, || 0)).unwrap();
        let request = Request::new(8, 31);
        let firsts: Vec<u64> = (0..4).map(|_| allocator.allocate_low_first(&request, 15).unwrap()).collect();
        assert_eq!(firsts, [0, 8, 16, 24]);
        assert_eq!(allocator.allocate_low_first(&request, 15), Err(AllocateError::Full));
        assert_eq!(allocator.allocate_low_first(&Request::new(0, 31), 15), Err(AllocateError::Senseless));
    }
}
