//! Copies a part of a disk to another, several commands at a time, on an emulated controller behind a software IOMMU.
//!
//!     cargo run -p iotoll-nvme --example copy

use nvme::{QueuePair, emulated::Machine};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Machine { ram, emulated, mut controller, .. } = Machine::open(2048, 9)?;
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
