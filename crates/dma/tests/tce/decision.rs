//! `enable_ddw` by era, end to end: what is really made, and what was predicted.

use crate::machine::{ADDRESS, DEFAULT, GIB, HIGH, KIB, MIB, Machine, Setup};
use ddw::{DefaultReason, Era, Outcome, PageSizes, Query, Request, predict};
use dma::tce::{Created, DdwOutcome, MemoryRange, NoWindow, RtasCall, RtasStatus, TceFault};
use dma::{
    Access, BusAddress, Direction, DmaCounters, DmaError, Limits, MapError, MemoryAddress, Translation,
};
use proptest::prelude::*;
use std::time::Duration;

pub(crate) fn request(era: Era, memory_max_bytes: u64) -> Request {
    Request { era, mask_bits: 64, memory_max_bytes, disable_ddw: false, persistent_memory: false }
}

fn enable(machine: &Machine, request: &Request) -> (DdwOutcome, DmaCounters) {
    let mut counters = DmaCounters::default();
    let way = machine.slot().enable_ddw(request, &mut |_| panic!("nothing to wait for"), &mut counters);
    (way, counters)
}

fn outcome(way: &DdwOutcome) -> Outcome {
    match way {
        DdwOutcome::Direct { window: Created { page_shift, window_shift, .. } } => {
            Outcome::Direct { page_shift: *page_shift, window_shift: *window_shift }
        }
        DdwOutcome::Hybrid { window: Created { page_shift, window_shift, first, .. }, above } => {
            Outcome::Hybrid {
                page_shift: *page_shift,
                window_shift: *window_shift,
                dynamic_from_shift: (above.translation().window().first.0 - first.0).ilog2(),
            }
        }
        DdwOutcome::Dynamic { window: Created { page_shift, window_shift, .. }, .. } => {
            Outcome::Dynamic { page_shift: *page_shift, window_shift: *window_shift }
        }
        DdwOutcome::Default { why: NoWindow::NotRequested(reason) } => Outcome::Default { reason: *reason },
        DdwOutcome::Default { why: NoWindow::CreateRefused(RtasStatus::Parameter) } => {
            Outcome::Default { reason: DefaultReason::CreateRefused }
        }
        DdwOutcome::Default { why } => panic!("{why}"),
    }
}

/// What the firmware of such a machine answers to a kernel of this era, asked on a machine of its own.
fn answer(setup: &Setup, era: Era) -> Option<Query> {
    let offer = setup.offer?;
    let machine = setup.machine();
    if era.removes_default_window_first() && offer.reset {
        machine.remove(DEFAULT);
    }
    let (windows_available, mut block_tces, page_sizes) = machine.query();
    if windows_available == 0 && era.replaces_default_window() && offer.reset {
        machine.remove(DEFAULT);
        block_tces = machine.query().1;
    }
    let page_sizes = PageSizes(page_sizes);
    Some(Query { windows_available, block_tces, page_sizes, reset: offer.reset, limited_addressing: false })
}

fn check(setup: &Setup, request: &Request, expected: Outcome) -> (Machine, DdwOutcome, DmaCounters) {
    let predicted = predict(request, answer(setup, request.era).as_ref());
    assert_eq!(predicted.outcome, expected, "{request:?} {:#?}", predicted.steps);
    let machine = setup.machine();
    let (way, counters) = enable(&machine, request);
    assert_eq!(outcome(&way), expected, "{request:?}");
    (machine, way, counters)
}

fn default(reason: DefaultReason) -> Outcome {
    Outcome::Default { reason }
}

/// POWER7: windows from 2^52 on, 4 and 64 KiB.
fn power7(memory_bytes: u64, block_tces: u64) -> Setup {
    Setup::new(memory_bytes, block_tces, 0x3).offering(|offer| {
        (offer.first, offer.query_in_six) = (BusAddress(1 << 52), false);
    })
}

