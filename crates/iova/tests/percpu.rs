//! The per-CPU allocator on CPUs that the test chooses, against a plain model.
//!
//! `PROPTEST_CASES=100000 cargo test --release -p iova --test percpu` for a long run, `MIRIFLAGS=-Zmiri-disable-isolation
//! PROPTEST_CASES=2 cargo +nightly miri test -p iova --test percpu` for one that looks at each access to memory.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use iova::percpu::{AtomicU64, Slabs};
use iova::{Allocator, Cpus, FreeError, PAGE_MAX, Percpu, Range, Request, Sharded, Space};
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::Arc;
use support::LockedSteps;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

const CPUS: usize = 3;
/// Fewer where each takes a second.
const STEPS_MAX: usize = if cfg!(miri) { 30 } else { 400 };

#[derive(Debug, Clone)]
enum Step {
    /// Aligned to its size where no order is given.
    Allocate {
        pages: u64,
        order: Option<u32>,
        limit: u64,
    },
    Free {
        which: prop::sample::Index,
    },
    FreeTwice {
        which: prop::sample::Index,
    },
    FreeResized {
        which: prop::sample::Index,
        pages: u64,
    },
    FreeForeign {
        first: u64,
        pages: u64,
    },
    EmptyCaches,
}

fn step(last: u64, boundary: u64) -> impl Strategy<Value = Step> {
    let pages = prop_oneof![6 => Just(1_u64), 3 => 1_u64..9, 1 => 1_u64..100, 1 => 200_u64..1100];
    let order = prop_oneof![4 => Just(None), 4 => Just(Some(0)), 1 => (0_u32..10).prop_map(Some)];
    let limit = prop_oneof![4 => Just(last), 1 => 0..last, 1 => boundary.saturating_sub(1)..boundary + 2];
    prop_oneof![
        8 => (pages, order, limit).prop_map(|(pages, order, limit)| Step::Allocate { pages, order, limit }),
        6 => any::<prop::sample::Index>().prop_map(|which| Step::Free { which }),
        1 => any::<prop::sample::Index>().prop_map(|which| Step::FreeTwice { which }),
        1 => (any::<prop::sample::Index>(), prop_oneof![0_u64..9, 200_u64..2000])
            .prop_map(|(which, pages)| Step::FreeResized { which, pages }),
        1 => Just(Step::EmptyCaches),
        1 => (0..last, 1_u64..9).prop_map(|(first, pages)| Step::FreeForeign { first, pages }),
    ]
}

/// What is out, each with the pages that it may take up: its size rounded up to a power of two, where it has a class.
struct Model {
    space: Space,
    out: Vec<Range>,
    boundary: u64,
}

fn taken_up(range: &Range) -> Range {
    Range { pages: if range.pages <= 1024 { range.pages.next_power_of_two() } else { range.pages }, ..*range }
}

/// A request with this order, or aligned to its size.
fn request_of(pages: u64, order: Option<u32>, limit: u64) -> Request {
    let sized = Request::size_aligned(pages, limit);
    Request { alignment_order: order.unwrap_or(sized.alignment_order), ..sized }
}

impl Model {
    /// Allocates, which may fail only if there is no room for `needed`: the request, as the allocator rounds it.
    fn allocate(&mut self, allocator: &dyn Allocator, request: &Request, needed: &Request) {
        match allocator.allocate(request) {
            Ok(first) => {
                let range = request.range(first);
                self.check_new(request, &range);
                self.out.push(range);
            }
            Err(error) => assert!(!self.has_room(needed), "{error}, but there is room: {:?}", self.out),
        }
    }

    /// Frees any of the ranges, of which there must be one.
    fn free(&mut self, allocator: &dyn Allocator, which: &prop::sample::Index) {
        let range = self.out.swap_remove(which.index(self.out.len()));
        assert_eq!(allocator.free(range), Ok(()), "{range}");
    }

