//! Linux's side: what mapping writes, what it costs, and what becomes of refusals.

use crate::machine::{DEFAULT, GIB, KIB, MIB, Machine, Setup};
use ddw::{Hypercalls, TceCalls};
use dma::tce::{DdwOutcome, MemoryRange, PciSlot, TceWindow};
use dma::{
    Access, BusAddress, Direction, DmaCounters, DmaError, Element, Frames, Limits, MapError, Mapper,
    MemoryAddress, Segment, Translation, UnmapError,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = 4 * KIB;
const AT: BusAddress = BusAddress(0x10_0000);
const MEMORY: MemoryAddress = MemoryAddress(0x40_0000);

fn small() -> Setup {
    Setup { default_bytes: 64 * MIB, ..Setup::new(GIB, 1 << 16, 0x3) }
}

fn window(machine: &Machine) -> Arc<TceWindow> {
    machine.slot().default_window().clone()
}

fn default_mapper(slot: &PciSlot) -> Mapper {
    slot.default_mapper(Limits::of_bits(32))
}

fn refused<T>(what: &'static str, why: &str) -> Result<T, MapError> {
    Err(MapError::Refused { what, why: why.to_owned() })
}

#[test]
fn hypercalls_by_number_of_entries() {
    for (command_line, calls) in [("", TceCalls::Multi), ("quiet multitce=off", TceCalls::Single)] {
        let window = window(&Setup { command_line, ..small() }.machine());
        for entries in [1, 2, 15, 16, 17, 511, 512, 513, 1024, 1025, 4000] {
            let mut counters = DmaCounters::default();
            window.map(AT, MEMORY, entries * PAGE, Access::ReadWrite, &mut counters).unwrap();
            let hypercalls = Hypercalls::map(entries, calls).total();
            assert_eq!(
                counters,
                DmaCounters { hypercalls, table_entries: entries, ..DmaCounters::default() },
                "map {entries}"
            );
            let mut counters = DmaCounters::default();
            window.unmap(AT, entries * PAGE, &mut counters).unwrap();
            let hypercalls = Hypercalls::unmap(entries, calls).total();
            assert_eq!(
                counters,
                DmaCounters { hypercalls, table_entries: entries, ..DmaCounters::default() },
                "unmap {entries}"
            );
        }
        let mut counters = DmaCounters::default();
        window.invalidate(AT, PAGE, &mut counters);
        window.invalidate_all(&mut counters);
        assert_eq!(counters, DmaCounters::default(), "the hypervisor does that by itself");
    }
}

#[test]
fn a_page_of_a_cpu_with_64_kib_pages_is_16_entries() {
    let machine = small().machine();
    let mapper = default_mapper(&machine.slot());
    let mut counters = DmaCounters::default();
    let at = mapper.map(MemoryAddress(0x12_0000), 64 * KIB, Direction::ToDevice, &mut counters).unwrap();
    assert!(at.0 % (64 * KIB) == 0, "{at}");
    assert_eq!((counters.hypercalls, counters.table_entries, counters.allocations), (1, 16, 1));
    let walk = machine.walk(DEFAULT);
    for offset in (0..64 * KIB).step_by(4093) {
        let found = walk.reach(&machine.ram, BusAddress(at.0 + offset), Access::Read);
        assert_eq!(found, Ok((MemoryAddress(0x12_0000 + offset), PAGE)));
    }
}

#[test]
fn writable_pages_are_readable() {
    let machine = small().machine();
    let mapper = default_mapper(&machine.slot());
    let allowed = |direction| {
        let at = mapper.map(MEMORY, PAGE, direction, &mut DmaCounters::default()).unwrap();
        let walk = |access| machine.walk(DEFAULT).reach(&machine.ram, at, access).is_ok();
        (walk(Access::Read), walk(Access::Write))
    };
    assert_eq!(allowed(Direction::ToDevice), (true, false));
    assert_eq!(allowed(Direction::FromDevice), (true, true));
    assert_eq!(allowed(Direction::Bidirectional), (true, true));
}

#[test]
fn a_list_gets_a_range_for_each_element() {
    let mapper = default_mapper(&small().machine().slot());
    let mut counters = DmaCounters::default();
    let elements =
        [0, 1, 2].map(|index| Element { memory: MemoryAddress(MEMORY.0 + index * MIB), bytes: 64 * KIB });
    let segments = mapper.map_list(&elements, Direction::ToDevice, &mut counters).unwrap();
    assert_eq!((counters.allocations, counters.mappings, counters.hypercalls), (3, 3, 3));
    // Adjacent by chance: pools hand out one after another, in lines of 16 entries; 64 KiB is all that a segment may have.
    let at = |index: u64| BusAddress(segments[0].at.0 + index * 64 * KIB);
    let expected: Vec<_> = (0..3).map(|index| Segment { at: at(index), bytes: 64 * KIB }).collect();
    assert_eq!(segments, expected);
    mapper.unmap_list(&elements, &segments, Direction::ToDevice, &mut counters).unwrap();
    assert_eq!((counters.frees, counters.unmappings, counters.hypercalls), (3, 3, 6));
}

#[test]
fn pools_are_cut_from_the_first_entry_on() {
    let slot = Setup::new(GIB, 0, 0x3).machine().slot();
    let mapper = default_mapper(&slot);
    let map = |bytes| mapper.map(MEMORY, bytes, Direction::ToDevice, &mut DmaCounters::default()).unwrap();
    // 2 GiB: 4 pools of 98,304 entries, and the large one behind them.
    assert_eq!(map(PAGE), BusAddress(PAGE), "address 0 is nobody's");
    assert_eq!(map(16 * PAGE), BusAddress(4 * 98_304 * PAGE));
}

#[test]
fn too_little_entitlement_undoes_the_whole() {
    let machine = small().machine_with(|hypervisor| hypervisor.with_entitlement(600 * PAGE));
    let window = window(&machine);
    let mut counters = DmaCounters::default();
    let mapped = window.map(AT, MEMORY, 700 * PAGE, Access::Read, &mut counters);
    assert_eq!(mapped, refused("H_PUT_TCE_INDIRECT", "H_NOT_ENOUGH_RESOURCES (-44)"));
    // 512 were written, the rest refused, the 512 cleared.
    assert_eq!((counters.hypercalls, counters.table_entries), (3, 1024));
    assert!(!window.is_in_use());
    assert_eq!(window.find(AT), None);
    window.map(AT, MEMORY, 600 * PAGE, Access::Read, &mut counters).unwrap();
}

#[test]
fn foreign_memory_is_refused_as_a_whole() {
    for (command_line, what, calls) in [("", "H_PUT_TCE_INDIRECT", 1), ("multitce=off", "H_PUT_TCE", 4)] {
        let machine = Setup { command_line, ..small() }.machine();
        let window = window(&machine);
        let mut counters = DmaCounters::default();
        // The last two pages are the hypervisor's.
        let mapped = window.map(AT, MemoryAddress(GIB - PAGE), 3 * PAGE, Access::Read, &mut counters);
        assert_eq!(mapped, refused(what, "H_PARAMETER (-4)"));
        let undone = u64::from(calls > 1);
        assert_eq!((counters.hypercalls, counters.table_entries), (calls - undone, 2 * undone));
        assert!(!window.is_in_use() && window.find(AT).is_none());
        machine.hypervisor.reclaim_memory(MemoryRange { start: MEMORY, bytes: PAGE });
        let mapped = window.map(AT, MEMORY, PAGE, Access::Read, &mut counters);
        assert_eq!(mapped, refused("H_PUT_TCE", "H_RESCINDED (-46)"));
    }
}

#[test]
fn a_window_that_was_taken_back() {
    let machine = small().machine();
    let window = window(&machine);
    let mut counters = DmaCounters::default();
    window.map(AT, MEMORY, PAGE, Access::Read, &mut counters).unwrap();
    machine.hypervisor.rescind(DEFAULT);
    let why = "H_RESCINDED (-46)".to_owned();
    let unmapped = window.unmap(AT, PAGE, &mut counters);
    assert_eq!(unmapped, Err(UnmapError::Refused { what: "H_STUFF_TCE", why }));
    assert!(window.is_in_use());
    assert_eq!(window.find(AT), None);
}

#[test]
fn without_a_page_for_the_list_entries_are_written_one_by_one() {
    let setup = small();
    let machine = setup.machine();
    let none = Frames::new(MemoryAddress(0), 0);
    let partition = setup.partition(&machine.hypervisor, &machine.ram, none);
    let window = Machine { partition, ..machine }.slot().default_window().clone();
    let mut counters = DmaCounters::default();
    window.map(AT, MEMORY, 5 * PAGE, Access::Read, &mut counters).unwrap();
    assert_eq!((counters.hypercalls, counters.table_entries), (5, 5));
    window.unmap(AT, 5 * PAGE, &mut counters).unwrap();
    assert_eq!((counters.hypercalls, counters.table_entries), (6, 10));
}

#[test]
fn wrong_requests_change_nothing() {
    let window = window(&small().machine());
    let mut counters = DmaCounters::default();
    let last = BusAddress(64 * MIB - 1);
    let mut map = |at, memory, bytes| {
        window.map(BusAddress(at), MemoryAddress(memory), bytes, Access::Read, &mut counters)
    };
    for (at, memory, bytes) in [(1, 0, PAGE), (0, 1, PAGE), (0, 0, 1), (0, 0, 0)] {
        let (at_, memory_) = (BusAddress(at), MemoryAddress(memory));
        let unaligned = MapError::Unaligned { at: at_, memory: memory_, bytes, granule_bytes: PAGE };
        assert_eq!(map(at, memory, bytes), Err(unaligned));
    }
    for (at, bytes) in [(64 * MIB, PAGE), (64 * MIB - PAGE, 2 * PAGE), (u64::MAX - PAGE + 1, 2 * PAGE)] {
        let outside = MapError::Outside { at: BusAddress(at), bytes, first: BusAddress(0), last };
        assert_eq!(map(at, 0, bytes), Err(outside));
    }
    let memory = MemoryAddress(u64::MAX - PAGE + 1);
    assert_eq!(map(0, memory.0, 2 * PAGE), Err(MapError::Unreachable { memory }));
    map(3 * PAGE, 0, 2 * PAGE).unwrap();
    assert_eq!(map(0, 0, 5 * PAGE), Err(MapError::Mapped { at: BusAddress(3 * PAGE) }));
    map(0, 0, 3 * PAGE).unwrap();
    assert_eq!(counters.table_entries, 5);
    let mut unmap = |at: u64, bytes| window.unmap(BusAddress(at), bytes, &mut counters);
    for (at, bytes) in [(1, PAGE), (0, PAGE + 1), (0, 0)] {
        let unaligned = UnmapError::Unaligned { at: BusAddress(at), bytes, granule_bytes: PAGE };
        assert_eq!(unmap(at, bytes), Err(unaligned));
    }
    let not_mapped = |at| Err(UnmapError::NotMapped { at: BusAddress(at) });
    assert_eq!(unmap(0, 6 * PAGE), not_mapped(5 * PAGE));
    assert_eq!(unmap(64 * MIB, PAGE), not_mapped(64 * MIB));
    assert_eq!(unmap(0, 5 * PAGE), Ok(()));
    assert_eq!(unmap(0, PAGE), not_mapped(0));
    assert_eq!(counters.table_entries, 10);
}

#[test]
fn two_gib_of_registrations_exhaust_the_default_window_and_not_a_direct_one() {
    const REGION: u64 = 64 * MIB;
    let memory_bytes = 4 * GIB;
    let register = |mapper: &Mapper| {
        let mut counters = DmaCounters::default();
        let regions = (0..memory_bytes / REGION).map(|index| MemoryAddress(index * REGION));
        let mapped =
            regions.map(|memory| mapper.map(memory, REGION, Direction::Bidirectional, &mut counters));
        let mapped: Result<Vec<BusAddress>, DmaError> = mapped.collect();
        (mapped, counters)
    };
    let slot = Setup::new(memory_bytes, 1 << 16, 0x3).machine().slot();
    let (mapped, counters) = register(&default_mapper(&slot));
    let full = DmaError::NoAddresses { bytes: REGION, limit: BusAddress(u32::MAX.into()) };
    assert_eq!(mapped, Err(full));
    // What fits is less than 2 GiB: no pool hands out its last page, and none of a region may cross from one into the next.
    assert!((1..32).contains(&counters.mappings), "{}", counters.mappings);
    assert_eq!(counters.hypercalls, counters.mappings * REGION / PAGE / 512);

    let request = crate::decision::request(ddw::Era::Linux61, memory_bytes);
    let way = slot.enable_ddw(&request, &mut |_| (), &mut DmaCounters::default());
    let DdwOutcome::Direct { window } = way else { panic!("{way:?}") };
    let (mapped, counters) = register(&slot.mapper(&way, Limits::of_bits(64)));
    let expected = (0..memory_bytes / REGION).map(|index| BusAddress(window.first.0 + index * REGION));
    assert_eq!(mapped, Ok(expected.collect()));
    assert_eq!(counters, DmaCounters { mappings: 64, ..DmaCounters::default() }, "no call, no entry");
}

#[test]
fn threads_map_ranges_of_their_own() {
    let machine = small().machine();
    let mapper = default_mapper(&machine.slot());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (mapper, machine) = (&mapper, &machine);
            scope.spawn(move || {
                let mut counters = DmaCounters::default();
                for round in 1..200_u64 {
                    let (bytes, memory) =
                        (round % 7 * PAGE + 1, MemoryAddress(thread * 256 * KIB * 8 + round * PAGE));
                    let at = mapper.map(memory, bytes, Direction::FromDevice, &mut counters).unwrap();
                    let last = BusAddress(at.0 + bytes - 1);
                    let found = machine.walk(DEFAULT).reach(&machine.ram, last, Access::Write).unwrap();
                    assert_eq!(found.0, MemoryAddress(memory.0 + bytes - 1));
                    mapper.unmap(at, bytes, Direction::FromDevice, &mut counters).unwrap();
                }
                assert_eq!((counters.mappings, counters.unmappings), (199, 199));
            });
        }
    });
    mapper.close().unwrap();
    assert_eq!(machine.hypervisor.table(DEFAULT).map(|table| table.entries), Some(64 * MIB / PAGE));
}

