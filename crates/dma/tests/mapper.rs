//! The whole way: a driver's calls, tables, the IOMMU and an adapter behind it. What the driver maps, the adapter finds, and
//! nothing else.
//!
//! `PROPTEST_CASES=5000 cargo test --release -p dma --test mapper` for a long run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Access, Amd, Bounce, Bouncing, BusAddress, Context, Direction, DmaCounters, DmaError, Domain, Element,
    FRAME_BYTES, FlushQueue, Frames, Iotlb, Kind, Limits, ListRanges, Mapper, MemoryAddress, Misuse, Pool,
    Ram, Requester, Segment, Smmu, SoftwareAdapter, SoftwareDomain, Unit, Vtd, Walked,
};
use iova::{Allocator, GapTree, Space, SpaceError};
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: u64 = FRAME_BYTES;
const CARD: Requester = Requester(0x0300);
/// Memory: tables, bounce buffers, coherent memory, and the driver's own.
const TABLES: u64 = 0x20_0000;
const TABLES_BYTES: u64 = 1 << 20;
const BOUNCE: u64 = 0x40_0000;
const BOUNCE_BYTES: u64 = 1 << 20;
const POOL: u64 = 0x60_0000;
const POOL_BYTES: u64 = 64 * PAGE;
const ARENA: u64 = 0x80_0000;
const SLOT_BYTES: u64 = 128 * 1024;
const SLOTS: u64 = 4;
const ARENA_BYTES: u64 = SLOTS * SLOT_BYTES;
const RAM_BASE: u64 = TABLES;

/// One adapter, its driver's mapper, and what lies between.
struct Rig {
    unit: Arc<Unit>,
    domain: Option<Arc<Domain>>,
    mapper: Mapper,
    card: SoftwareAdapter,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    lists: ListRanges,
    bouncing: Option<Bouncing>,
    is_lazy: bool,
    segment_bytes_max: u64,
    boundary_mask: u64,
}

const PLAIN: Shape = Shape {
    lists: ListRanges::One,
    bouncing: None,
    is_lazy: false,
    segment_bytes_max: 1 << 16,
    boundary_mask: u64::MAX,
};

fn unit() -> Arc<Unit> {
    let ram = Arc::new(Ram::new(MemoryAddress(RAM_BASE), ARENA + ARENA_BYTES - RAM_BASE));
    Arc::new(Unit::new(ram, Iotlb::new(32, 4)))
}

fn gap_tree(space: &Space) -> Result<Box<dyn Allocator + Send + Sync>, SpaceError> {
    Ok(Box::new(GapTree::new(space)?))
}

fn bounce(unit: &Unit) -> Arc<Bounce> {
    Arc::new(Bounce::new(unit.ram().clone(), MemoryAddress(BOUNCE), BOUNCE_BYTES, 2, || 0))
}

impl Rig {
    fn translated<F: Walked>(levels: u32, shape: Shape) -> Self {
        let unit = unit();
        let frames = Arc::new(Frames::new(MemoryAddress(TABLES), TABLES_BYTES));
        let translation = SoftwareDomain::<F>::new(Arc::clone(&unit), frames, levels).unwrap();
        translation.attach(CARD);
        let builder = Domain::builder(Arc::new(translation)).allocator(gap_tree).lists(shape.lists);
        let builder = match shape.is_lazy {
            true => builder.flush_queue(FlushQueue::new(1, || 0)),
            false => builder,
        };
        let domain = builder.build().unwrap();
        let mapper = Mapper::translated(shape.limits(), Arc::clone(&domain));
        Self::finish(unit, Some(domain), mapper, shape)
    }

    fn direct(offset: u64, shape: Shape) -> Self {
        let unit = unit();
        unit.attach(CARD, Context::Direct { offset });
        Self::finish(unit, None, Mapper::direct(shape.limits(), offset), shape)
    }

    fn finish(unit: Arc<Unit>, domain: Option<Arc<Domain>>, mapper: Mapper, shape: Shape) -> Self {
        let pool = Pool::new(unit.ram().clone(), MemoryAddress(POOL), POOL_BYTES).unwrap();
        let mapper = mapper.with_coherent(Arc::new(pool)).with_debug(true);
        let mapper = match shape.bouncing {
            Some(when) => mapper.with_bounce(bounce(&unit), when),
            None => mapper,
        };
        let card = unit.adapter(CARD);
        Self { unit, domain, mapper, card }
    }

    fn put(&self, at: MemoryAddress, bytes: &[u8]) {
        self.unit.ram().write(at, bytes).unwrap();
    }

    fn get(&self, at: MemoryAddress, bytes: u64) -> Vec<u8> {
        let mut seen = vec![0; bytes as usize];
        self.unit.ram().read(at, &mut seen).unwrap();
        seen
    }
}

