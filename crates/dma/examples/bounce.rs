//! An adapter that reaches 4 GiB alone, and a buffer above: its data goes through a bounce buffer below.
//!
//!     cargo run -p dma --example bounce

use dma::{
    Bounce, Bouncing, Context, Direction, Iotlb, Limits, Mapper, MemoryAddress, Ram, Requester, ThreadMapper,
    Unit,
};
use std::error::Error;
use std::sync::Arc;

const GIB: u64 = 1 << 30;
const ADAPTER: Requester = Requester(0x0300);

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // Memory around the limit: 1 MiB below 4 GiB, all of it bounce buffers, and 1 MiB above. No IOMMU translates.
    let low = MemoryAddress(4 * GIB - (1 << 20));
    let ram = Arc::new(Ram::new(low, 2 << 20));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
    unit.attach(ADAPTER, Context::Direct { offset: 0 });
    let adapter = unit.adapter(ADAPTER);

    let pool = Bounce::per_cpu(Arc::clone(&ram) as _, low, 1 << 20);
    let mapper = Mapper::direct(Limits::of_bits(32), 0).with_bounce(Arc::new(pool), Bouncing::BeyondMask);
    let driver = ThreadMapper::new(&mapper);

    let buffer = MemoryAddress(4 * GIB);
    let at = driver.map(buffer, 1500, Direction::FromDevice)?;
    assert!(at.0 + 1500 <= 4 * GIB, "the adapter gets an address that it can reach");
    adapter.write(at, b"a packet")?;
    driver.unmap(at, 1500, Direction::FromDevice)?;

    let mut received = [0; 8];
    ram.read(buffer, &mut received)?;
    assert_eq!(&received, b"a packet");
    println!(
        "{} bytes copied: all of them on the way there, as Linux does, and on the way back",
        mapper.counters().bounce_bytes
    );
    Ok(())
}
