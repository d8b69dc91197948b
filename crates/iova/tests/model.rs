//! Every allocator against a model that knows each page: what it hands out, what it refuses, and what it says of itself.
//!
//! `PROPTEST_CASES=100000 cargo test --release -p iova --test model` for a long run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use iova::{
    AllocateError, Allocator, BitTree, Bitmap, Depot, FreeError, GapTree, Magazines, Pools, Range, Rbtree,
    Request, Space,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;

/// The last page of the 32-bit bus for the allocators that treat it apart.
const PAGE_32BIT: u64 = 300;

#[test]
fn bit_tree() {
    check(BitTree::new, EXACT);
}

#[test]
fn bitmap() {
    check(Bitmap::new, Contract { finds: in_halves, ..EXACT });
}

#[test]
fn gap_tree() {
    check(GapTree::new, EXACT);
}

#[test]
fn pools() {
    check(|space| Pools::new(space, 1 << 30, cpu), Contract { finds: in_pools, ..EXACT });
}

#[test]
fn rbtree() {
    check(|space| Rbtree::new(space, PAGE_32BIT), Contract { finds: above_the_lowest_page, ..EXACT });
}

#[test]
fn magazines_of_6_1() {
    let build = |space: &Space| Magazines::new(space, PAGE_32BIT, 3, cpu, Depot::Bounded);
    check(build, Contract { takes: powers_of_two, finds: above_4_gib });
}

#[test]
fn magazines_of_6_12() {
    let build = |space: &Space| Magazines::new(space, PAGE_32BIT, 3, cpu, Depot::Unbounded);
    check(build, Contract { takes: powers_of_two, finds: above_4_gib });
}

/// What an allocator promises beyond what all do: not to fail as long as ...
struct Contract {
    /// ... what it makes of a request ...
    takes: fn(&Request) -> Request,
    /// ... would fit into one of these stretches. The limit need not be regarded.
    finds: fn(&Space, &Request) -> Vec<Range>,
}

/// It finds whatever fits.
const EXACT: Contract = Contract { takes: |request| *request, finds: |space, _| vec![whole(space)] };

fn whole(space: &Space) -> Range {
    Range::between(space.first, space.last)
}

/// Entries `from..end` but for the last, nor that of the limit.
fn entries(space: &Space, request: &Request, from: u64, end: u64) -> Option<Range> {
    let (first, after) = (space.first + from, (space.first + end).saturating_sub(1).min(request.limit));
    (first < after).then(|| Range::between(first, after - 1))
}

/// Small requests in either half of the table, others and those with a limit within the table anywhere.
fn in_halves(space: &Space, request: &Request) -> Vec<Range> {
    let (end, half) = (space.pages(), space.pages() / 2);
    let bounds = match request.pages > 15 || request.limit <= space.last {
        true => vec![(0, end)],
        false => vec![(0, half), (half, end)],
    };
    bounds.into_iter().filter_map(|(from, end)| entries(space, request, from, end)).collect()
}

/// In one of four pools or the large one, but not on page 0.
fn in_pools(space: &Space, request: &Request) -> Vec<Range> {
    let pool = space.pages() * 3 / 4 / 4;
    let small = (0..4).map(|index| (index * pool, (index + 1) * pool));
    let bounds = small.chain([(4 * pool, space.pages())]);
    let lowest = 1_u64.saturating_sub(space.first);
    bounds.filter_map(|(from, end)| entries(space, request, from.max(lowest), end)).collect()
}

/// Anywhere but on the lowest page; nothing for the 32-bit limit, for which it passes gaps by.
fn above_the_lowest_page(space: &Space, request: &Request) -> Vec<Range> {
    let free = space.free_ranges().unwrap();
    match free.first() {
        Some(lowest) if request.limit.min(space.last) != PAGE_32BIT && lowest.first < space.last => {
            vec![Range::between(lowest.first + 1, space.last)]
        }
        _ => Vec::new(),
    }
}

/// Nothing for limits below 4 GiB, where one failure makes others fail.
fn above_4_gib(space: &Space, request: &Request) -> Vec<Range> {
    if request.limit.min(space.last) > PAGE_32BIT { vec![whole(space)] } else { Vec::new() }
}