    fn has_room(&self, request: &Request) -> bool {
        let fits = |first: u64| {
            let range = Range { first, pages: request.pages };
            let taken = self.out.iter().map(taken_up).chain(self.space.reserved.iter().copied());
            range.last() <= request.limit.min(self.space.last)
                && !self.crosses_boundary(&range)
                && !{ taken }.any(|out| out.overlaps(&range))
        };
        let begin = self.space.first.next_multiple_of(request.alignment_pages());
        (begin..=self.space.last).step_by(request.alignment_pages() as usize).any(fits)
    }

    fn crosses_boundary(&self, range: &Range) -> bool {
        range.first < self.boundary && range.last() >= self.boundary
    }

    fn check_new(&self, request: &Request, range: &Range) {
        assert!(!self.crosses_boundary(range), "{range} crosses {}", self.boundary);
        assert_eq!(range.first % request.alignment_pages(), 0);
        assert!(range.first >= self.space.first && range.last() <= request.limit.min(self.space.last));
        assert!(
            !self.out.iter().chain(&self.space.reserved).any(|other| other.overlaps(range)),
            "{range} overlaps"
        );
    }
}

/// With steps and without.
fn check(last: u64, boundary: u64, reserved: Vec<Range>, steps: &[(usize, Step)]) {
    let space = Space { first: 1, last, reserved };
    let with_steps = LockedSteps::new(CPUS, || CPU.get());
    check_checked(&Percpu::checked(&space, boundary, with_steps).unwrap(), space.clone(), boundary, steps);
    let without = Sharded::new(CPUS, || CPU.get());
    check_checked(&Percpu::checked(&space, boundary, without).unwrap(), space.clone(), boundary, steps);
    let with_steps = LockedSteps::new(CPUS, || CPU.get());
    check_right_frees(
        &Percpu::trusting(&space, boundary, with_steps).unwrap(),
        space.clone(),
        boundary,
        steps,
    );
    let with_steps = LockedSteps::new(CPUS, || CPU.get());
    check_right_frees(&Percpu::audited(&space, boundary, with_steps).unwrap(), space, boundary, steps);
}

fn check_checked(allocator: &dyn Allocator, space: Space, boundary: u64, steps: &[(usize, Step)]) {
    let last = space.last;
    let mut model = Model { space, out: Vec::new(), boundary };
    for (cpu, step) in steps.iter().cloned() {
        CPU.set(cpu);
        match step {
            Step::Allocate { pages, order, limit } => {
                let request = request_of(pages, order, limit);
                model.allocate(allocator, &request, &request);
            }
            Step::Free { which } if !model.out.is_empty() => model.free(allocator, &which),
            Step::FreeTwice { which } if !model.out.is_empty() => {
                let range = model.out.swap_remove(which.index(model.out.len()));
                assert_eq!(allocator.free(range), Ok(()), "{range}");
                CPU.set((cpu + 1) % CPUS);
                assert!(allocator.free(range).is_err(), "{range} freed twice");
                CPU.set(cpu);
                assert!(allocator.free(range).is_err(), "{range} freed thrice");
            }
            Step::FreeResized { which, pages } if !model.out.is_empty() => {
                let range = model.out[which.index(model.out.len())];
                // Sizes above 240 pages, up to 1,024, are told apart by 128 pages.
                let told =
                    |pages: u64| if (241..=1024).contains(&pages) { 240 + (pages - 1) / 128 } else { pages };
                if told(pages) != told(range.pages) {
                    assert_eq!(
                        allocator.free(Range { pages, ..range }),
                        Err(FreeError::OtherSize),
                        "{range} as {pages}"
                    );
                }
            }
            Step::EmptyCaches => empty_caches(allocator),
            Step::FreeForeign { first, pages } if !model.out.iter().any(|range| range.first == first) => {
                let freed = allocator.free(Range { first, pages });
                assert_eq!(freed, Err(FreeError::NotAllocated));
            }
            _ => {}
        }
        let usage = allocator.usage();
        let least: u64 = model.out.iter().map(|range| range.pages).sum();
        let most: u64 = model.out.iter().map(|range| taken_up(range).pages).sum();
        assert!((least..=most).contains(&usage.allocated_pages), "{usage:?}, out {least} to {most}");
    }
    for range in model.out.drain(..) {
        CPU.set(range.first as usize % CPUS);
        assert_eq!(allocator.free(range), Ok(()), "{range}");
    }
    let free: u64 = model.space.free_ranges().unwrap().iter().map(|range| range.pages).sum();
    assert_eq!(allocator.usage().free_pages, free);
    // All is free, and nothing keeps it from being one piece again.
    let largest = model.space.free_ranges().unwrap().into_iter().map(|range| match boundary {
        boundary if range.first < boundary && range.last() >= boundary => {
            (boundary - range.first).max(range.last() + 1 - boundary)
        }
        _ => range.pages,
    });
    let largest = largest.max().unwrap_or(0);
    assert!(allocator.allocate(&Request::new(largest, last)).is_ok(), "{largest} pages in one piece");
}

