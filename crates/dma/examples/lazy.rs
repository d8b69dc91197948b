//! Lazy invalidation: how long an adapter reaches memory that was unmapped. With `.lazy()` a thread would flush after 10 ms.
//!
//!     cargo run -p dma --example lazy

use dma::{Access, Direction, Domain, FlushQueue, Frames, Iotlb, Limits, Mapper, MemoryAddress, Ram, Reason};
use dma::{DmaCounters, Requester, SoftwareDomain, Unit, Vtd};
use std::sync::Arc;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ram = Arc::new(Ram::new(MemoryAddress(0), 16 << 20));
    let frames = Arc::new(Frames::new(MemoryAddress(0), 1 << 20));
    let unit = Arc::new(Unit::new(ram, Iotlb::new(64, 4)));
    let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, 4)?;
    table.attach(Requester(0x0300));
    let adapter = unit.adapter(Requester(0x0300));
    let domain = Domain::builder(Arc::new(table)).flush_queue(FlushQueue::per_cpu()).build()?;
    let driver = Mapper::translated(Limits::of_bits(64), Arc::clone(&domain));

    let (mut counters, mut unmapped) = (DmaCounters::default(), Vec::new());
    for buffer in (0..8).map(|number| MemoryAddress(0x20_0000 + number * 4096)) {
        let at = driver.map(buffer, 4096, Direction::FromDevice, &mut counters)?;
        adapter.write(at, b"received")?; // From now on the IOTLB has the entry.
        driver.unmap(at, 4096, Direction::FromDevice, &mut counters)?;
        adapter.write(at, b"too late")?;
        unmapped.push(at);
    }
    domain.flush(&mut counters);
    assert!(unmapped.iter().all(|at| adapter.write(*at, b"blocked").is_err()));
    println!("{} invalidation for {} unmappings", counters.invalidations, counters.unmappings);

    // Memory that the adapter may only read.
    let at = driver.map(MemoryAddress(0x20_0000), 4096, Direction::ToDevice, &mut counters)?;
    let denied = adapter.write(at, b"oops").expect_err("it may only be read").fault;
    assert_eq!(denied.reason, Reason::Denied { allowed: Access::Read });
    driver.unmap(at, 4096, Direction::ToDevice, &mut counters)?;
    Ok(())
}