/// Up to 32 pages are rounded up to a power of two, and aligned to it.
fn powers_of_two(request: &Request) -> Request {
    match request.pages {
        pages @ ..=32 => {
            let pages = pages.next_power_of_two();
            Request { pages, alignment_order: request.alignment_order.max(pages.ilog2()), ..*request }
        }
        _ => *request,
    }
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

fn cpu() -> u32 {
    CPU.get()
}

#[derive(Debug, Clone)]
enum Operation {
    Allocate(Request),
    /// Frees the range that was handed out as the so-manieth of all, whether or not it is still out.
    Free(usize),
    /// The same, with another size.
    FreeResized(usize, u64),
    /// Frees what may never have been handed out.
    FreeForeign(Range),
}

/// Allocates and frees on CPUs of random number in random spaces, and compares with a model.
fn check<A: Allocator, E: std::fmt::Debug>(build: impl Fn(&Space) -> Result<A, E>, contract: Contract) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(space in spaces(), operations in vec(operations(), 1..400))| {
        let allocator = build(&space).unwrap();
        let mut model = Model::new(&space, &contract, allocator.usage().free_pages);
        for (index, (operation, cpu)) in operations.iter().enumerate() {
            CPU.set(*cpu);
            model.apply(&allocator, operation);
            if index % 16 == 0 {
                model.compare(&allocator);
            }
        }
        model.free_all(&allocator);
        model.compare(&allocator);
    });
}

fn spaces() -> impl Strategy<Value = Space> {
    let reserved = (0..900_u64, 0..60_u64).prop_map(|(first, pages)| Range { first, pages });
    (0..80_u64, 1..700_u64, vec(reserved, 0..4)).prop_map(|(first, pages, reserved)| Space {
        first,
        last: first + pages - 1,
        reserved,
    })
}

/// An operation and the CPU that does it.
fn operations() -> impl Strategy<Value = (Operation, u32)> {
    any::<u64>().prop_map(|number| {
        let mut dice = Dice(number);
        let cpu = dice.below(4) as u32;
        (dice.operation(), cpu)
    })
}

/// One random number, to be taken apart: strategies of strategies take ten times as long to make an operation as the
/// allocators to do it.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        let number = self.0 % end;
        self.0 /= end;
        number
    }

    fn operation(&mut self) -> Operation {
        match self.below(20) {
            0..10 => Operation::Allocate(self.request()),
            10..18 => Operation::Free(self.0 as usize),
            18 => Operation::FreeResized(self.below(1 << 20) as usize, self.below(40)),
            _ => Operation::FreeForeign(Range { first: self.foreign(800), pages: self.foreign(40) }),
        }
    }

    fn foreign(&mut self, end: u64) -> u64 {
        if self.below(9) == 0 { u64::MAX } else { self.below(end) }
    }

    fn request(&mut self) -> Request {
        let pages = match self.below(30) {
            0..20 => 1 + self.below(8),
            20..26 => 9 + self.below(31),
            26..28 => 40 + self.below(260),
            28 => 0,
            _ => u64::MAX >> self.below(24),
        };
        let limit = match self.below(16) {
            0..8 => u64::MAX,
            8..12 => PAGE_32BIT,
            _ => self.below(800),
        };
        let aligned = |alignment_order| Request { alignment_order, ..Request::new(pages, limit) };
        match self.below(16) {
            0..8 => Request::size_aligned(pages, limit),
            8..12 => Request::new(pages, limit),
            12..15 => aligned(self.below(8) as u32),
            _ => aligned([63, 64, u32::MAX][self.below(3) as usize]),
        }
    }
}

/// What must be so.
struct Model<'a> {
    space: &'a Space,
    contract: &'a Contract,
    /// What could be handed out at first.
    free_pages: u64,
    /// By page of the space: whether it may not be handed out now.
    taken: Vec<bool>,
    /// By first page: what is out, and how much the allocator took for it.
    out: BTreeMap<u64, (Range, u64)>,
    /// All that was ever handed out.
    history: Vec<Range>,
}

impl<'a> Model<'a> {
    fn new(space: &'a Space, contract: &'a Contract, free_pages: u64) -> Self {
        let free = space.free_ranges().unwrap();
        let is_free = |page| free.iter().any(|range| range.overlaps(&Range { first: page, pages: 1 }));
        let taken: Vec<bool> = (space.first..=space.last).map(|page| !is_free(page)).collect();
        assert!(free_pages <= taken.iter().filter(|taken| !**taken).count() as u64);
        Self { space, contract, free_pages, taken, out: BTreeMap::new(), history: Vec::new() }
    }