/// Without a check of frees, or with a late one: frees are right, and ranges have the size of their class.
fn check_right_frees(allocator: &dyn Allocator, space: Space, boundary: u64, steps: &[(usize, Step)]) {
    let mut model = Model { space, out: Vec::new(), boundary };
    for (cpu, step) in steps {
        CPU.set(*cpu);
        match step {
            Step::Allocate { pages, order, limit } => {
                let request = request_of(*pages, *order, *limit);
                let pages = taken_up(&request.range(0)).pages;
                let aligned = Request::size_aligned(pages, *limit).alignment_order;
                let alignment_order = request.alignment_order.max(aligned);
                model.allocate(allocator, &request, &Request { pages, alignment_order, ..request });
            }
            Step::Free { which } if !model.out.is_empty() => model.free(allocator, which),
            Step::EmptyCaches => empty_caches(allocator),
            _ => {}
        }
    }
    model.out.drain(..).for_each(|range| assert_eq!(allocator.free(range), Ok(()), "{range}"));
    let usage = allocator.usage();
    let free: u64 = model.space.free_ranges().unwrap().iter().map(|range| range.pages).sum();
    assert_eq!((usage.free_pages, usage.allocated_pages), (free, 0));
}

#[test]
fn an_audit_finds_a_range_that_was_freed_twice() {
    let allocator =
        Percpu::audited(&Space::new(1, 1 << 16), 0, LockedSteps::new(CPUS, || CPU.get())).unwrap();
    let page = Request::new(1, u64::MAX);
    let ranges: Vec<Range> = (0..300).map(|_| page.range(allocator.allocate(&page).unwrap())).collect();
    assert_eq!(allocator.free(ranges[7]), Ok(()));
    let wrong: Vec<FreeError> = ranges.iter().filter_map(|range| allocator.free(*range).err()).collect();
    assert_eq!(wrong, [FreeError::Earlier { first: ranges[7].first }]);
    let mut again: Vec<u64> = (0..300).map(|_| allocator.allocate(&page).unwrap()).collect();
    again.sort_unstable();
    again.dedup();
    assert_eq!(again.len(), 300, "no page is free twice");
}

#[test]
fn an_audit_finds_pages_of_others_and_of_another_size() {
    let allocator =
        Percpu::audited(&Space::new(1, 1 << 16), 0, LockedSteps::new(CPUS, || CPU.get())).unwrap();
    let page = Request::new(1, u64::MAX);
    let ranges: Vec<Range> = (0..200).map(|_| page.range(allocator.allocate(&page).unwrap())).collect();
    assert_eq!(allocator.free(page.range(50_000)), Ok(()), "not yet");
    assert_eq!(allocator.free(page.range(1 << 60)), Err(FreeError::NotAllocated), "outside of the space");
    let wrong: Vec<FreeError> = ranges.iter().filter_map(|range| allocator.free(*range).err()).collect();
    assert_eq!(wrong, [FreeError::Earlier { first: 50_000 }]);
    // Of a size without a class, every free is checked at once.
    assert_eq!(allocator.free(Range { first: 50_000, pages: 2000 }), Err(FreeError::NotAllocated));
}

fn empty_caches(allocator: &dyn Allocator) {
    let before = allocator.usage();
    allocator.empty_caches();
    let after = allocator.usage();
    assert_eq!((after.cached_pages, after.free_pages), (0, before.free_pages));
}