impl Shape {
    fn limits(self) -> Limits {
        let mut limits = Limits::of_bits(48);
        limits.segment_bytes_max = self.segment_bytes_max;
        limits.boundary_mask = self.boundary_mask;
        limits
    }
}

#[derive(Debug, Clone)]
enum Step {
    Map { slot: u64, elements: Vec<Draft>, direction: Direction, kind: Kind },
    Transfer { which: usize },
    Sync { which: usize, offset: u64, bytes: u64 },
    Unmap { which: usize },
}

/// An element, after the one before it.
#[derive(Debug, Clone)]
struct Draft {
    /// Pages left free before it; none to follow at once, wherever that is.
    gap: Option<u64>,
    offset: u64,
    bytes: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let offset = prop_oneof![3 => Just(0), 1 => 0_u64..PAGE];
    let bytes = prop_oneof![2 => (1_u64..5).prop_map(|pages| pages * PAGE), 1 => 1_u64..9000];
    let gap = prop::option::of(0_u64..2);
    let draft = (gap, offset, bytes).prop_map(|(gap, offset, bytes)| Draft { gap, offset, bytes });
    let direction = select(vec![Direction::Bidirectional, Direction::ToDevice, Direction::FromDevice]);
    let which = any::<usize>();
    prop_oneof![
        3 => (0..SLOTS, prop::collection::vec(draft, 1..8), direction, any::<bool>()).prop_map(
            |(slot, mut elements, direction, single)| {
                let kind = if single { Kind::Single } else { Kind::List };
                elements.truncate(if single { 1 } else { 8 });
                Step::Map { slot, elements, direction, kind }
            }
        ),
        3 => which.prop_map(|which| Step::Transfer { which }),
        2 => (which, 0_u64..9000, 1_u64..9000).prop_map(|(which, offset, bytes)| Step::Sync { which, offset, bytes }),
        2 => which.prop_map(|which| Step::Unmap { which }),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let bouncing = prop_oneof![
        2 => Just(None),
        1 => select(vec![Some(Bouncing::Always), Some(Bouncing::Unaligned)]),
    ];
    let lists = select(vec![ListRanges::One, ListRanges::Each]);
    let segment_bytes_max = select(vec![2 * PAGE, 1 << 16, 1 << 32]);
    let boundary_mask = select(vec![0xffff, u64::MAX]);
    (lists, bouncing, any::<bool>(), segment_bytes_max, boundary_mask).prop_map(
        |(lists, bouncing, is_lazy, segment_bytes_max, boundary_mask)| Shape {
            lists,
            bouncing,
            is_lazy,
            segment_bytes_max,
            boundary_mask,
        },
    )
}

/// Fewer than usual where nothing else is said: each has a machine of its own.
fn cases() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    if asked { ProptestConfig::default() } else { ProptestConfig::with_cases(32) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn data_arrives_through_vtd(shape in shape(), program in prop::collection::vec(step(), 1..30)) {
        Driver::new(Rig::translated::<Vtd>(4, shape), shape).carry_out(&program);
    }

    #[test]
    fn data_arrives_through_amd(shape in shape(), program in prop::collection::vec(step(), 1..30)) {
        Driver::new(Rig::translated::<Amd>(6, shape), shape).carry_out(&program);
    }

    #[test]
    fn data_arrives_through_smmu(shape in shape(), program in prop::collection::vec(step(), 1..30)) {
        Driver::new(Rig::translated::<Smmu>(3, shape), shape).carry_out(&program);
    }

    #[test]
    fn data_arrives_directly(
        shape in shape(),
        offset in select(vec![0, 1_u64 << 47]),
        program in prop::collection::vec(step(), 1..30),
    ) {
        Driver::new(Rig::direct(offset, shape), shape).carry_out(&program);
    }
}

/// A driver that knows what should be where.
struct Driver {
    rig: Rig,
    shape: Shape,
    live: Vec<Live>,
    /// What the driver's memory should be once nothing is mapped.
    model: Vec<u8>,
    next_byte: u8,
}

#[derive(Debug)]
struct Live {
    slot: u64,
    elements: Vec<Element>,
    segments: Vec<Segment>,
    direction: Direction,
    kind: Kind,
}

impl Live {
    fn bytes(&self) -> u64 {
        self.elements.iter().map(|element| element.bytes).sum()
    }
}

impl Driver {
    fn new(rig: Rig, shape: Shape) -> Self {
        let model: Vec<u8> = (0..ARENA_BYTES).map(|at| (at % 253) as u8).collect();
        rig.put(MemoryAddress(ARENA), &model);
        Self { rig, shape, live: Vec::new(), model, next_byte: 1 }
    }

