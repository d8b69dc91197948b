//! Calls that fail leave nothing behind.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Bounce, Bouncing, BusAddress, Direction, DmaCounters, DmaError, Domain, Element, Frames, Iotlb, Limits,
    ListRanges, Mapper, Memory, MemoryAddress, NoMemory, Pool, Ram, SoftwareDomain, Unit, Vtd,
};
use iova::{AllocateError, Allocator, FreeError, GapTree, Range, Request, Usage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Bounce buffers and coherent memory; tables of the IOMMU are below, buffers above.
const BOUNCE: MemoryAddress = MemoryAddress(2 * MIB);
const COHERENT: MemoryAddress = MemoryAddress(3 * MIB);
const BUFFER: MemoryAddress = MemoryAddress(4 * MIB);

/// Memory that is gone when it is told so.
struct Failing {
    ram: Arc<Ram>,
    fails: AtomicBool,
}

impl Failing {
    fn new() -> Arc<Self> {
        Arc::new(Self { ram: Arc::new(Ram::new(MemoryAddress(0), 8 * MIB)), fails: AtomicBool::new(false) })
    }

    fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    fn check(&self, at: MemoryAddress, bytes: u64) -> Result<(), NoMemory> {
        if self.fails.load(Ordering::Relaxed) { Err(NoMemory { at, bytes }) } else { Ok(()) }
    }
}

impl Memory for Failing {
    fn copy(&self, from: MemoryAddress, to: MemoryAddress, bytes: u64) -> Result<(), NoMemory> {
        self.check(from, bytes)?;
        self.ram.copy(from, to, bytes)
    }

    fn zero(&self, at: MemoryAddress, bytes: u64) -> Result<(), NoMemory> {
        self.check(at, bytes)?;
        self.ram.zero(at, bytes)
    }
}

/// An allocator that frees nothing.
#[derive(Debug)]
struct Keeping(GapTree);

impl Allocator for Keeping {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        self.0.allocate(request)
    }

    fn free(&self, _range: Range) -> Result<(), FreeError> {
        Err(FreeError::NotAllocated)
    }

    fn usage(&self) -> Usage {
        self.0.usage()
    }
}

/// A domain whose addresses can't be freed.
fn keeping_domain(ram: &Arc<Ram>, lists: ListRanges) -> Arc<Domain> {
    let unit = Arc::new(Unit::new(Arc::clone(ram), Iotlb::new(16, 4)));
    let frames = Arc::new(Frames::new(MemoryAddress(0), 2 * MIB));
    let table: SoftwareDomain<Vtd> = SoftwareDomain::new(unit, frames, 4).unwrap();
    let builder = Domain::builder(Arc::new(table)).lists(lists);
    builder.allocator(|space| Ok(Box::new(Keeping(GapTree::new(space)?)))).build().unwrap()
}

fn bounce(memory: &Arc<Failing>) -> Arc<Bounce> {
    Arc::new(Bounce::new(Arc::clone(memory) as Arc<dyn Memory>, BOUNCE, MIB, 1, || 0))
}

fn pool(memory: &Arc<Failing>) -> Arc<Pool> {
    Arc::new(Pool::new(Arc::clone(memory) as Arc<dyn Memory>, COHERENT, PAGE).unwrap())
}

fn list() -> [Element; 2] {
    [0, 8].map(|page| Element { memory: MemoryAddress(BUFFER.0 + page * PAGE), bytes: PAGE })
}

#[test]
fn a_bounce_buffer_is_freed_although_its_copy_back_fails() {
    let memory = Failing::new();
    let bounce = bounce(&memory);
    let mapper = Mapper::direct(Limits::of_bits(64), 0).with_debug(true);
    let mapper = mapper.with_bounce(Arc::clone(&bounce), Bouncing::Always);
    let mut counters = DmaCounters::default();
    let at = mapper.map(BUFFER, PAGE, Direction::FromDevice, &mut counters).unwrap();
    let segments = mapper.map_list(&list(), Direction::FromDevice, &mut counters).unwrap();
    assert_eq!((bounce.slots_used(), counters.bounce_bytes), (6, 3 * PAGE));
    memory.fail(true);
    let lost = mapper.unmap(at, PAGE, Direction::FromDevice, &mut counters);
    assert!(matches!(lost, Err(DmaError::NoMemory(_))), "{lost:?}");
    assert_eq!(bounce.slots_used(), 4);
    let lost = mapper.unmap_list(&list(), &segments, Direction::FromDevice, &mut counters);
    assert!(matches!(lost, Err(DmaError::NoMemory(_))), "{lost:?}");
    assert_eq!((bounce.slots_used(), counters.bounce_bytes), (0, 3 * PAGE));
    assert_eq!((counters.mappings, counters.unmappings), (3, 3));
    mapper.close().unwrap();
}