/// A CPU's ranges are everyone's after it is drained, those of others stay where they are, and it may go on.
#[test]
fn a_cpu_is_drained() {
    let cpus = || LockedSteps::new(CPUS, || CPU.get());
    let allocator = Percpu::checked(&Space::new(1, 1 << 16), 1 << 8, cpus()).unwrap();
    let requests = [Request::new(1, u64::MAX), Request::new(4, u64::MAX), Request::new(1, 200)];
    for cpu in 0..CPUS {
        CPU.set(cpu);
        for request in &requests {
            let range = request.range(allocator.allocate(request).unwrap());
            assert_eq!(allocator.free(range), Ok(()));
        }
    }
    let cached_pages = || allocator.usage().cached_pages;
    let before = cached_pages();
    let drained = allocator.drain(1);
    assert!(drained > 0 && cached_pages() > 0);
    assert_eq!(cached_pages(), before - drained);
    assert_eq!((allocator.drain(1), allocator.drain(CPUS)), (0, 0));
    CPU.set(1);
    let range = requests[0].range(allocator.allocate(&requests[0]).unwrap());
    assert_eq!(allocator.free(range), Ok(()));
    assert!(allocator.drain(1) > 0);
    assert_eq!(allocator.usage().free_pages, 1 << 16);
}

fn cases() -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() }
}

/// Ranges above a limit in a CPU's stack don't lead to the low zone, which others need.
#[test]
fn low_pages_are_left_while_there_are_others_below_the_limit() {
    let (last, boundary, limit) = (1 << 20, 1024, 3000);
    let allocator =
        Percpu::checked(&Space::new(1, last), boundary, LockedSteps::new(CPUS, || CPU.get())).unwrap();
    let page = Request::new(1, last);
    let firsts: Vec<u64> = (0..5000).map(|_| allocator.allocate(&page).unwrap()).collect();
    let (low, high): (Vec<u64>, Vec<u64>) = firsts.into_iter().partition(|first| *first <= limit);
    low.into_iter().for_each(|first| allocator.free(page.range(first)).unwrap());
    // Empties all stacks into the trees.
    assert!(allocator.allocate(&Request::new(last - 1, last)).is_err());
    high.into_iter().for_each(|first| allocator.free(page.range(first)).unwrap());
    for _ in 0..900 {
        let first = allocator.allocate(&Request::new(1, limit)).unwrap();
        assert!((boundary..=limit).contains(&first), "{first}");
    }
}

/// A range that is freed twice, which nothing checks, leads to wrong ranges, but not to a crash.
#[test]
fn a_range_that_was_freed_twice_does_not_break_the_tree() {
    let allocator =
        Percpu::trusting(&Space::new(1, 1 << 16), 0, LockedSteps::new(CPUS, || CPU.get())).unwrap();
    let page = Request::new(1, u64::MAX);
    let collect = || assert!(allocator.allocate(&Request::new(1 << 16, u64::MAX)).is_err());
    let pages: Vec<u64> = (0..8).map(|_| allocator.allocate(&page).unwrap()).collect();
    for first in [pages[2], pages[2], pages[3]] {
        assert_eq!(allocator.free(page.range(first)), Ok(()));
        collect();
    }
    for pages in [1, 2, 2, 3, 1] {
        assert!(allocator.allocate(&Request::new(pages, u64::MAX)).is_ok());
        collect();
    }
}

/// What lies far above all else costs no memory for what is between.
#[test]
#[cfg_attr(miri, ignore = "takes it minutes")]
fn a_range_far_above_all_others() {
    let allocator =
        Percpu::checked(&Space::new(1, PAGE_MAX), 1 << 20, Sharded::new(CPUS, || CPU.get())).unwrap();
    let far = Request { alignment_order: 51, ..Request::new(1, PAGE_MAX) };
    let large = Request::new(1 << 50, PAGE_MAX);
    let ranges = [far, large, Request::new(1, PAGE_MAX)]
        .map(|request| request.range(allocator.allocate(&request).unwrap()));
    assert_eq!(ranges.map(|range| range.first), [1 << 51, 1 << 20, (1 << 50) + (1 << 20)]);
    assert!(allocator.usage().memory_bytes < 1 << 24, "{:?}", allocator.usage());
    for range in ranges {
        let resized = Range { pages: range.pages + 1, ..range };
        assert_eq!(allocator.free(resized), Err(FreeError::OtherSize));
        assert_eq!(allocator.free(range), Ok(()));
        assert_eq!(allocator.free(range), Err(FreeError::NotAllocated));
    }
}