    fn carry_out(mut self, program: &[Step]) {
        for step in program {
            match step {
                Step::Map { slot, elements, direction, kind } => self.map(*slot, elements, *direction, *kind),
                Step::Transfer { which } => self.on(*which, Self::transfer),
                Step::Sync { which, offset, bytes } => {
                    self.on(*which, |driver, live| driver.sync(live, *offset, *bytes));
                }
                Step::Unmap { which } if !self.live.is_empty() => {
                    let live = self.live.swap_remove(which % self.live.len());
                    self.unmap(live);
                }
                Step::Unmap { .. } => {}
            }
        }
        while let Some(live) = self.live.pop() {
            self.unmap(live);
        }
        let seen = self.rig.get(MemoryAddress(ARENA), ARENA_BYTES);
        assert!(seen == self.model, "memory is not what it should be");
        if let Some(domain) = &self.rig.domain {
            domain.flush(&mut DmaCounters::default());
            assert_eq!((domain.waiting(), domain.usage().allocated_pages), (0, 0));
        }
        self.rig.mapper.close().unwrap();
    }

    fn on(&mut self, which: usize, act: impl FnOnce(&mut Self, &Live)) {
        if !self.live.is_empty() {
            let live = self.live.swap_remove(which % self.live.len());
            act(self, &live);
            self.live.push(live);
        }
    }

    fn map(&mut self, slot: u64, drafts: &[Draft], direction: Direction, kind: Kind) {
        if self.live.iter().any(|live| live.slot == slot) {
            return;
        }
        let elements = lay_out(slot, drafts);
        let mut counters = DmaCounters::default();
        let segments = match kind {
            Kind::List => self.rig.mapper.map_list(&elements, direction, &mut counters).unwrap(),
            Kind::Single | Kind::Coherent => {
                let Element { memory, bytes } = elements[0];
                let at = self.rig.mapper.map(memory, bytes, direction, &mut counters).unwrap();
                vec![Segment { at, bytes }]
            }
        };
        assert_eq!(counters.mappings, elements.len() as u64);
        let live = Live { slot, elements, segments, direction, kind };
        self.check_segments(&live);
        self.transfer(&live);
        self.live.push(live);
    }

    /// Segments keep to the limits, and are as few as the pages allow where the list has one range.
    fn check_segments(&self, live: &Live) {
        let Shape { segment_bytes_max, boundary_mask, lists, .. } = self.shape;
        let bounced = |one: &Element| match self.shape.bouncing {
            Some(Bouncing::Always) => true,
            Some(Bouncing::Unaligned) => (one.memory.0 | one.bytes) % PAGE != 0,
            Some(Bouncing::BeyondMask) | None => false,
        };
        assert_eq!(live.segments.iter().map(|segment| segment.bytes).sum::<u64>(), live.bytes());
        assert!(live.segments.len() <= live.elements.len());
        let most = live.elements.iter().map(|element| element.bytes).max().unwrap();
        for segment in &live.segments {
            assert!(segment.bytes <= segment_bytes_max.max(most));
            let crosses =
                segment.at.0 & !boundary_mask != (segment.at.0 + segment.bytes - 1) & !boundary_mask;
            assert!(!crosses || self.rig.domain.is_none() || live.elements.iter().any(bounced));
        }
        let is_one_range = self.rig.domain.is_some() && lists == ListRanges::One && live.kind == Kind::List;
        if is_one_range && !live.elements.iter().any(bounced) {
            assert_eq!(live.segments, merged(&live.elements, live.segments[0].at, &self.shape));
        }
    }

    /// The adapter reads what the driver put there, and writes something new, as far as it may.
    fn transfer(&mut self, live: &Live) {
        let is_arm_or_direct = self.rig.domain.is_none();
        if live.direction.access().reads() {
            assert_eq!(self.card_reads(live), self.modelled(live));
        }
        if live.direction.access().writes() {
            let data: Vec<u8> = (0..live.bytes()).map(|at| self.next_byte.wrapping_add(at as u8)).collect();
            self.next_byte = self.next_byte.wrapping_mul(7).wrapping_add(3);
            let mut rest = data.as_slice();
            for segment in &live.segments {
                let (now, later) = rest.split_at(segment.bytes as usize);
                self.rig.card.write(segment.at, now).unwrap();
                rest = later;
            }
            self.remember(live, &data);
        } else if !is_arm_or_direct {
            assert!(self.rig.card.write(live.segments[0].at, &[0xff]).is_err());
        }
    }

