//! The firmware's calls for windows.

use crate::machine::{ADDRESS, CELLS, DEFAULT, GIB, HIGH, MIB, Setup};
use dma::tce::{
    DefaultWindow, Endpoint, EndpointAddress, EndpointError, Entry, Hypervisor, MemoryRange, Properties,
    RtasCall, RtasStatus,
};
use dma::{BusAddress, MemoryAddress, NoMemory, Ram};
use std::sync::Arc;
use std::time::Duration;

const REFUSED: RtasStatus = RtasStatus::Parameter;

/// A default window of 16 MiB, and room for 2^16 entries more.
fn small() -> Setup {
    Setup { default_bytes: 16 * MIB, ..Setup::new(GIB, 1 << 16, 0x103) }
}

#[test]
fn the_device_tree_tells_of_the_default_window_and_the_offer() {
    let default_window = DefaultWindow { liobn: DEFAULT, first: BusAddress(0), bytes: 16 * MIB };
    let properties = small().machine().hypervisor.properties(ADDRESS);
    let all = Properties { default_window, ddw_applicable: true, reset: true, query_in_six: true };
    assert_eq!(properties, Some(all));
    let without = Setup { offer: None, ..small() }.machine();
    let none = Properties { default_window, ddw_applicable: false, reset: false, query_in_six: false };
    assert_eq!(without.hypervisor.properties(ADDRESS), Some(none));
    assert_eq!(without.create(12, 20), Err(REFUSED));
    assert_eq!((without.remove(DEFAULT), without.reset()), (REFUSED, REFUSED));
    assert_eq!(without.hypervisor.rtas(RtasCall::Query, &CELLS, &mut [0; 4]), REFUSED);
    let other = EndpointAddress { config: 0, ..ADDRESS };
    assert_eq!(without.hypervisor.properties(other), None);
}

#[test]
fn a_query_has_five_outputs_or_six() {
    let machine = small().machine();
    let query = |outputs: &mut [u32]| machine.hypervisor.rtas(RtasCall::Query, &CELLS, outputs);
    let (mut four, mut five) = ([9; 4], [9; 5]);
    assert_eq!((query(&mut four), four), (RtasStatus::Success, [1, 1 << 16, 0x103, 0]));
    assert_eq!((query(&mut five), five), (RtasStatus::Success, [1, 0, 1 << 16, 0x103, 0]));
    assert_eq!((query(&mut [0; 3]), query(&mut [0; 6])), (REFUSED, REFUSED));
    let old = small().offering(|offer| offer.query_in_six = false).machine();
    let mut five = [9; 5];
    assert_eq!((old.hypervisor.rtas(RtasCall::Query, &CELLS, &mut five), five), (REFUSED, [9; 5]));
    for inputs in [&[1, 2, 3][..], &CELLS[..2]] {
        assert_eq!(machine.hypervisor.rtas(RtasCall::Query, inputs, &mut [0; 4]), REFUSED);
    }
}

#[test]
fn requested_options_must_be_offered() {
    let machine = small().offering(|offer| offer.windows_max = 9).machine();
    // 4 KiB, 64 KiB and, out of order, 2 MiB; 2^16 entries.
    for (page_shift, window_shift) in
        [(24, 30), (34, 40), (0, 30), (12, 11), (16, 15), (12, 29), (21, 38), (12, 64), (12, u32::MAX)]
    {
        assert_eq!(machine.create(page_shift, window_shift), Err(REFUSED), "{page_shift} {window_shift}");
    }
    assert_eq!(machine.query(), (8, 1 << 16, 0x103), "nothing was taken");
    let (liobn, first) = machine.create(21, 36).unwrap();
    assert_eq!((liobn, first), (DEFAULT + 1, HIGH));
    assert_eq!(machine.query(), (7, 1 << 15, 0x103));
    // The next one lies where its size allows, behind the other.
    assert_eq!(machine.create(12, 20), Ok((DEFAULT + 2, BusAddress(HIGH.0 + (1 << 36)))));
    assert_eq!(machine.create(16, 12), Err(REFUSED), "smaller than a page");
    assert_eq!(machine.create(16, 16).map(|(liobn, _)| liobn), Ok(DEFAULT + 3), "a page alone");
}

#[test]
fn as_many_windows_as_there_may_be() {
    let machine = small().machine();
    machine.create(12, 20).unwrap();
    assert_eq!(machine.query().0, 0);
    assert_eq!(machine.create(12, 20), Err(REFUSED));
    let one = small().offering(|offer| offer.windows_max = 1).machine();
    assert_eq!((one.query(), one.create(12, 20)), ((0, 1 << 16, 0x103), Err(REFUSED)));
}

#[test]
fn a_window_in_use_is_not_removed() {
    let machine = small().machine();
    let (liobn, first) = machine.create(16, 24).unwrap();
    machine.hypervisor.put_tce(liobn, first, Entry(0x10003));
    assert_eq!((machine.remove(liobn), machine.reset()), (REFUSED, REFUSED));
    machine.hypervisor.put_tce(liobn, first, Entry::NONE);
    assert_eq!(machine.remove(liobn), RtasStatus::Success);
    assert_eq!((machine.remove(liobn), machine.remove(0)), (REFUSED, REFUSED), "no such window");
    assert_eq!(machine.hypervisor.rtas(RtasCall::Remove, &[], &mut []), REFUSED);
}

