//! Adapters in front of the software's IOMMU, well behaved and not.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Access, Amd, BusAddress, Context, DmaCounters, FRAME_BYTES, Frames, Iotlb, MemoryAddress, NoMemory, Ram,
    Reason, Requester, Smmu, SoftwareDomain, Translation, Unit, Vtd, WalkFault, Walked,
};
use proptest::prelude::*;
use std::sync::Arc;

const PAGE: u64 = FRAME_BYTES;
const CARD: Requester = Requester(0x0100);
/// Memory: tables first, then what adapters may be given.
const TABLES_BYTES: u64 = 64 * PAGE;
const RAM_BYTES: u64 = TABLES_BYTES + 64 * PAGE;

fn unit() -> Arc<Unit> {
    let ram = Arc::new(Ram::new(MemoryAddress(0), RAM_BYTES));
    // Few enough entries that some are evicted.
    Arc::new(Unit::new(ram, Iotlb::new(16, 2)))
}

fn domain<F: Walked>(unit: &Arc<Unit>) -> SoftwareDomain<F> {
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let domain = SoftwareDomain::new(Arc::clone(unit), frames, 4).unwrap();
    domain.attach(CARD);
    domain
}

/// The memory's so manieth page that is not the tables'.
fn page(number: u64) -> MemoryAddress {
    MemoryAddress(TABLES_BYTES + number * PAGE)
}

fn bytes(unit: &Unit, at: MemoryAddress, bytes: u64) -> Vec<u8> {
    let mut seen = vec![0; bytes as usize];
    unit.ram().read(at, &mut seen).unwrap();
    seen
}

#[test]
fn data_goes_where_the_table_says() {
    let unit = unit();
    let (domain, card, mut counters) = (domain::<Vtd>(&unit), unit.adapter(CARD), DmaCounters::default());
    // Two pages that follow each other on the bus alone.
    domain.map(BusAddress(0x10000), page(9), PAGE, Access::ReadWrite, &mut counters).unwrap();
    domain.map(BusAddress(0x11000), page(3), PAGE, Access::ReadWrite, &mut counters).unwrap();
    card.write(BusAddress(0x10ffd), b"across").unwrap();
    assert_eq!(bytes(&unit, MemoryAddress(page(9).0 + 0xffd), 3), b"acr");
    assert_eq!(bytes(&unit, page(3), 3), b"oss");
    let mut seen = [0; 6];
    card.read(BusAddress(0x10ffd), &mut seen).unwrap();
    assert_eq!(&seen, b"across");
    let statistics = unit.statistics();
    assert_eq!((statistics.hits, statistics.misses, statistics.table_reads), (2, 2, 8));
}

#[test]
fn an_address_is_walked_to_once_until_it_is_forgotten() {
    let unit = unit();
    let (domain, card, mut counters) = (domain::<Vtd>(&unit), unit.adapter(CARD), DmaCounters::default());
    let at = BusAddress(0x10000);
    domain.map(at, page(9), PAGE, Access::Read, &mut counters).unwrap();
    let look = |bytes| {
        card.translate(BusAddress(at.0 + bytes), Access::Read).map(|found| (found.memory, found.is_walked))
    };
    assert_eq!(look(8), Ok((MemoryAddress(page(9).0 + 8), true)));
    assert_eq!(look(16), Ok((MemoryAddress(page(9).0 + 16), false)));
    assert_eq!(
        card.translate(at, Access::Write).unwrap_err().reason,
        Reason::Denied { allowed: Access::Read }
    );
    // Unmapped, and not yet forgotten.
    domain.unmap(at, PAGE, &mut counters).unwrap();
    assert_eq!(look(8), Ok((MemoryAddress(page(9).0 + 8), false)));
    domain.invalidate(at, PAGE, &mut counters);
    assert!(matches!(look(8).unwrap_err().reason, Reason::Walk(WalkFault::NotPresent { .. })));
    assert_eq!(unit.take_faults().recorded.len(), 2);
}

#[test]
fn a_transfer_stops_at_the_first_fault() {
    let unit = unit();
    let (domain, card, mut counters) = (domain::<Vtd>(&unit), unit.adapter(CARD), DmaCounters::default());
    domain.map(BusAddress(0x10000), page(1), 2 * PAGE, Access::ReadWrite, &mut counters).unwrap();
    let stopped = card.write(BusAddress(0x11ffc), &[7; 16]).unwrap_err();
    assert_eq!(stopped.done_bytes, 4);
    assert_eq!(stopped.fault.at, BusAddress(0x12000));
    assert_eq!(stopped.fault.reason, Reason::Walk(WalkFault::NotPresent { level: 1 }));
    assert_eq!(
        stopped.to_string(),
        "after 4 bytes: 01:00.0: write at 0x12000 was blocked: nothing is mapped (level 1)"
    );
    assert_eq!(bytes(&unit, MemoryAddress(page(2).0 + 0xffc), 8), [7, 7, 7, 7, 0, 0, 0, 0]);
    let mut seen = [1; 8];
    assert_eq!(card.read(BusAddress(0x11ffc), &mut seen).unwrap_err().done_bytes, 4);
    assert_eq!(seen, [7, 7, 7, 7, 1, 1, 1, 1]);
    assert_eq!(unit.take_faults().recorded.len(), 2);
    assert_eq!(unit.take_faults().recorded.len(), 0);
}

