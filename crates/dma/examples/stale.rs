//! How long an adapter reaches memory that was unmapped, under each way of invalidating:
//!
//!     cargo run --release -p dma --example stale
//!
//! A driver maps a buffer, the adapter writes to it, the driver unmaps it: a thousand times, each with memory of its own. After each
//! unmapping the adapter tries all addresses that it was ever given, which an adapter that is broken or hostile does.

use dma::{
    BusAddress, Direction, DmaCounters, Domain, DomainBuilder, FlushQueue, Frames, Iotlb, Limits, Mapper,
    MemoryAddress, Ram, Requester, SoftwareAdapter, SoftwareDomain, Unit, Vtd,
};
use std::error::Error;
use std::sync::Arc;

const BUFFERS: u64 = 1_000;
const PAGE: u64 = 4096;
const TABLES_BYTES: u64 = 1 << 20;
/// Entries of the IOTLB: what it can't hold is stale no longer.
const ENTRIES: usize = 2_048;
const REQUESTER: Requester = Requester(0x0300);

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:<8} {:>22} {:>22} {:>14}",
        "", "writes that went on", "longest, in unmappings", "invalidations"
    );
    row("strict", |builder| builder)?;
    row("lazy", |builder| builder.flush_queue(FlushQueue::new(1, || 0)))
}

/// An address that was unmapped, and after how many others.
struct Stale {
    at: BusAddress,
    since: u64,
}

fn row(name: &str, choose: fn(DomainBuilder) -> DomainBuilder) -> Result<(), Box<dyn Error>> {
    let ram = Arc::new(Ram::new(MemoryAddress(0), TABLES_BYTES + BUFFERS * PAGE));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(ENTRIES, ENTRIES)));
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, 4)?;
    table.attach(REQUESTER);
    let domain = choose(Domain::builder(Arc::new(table))).build()?;
    let mapper = Mapper::translated(Limits::of_bits(48), domain);
    let (adapter, mut counters) = (unit.adapter(REQUESTER), DmaCounters::default());
    let (mut stale, mut writes, mut longest) = (Vec::new(), 0_u64, 0);
    for number in 0..BUFFERS {
        let memory = MemoryAddress(TABLES_BYTES + number * PAGE);
        let at = mapper.map(memory, PAGE, Direction::FromDevice, &mut counters)?;
        adapter.write(at, b"data")?;
        // It is somebody's again: what is said of it before is not of what was unmapped.
        stale.retain(|one: &Stale| one.at != at);
        mapper.unmap(at, PAGE, Direction::FromDevice, &mut counters)?;
        stale.push(Stale { at, since: number });
        stale.retain(|one| reaches(&adapter, one.at));
        writes += stale.len() as u64;
        longest = stale.iter().map(|one| number - one.since + 1).max().unwrap_or(0).max(longest);
    }
    println!("{name:<8} {writes:>22} {longest:>22} {:>14}", counters.invalidations);
    Ok(())
}

fn reaches(adapter: &SoftwareAdapter, at: BusAddress) -> bool {
    adapter.write(at, b"oops").is_ok()
}