    fn apply(&mut self, allocator: &impl Allocator, operation: &Operation) {
        let of_history =
            |index: usize| (!self.history.is_empty()).then(|| self.history[index % self.history.len()]);
        match *operation {
            Operation::Allocate(request) => self.allocate(allocator, &request),
            Operation::FreeForeign(range) => self.free(allocator, range),
            Operation::Free(index) => {
                if let Some(range) = of_history(index) {
                    self.free(allocator, range);
                }
            }
            Operation::FreeResized(index, pages) => {
                if let Some(range) = of_history(index) {
                    self.free(allocator, Range { pages, ..range });
                }
            }
        }
    }

    fn allocate(&mut self, allocator: &impl Allocator, request: &Request) {
        let answer = allocator.allocate(request);
        if request.pages == 0 || request.alignment_order > 63 {
            assert_eq!(answer, Err(AllocateError::InvalidRequest));
            return;
        }
        match answer {
            Ok(first) => self.take(request, request.range(first)),
            Err(error) => {
                assert_eq!(error, AllocateError::Full);
                assert_eq!(self.fit(request), None, "{request:?} was refused");
            }
        }
    }

    fn take(&mut self, request: &Request, range: Range) {
        assert_eq!(range.first % request.alignment_pages(), 0, "{range} for {request:?}");
        let took = Range { pages: (self.contract.takes)(request).pages, ..range };
        assert!(
            range.first >= self.space.first && took.last() <= self.space.last.min(request.limit),
            "{range} for {request:?}"
        );
        let pages = self.pages(took);
        assert!(
            self.taken[pages.clone()].iter().all(|taken| !taken),
            "{range} overlaps what is out or reserved"
        );
        self.taken[pages].fill(true);
        self.out.insert(range.first, (range, took.pages));
        self.history.push(range);
    }

    fn free(&mut self, allocator: &impl Allocator, range: Range) {
        let first = range.first;
        let expected = match self.out.get(&first) {
            None => Err(FreeError::NotAllocated),
            Some((out, _)) if *out != range => Err(FreeError::OtherSize),
            Some(_) => Ok(()),
        };
        assert_eq!(allocator.free(range), expected, "{range}");
        if expected.is_ok() {
            self.forget(first);
        }
    }

    fn forget(&mut self, first: u64) {
        if let Some((_, pages)) = self.out.remove(&first) {
            let pages = self.pages(Range { first, pages });
            self.taken[pages].fill(false);
        }
    }

    fn free_all(&mut self, allocator: &impl Allocator) {
        while let Some((_, &(range, _))) = self.out.first_key_value() {
            self.free(allocator, range);
        }
    }

    fn pages(&self, range: Range) -> std::ops::Range<usize> {
        let first = (range.first - self.space.first) as usize;
        first..first + range.pages as usize
    }

    /// A range that the allocator is bound to find, by trying all.
    fn fit(&self, request: &Request) -> Option<Range> {
        let takes = (self.contract.takes)(request);
        let fits = |range: &Range| {
            range.first % takes.alignment_pages() == 0
                && self.taken[self.pages(*range)].iter().all(|taken| !taken)
        };
        let within = |stretch: Range| {
            let last = stretch.last().min(request.limit);
            let end = (last + 1).checked_sub(takes.pages).map_or(0, |highest| highest + 1);
            (stretch.first..end).map(|first| Range { first, pages: takes.pages }).find(fits)
        };
        (self.contract.finds)(self.space, request).into_iter().find_map(within)
    }

    fn compare(&self, allocator: &impl Allocator) {
        let usage = allocator.usage();
        let pages: u64 = self.out.values().map(|(range, _)| range.pages).sum();
        let took: u64 = self.out.values().map(|(_, took)| took).sum();
        assert_eq!(usage.allocated_pages, pages);
        assert_eq!(usage.free_pages, self.free_pages - took, "nothing is lost: {usage:?}");
        assert!(usage.cached_pages <= usage.free_pages, "{usage:?}");
        let runs = self.taken.split(|taken| *taken).map(|run| run.len() as u64);
        assert!(usage.largest_free_pages <= runs.max().unwrap_or(0), "{usage:?}");
        let uncached = usage.free_pages - usage.cached_pages;
        assert!(
            usage.largest_free_pages * usage.free_ranges >= uncached && usage.free_ranges <= uncached,
            "{usage:?}"
        );
    }
}