#[test]
fn power7_has_a_direct_window_where_the_block_covers_memory() {
    let setup = power7(8 * GIB, 1 << 17);
    for era in [Era::Rhel6, Era::Linux36, Era::Rhel7To419] {
        let direct = Outcome::Direct { page_shift: 16, window_shift: 33 };
        let (machine, way, counters) = check(&setup, &request(era, 8 * GIB), direct);
        let DdwOutcome::Direct { window } = way else { panic!("{way:?}") };
        assert_eq!(window.first, BusAddress(1 << 52));
        // 8 GiB in pages of 64 KiB, 512 a call; 3.6 removes the default window before it asks.
        assert_eq!((counters.table_entries, counters.hypercalls), (1 << 17, 256));
        let gone = era == Era::Linux36;
        assert_eq!(counters.window_operations, 2 + u64::from(gone));
        assert_eq!(machine.hypervisor.table(DEFAULT).is_none(), gone);
    }
}

#[test]
fn power7_keeps_its_default_window_of_2_gib_where_the_block_does_not() {
    for era in [Era::Rhel6, Era::Linux36, Era::Rhel7To419, Era::Linux510, Era::Rhel8] {
        // 3.6 has the default window's entries to add; half a million are not enough either.
        let reason = default(DefaultReason::BlockTooSmall);
        let (machine, way, counters) = check(&power7(64 * GIB, 1 << 18), &request(era, 64 * GIB), reason);
        assert_eq!((counters.table_entries, counters.hypercalls), (0, 0));
        let slot = machine.slot();
        let window = slot.default_window().window().clone();
        assert_eq!((window.first, window.last), (BusAddress(0), BusAddress(2 * GIB - 1)));
        let mapper = slot.mapper(&way, Limits::of_bits(64));
        let at = mapper.map(MemoryAddress(60 * GIB), 4096, Direction::ToDevice, &mut DmaCounters::default());
        let found = machine.walk(DEFAULT).reach(&machine.ram, at.unwrap(), Access::Read);
        assert_eq!(found, Ok((MemoryAddress(60 * GIB), 4096)), "{era:?}");
    }
}

#[test]
fn a_window_that_fits_only_before_rounding_is_refused() {
    // Entries for 24 GiB exactly: the kernel finds that they do, and asks for 32 GiB.
    let setup = Setup { default_bytes: 256 * MIB, ..power7(24 * GIB, (24 * GIB) >> 16) };
    for era in [Era::Rhel6, Era::Rhel7To419, Era::Linux510, Era::Linux61, Era::Linux612] {
        let (machine, way, counters) =
            check(&setup, &request(era, 24 * GIB), default(DefaultReason::CreateRefused));
        assert!(
            matches!(way, DdwOutcome::Default { why: NoWindow::CreateRefused(status) } if status.code() == -3)
        );
        assert_eq!(counters, DmaCounters { window_operations: 2, ..DmaCounters::default() });
        assert_eq!(machine.query().0, 1);
    }
    check(&setup, &request(Era::Rhel8, 24 * GIB), default(DefaultReason::BlockTooSmall));
}

#[test]
fn linux_3_6_gets_its_default_window_back_when_all_is_in_vain() {
    let (machine, _, counters) = check(
        &power7(64 * GIB, 1 << 10),
        &request(Era::Linux36, 64 * GIB),
        default(DefaultReason::BlockTooSmall),
    );
    assert_eq!(counters.window_operations, 3, "removed, asked, reset");
    assert!(machine.hypervisor.table(DEFAULT).is_some());
}