#[test]
fn pages_permit_only_their_access() {
    permissions::<Vtd>(true);
    permissions::<Amd>(true);
    // Arm's stage 1 can't forbid reading what may be written.
    permissions::<Smmu>(false);
}

fn permissions<F: Walked>(write_only: bool) {
    let unit = unit();
    let (domain, card, mut counters) = (domain::<F>(&unit), unit.adapter(CARD), DmaCounters::default());
    let (to_read, to_write) = (BusAddress(0x10000), BusAddress(0x20000));
    domain.map(to_read, page(1), PAGE, Access::Read, &mut counters).unwrap();
    domain.map(to_write, page(2), PAGE, Access::Write, &mut counters).unwrap();
    card.read(to_read, &mut [0]).unwrap();
    card.write(to_write, &[1]).unwrap();
    // From the table, and from what is remembered of it.
    for _ in 0..2 {
        let fault = card.write(to_read, &[1]).unwrap_err().fault;
        assert_eq!((fault.access, fault.reason), (Access::Write, Reason::Denied { allowed: Access::Read }));
        assert_eq!(card.read(to_write, &mut [0]).is_err(), write_only);
    }
    assert_eq!(bytes(&unit, page(1), 1), [0]);
}

#[test]
fn contexts_without_a_table_are_an_offset() {
    let unit = unit();
    let card = unit.adapter(CARD);
    assert_eq!(card.write(BusAddress(0), &[1]).unwrap_err().fault.reason, Reason::NoContext);
    unit.attach(CARD, Context::Direct { offset: 0 });
    card.write(BusAddress(page(0).0), &[1]).unwrap();
    unit.attach(CARD, Context::Direct { offset: 1 << 59 });
    card.write(BusAddress(page(0).0 + (1 << 59) + 1), &[2]).unwrap();
    assert_eq!(bytes(&unit, page(0), 3), [1, 2, 0]);
    let beyond = card.write(BusAddress((1 << 59) + RAM_BYTES - 2), &[3; 4]).unwrap_err();
    let none = NoMemory { at: MemoryAddress(RAM_BYTES), bytes: 2 };
    assert_eq!((beyond.done_bytes, beyond.fault.reason), (2, Reason::NoMemory(none)));
    // Wraps around the end of all addresses, where its first byte leads to memory.
    unit.attach(CARD, Context::Direct { offset: u64::MAX - 7 });
    let beyond = card.write(BusAddress(u64::MAX - 3), &[3; 8]).unwrap_err();
    assert_eq!((beyond.done_bytes, beyond.fault.reason), (4, Reason::BeyondBus));
    unit.detach(CARD);
    assert_eq!(card.write(BusAddress(0), &[1]).unwrap_err().fault.reason, Reason::NoContext);
}

#[test]
fn faults_beyond_the_records_are_counted() {
    let unit = unit();
    let card = unit.adapter(CARD);
    for at in 0..Unit::FAULT_RECORDS as u64 + 3 {
        assert!(card.read(BusAddress(at), &mut [0]).is_err());
    }
    let faults = unit.take_faults();
    assert_eq!((faults.recorded.len(), faults.lost), (Unit::FAULT_RECORDS, 3));
    assert_eq!(faults.recorded[1].at, BusAddress(1));
    assert_eq!(unit.take_faults().lost, 0);
}

#[test]
fn a_domain_that_ends_takes_its_adapters_with_it() {
    let unit = unit();
    let card = unit.adapter(CARD);
    let first = domain::<Amd>(&unit);
    first.map(BusAddress(PAGE), page(1), PAGE, Access::ReadWrite, &mut DmaCounters::default()).unwrap();
    card.write(BusAddress(PAGE), &[1]).unwrap();
    let id = first.id();
    drop(first);
    assert_eq!(card.write(BusAddress(PAGE), &[1]).unwrap_err().fault.reason, Reason::NoContext);
    // Its successor has its name, and nothing of what was remembered.
    let second = domain::<Amd>(&unit);
    assert_eq!(second.id(), id);
    assert!(matches!(card.write(BusAddress(PAGE), &[1]).unwrap_err().fault.reason, Reason::Walk(_)));
}

