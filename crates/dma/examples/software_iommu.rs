//! An adapter behind an IOMMU in software: it reaches a buffer while it is mapped, and nothing else.
//!
//!     cargo run -p dma --example software_iommu

use dma::{
    Direction, Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Ram, Requester, SoftwareDomain,
    ThreadMapper, Unit, Vtd,
};
use std::error::Error;
use std::sync::Arc;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // 16 MiB of memory, the first MiB for tables. An IOMMU whose IOTLB has 64 entries, and an adapter behind it.
    let ram = Arc::new(Ram::new(MemoryAddress(0), 16 << 20));
    let frames = Arc::new(Frames::new(MemoryAddress(0), 1 << 20));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
    let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, 4)?;
    table.attach(Requester(0x0300));
    let adapter = unit.adapter(Requester(0x0300));

    // The driver's side. `.lazy()` before `.build()` would trade safety for fewer invalidations.
    let domain = Domain::builder(Arc::new(table)).build()?;
    let mapper = Mapper::translated(Limits::of_bits(48), domain);
    let driver = ThreadMapper::new(&mapper);

    let buffer = MemoryAddress(0x20_0000);
    let at = driver.map(buffer, 1500, Direction::FromDevice)?;
    adapter.write(at, b"a packet")?;
    driver.unmap(at, 1500, Direction::FromDevice)?;

    let mut received = [0; 8];
    ram.read(buffer, &mut received)?;
    assert_eq!(&received, b"a packet");
    assert!(adapter.write(at, b"too late").is_err());
    println!("{:?}", mapper.counters());
    Ok(())
}