#[test]
fn linux_6_1_uses_a_window_that_is_too_small_dynamically() {
    let setup = Setup::new(64 * GIB, 1 << 16, 0x3);
    for era in [Era::Linux61, Era::Linux612] {
        let dynamic = Outcome::Dynamic { page_shift: 16, window_shift: 32 };
        let (machine, way, counters) = check(&setup, &request(era, 64 * GIB), dynamic);
        assert_eq!((counters.table_entries, counters.window_operations), (0, 2));
        let DdwOutcome::Dynamic { window, .. } = &way else { panic!("{way:?}") };
        assert_eq!(window.first, HIGH);
        let mapper = machine.slot().mapper(&way, Limits::of_bits(64));
        let mut counters = DmaCounters::default();
        let at =
            mapper.map(MemoryAddress(63 * GIB + 5), 64 * KIB, Direction::FromDevice, &mut counters).unwrap();
        assert!(at >= HIGH);
        assert_eq!((counters.hypercalls, counters.table_entries), (1, 2), "two pages of 64 KiB in one call");
        let walk = |at| machine.walk(window.liobn).reach(&machine.ram, at, Access::Write);
        assert_eq!(walk(at), Ok((MemoryAddress(63 * GIB + 5), 64 * KIB)));
        mapper.unmap(at, 64 * KIB, Direction::FromDevice, &mut counters).unwrap();
        assert_eq!(walk(at), Err(TceFault::Forbidden { at, access: Access::Write }));
    }
}

#[test]
fn linux_6_12_shares_its_only_window_with_persistent_memory() {
    // One window, for which the default one has to go; 8 GiB of memory, and room for as much again.
    let setup = Setup::new(8 * GIB, 1 << 18, 0x2).offering(|offer| offer.windows_max = 1);
    let with = |era| Request { persistent_memory: true, ..request(era, 8 * GIB) };
    let hybrid = Outcome::Hybrid { page_shift: 16, window_shift: 36, dynamic_from_shift: 33 };
    // With the default window's half a million entries the block is 786,432, which Linux rounds up: no such window can be had.
    check(&setup, &with(Era::Linux612), default(DefaultReason::CreateRefused));
    let setup = Setup { block_tces: 1 << 19, ..setup };
    let (machine, way, counters) = check(&setup, &with(Era::Linux612), hybrid);
    assert_eq!(counters.table_entries, 1 << 17, "memory alone");
    assert_eq!(counters.window_operations, 4, "asked, removed, asked, created");
    assert_eq!(machine.hypervisor.table(DEFAULT), None);
    let DdwOutcome::Hybrid { window, above } = &way else { panic!("{way:?}") };
    let walk =
        |at| machine.walk(window.liobn).reach(&machine.ram, at, Access::ReadWrite).map(|found| found.0);
    assert_eq!(walk(BusAddress(window.first.0 + 8 * GIB - 1)), Ok(MemoryAddress(8 * GIB - 1)));
    let first = above.translation().window().first;
    assert_eq!(first, BusAddress(window.first.0 + 8 * GIB));
    assert!(walk(first).is_err());
    let above = dma::Mapper::translated(Limits::of_bits(64), above.clone());
    let at = above.map(MemoryAddress(GIB), 64 * KIB, Direction::Bidirectional, &mut DmaCounters::default());
    assert_eq!(at.as_ref().map(|at| walk(*at)), Ok(Ok(MemoryAddress(GIB))));
    assert!(at.unwrap() >= first);
    // 6.1 has no such thing: all of the window is mapped as needed.
    check(&setup, &with(Era::Linux61), Outcome::Dynamic { page_shift: 16, window_shift: 33 });
}

#[test]
fn the_default_window_is_traded_in_unless_it_is_in_use() {
    let setup = Setup::new(8 * GIB, 1 << 17, 0x2).offering(|offer| offer.windows_max = 1);
    let direct = Outcome::Direct { page_shift: 16, window_shift: 33 };
    for era in [Era::Linux510, Era::Rhel8, Era::Linux61, Era::Linux612] {
        let (machine, _, counters) = check(&setup, &request(era, 8 * GIB), direct);
        assert_eq!((machine.hypervisor.table(DEFAULT), counters.window_operations), (None, 4));

        let machine = setup.machine();
        let slot = machine.slot();
        let mut counters = DmaCounters::default();
        slot.default_window()
            .map(BusAddress(4096), MemoryAddress(0), 4096, Access::Read, &mut counters)
            .unwrap();
        let way = slot.enable_ddw(&request(era, 8 * GIB), &mut |_| (), &mut counters);
        assert!(matches!(way, DdwOutcome::Default { why: NoWindow::DefaultInUse }), "{way:?}");
        assert_eq!(slot.default_window().find(BusAddress(4096)), Some(MemoryAddress(0)));
        slot.default_window().unmap(BusAddress(4096), 4096, &mut counters).unwrap();
    }
    for era in [Era::Rhel6, Era::Rhel7To419] {
        check(&setup, &request(era, 8 * GIB), default(DefaultReason::NoWindowLeft));
    }
    check(&setup, &request(Era::Linux36, 8 * GIB), direct);
    let fixed = setup.offering(|offer| offer.reset = false);
    check(&fixed, &request(Era::Linux61, 8 * GIB), default(DefaultReason::NoWindowLeft));
}