    fn card_reads(&self, live: &Live) -> Vec<u8> {
        let read = |segment: &Segment| {
            let mut seen = vec![0; segment.bytes as usize];
            self.rig.card.read(segment.at, &mut seen).unwrap();
            seen
        };
        live.segments.iter().flat_map(read).collect()
    }

    fn modelled(&self, live: &Live) -> Vec<u8> {
        let one = |element: &Element| self.model[place(*element)].iter().copied();
        live.elements.iter().flat_map(one).collect()
    }

    fn remember(&mut self, live: &Live, data: &[u8]) {
        let mut rest = data;
        for element in &live.elements {
            let (now, later) = rest.split_at(element.bytes as usize);
            self.model[place(*element)].copy_from_slice(now);
            rest = later;
        }
    }

    /// The CPU looks at what the adapter wrote, changes some of it, and hands it back. By itself mapped buffers alone.
    fn sync(&mut self, live: &Live, offset: u64, bytes: u64) {
        let ([element], [segment]) = (live.elements.as_slice(), live.segments.as_slice()) else { return };
        let offset = offset % element.bytes;
        let bytes = bytes.min(element.bytes - offset);
        let (mapper, mut counters) = (&self.rig.mapper, DmaCounters::default());
        let part = MemoryAddress(element.memory.0 + offset);
        mapper.sync_for_cpu(segment.at, offset, bytes, live.direction, &mut counters).unwrap();
        mapper.check_cpu_access(part, bytes, Access::ReadWrite).unwrap();
        let start = place(*element).start + offset as usize;
        let modelled = start..start + bytes as usize;
        assert_eq!(self.rig.get(part, bytes), self.model[modelled.clone()]);
        if live.direction.access().reads() {
            self.model[modelled.clone()].fill(self.next_byte);
            self.rig.put(part, &self.model[modelled]);
        }
        mapper.sync_for_device(segment.at, offset, bytes, live.direction, &mut counters).unwrap();
        if live.direction.access().reads() {
            assert_eq!(self.card_reads(live), self.modelled(live));
        }
    }

    fn unmap(&mut self, live: Live) {
        let mut counters = DmaCounters::default();
        let (mapper, direction) = (&self.rig.mapper, live.direction);
        match live.kind {
            Kind::List => {
                mapper.unmap_list(&live.elements, &live.segments, direction, &mut counters).unwrap()
            }
            Kind::Single | Kind::Coherent => {
                mapper.unmap(live.segments[0].at, live.segments[0].bytes, direction, &mut counters).unwrap();
            }
        }
        assert_eq!(counters.unmappings, live.elements.len() as u64);
        for element in &live.elements {
            assert!(self.rig.get(element.memory, element.bytes) == self.model[place(*element)]);
        }
        if self.rig.domain.is_some() && !self.shape.is_lazy {
            for segment in &live.segments {
                let late = self.rig.card.write(segment.at, &[0xff]).unwrap_err();
                assert_eq!(late.done_bytes, 0);
            }
        }
    }
}

/// Elements in a slot of the driver's memory, as far as there is room.
fn lay_out(slot: u64, drafts: &[Draft]) -> Vec<Element> {
    let start = ARENA + slot * SLOT_BYTES;
    let mut next = start;
    let mut elements = Vec::new();
    for Draft { gap, offset, bytes } in drafts {
        let at = gap.map_or(next, |gap| next.next_multiple_of(PAGE) + gap * PAGE + offset);
        next = at + bytes;
        if next > start + SLOT_BYTES {
            break;
        }
        elements.push(Element { memory: MemoryAddress(at), bytes: *bytes });
    }
    elements
}

fn place(element: Element) -> std::ops::Range<usize> {
    let start = (element.memory.0 - ARENA) as usize;
    start..start + element.bytes as usize
}

/// What becomes of a list in one range whose first byte is at `first`: an element begins a new segment if there is a hole on the
/// bus before it, or if a limit says so.
fn merged(elements: &[Element], first: BusAddress, shape: &Shape) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let start = first.0 & !(PAGE - 1);
    let mut pages = 0;
    for element in elements {
        let offset = element.memory.0 % PAGE;
        let needed = (offset + element.bytes).div_ceil(PAGE);
        let unit = shape.boundary_mask.wrapping_add(1) / PAGE;
        if unit > 0 && pages % unit + needed > unit && pages % unit > 0 {
            pages = pages.next_multiple_of(unit);
        }
        let at = BusAddress(start + pages * PAGE + offset);
        pages += needed;
        match segments.last_mut() {
            Some(last)
                if last.at.0 + last.bytes == at.0
                    && last.bytes + element.bytes <= shape.segment_bytes_max
                    && (unit == 0 || at.0 % (unit * PAGE) != 0) =>
            {
                last.bytes += element.bytes;
            }
            _ => segments.push(Segment { at, bytes: element.bytes }),
        }
    }
    segments
}

