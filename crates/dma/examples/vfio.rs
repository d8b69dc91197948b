//! Memory of this process, mapped for a real adapter by the host's IOMMU: through VFIO or iommufd, whichever the kernel has
//! for it, or the one that is named. The adapter must be bound to `vfio-pci`.
//!
//!     cargo run -p dma --example vfio -- 0000:3b:00.0 [vfio|iommufd]

use dma::vfio::{self, Interface};
use dma::{Direction, Domain, Limits, Mapper, Ram, ThreadMapper};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let adapter = arguments.next().ok_or("expected an adapter's address, such as 0000:3b:00.0")?;
    let interface = match arguments.next() {
        Some(name) => name.parse()?,
        None => Interface::of_this_host(&adapter),
    };
    map(&adapter, interface)
}

/// Maps a page for the adapter, and unmaps it.
pub(crate) fn map(adapter: &str, interface: Interface) -> Result<(), Box<dyn Error>> {
    let memory = Arc::new(Ram::of_this_process(1 << 20)?);
    let (translation, device) = vfio::open(adapter, interface, &[Arc::clone(&memory)])?;
    let domain = Domain::builder(translation).build()?;
    let mapper = Mapper::translated(Limits::of_bits(32), domain);
    let driver = ThreadMapper::new(&mapper);

    let at = driver.map(memory.base(), 4096, Direction::Bidirectional)?;
    println!("mapped: {adapter} reaches this process's memory at {} by {at}", memory.base());
    // Here a driver tells the adapter that address, through `device.registers(0)?`.
    driver.unmap(at, 4096, Direction::Bidirectional)?;
    drop(device);
    Ok(())
}
