#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use super::*;
use crate::translation::{MapError, UnmapError};
use iova::{AllocateError, FreeError, Usage};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;
/// Begins in the second half of a page that is neither 0 nor 1.
const BUFFER: Element = Element { memory: MemoryAddress(7 * PAGE + 3000), bytes: 2 * PAGE };

/// The requests that an allocator received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReceivedRequest {
    Anywhere(Request),
    LowFirst(Request, u64),
}

/// Allocates pages from 16 on, and records the requests.
#[derive(Debug)]
struct Recording {
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    next: AtomicU64,
}

impl Recording {
    fn allocate_and_record(&self, asked: ReceivedRequest, request: &Request) -> Result<u64, AllocateError> {
        self.asked.lock().unwrap().push(asked);
        Ok(self.next.fetch_add(request.pages, Ordering::Relaxed))
    }
}

impl Allocator for Recording {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        self.allocate_and_record(ReceivedRequest::Anywhere(*request), request)
    }

    fn allocate_low_first(&self, request: &Request, low: u64) -> Result<u64, AllocateError> {
        self.allocate_and_record(ReceivedRequest::LowFirst(*request, low), request)
    }

    fn free(&self, _range: Range) -> Result<(), FreeError> {
        Ok(())
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        usage.allocated_pages = 3;
        usage
    }
}

/// A table that takes everything.
struct AnyTable(Window);

impl Translation for AnyTable {
    fn window(&self) -> &Window {
        &self.0
    }

    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        _access: Access,
        _counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        self.0.check(at, memory, bytes)
    }

    fn unmap(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) -> Result<(), UnmapError> {
        Ok(())
    }

    fn invalidate(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) {}

    fn invalidate_all(&self, _counters: &mut DmaCounters) {}

    fn find(&self, _at: BusAddress) -> Option<MemoryAddress> {
        None
    }
}

/// A table that maps once, and counts invalidations.
struct MapsOnce {
    table: AnyTable,
    mappings: AtomicU64,
    invalidations: AtomicU64,
    unmap_invalidates: bool,
}

impl Translation for MapsOnce {
    fn window(&self) -> &Window {
        self.table.window()
    }

    fn map(
        &self,
        at: BusAddress,
        _memory: MemoryAddress,
        _bytes: u64,
        _access: Access,
        _counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        match self.mappings.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(MapError::Mapped { at }),
        }
    }

    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        self.table.unmap(at, bytes, counters)
    }

    fn invalidate(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) {
        self.invalidations.fetch_add(1, Ordering::Relaxed);
    }

    fn invalidate_all(&self, _counters: &mut DmaCounters) {
        self.invalidations.fetch_add(1, Ordering::Relaxed);
    }

    fn unmap_invalidates(&self) -> bool {
        self.unmap_invalidates
    }

    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        self.table.find(at)
    }
}

#[test]
fn a_list_that_fails_is_invalidated_as_if_it_were_unmapped() {
    for (unmap_invalidates, is_lazy, at_once, in_all) in
        [(false, false, 1, 1), (false, true, 0, 1), (true, false, 0, 0)]
    {
        let translation = Arc::new(MapsOnce {
            table: AnyTable(window()),
            mappings: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
            unmap_invalidates,
        });
        let builder = Domain::builder(Arc::clone(&translation) as Arc<dyn Translation>);
        let builder = if is_lazy { builder.flush_queue(FlushQueue::new(1, || 0)) } else { builder };
        let (domain, mut counters) = (builder.assemble().unwrap(), DmaCounters::default());
        let invalidations = || translation.invalidations.load(Ordering::Relaxed);
        let failed = domain.map_list(&[BUFFER, BUFFER], Access::Write, &Limits::of_bits(48), &mut counters);
        assert!(matches!(failed, Err(DmaError::Map(MapError::Mapped { .. }))), "{failed:?}");
        assert_eq!(invalidations(), at_once);
        domain.flush(&mut counters);
        assert_eq!(invalidations(), in_all);
        assert_eq!((counters.mappings, counters.unmappings), (1, 1));
        assert_eq!((counters.allocations, counters.frees), (1, 1));
        assert_eq!(domain.usage().allocated_pages, 0);
    }
}

/// All addresses, in pages of 4 KiB.
fn window() -> Window {
    Window { first: BusAddress(0), last: BusAddress(u64::MAX), granule_bytes: PAGE, reserved: Vec::new() }
}

/// A domain, and the requests that its allocator received.
fn domain() -> (Domain, Arc<Mutex<Vec<ReceivedRequest>>>) {
    domain_with(|builder| builder)
}

/// The same with something chosen.
fn domain_with(
    choose: impl FnOnce(DomainBuilder) -> DomainBuilder,
) -> (Domain, Arc<Mutex<Vec<ReceivedRequest>>>) {
    let asked = Arc::new(Mutex::default());
    let recording = Recording { asked: Arc::clone(&asked), next: AtomicU64::new(16) };
    let builder = Domain::builder(Arc::new(AnyTable(window()))).allocator(|_| Ok(Box::new(recording)));
    (choose(builder).assemble().unwrap(), asked)
}