#[test]
fn after_a_strict_unmap_nothing_can_be_reached() {
    let rig = Rig::translated::<Vtd>(4, PLAIN);
    let (buffer, mut counters) = (MemoryAddress(ARENA), DmaCounters::default());
    let at = rig.mapper.map(buffer, PAGE, Direction::FromDevice, &mut counters).unwrap();
    rig.card.write(at, &[1]).unwrap();
    let mut counters = DmaCounters::default();
    rig.mapper.unmap(at, PAGE, Direction::FromDevice, &mut counters).unwrap();
    let expected = DmaCounters {
        unmappings: 1,
        frees: 1,
        table_entries: 1,
        invalidations: 1,
        invalidation_waits: 1,
        ..DmaCounters::default()
    };
    assert_eq!(counters, expected);
    assert!(rig.card.write(at, &[2]).is_err());
    assert_eq!(rig.get(buffer, 1), [1]);
}

#[test]
fn after_a_lazy_unmap_cached_translations_work_until_the_queue_is_flushed() {
    let rig = Rig::translated::<Vtd>(4, Shape { is_lazy: true, ..PLAIN });
    let domain = rig.domain.as_ref().unwrap();
    let (buffer, mut counters) = (MemoryAddress(ARENA), DmaCounters::default());
    let at = rig.mapper.map(buffer, PAGE, Direction::FromDevice, &mut counters).unwrap();
    let unseen =
        rig.mapper.map(MemoryAddress(ARENA + PAGE), PAGE, Direction::FromDevice, &mut counters).unwrap();
    rig.card.write(at, &[1]).unwrap();
    let mut counters = DmaCounters::default();
    rig.mapper.unmap(at, PAGE, Direction::FromDevice, &mut counters).unwrap();
    rig.mapper.unmap(unseen, PAGE, Direction::FromDevice, &mut counters).unwrap();
    assert_eq!((counters.invalidations, counters.frees, domain.waiting()), (0, 0, 2));
    // The one is remembered, the other was never looked up.
    rig.card.write(at, &[2]).unwrap();
    assert_eq!(rig.get(buffer, 1), [2]);
    assert!(rig.card.write(unseen, &[2]).is_err());
    // Its addresses are nobody else's until then.
    let other =
        rig.mapper.map(MemoryAddress(ARENA + PAGE), PAGE, Direction::FromDevice, &mut counters).unwrap();
    assert!(other != at && other != unseen);
    let mut counters = DmaCounters::default();
    domain.flush(&mut counters);
    assert_eq!((counters.invalidations, counters.frees, domain.waiting()), (1, 2, 0));
    assert!(rig.card.write(at, &[3]).is_err());
    assert_eq!(rig.get(buffer, 1), [2]);
}

#[test]
fn a_queue_that_is_full_flushes() {
    let rig = Rig::translated::<Amd>(4, Shape { is_lazy: true, ..PLAIN });
    let mut counters = DmaCounters::default();
    for _ in 0..3 * 255 + 1 {
        let at = rig.mapper.map(MemoryAddress(ARENA), 1, Direction::ToDevice, &mut counters).unwrap();
        rig.mapper.unmap(at, 1, Direction::ToDevice, &mut counters).unwrap();
    }
    assert_eq!((counters.invalidations, counters.invalidation_waits, counters.frees), (3, 3, 3 * 255));
    assert_eq!(rig.domain.as_ref().unwrap().waiting(), 1);
}

/// An adapter that never stops writing everywhere, while the driver maps, unmaps, and uses for itself what it got back.
#[test]
fn memory_that_was_got_back_is_the_drivers_alone() {
    let rig = Rig::translated::<Vtd>(3, PLAIN);
    let stop = Arc::new(AtomicBool::new(false));
    let hammer = {
        let (card, stop) = (rig.card.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut through = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                for page in 0..600 {
                    through += u64::from(card.write(BusAddress(page * PAGE), &[0xee; 8]).is_ok());
                }
            }
            through
        })
    };
    let mut counters = DmaCounters::default();
    // 2 MiB less a page, askew: small pages, and a table that goes when it is empty.
    let sizes = [PAGE, 3 * PAGE, ARENA_BYTES, PAGE];
    for round in 0..400_u64 {
        let bytes = sizes[(round % 4) as usize];
        let at = rig.mapper.map(MemoryAddress(ARENA), bytes, Direction::FromDevice, &mut counters).unwrap();
        if round % 16 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        rig.mapper.unmap(at, bytes, Direction::FromDevice, &mut counters).unwrap();
        let mine = [round as u8; 64];
        (0..bytes / PAGE).for_each(|page| rig.put(MemoryAddress(ARENA + page * PAGE), &mine));
        std::thread::yield_now();
        (0..bytes / PAGE).for_each(|page| assert_eq!(rig.get(MemoryAddress(ARENA + page * PAGE), 64), mine));
    }
    stop.store(true, Ordering::Relaxed);
    assert!(hammer.join().unwrap() > 0);
}