/// Little of what was freed is kept, and what is kept is found when all is needed.
#[test]
#[cfg_attr(miri, ignore = "takes it minutes")]
fn cached_pages_are_bounded_and_not_lost() {
    let last = 1 << 16;
    let allocator = Percpu::checked(&Space::new(1, last), 0, Sharded::new(CPUS, || CPU.get())).unwrap();
    let page = Request::new(1, last);
    let firsts: Vec<u64> = (0..4000).map(|_| allocator.allocate(&page).unwrap()).collect();
    firsts.into_iter().for_each(|first| allocator.free(page.range(first)).unwrap());
    // At most a 64th of the space in the depot, in whole batches, and a stack of 126.
    let cached_pages = allocator.usage().cached_pages;
    assert!((900..=1024 + 126).contains(&cached_pages), "{cached_pages}");
    assert_eq!(allocator.allocate(&Request::new(last, last)), Ok(1));
}

thread_local! {
    /// Called once, before the next stack is closed.
    static BEFORE_CLOSE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    /// Pops and pushes that were done in one step.
    static STEPS_DONE: Cell<usize> = const { Cell::new(0) };
}

/// Steps that are counted, of CPUs of which some may not be.
struct Watched {
    steps: LockedSteps,
    count: usize,
}

impl Watched {
    fn new(cpus: usize, count: usize) -> Self {
        Self { steps: LockedSteps::new(cpus, || CPU.get()), count }
    }
}

// SAFETY: all steps are those of another implementation.
#[allow(unsafe_code, reason = "the trait of per-CPU steps is unsafe")]
unsafe impl Cpus for Watched {
    fn count(&self) -> usize {
        self.count
    }

    fn current(&self) -> usize {
        self.steps.current()
    }

    fn pop(&self, slabs: &Slabs, number: usize, more: u64, limit: u64) -> Option<u64> {
        let popped = self.steps.pop(slabs, number, more, limit);
        STEPS_DONE.set(STEPS_DONE.get() + usize::from(popped.is_some()));
        popped
    }

    fn push(&self, slabs: &Slabs, number: usize, capacity: u64, page: u64) -> bool {
        let is_done = self.steps.push(slabs, number, capacity, page);
        STEPS_DONE.set(STEPS_DONE.get() + usize::from(is_done));
        is_done
    }

    fn close(&self, cpu: usize, count: &AtomicU64) -> Option<u64> {
        if let Some(call) = BEFORE_CLOSE.take() {
            call();
        }
        self.steps.close(cpu, count)
    }

    fn fence(&self, cpu: usize) {
        self.steps.fence(cpu);
    }
}

/// Of ranges as large as their class and smaller, up to a limit that they reach exactly.
#[test]
fn ranges_that_were_freed_are_allocated_in_one_step_each() {
    for pages in 1..=8 {
        CPU.set(0);
        let allocator = Percpu::checked(&Space::new(1, 1 << 16), 0, Watched::new(1, 1)).unwrap();
        let first = allocator.allocate(&Request::size_aligned(pages, PAGE_MAX)).unwrap();
        let range = Range { first, pages };
        let request = Request::size_aligned(pages, range.last());
        for _ in 0..10 {
            let before = STEPS_DONE.get();
            assert_eq!(allocator.free(range), Ok(()));
            assert_eq!(allocator.allocate(&request), Ok(first));
            assert_eq!(STEPS_DONE.get() - before, 2, "{range}");
        }
    }
}