#[test]
fn pages_that_can_t_be_zeroed_stay_in_their_pool() {
    let memory = Failing::new();
    let mapper = Mapper::direct(Limits::of_bits(64), 0).with_coherent(pool(&memory));
    let mut counters = DmaCounters::default();
    memory.fail(true);
    let none = mapper.allocate_coherent(PAGE, &mut counters);
    assert!(matches!(none, Err(DmaError::NoMemory(_))), "{none:?}");
    memory.fail(false);
    mapper.allocate_coherent(PAGE, &mut counters).unwrap();
}

#[test]
fn what_was_unmapped_is_forgotten_although_its_addresses_can_t_be_freed() {
    let memory = Failing::new();
    let (bounce, pool) = (bounce(&memory), pool(&memory));
    let domain = keeping_domain(&memory.ram, ListRanges::One);
    let mapper = Mapper::translated(Limits::of_bits(64), domain).with_debug(true);
    let mapper = mapper.with_bounce(Arc::clone(&bounce), Bouncing::Unaligned).with_coherent(pool);
    let mut counters = DmaCounters::default();
    let not_freed = Err(DmaError::Free(FreeError::NotAllocated));
    let at = mapper.map(BUFFER, 5, Direction::ToDevice, &mut counters).unwrap();
    assert!(bounce.slots_used() > 0);
    assert_eq!(mapper.unmap(at, 5, Direction::ToDevice, &mut counters), not_freed);
    assert_eq!(bounce.slots_used(), 0);
    let coherent = mapper.allocate_coherent(PAGE, &mut counters).unwrap();
    assert_eq!(mapper.free_coherent(coherent, &mut counters), not_freed);
    let coherent = mapper.allocate_coherent(PAGE, &mut counters).unwrap();
    assert_eq!(mapper.free_coherent(coherent, &mut counters), not_freed);
    assert_eq!((counters.mappings, counters.unmappings, counters.frees), (3, 3, 0));
    mapper.close().unwrap();
}

#[test]
fn the_rest_of_a_list_is_unmapped_although_addresses_can_t_be_freed() {
    for lists in [ListRanges::One, ListRanges::Each] {
        let domain = keeping_domain(&Failing::new().ram, lists);
        let mapper = Mapper::translated(Limits::of_bits(64), Arc::clone(&domain)).with_debug(true);
        let mut counters = DmaCounters::default();
        let segments = mapper.map_list(&list(), Direction::ToDevice, &mut counters).unwrap();
        let addresses: Vec<BusAddress> = segments.iter().map(|segment| segment.at).collect();
        let result = mapper.unmap_list(&list(), &segments, Direction::ToDevice, &mut counters);
        assert_eq!(result, Err(DmaError::Free(FreeError::NotAllocated)));
        assert_eq!((counters.mappings, counters.unmappings), (2, 2), "{lists:?}");
        assert!(addresses.iter().all(|at| domain.translation().find(*at).is_none()));
        mapper.close().unwrap();
    }
}

#[test]
fn errors_of_coherent_memory_say_what_is_missing() {
    let mut counters = DmaCounters::default();
    let error = Mapper::direct(Limits::of_bits(64), 0).allocate_coherent(PAGE, &mut counters).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no pool of coherent memory; expected one by Mapper::with_coherent"
    );
    let mapper = Mapper::direct(Limits::of_bits(32), 0).with_coherent(pool(&Failing::new()));
    let error = mapper.allocate_coherent(2 * PAGE, &mut counters).unwrap_err();
    assert_eq!(error.to_string(), "no 0x2000 bytes of coherent memory are free up to 0xffffffff");
}