#[test]
fn the_default_window_comes_back_with_the_last_other() {
    let machine = small().machine();
    assert_eq!(machine.remove(DEFAULT), RtasStatus::Success);
    assert_eq!(machine.hypervisor.table(DEFAULT), None);
    // Its entries are part of the block now.
    assert_eq!(machine.query(), (2, (1 << 16) + 4096, 0x103));
    let (first, _) = machine.create(12, 20).unwrap();
    let (second, _) = machine.create(12, 20).unwrap();
    assert_eq!(machine.remove(first), RtasStatus::Success);
    assert_eq!(machine.hypervisor.table(DEFAULT), None);
    assert_eq!(machine.remove(second), RtasStatus::Success);
    assert_eq!(machine.hypervisor.table(DEFAULT).unwrap().entries, 4096);
    assert_eq!(machine.query(), (1, 1 << 16, 0x103));
}

#[test]
fn a_reset_gives_the_windows_of_the_boot_back() {
    let machine = small().machine();
    let entry = Entry(0x4003);
    machine.hypervisor.put_tce(DEFAULT, BusAddress(0), entry);
    machine.create(12, 20).unwrap();
    assert_eq!(machine.reset(), RtasStatus::Success);
    assert_eq!(machine.query(), (1, 1 << 16, 0x103));
    assert_eq!(machine.hypervisor.get_tce(DEFAULT, BusAddress(0)).1, entry, "it was there all the time");
    machine.hypervisor.put_tce(DEFAULT, BusAddress(0), Entry::NONE);
    machine.remove(DEFAULT);
    assert_eq!(machine.reset(), RtasStatus::Success);
    assert_eq!(machine.hypervisor.table(DEFAULT).unwrap().entries, 4096);
    let without = small().offering(|offer| offer.reset = false).machine();
    assert_eq!(without.reset(), REFUSED);
}

#[test]
fn a_window_is_empty_at_first() {
    let machine = small().machine();
    let (liobn, first) = machine.create(12, 12).unwrap();
    machine.hypervisor.put_tce(liobn, first, Entry(0x4003));
    machine.hypervisor.put_tce(liobn, first, Entry(0x4000));
    assert_eq!(machine.remove(liobn), RtasStatus::Success, "an entry without access is not in use");
    let (liobn, first) = machine.create(12, 12).unwrap();
    assert_eq!(machine.hypervisor.get_tce(liobn, first).1, Entry::NONE);
}

#[test]
fn answers_on_request() {
    let machine = small().machine();
    let delays = (0..6).map(RtasStatus::ExtendedDelay);
    let asked: Vec<_> = [RtasStatus::Hardware, RtasStatus::Busy, REFUSED].into_iter().chain(delays).collect();
    let codes: Vec<i32> = asked.iter().map(|status| status.code()).collect();
    assert_eq!(codes, [-1, -2, -3, 9900, 9901, 9902, 9903, 9904, 9905]);
    let delays: Vec<_> = asked.iter().filter_map(|status| status.delay()).collect();
    assert_eq!(delays, [1, 1, 10, 100, 1000, 10_000, 100_000].map(Duration::from_millis));
    machine.hypervisor.set_next_statuses(RtasCall::Create, asked.clone());
    for status in asked {
        assert_eq!((machine.query().0, machine.create(12, 20)), (1, Err(status)));
    }
    assert_eq!(machine.query().0, 1);
    assert!(machine.create(12, 20).is_ok());
}

#[test]
fn endpoints_that_cannot_be() {
    let ram = Arc::new(Ram::new(MemoryAddress(0), 8 * MIB));
    let stretch = |start, bytes| MemoryRange { start: MemoryAddress(start), bytes };
    let hypervisor = Hypervisor::new(ram, [stretch(0, MIB)]);
    let good = Endpoint { tables: stretch(MIB, MIB), ..small().endpoint() };
    let add = |change: &dyn Fn(&mut Endpoint)| {
        let mut endpoint = good.clone();
        change(&mut endpoint);
        hypervisor.add(endpoint)
    };
    for bytes in [0, 4097, 8 * GIB] {
        assert_eq!(add(&|one| one.default_bytes = bytes), Err(EndpointError::DefaultWindow { bytes }));
    }
    let own = stretch(MIB - 4096, MIB);
    assert_eq!(add(&|one| one.tables = own), Err(EndpointError::Overlaps(own)));
    for (start, bytes) in [(8 * MIB - 4096, 8192), (2 * MIB + 8, MIB), (u64::MAX - 4095, MIB)] {
        let none = NoMemory { at: MemoryAddress(start), bytes };
        assert_eq!(add(&|one| one.tables = stretch(start, bytes)), Err(EndpointError::NoMemory(none)));
    }
    assert_eq!(add(&|one| one.default_bytes = GIB), Err(EndpointError::NoRoom { bytes: MIB }));
    assert_eq!(add(&|_| ()), Ok(()));
    let EndpointAddress { config, buid } = ADDRESS;
    let taken = Err(EndpointError::Taken { config, buid, liobn: DEFAULT });
    assert_eq!(add(&|one| one.tables = stretch(4 * MIB, MIB)), taken);
    let other = |one: &mut Endpoint| (one.address.config, one.liobn) = (0x2_0000, 1);
    assert_eq!(add(&other), Err(EndpointError::Overlaps(good.tables)));
    let apart = |one: &mut Endpoint| {
        other(one);
        one.tables = stretch(4 * MIB, MIB);
    };
    assert_eq!(add(&apart), Ok(()));
}