#[test]
fn on_a_cpu_that_was_not_counted() {
    for (count, allocates, frees) in [(0, 0, 0), (1, 1, 1), (2, 9, 0), (2, 0, 9)] {
        let allocator = Percpu::checked(&Space::new(1, 300), 100, Watched::new(10, count)).unwrap();
        let three = Request::new(3, PAGE_MAX);
        CPU.set(allocates);
        let firsts: Vec<u64> = core::iter::from_fn(|| allocator.allocate(&three).ok()).collect();
        assert!(firsts.len() >= 24 + 50, "{} on {allocates} of {count}", firsts.len());
        CPU.set(frees);
        for first in firsts {
            assert_eq!(allocator.free(three.range(first)), Ok(()));
            assert_eq!(allocator.free(three.range(first)), Err(FreeError::NotAllocated));
        }
        assert!(allocator.allocate(&Request::new(201, PAGE_MAX)).is_ok());
    }
}

/// What is freed behind the back of a collection is collected by the next one.
#[test]
fn a_page_freed_during_a_collection_is_found() {
    let allocator = Arc::new(Percpu::checked(&Space::new(1, 6), 0, Watched::new(2, 2)).unwrap());
    let page = Request::new(1, 6);
    CPU.set(1);
    let mut firsts: Vec<u64> = core::iter::from_fn(|| allocator.allocate(&page).ok()).collect();
    assert_eq!(firsts.len(), 6);
    let last = page.range(firsts.pop().unwrap());
    firsts.into_iter().for_each(|first| allocator.free(page.range(first)).unwrap());
    // While the stack of CPU 1 is collected, a page goes to that of CPU 0, which was found empty.
    let other = Arc::clone(&allocator);
    BEFORE_CLOSE.set(Some(Box::new(move || {
        CPU.set(0);
        other.free(last).unwrap();
        CPU.set(1);
    })));
    assert_eq!(allocator.allocate(&Request::new(6, 6)), Ok(1));
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_small_space_that_is_often_full(steps in prop::collection::vec((0..CPUS, step(300, 128)), 1..STEPS_MAX)) {
        check(300, 128, vec![Range { first: 200, pages: 7 }], &steps);
    }

    #[test]
    fn a_space_cut_anywhere(
        (boundary, steps) in prop_oneof![Just(1), Just(300), 0_u64..303].prop_flat_map(|boundary| {
            (Just(boundary), prop::collection::vec((0..CPUS, step(300, boundary)), 1..STEPS_MAX / 4))
        })
    ) {
        check(300, boundary, vec![Range { first: 200, pages: 7 }], &steps);
    }

    #[test]
    fn a_space_with_ranges_of_all_classes(steps in prop::collection::vec((0..CPUS, step(1 << 16, 0)), 1..STEPS_MAX / 2)) {
        check(1 << 16, 0, vec![Range { first: 5000, pages: 1 }], &steps);
    }
}

/// As documented: where frees are not checked, a range that is freed goes to the stack of its class, so it has all that the class
/// promises.
#[test]
fn unchecked_sizes_are_aligned_to_their_class() {
    let (space, request) = (Space::new(1, 4), Request::new(4, 4));
    let cpus = || Sharded::new(1, || 0);
    assert_eq!(Percpu::checked(&space, 0, cpus()).unwrap().allocate(&request), Ok(1));
    let full = Err(iova::AllocateError::Full);
    assert_eq!(Percpu::audited(&space, 0, cpus()).unwrap().allocate(&request), full);
    assert_eq!(Percpu::trusting(&space, 0, cpus()).unwrap().allocate(&request), full);
}

#[test]
fn pages_that_no_space_has_are_believed_and_break_nothing() {
    for first in [u64::MAX, u64::MAX - 1, 1 << 60] {
        for pages in [1, 2, 1024] {
            let addresses = Percpu::trusting(&Space::new(1, 1 << 20), 0, Sharded::new(1, || 0)).unwrap();
            addresses.free(Range { first, pages }).unwrap();
            addresses.empty_caches();
            assert!(
                addresses.allocate(&Request::new(1, 99)).is_ok_and(|page| page <= 99),
                "{first:#x}, {pages}"
            );
            addresses.usage();
        }
    }
}