#[test]
fn unused_features_cost_nothing() {
    let setup = Setup::new(GIB, 1 << 16, 0x3);
    let base = request(Era::Linux61, GIB);
    for (request, reason) in [
        (request(Era::NoDdw, GIB), DefaultReason::KernelTooOld),
        (Request { disable_ddw: true, ..base }, DefaultReason::Disabled),
        (Request { mask_bits: 32, ..base }, DefaultReason::MaskTooNarrow),
    ] {
        let (_, _, counters) = check(&setup, &request, default(reason));
        assert_eq!(counters, DmaCounters::default());
    }
    let without = Setup { offer: None, ..setup.clone() };
    assert_eq!(check(&without, &base, default(DefaultReason::NotOffered)).2, DmaCounters::default());
    let narrow = Request { mask_bits: 48, ..request(Era::Linux612, GIB) };
    check(&setup, &narrow, default(DefaultReason::NoLimitedAddressing));
    let large = Setup::new(GIB, 1 << 16, 0x100);
    check(&large, &request(Era::Linux510, GIB), default(DefaultReason::NoPageSize));
    check(&large, &base, Outcome::Direct { page_shift: 21, window_shift: 30 });
}

/// With the default window alone, and statuses that some calls are answered.
fn answered(
    statuses: &[(RtasCall, RtasStatus)],
    windows_max: u32,
) -> (Machine, DdwOutcome, Vec<Duration>, DmaCounters) {
    let setup = Setup::new(GIB, 1 << 16, 0x2).offering(|offer| offer.windows_max = windows_max);
    let machine = setup.machine();
    statuses.iter().for_each(|(call, status)| machine.hypervisor.set_next_statuses(*call, [*status]));
    let (mut waited, mut counters) = (Vec::new(), DmaCounters::default());
    let request = request(Era::Linux61, GIB);
    let way = machine.slot().enable_ddw(&request, &mut |delay| waited.push(delay), &mut counters);
    (machine, way, waited, counters)
}

#[test]
fn a_query_is_made_once() {
    for status in [RtasStatus::Hardware, RtasStatus::Busy, RtasStatus::ExtendedDelay(3)] {
        let (_, way, waited, counters) = answered(&[(RtasCall::Query, status)], 2);
        let DdwOutcome::Default { why: NoWindow::QueryRefused(seen) } = way else { panic!("{way:?}") };
        assert_eq!((seen, waited.len(), counters.window_operations), (status, 0, 1));
    }
}

#[test]
fn a_window_is_waited_for() {
    let delays = [RtasStatus::Busy, RtasStatus::ExtendedDelay(2), RtasStatus::ExtendedDelay(5)];
    let (_, way, waited, counters) = answered(&delays.map(|delay| (RtasCall::Create, delay)), 2);
    assert!(matches!(way, DdwOutcome::Direct { .. }), "{way:?}");
    assert_eq!(waited, [1, 100, 100_000].map(Duration::from_millis));
    assert_eq!(counters.window_operations, 5);
}