#[test]
fn the_last_page_of_a_64_bit_bus_is_used() {
    let unit = unit();
    let frames = Arc::new(Frames::new(MemoryAddress(TABLES), TABLES_BYTES));
    let last = u64::MAX - (PAGE - 1);
    let all_else = vec![(BusAddress(0), BusAddress(last - 1))];
    let translation =
        SoftwareDomain::<Amd>::new(Arc::clone(&unit), frames, 6).unwrap().with_reserved(all_else);
    translation.attach(CARD);
    let domain = Domain::builder(Arc::new(translation)).allocator(gap_tree).build().unwrap();
    let (mapper, mut counters) = (Mapper::translated(Limits::of_bits(64), domain), DmaCounters::default());
    let at = mapper.map(MemoryAddress(ARENA), PAGE, Direction::FromDevice, &mut counters).unwrap();
    assert_eq!(at, BusAddress(last));
    unit.adapter(CARD).write(at, &[1; PAGE as usize]).unwrap();
    assert!(unit.adapter(CARD).write(at, &[2; PAGE as usize + 1]).is_err());
    mapper.unmap(at, PAGE, Direction::FromDevice, &mut counters).unwrap();
    assert!(unit.adapter(CARD).write(at, &[1]).is_err());
}

#[test]
fn memory_out_of_reach_is_bounced_at_the_same_offset() {
    let bouncing = Some(Bouncing::BeyondMask);
    let rig = Rig::direct(0, Shape { bouncing, ..PLAIN });
    // The bounce buffers lie below 8 MiB, the driver's memory does not.
    let mut limits = Limits::of_bits(23);
    limits.offset_mask = PAGE - 1;
    let mapper = Mapper::direct(limits, 0).with_bounce(bounce(&rig.unit), Bouncing::BeyondMask);
    let (memory, mut counters) = (MemoryAddress(ARENA + 0x123), DmaCounters::default());
    rig.put(memory, b"there");
    let at = mapper.map(memory, 5, Direction::Bidirectional, &mut counters).unwrap();
    assert!(at.0 < 1 << 23 && at.0 % PAGE == 0x123);
    let mut seen = [0; 5];
    rig.card.read(at, &mut seen).unwrap();
    assert_eq!(&seen, b"there");
    rig.card.write(at, b"and b").unwrap();
    mapper.unmap(at, 5, Direction::Bidirectional, &mut counters).unwrap();
    assert_eq!((rig.get(memory, 5).as_slice(), counters.bounce_bytes), (b"and b".as_slice(), 10));
    let too_large = mapper.map(memory, Bounce::BYTES_MAX + 1, Direction::ToDevice, &mut counters);
    assert!(matches!(too_large, Err(DmaError::NoSlots { slots_used: 0, .. })));
    let without = Mapper::direct(limits, 0).map(memory, 5, Direction::ToDevice, &mut counters);
    assert_eq!(
        without,
        Err(DmaError::BeyondMask { at: BusAddress(memory.0), bytes: 5, mask: (1 << 23) - 1 })
    );
}

#[test]
fn threads_share_a_domain_strictly() {
    threads_share_a_domain(PLAIN);
}

#[test]
fn threads_share_a_domain_lazily() {
    threads_share_a_domain(Shape { is_lazy: true, ..PLAIN });
}

/// Each with a slot of memory of its own.
fn threads_share_a_domain(shape: Shape) {
    let rig = Rig::translated::<Amd>(4, shape);
    std::thread::scope(|scope| {
        for slot in 0..SLOTS {
            let rig = &rig;
            scope.spawn(move || (0..300).for_each(|round| round_trip(rig, slot, round)));
        }
    });
    let domain = rig.domain.as_ref().unwrap();
    domain.flush(&mut DmaCounters::default());
    assert_eq!((domain.usage().allocated_pages, domain.waiting()), (0, 0));
    rig.mapper.close().unwrap();
}

fn round_trip(rig: &Rig, slot: u64, round: u64) {
    let (memory, mut counters) = (MemoryAddress(ARENA + slot * SLOT_BYTES), DmaCounters::default());
    let bytes = [100, PAGE, SLOT_BYTES, 5 * PAGE][(round % 4) as usize];
    let at = rig.mapper.map(memory, bytes, Direction::FromDevice, &mut counters).unwrap();
    let data = vec![(slot * 64 + round % 64) as u8; bytes as usize];
    rig.card.write(at, &data).unwrap();
    rig.mapper.unmap(at, bytes, Direction::FromDevice, &mut counters).unwrap();
    assert!(rig.get(memory, bytes) == data);
}

