//! Copies a part of a disk to another, several commands at a time, on an emulated controller behind a software IOMMU.
//!
//!     cargo run -p iotoll-nvme --example copy

use dma::{Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Pool, Ram, Requester};
use dma::{SoftwareDomain, Unit, Vtd};
use nvme::{Controller, QueuePair, emulated::Emulated};
use std::sync::Arc;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ram, adapter) = (Arc::new(Ram::new(MemoryAddress(0), 16 << 20)), Requester(0x0300));
    let pool = Arc::new(Pool::new(ram.clone(), MemoryAddress(2 << 20), 14 << 20)?);
    let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
    let frames = Arc::new(Frames::new(MemoryAddress(0), 2 << 20));
    let table = SoftwareDomain::<Vtd>::new(Arc::clone(&unit), frames, 4)?;
    table.attach(adapter);
    let domain = Domain::builder(Arc::new(table)).build()?;
    let mapper = Mapper::translated(Limits::of_bits(64), domain).with_coherent(pool);
    let emulated = Arc::new(Emulated::new(unit.adapter(adapter), 2048, 9));
    let mut controller = Controller::open(emulated.clone(), mapper, Arc::clone(&ram))?;
    let (disk, mut queue) = (controller.namespaces()[0], controller.queue_pair(16)?);
    let buffer = controller.allocate(8 * 4096)?;
    ram.write(buffer.memory(), &[0xa5; 8 * 4096])?;
    // 8 parts of 8 blocks: written to block 0 and on, read from there, and written to block 1024 and on.
    for (is_write, first) in [(true, 0), (false, 0), (true, 1024)] {
        let submit = if is_write { QueuePair::write } else { QueuePair::read };
        for part in 0..8 {
            submit(&mut queue, &disk, first + 8 * part, &[buffer.piece(4096 * part, 4096)?])?;
        }
        queue.ring_doorbell();
        while queue.in_flight() > 0 {
            queue.poll(8, |done| assert!(done.status.is_success(), "{:?}", done.id))?;
        }
    }
    assert_eq!(emulated.disk()[1024 << 9..][..8 * 4096], [0xa5; 8 * 4096]);
    println!("copied by {} commands", emulated.commands());
    Ok(controller.shut_down()?)
}