#[test]
fn domains_of_one_unit_are_apart() {
    let unit = unit();
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let new = || SoftwareDomain::<Vtd>::new(Arc::clone(&unit), Arc::clone(&frames), 4).unwrap();
    let (one, other, mut counters) = (new(), new(), DmaCounters::default());
    let requesters = [Requester(8), Requester(16)];
    one.attach(requesters[0]);
    other.attach(requesters[1]);
    one.map(BusAddress(PAGE), page(1), PAGE, Access::ReadWrite, &mut counters).unwrap();
    other.map(BusAddress(PAGE), page(2), PAGE, Access::ReadWrite, &mut counters).unwrap();
    unit.adapter(requesters[0]).write(BusAddress(PAGE), &[1]).unwrap();
    unit.adapter(requesters[1]).write(BusAddress(PAGE), &[2]).unwrap();
    assert_eq!((bytes(&unit, page(1), 1), bytes(&unit, page(2), 1)), (vec![1], vec![2]));
    one.unmap(BusAddress(PAGE), PAGE, &mut counters).unwrap();
    one.invalidate(BusAddress(PAGE), PAGE, &mut counters);
    assert!(unit.adapter(requesters[0]).write(BusAddress(PAGE), &[1]).is_err());
    unit.adapter(requesters[1]).write(BusAddress(PAGE), &[3]).unwrap();
}

/// A mapping, in pages.
type Mapping = (u64, u64, u64, Access);

fn mapping() -> impl Strategy<Value = Mapping> {
    let access = prop::sample::select(vec![Access::Read, Access::Write, Access::ReadWrite]);
    (1_u64..40, 0_u64..60, 1_u64..5, access)
        .prop_map(|(at, page, pages, access)| (at, page, pages.min(64 - page), access))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An adapter that tries everything reaches what is mapped for it, and not one byte more.
    #[test]
    fn nothing_else_is_ever_touched(
        mappings in prop::collection::vec(mapping(), 1..12),
        accesses in prop::collection::vec((0_u64..48 * PAGE, 1_usize..3 * PAGE as usize, any::<bool>()), 1..40),
        wild in prop::collection::vec(any::<u64>(), 4),
    ) {
        nothing_else_is_touched::<Vtd>(&mappings, &accesses, &wild);
        nothing_else_is_touched::<Amd>(&mappings, &accesses, &wild);
    }
}

fn nothing_else_is_touched<F: Walked>(mappings: &[Mapping], accesses: &[(u64, usize, bool)], wild: &[u64]) {
    let unit = unit();
    let (domain, card, mut counters) = (domain::<F>(&unit), unit.adapter(CARD), DmaCounters::default());
    let mut table = vec![None; 48];
    for (at, first, pages, access) in mappings {
        let mapped = domain.map(BusAddress(at * PAGE), page(*first), pages * PAGE, *access, &mut counters);
        if mapped.is_ok() {
            (0..*pages).for_each(|n| table[(at + n) as usize] = Some((page(first + n), *access)));
        }
    }
    let pattern: Vec<u8> = (0..RAM_BYTES - TABLES_BYTES).map(|at| (at % 251) as u8).collect();
    unit.ram().write(page(0), &pattern).unwrap();
    let mut model = bytes(&unit, MemoryAddress(0), RAM_BYTES);
    for (number, (at, length, writes)) in accesses.iter().enumerate() {
        let fill = number as u8 | 0x80;
        // Byte by byte: where it leads to, up to the first that leads nowhere.
        let leads = (*at..at + *length as u64).map_while(|at| {
            let (memory, access) = (*table.get((at / PAGE) as usize)?)?;
            let wanted = if *writes { Access::Write } else { Access::Read };
            access.allows(wanted).then_some((memory.0 + at % PAGE) as usize)
        });
        let leads: Vec<usize> = leads.collect();
        let done = if *writes {
            let done = card.write(BusAddress(*at), &vec![fill; *length]);
            leads.iter().for_each(|at| model[*at] = fill);
            done
        } else {
            let mut seen = vec![0; *length];
            let done = card.read(BusAddress(*at), &mut seen);
            assert!(leads.iter().zip(&seen).all(|(at, seen)| model[*at] == *seen));
            assert!(seen[leads.len()..].iter().all(|byte| *byte == 0));
            done
        };
        assert_eq!(done.map_or_else(|stopped| stopped.done_bytes, |()| *length), leads.len());
    }
    for at in wild.iter().filter(|at| **at >= 48 * PAGE) {
        assert!(card.write(BusAddress(*at), &[0xff; 64]).is_err());
    }
    assert!(
        bytes(&unit, MemoryAddress(0), RAM_BYTES) == model,
        "memory is not what the adapter was to make of it"
    );
}