#[test]
fn partial_pages_are_bounced_on_request() {
    let rig = Rig::translated::<Vtd>(4, Shape { bouncing: Some(Bouncing::Unaligned), ..PLAIN });
    for (offset, bytes, bounced) in
        [(0, PAGE, 0), (0, 100, 100), (100, PAGE, PAGE), (100, PAGE - 100, PAGE - 100)]
    {
        let mut counters = DmaCounters::default();
        let memory = MemoryAddress(ARENA + offset);
        let at = rig.mapper.map(memory, bytes, Direction::ToDevice, &mut counters).unwrap();
        rig.mapper.unmap(at, bytes, Direction::ToDevice, &mut counters).unwrap();
        assert_eq!(counters.bounce_bytes, bounced, "{bytes} bytes at page offset {offset}");
    }
}

#[test]
fn a_bounce_buffer_has_the_offset_that_both_page_and_adapter_need() {
    let shape = Shape { bouncing: Some(Bouncing::Always), ..PLAIN };
    let rig = Rig::translated::<Vtd>(4, shape);
    let mut limits = shape.limits();
    limits.offset_mask = PAGE - 1;
    let mapper = Mapper::translated(limits, rig.domain.clone().unwrap())
        .with_bounce(bounce(&rig.unit), Bouncing::Always);
    let mut counters = DmaCounters::default();
    let at = mapper.map(MemoryAddress(ARENA + 0x123), 5, Direction::ToDevice, &mut counters).unwrap();
    assert_eq!(at.0 % PAGE, 0x123);
    mapper.unmap(at, 5, Direction::ToDevice, &mut counters).unwrap();
}

#[test]
fn a_mapper_that_is_not_watched_compares_nothing() {
    for is_watched in [true, false] {
        let mapper = Mapper::direct(PLAIN.limits(), 0).with_debug(is_watched);
        let nothing = mapper.unmap(BusAddress(ARENA), PAGE, Direction::ToDevice, &mut DmaCounters::default());
        assert_eq!(nothing.is_err(), is_watched);
    }
}

#[test]
fn coherent_memory_without_a_translation_is_counted_too() {
    let rig = Rig::direct(0, PLAIN);
    let mut counters = DmaCounters::default();
    let coherent = rig.mapper.allocate_coherent(PAGE, &mut counters).unwrap();
    rig.mapper.free_coherent(coherent, &mut counters).unwrap();
    assert_eq!((counters.mappings, counters.unmappings), (1, 1));
}

#[test]
fn coherent_memory_is_shared() {
    for rig in [Rig::translated::<Smmu>(4, PLAIN), Rig::direct(1 << 40, PLAIN)] {
        let mut counters = DmaCounters::default();
        rig.put(MemoryAddress(POOL), &[9; 3 * PAGE as usize]);
        let coherent = rig.mapper.allocate_coherent(2 * PAGE + 1, &mut counters).unwrap();
        assert_eq!((coherent.bytes, coherent.at.0 % (4 * PAGE)), (3 * PAGE, 0));
        assert!(rig.get(coherent.memory, coherent.bytes).iter().all(|byte| *byte == 0));
        let (last, at) =
            (MemoryAddress(coherent.memory.0 + 3 * PAGE - 1), BusAddress(coherent.at.0 + 3 * PAGE - 1));
        rig.card.write(at, &[5]).unwrap();
        rig.mapper.check_cpu_access(last, 1, Access::ReadWrite).unwrap();
        assert_eq!(rig.get(last, 1), [5]);
        rig.put(last, &[6]);
        let mut seen = [0];
        rig.card.read(at, &mut seen).unwrap();
        assert_eq!(seen, [6]);
        rig.mapper.free_coherent(coherent, &mut counters).unwrap();
        let all = rig.mapper.allocate_coherent(POOL_BYTES, &mut counters).unwrap();
        assert!(matches!(rig.mapper.allocate_coherent(1, &mut counters), Err(DmaError::PoolFull { .. })));
        rig.mapper.free_coherent(all, &mut counters).unwrap();
        rig.mapper.close().unwrap();
    }
}

