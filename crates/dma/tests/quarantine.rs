//! Pages of tables that are taken out wait until the IOMMU has forgotten them, and what calls cost.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Access, BusAddress, Context, DmaCounters, FRAME_BYTES, Frames, Iotlb, Leaf, MemoryAddress, Radix, Ram,
    Requester, SoftwareDomain, Translation, Unit, Vtd, Walk, WalkFault,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = FRAME_BYTES;
const TWO_MIB: u64 = 2 << 20;
/// A root, a table of each level below, and one more.
const TABLES_BYTES: u64 = 5 * PAGE;
/// Off by one page from the bus address: no larger pages.
const ASKEW: MemoryAddress = MemoryAddress(PAGE);

fn table() -> (Arc<Frames>, Radix<Vtd>) {
    let ram = Arc::new(Ram::new(MemoryAddress(0), TABLES_BYTES));
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let table = Radix::new(ram, Arc::clone(&frames), 4).unwrap();
    (frames, table)
}

#[test]
fn a_table_is_used_again_only_after_an_invalidation_of_all_of_it() {
    let (frames, table) = table();
    let (at, mut counters) = (BusAddress(TWO_MIB), DmaCounters::default());
    table.map(at, ASKEW, TWO_MIB, Access::Read, &mut counters).unwrap();
    assert_eq!((counters.table_pages, counters.table_entries), (3, 3 + 512));
    let mut counters = DmaCounters::default();
    table.unmap(at, TWO_MIB, &mut counters).unwrap();
    assert_eq!((counters.table_entries, table.quarantined()), (1, 1));
    let lowest_table = MemoryAddress(3 * PAGE);

    table.invalidated(at, TWO_MIB - PAGE, || {});
    table.invalidated(BusAddress(0), TWO_MIB, || {});
    assert_eq!(table.quarantined(), 1);
    assert_eq!(frames.allocate(), Ok(MemoryAddress(4 * PAGE)));
    assert!(frames.allocate().is_err());

    table.invalidated(at, TWO_MIB, || assert!(frames.allocate().is_err()));
    assert_eq!(table.quarantined(), 0);
    assert_eq!(frames.allocate(), Ok(lowest_table));
}

/// A table that takes its time to be read.
struct Slow {
    begun: Mutex<Sender<()>>,
    end: Mutex<Receiver<()>>,
}

impl Walk for Slow {
    fn walk(&self, _ram: &Ram, _at: BusAddress, _reads: &mut u64) -> Result<Leaf, WalkFault> {
        self.begun.lock().unwrap().send(()).unwrap();
        self.end.lock().unwrap().recv().unwrap();
        Err(WalkFault::NotPresent { level: 1 })
    }
}

#[test]
fn an_invalidation_waits_for_whoever_reads_tables() {
    let ram = Arc::new(Ram::new(MemoryAddress(0), TABLES_BYTES));
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let unit = Arc::new(Unit::new(ram, Iotlb::new(64, 4)));
    let domain = SoftwareDomain::<Vtd>::new(Arc::clone(&unit), Arc::clone(&frames), 4).unwrap();
    let ((begun, begins), (end, ends)) = (channel(), channel());
    let slow = Slow { begun: Mutex::new(begun), end: Mutex::new(ends) };
    let card = Requester(8);
    unit.attach(
        card,
        Context::Translated { domain: unit.allocate_domain_id().unwrap(), table: Arc::new(slow) },
    );

    let (at, mut counters) = (BusAddress(TWO_MIB), DmaCounters::default());
    domain.map(at, ASKEW, TWO_MIB, Access::Read, &mut counters).unwrap();
    domain.unmap(at, TWO_MIB, &mut counters).unwrap();
    while frames.allocate().is_ok() {}
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| unit.adapter(card).read(BusAddress(0), &mut [0]));
        begins.recv().unwrap();
        scope.spawn(|| domain.invalidate(at, TWO_MIB, &mut DmaCounters::default()));
        let is_used_again = (0..20).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            frames.allocate().is_ok()
        });
        end.send(()).unwrap();
        assert!(!is_used_again, "the table is used again while somebody may be in it");
        assert!(reader.join().unwrap().is_err());
    });
    assert!(frames.allocate().is_ok());
}

#[test]
fn whatever_is_partly_unmapped_keeps_its_table() {
    let (_, table) = table();
    let mut counters = DmaCounters::default();
    table.map(BusAddress(0), ASKEW, TWO_MIB, Access::Read, &mut counters).unwrap();
    let mut counters = DmaCounters::default();
    table.unmap(BusAddress(0), TWO_MIB - PAGE, &mut counters).unwrap();
    assert_eq!((counters.table_entries, table.quarantined()), (511, 0));
    assert_eq!(table.find(BusAddress(TWO_MIB - 1)), Some(MemoryAddress(TWO_MIB + PAGE - 1)));
}

#[test]
fn a_table_that_gives_way_to_a_larger_page_costs_an_invalidation() {
    let ram = Arc::new(Ram::new(MemoryAddress(0), TABLES_BYTES));
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let unit = Arc::new(Unit::new(ram, Iotlb::new(64, 4)));
    let domain = SoftwareDomain::<Vtd>::new(unit, frames, 4).unwrap();
    let (at, memory, mut counters) = (BusAddress(0), MemoryAddress(0), DmaCounters::default());
    domain.map(at, memory, PAGE, Access::Read, &mut counters).unwrap();
    domain.unmap(at, PAGE, &mut counters).unwrap();
    assert_eq!((counters.table_entries, counters.table_pages, counters.invalidations), (3 + 1 + 1, 3, 0));
    let mut counters = DmaCounters::default();
    domain.map(at, memory, TWO_MIB, Access::Read, &mut counters).unwrap();
    assert_eq!((counters.table_entries, counters.invalidations, counters.invalidation_waits), (1, 1, 1));
    assert_eq!(domain.table().quarantined(), 0);
}

#[test]
fn without_pages_for_tables_nothing_is_mapped() {
    let (_, table) = table();
    let mut counters = DmaCounters::default();
    // Two tables are left for the lowest level; three are needed.
    let bytes = 3 * TWO_MIB;
    let mapped = table.map(BusAddress(0), ASKEW, bytes, Access::Read, &mut counters);
    assert_eq!(mapped, Err(dma::MapError::OutOfFrames));
    assert!((0..bytes / PAGE).all(|page| table.find(BusAddress(page * PAGE)).is_none()));
    table.map(BusAddress(0), ASKEW, 2 * TWO_MIB, Access::Read, &mut counters).unwrap();
}

#[test]
fn tables_of_other_heights_are_refused() {
    let ram = Arc::new(Ram::new(MemoryAddress(0), TABLES_BYTES));
    let frames = Arc::new(Frames::new(MemoryAddress(0), 2 * TABLES_BYTES));
    for levels in [0, 2, 5, 64] {
        let refused = Radix::<Vtd>::new(Arc::clone(&ram), Arc::clone(&frames), levels).unwrap_err();
        assert_eq!(refused.to_string(), format!("a table of {levels} levels; expected 3 to 4"));
    }
    let elsewhere = Arc::new(Frames::new(MemoryAddress(TABLES_BYTES), PAGE));
    assert!(Radix::<Vtd>::new(ram, Arc::clone(&elsewhere), 4).is_err());
    assert!(elsewhere.allocate().is_ok());
}