/// Pages of the window that steps are about.
const PAGES: u64 = 1300;

#[derive(Debug, Clone, Copy)]
struct Step {
    maps: bool,
    first: u64,
    pages: u64,
    memory: u64,
    access: Access,
}

fn step() -> impl Strategy<Value = Step> {
    let access = prop::sample::select(vec![Access::Read, Access::Write, Access::ReadWrite]);
    let pages = prop_oneof![1..8_u64, 500..600_u64];
    (any::<bool>(), 0..PAGES, pages, 0..64_u64, access)
        .prop_map(|(maps, first, pages, memory, access)| Step { maps, first, pages, memory, access })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn as_a_map_of_pages(
        page_shift in prop::sample::select(vec![12_u32, 16, 21]), single: bool,
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let command_line = if single { "multitce=off" } else { "" };
        let setup = Setup { command_line, default_bytes: 16 * MIB, ..Setup::new(8 * GIB, 1 << 12, 1) };
        let pages = [(12, 0x1), (16, 0x2), (21, 0x100)].into_iter().find(|(shift, _)| *shift == page_shift).unwrap();
        // Memory is larger than the window: it is used dynamically, and all of it is ours to map in.
        let machine = setup.offering(|offer| offer.page_sizes = ddw::PageSizes(pages.1)).machine();
        let slot = machine.slot();
        let request = crate::decision::request(ddw::Era::Linux61, 1 << 40);
        let way = slot.enable_ddw(&request, &mut |_| (), &mut DmaCounters::default());
        let DdwOutcome::Dynamic { window, domain } = way else { panic!("{way:?}") };
        let translation = domain.translation();
        let page_bytes = 1_u64 << page_shift;
        let at = |page: u64| BusAddress(window.first.0 + page * page_bytes);
        let mut model: BTreeMap<u64, (u64, Access)> = BTreeMap::new();
        let mut counters = DmaCounters::default();
        for Step { maps, first, pages, memory, access } in steps {
            let bytes = pages * page_bytes;
            let range = first..first + pages;
            if maps {
                let taken = range.clone().find(|page| model.contains_key(page));
                let mapped = translation.map(at(first), MemoryAddress(memory * page_bytes), bytes, access, &mut counters);
                prop_assert_eq!(mapped, taken.map_or(Ok(()), |page| Err(MapError::Mapped { at: at(page) })));
                if taken.is_none() {
                    model.extend(range.zip(memory..).map(|(page, memory)| (page, (memory, access))));
                }
            } else {
                let hole = range.clone().find(|page| !model.contains_key(page));
                let unmapped = translation.unmap(at(first), bytes, &mut counters);
                prop_assert_eq!(unmapped, hole.map_or(Ok(()), |page| Err(UnmapError::NotMapped { at: at(page) })));
                if hole.is_none() {
                    range.for_each(|page| { model.remove(&page); });
                }
            }
        }
        let walk = machine.walk(window.liobn);
        for page in 0..PAGES + 600 {
            let bus = BusAddress(at(page).0 + 5);
            let expected = model.get(&page).map(|(memory, _)| MemoryAddress(memory * page_bytes + 5));
            prop_assert_eq!(translation.find(bus), expected);
            prop_assert_eq!(walk.reach(&machine.ram, bus, Access::Read).ok().map(|found| found.0), expected);
            let writable = model.get(&page).is_some_and(|(_, access)| access.writes());
            prop_assert_eq!(walk.reach(&machine.ram, bus, Access::Write).is_ok(), writable);
        }
    }
}