#[test]
fn broken_rules_are_errors_and_change_nothing() {
    let rig = Rig::translated::<Vtd>(4, PLAIN);
    let (mapper, memory, mut counters) = (&rig.mapper, MemoryAddress(ARENA), DmaCounters::default());
    let at = mapper.map(memory, PAGE, Direction::FromDevice, &mut counters).unwrap();
    let mut misuse = |at, bytes, direction| match mapper.unmap(at, bytes, direction, &mut counters) {
        Err(DmaError::Misuse(misuse)) => misuse,
        other => panic!("{other:?}"),
    };
    let elsewhere = BusAddress(at.0 + 1);
    assert_eq!(misuse(elsewhere, PAGE, Direction::FromDevice), Misuse::NotMapped { at: elsewhere });
    assert_eq!(misuse(at, 1, Direction::FromDevice), Misuse::OtherSize { at, bytes: 1, mapped_bytes: PAGE });
    let (named, mapped) = (Direction::ToDevice, Direction::FromDevice);
    assert_eq!(misuse(at, PAGE, named), Misuse::OtherDirection { at, named, mapped });
    let segment = Segment { at, bytes: PAGE };
    let as_list = mapper.unmap_list(&[Element { memory, bytes: PAGE }], &[segment], mapped, &mut counters);
    let other_kind = Misuse::OtherKind { at, named: Kind::List, mapped: Kind::Single };
    assert_eq!(as_list, Err(DmaError::Misuse(other_kind)));
    let beyond = mapper.sync_for_cpu(at, 1, PAGE, mapped, &mut counters);
    let outside = Misuse::SyncOutside { at, offset: 1, bytes: PAGE, mapped_bytes: PAGE };
    assert_eq!(beyond, Err(DmaError::Misuse(outside)));
    let owned = Misuse::DeviceOwns { memory, access: Access::Read, at, direction: mapped };
    assert_eq!(mapper.check_cpu_access(memory, 1, Access::Read), Err(owned));
    rig.card.write(at, &[1]).unwrap();
    mapper.unmap(at, PAGE, mapped, &mut counters).unwrap();
    mapper.check_cpu_access(memory, 1, Access::Write).unwrap();
    let twice = mapper.unmap(at, PAGE, mapped, &mut counters);
    assert_eq!(twice, Err(DmaError::Misuse(Misuse::NotMapped { at })));
    let left = mapper.map(memory, 1, Direction::ToDevice, &mut counters).unwrap();
    let leaked = Misuse::Leaked { mappings: 1, first: left, bytes: 1, direction: Direction::ToDevice };
    assert_eq!(rig.mapper.close(), Err(leaked));
}

#[test]
fn each_element_of_a_list_is_the_adapters() {
    let rig = Rig::translated::<Vtd>(4, PLAIN);
    let (mapper, mut counters) = (&rig.mapper, DmaCounters::default());
    let element = |page: u64| Element { memory: MemoryAddress(ARENA + page * PAGE), bytes: PAGE };
    // The first two become one segment; on neither side of them is the other's memory.
    let list = [element(8), element(2), Element { bytes: 5, ..element(20) }];
    let segments = mapper.map_list(&list, Direction::FromDevice, &mut counters).unwrap();
    assert_eq!(segments.len(), 1);
    for one in list {
        assert!(mapper.check_cpu_access(one.memory, one.bytes, Access::Read).is_err(), "{one:?}");
    }
    mapper.check_cpu_access(element(9).memory, PAGE, Access::Write).unwrap();
    mapper.unmap_list(&list, &segments, Direction::FromDevice, &mut counters).unwrap();
    mapper.check_cpu_access(element(8).memory, 16 * PAGE, Access::Write).unwrap();
}

#[test]
fn an_element_that_fails_leaves_nothing_mapped() {
    for lists in [ListRanges::One, ListRanges::Each] {
        let rig = Rig::translated::<Smmu>(4, Shape { lists, ..PLAIN });
        let (domain, mut counters) = (rig.domain.as_ref().unwrap(), DmaCounters::default());
        let fits = Element { memory: MemoryAddress(ARENA), bytes: PAGE };
        let beyond = Element { memory: MemoryAddress(1 << 48), bytes: PAGE };
        let failed = rig.mapper.map_list(&[fits, fits, beyond], Direction::ToDevice, &mut counters);
        assert!(matches!(failed, Err(DmaError::Map(_))), "{failed:?}");
        assert_eq!(domain.usage().allocated_pages, 0);
        assert_eq!(
            (counters.mappings, counters.allocations),
            (2, if lists == ListRanges::One { 1 } else { 3 })
        );
        assert_eq!((counters.unmappings, counters.frees), (counters.mappings, counters.allocations));
        assert!((0..64).all(|page| domain.translation().find(BusAddress(page * PAGE)).is_none()));
        assert!(rig.mapper.map_list(&[], Direction::ToDevice, &mut counters).is_err());
    }
}