#[test]
fn addresses_below_4_gib_are_requested_first() {
    let (domain, asked) = domain();
    let mut counters = DmaCounters::default();
    let at = domain.map(BUFFER, Access::Write, (1 << 40) - 1, &mut counters).unwrap();
    // Three pages, of which the buffer begins 3000 bytes into the first; aligned to four; in memory from page 7 on.
    let request = Request { memory: 7, ..Request::size_aligned(3, (1 << 28) - 1) };
    assert_eq!(*asked.lock().unwrap(), [ReceivedRequest::LowFirst(request, (1 << 20) - 1)]);
    assert_eq!((at, counters.allocations, counters.mappings), (BusAddress(16 * PAGE + 3000), 1, 1));
    domain.map(BUFFER, Access::Write, (1 << 40) - 1, &mut counters).unwrap();
    assert_eq!(counters.allocations, 2);
    assert_eq!(domain.usage().allocated_pages, 3, "the allocator's word");
}

#[test]
fn any_addresses_are_requested_without_a_preference() {
    let (domain, asked) = domain_with(DomainBuilder::any_addresses);
    domain.map(BUFFER, Access::Write, u64::MAX, &mut DmaCounters::default()).unwrap();
    assert!(matches!(asked.lock().unwrap()[..], [ReceivedRequest::Anywhere(_)]));
}

#[test]
fn a_list_gets_one_range_or_one_for_each_element() {
    let limits = Limits::of_bits(48);
    for (lists, ranges) in [(ListRanges::One, 1), (ListRanges::Each, 2)] {
        let (domain, asked) = domain_with(|builder| builder.lists(lists));
        domain.map_list(&[BUFFER, BUFFER], Access::Write, &limits, &mut DmaCounters::default()).unwrap();
        assert_eq!(asked.lock().unwrap().len(), ranges, "{lists:?}");
    }
}

#[test]
fn pages_around_a_buffer() {
    let around = |memory: u64, bytes: u64| {
        let pages = Pages::around(Element { memory: MemoryAddress(memory), bytes }, PAGE);
        pages.map(|pages| (pages.offset, pages.bytes))
    };
    assert_eq!(around(100, 3996), Some((100, PAGE)));
    assert_eq!(around(100, 3997), Some((100, 2 * PAGE)));
    assert_eq!((around(100, 0), around(0, 0)), (None, None), "nothing is no buffer");
    // The last page of all, up to its last byte and beyond.
    assert_eq!(around(u64::MAX - PAGE + 1 + 100, PAGE - 100), Some((100, PAGE)));
    assert_eq!(around(u64::MAX - PAGE + 1 + 100, PAGE - 99), None);
}

#[test]
fn a_list_has_a_hole_only_where_an_element_would_cross_a_boundary() {
    let mut layout = Layout { places: Vec::new(), bytes: 0 };
    let mut add = |pages: u64| {
        layout.add(Pages { offset: 0, bytes: pages * PAGE }, 16 * PAGE - 1).unwrap();
        layout.bytes / PAGE
    };
    assert_eq!(add(14), 14);
    assert_eq!(add(2), 16, "it ends at the boundary");
    assert_eq!(add(15), 31);
    assert_eq!(add(2), 34, "it begins at the boundary, after a hole of one page");
}

#[test]
fn a_list_larger_than_all_addresses_is_not_mapped() {
    let limits = Limits::of_bits(64);
    let half = Element { memory: MemoryAddress(0), bytes: 1 << 63 };
    for lists in [ListRanges::One, ListRanges::Each] {
        let (domain, _) = domain_with(|builder| builder.lists(lists));
        let mapped = domain.map_list(&[half, half], Access::Write, &limits, &mut DmaCounters::default());
        assert!(matches!(mapped, Err(DmaError::NoAddresses { .. } | DmaError::Map(_))), "{lists:?}");
    }
}

/// Without a translation nothing allocates addresses, so both elements are mapped.
#[test]
fn elements_of_a_segment_are_counted_though_their_sum_is_no_number() {
    let halves = [Element { memory: MemoryAddress(0), bytes: 1 << 63 }; 2];
    assert_eq!(Segment { at: BusAddress(0), bytes: 1 << 63 }.elements(&halves), 1);
}

#[test]
fn segments_of_another_list_are_not_unmapped() {
    let (limits, mut counters) = (Limits::of_bits(64), DmaCounters::default());
    for (lists, at) in [(ListRanges::One, 0), (ListRanges::Each, u64::MAX)] {
        let (domain, _) = domain_with(|builder| builder.lists(lists));
        let segment = Segment { at: BusAddress(at), bytes: 2 };
        let elements = [Element { memory: MemoryAddress(5), bytes: 1 }, BUFFER];
        let _ = domain.unmap_list(&elements, &[segment], &limits, &mut counters);
    }
}

#[test]
fn pages_have_a_size_that_is_a_power_of_two() {
    for granule_bytes in [0, 5000] {
        let (first, last) = (BusAddress(0), BusAddress(u64::MAX));
        let table = AnyTable(Window { first, last, granule_bytes, reserved: Vec::new() });
        let memory = MemoryAddress(0);
        let mapped = table.map(first, memory, PAGE, Access::Read, &mut DmaCounters::default());
        assert!(matches!(mapped, Err(MapError::Unaligned { .. })));
        let built = Domain::builder(Arc::new(table)).build();
        assert!(matches!(built, Err(builder::BuildError::Granule { .. })), "{granule_bytes}");
    }
}