#[test]
fn traded_memory_is_returned_if_the_rest_fails() {
    // The hardware fails at the new window; then at the removal, which the next query shows.
    for call in [RtasCall::Create, RtasCall::Remove] {
        let (machine, way, _, counters) = answered(&[(call, RtasStatus::Hardware)], 1);
        let DdwOutcome::Default { why } = way else { panic!("{way:?}") };
        let (expected, operations) = match call {
            RtasCall::Create => (NoWindow::CreateRefused(RtasStatus::Hardware), 5),
            _ => (NoWindow::NotRequested(DefaultReason::NoWindowLeft), 4),
        };
        assert_eq!((why, counters.window_operations), (expected, operations));
        assert!(machine.hypervisor.table(DEFAULT).is_some());
    }
    // If not even that can be, nothing is mapped any more, and says so.
    let fails = [(RtasCall::Create, RtasStatus::Hardware), (RtasCall::Reset, RtasStatus::Hardware)];
    let (machine, way, _, _) = answered(&fails, 1);
    assert_eq!(machine.hypervisor.table(DEFAULT), None);
    let slot = machine.slot();
    let mapped = slot.mapper(&way, Limits::of_bits(32)).map(
        MemoryAddress(0),
        4096,
        Direction::ToDevice,
        &mut DmaCounters::default(),
    );
    assert!(matches!(mapped, Err(DmaError::Map(MapError::Refused { .. }))), "{mapped:?}");
}

#[test]
fn the_tail_of_memory_that_is_shorter_than_a_page_is_not_mapped() {
    let stretch = |start, bytes| MemoryRange { start: MemoryAddress(start), bytes };
    // Up to 100 KiB; from within a page; and less than a page.
    let memory = vec![
        stretch(0, 100 * KIB),
        stretch(MIB + 16 * KIB, 64 * KIB),
        stretch(2 * MIB, 4 * KIB),
        stretch(3 * MIB, 640 * KIB),
    ];
    let setup = Setup { memory, ..Setup::new(GIB, 1 << 16, 0x2) };
    let (machine, way, counters) =
        check(&setup, &request(Era::Linux61, GIB), Outcome::Direct { page_shift: 16, window_shift: 30 });
    let DdwOutcome::Direct { window } = way else { panic!("{way:?}") };
    let walk = machine.walk(window.liobn);
    let is_mapped = |memory| {
        let found = walk.reach(&machine.ram, BusAddress(window.first.0 + memory), Access::ReadWrite);
        assert!(found.is_err() || found == Ok((MemoryAddress(memory), 64 * KIB)));
        found.is_ok()
    };
    assert!(is_mapped(0) && is_mapped(64 * KIB - 1) && !is_mapped(64 * KIB) && !is_mapped(100 * KIB - 1));
    assert!(is_mapped(MIB + 16 * KIB) && !is_mapped(MIB + 64 * KIB), "it ends at {:#x}", MIB + 80 * KIB);
    assert!(!is_mapped(2 * MIB));
    assert!(is_mapped(3 * MIB + 640 * KIB - 1) && !is_mapped(3 * MIB + 640 * KIB));
    // A call for each stretch, the one without a whole page too.
    assert_eq!((counters.hypercalls, counters.table_entries), (4, 1 + 1 + 10));
}

#[test]
fn a_window_that_memory_cannot_be_mapped_in_is_given_back() {
    let setup = Setup::new(GIB, 1 << 16, 0x2);
    let machine = setup.machine();
    machine.hypervisor.reclaim_memory(MemoryRange { start: MemoryAddress(512 * MIB), bytes: 4096 });
    let (way, counters) = enable(&machine, &request(Era::Linux61, GIB));
    let DdwOutcome::Default { why: NoWindow::PremapRefused(status) } = way else { panic!("{way:?}") };
    assert_eq!(status.code(), -46);
    assert_eq!(machine.query().0, 1);
    assert_eq!(counters.window_operations, 3, "asked, created, removed");
    assert!(counters.hypercalls > 32, "all of it was cleared: {}", counters.hypercalls);
    assert!(machine.hypervisor.table(DEFAULT).is_some());
    assert!(dma::tce::PciSlot::new(machine.partition.clone(), ADDRESS).unwrap().is_some());
}

#[test]
fn many_entries_are_written_one_by_one_on_request() {
    let setup = Setup { command_line: "multitce=off", ..Setup::new(GIB, 1 << 16, 0x2) };
    let direct = Outcome::Direct { page_shift: 16, window_shift: 30 };
    let (_, _, counters) = check(&setup, &request(Era::Linux61, GIB), direct);
    assert_eq!((counters.hypercalls, counters.table_entries), (1 << 14, 1 << 14));
}

#[test]
fn room_for_less_than_the_smallest_table_is_no_room() {
    // One entry of 16 MiB would cover memory, but tables lie at multiples of 4 KiB.
    let setup = Setup { default_bytes: 16 * MIB, ..Setup::new(16 * MIB, 1, 0x4) };
    assert_eq!(setup.machine().query().1, 0);
    check(&setup, &request(Era::Rhel6, 16 * MIB), default(DefaultReason::BlockTooSmall));
    // 6.1 rounds the block up before it compares, and asks for that.
    check(&setup, &request(Era::Linux61, 16 * MIB), default(DefaultReason::CreateRefused));
    let setup = Setup { block_tces: 512, ..setup };
    let direct = Outcome::Direct { page_shift: 24, window_shift: 24 };
    check(&setup, &request(Era::Rhel6, 16 * MIB), direct);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn created_windows_are_the_predicted_ones(
        era in prop::sample::select(Era::ALL.to_vec()), chunks in 1..40_u64, block in 1..20_000_u64, shift in 0..4_u32,
        page_sizes in 0..0x200_u32, windows_max in 1..3_u32, reset: bool, persistent_memory: bool,
        mask_bits in prop::sample::select(vec![32, 48, 63, 64]), has_offer in prop::bool::weighted(0.9),
    ) {
        let memory_bytes = chunks * 16 * MIB;
        // No page larger than all memory.
        let fits = |bit: &u32| PageSizes(1 << bit).shifts()[0] <= memory_bytes.ilog2();
        let page_sizes = (0..9).filter(fits).fold(0, |sizes, bit| sizes | page_sizes & 1 << bit);
        let setup = Setup {
            default_bytes: 16 * MIB,
            ..Setup::new(memory_bytes, block << shift, page_sizes).offering(|offer| {
                (offer.windows_max, offer.reset) = (windows_max, reset);
            })
        };
        let setup = if has_offer { setup } else { Setup { offer: None, ..setup } };
        let request = Request { mask_bits, persistent_memory, ..request(era, memory_bytes) };
        let predicted = predict(&request, answer(&setup, era).as_ref());
        let machine = setup.machine();
        let (way, counters) = enable(&machine, &request);
        prop_assert_eq!(outcome(&way), predicted.outcome, "{:#?}", predicted.steps);
        let (DdwOutcome::Direct { window } | DdwOutcome::Hybrid { window, .. } | DdwOutcome::Dynamic { window, .. }) = way else {
            prop_assert!(machine.hypervisor.table(DEFAULT).is_some(), "the default window is there");
            prop_assert_eq!(counters.table_entries, 0);
            return Ok(());
        };
        let table = machine.hypervisor.table(window.liobn).unwrap();
        prop_assert_eq!((table.first, table.page_shift), (window.first, window.page_shift));
        prop_assert_eq!(table.entries, 1 << (window.window_shift - window.page_shift));
        let walk = machine.walk(window.liobn);
        let premapped = if counters.hypercalls == 0 { 0 } else { memory_bytes >> window.page_shift };
        prop_assert_eq!(counters.table_entries, premapped);
        for memory in (0..memory_bytes).step_by(5 * MIB as usize + 12_345) {
            let found = walk.reach(&machine.ram, BusAddress(window.first.0 + memory), Access::ReadWrite);
            let is_mapped = memory >> window.page_shift < premapped;
            prop_assert_eq!(found.ok(), is_mapped.then_some((MemoryAddress(memory), 1 << window.page_shift)));
        }
    }
}
