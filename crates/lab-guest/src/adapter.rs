//! An NVMe controller that vfio-pci has: its IOMMU's translations, memory that stays mapped, and a queue pair.

use crate::error::Result;
use dma::vfio::Type1;
use dma::{Domain, Invalidation, Limits, Mapper, Pool, Ram};
use iova::{Allocator, Host, Percpu};
use nvme::{Buffer, Controller, Namespace, QueuePair};
use std::sync::Arc;

const MEMORY_BYTES: u64 = 8 << 20;

/// A controller with one queue pair.
pub(crate) struct Adapter {
    /// Keeps the controller and what is mapped for it.
    pub(crate) controller: Controller,
    pub(crate) disk: Namespace,
    pub(crate) queue: QueuePair,
}

impl Adapter {
    /// Brings up the controller at an address of the PCI bus, with room for `depth` commands at a time.
    pub(crate) fn open(address: &str, depth: u16) -> Result<Self> {
        let memory = Arc::new(Ram::of_this_process(MEMORY_BYTES)?);
        let (translation, devices) = Type1::open(&[address], Arc::clone(&memory))?;
        let device = devices.into_iter().next().ok_or("VFIO gave no device")?;
        device.enable()?;
        let registers = Arc::new(device.registers(0)?);
        let mapper = mapper(translation, &memory)?;
        let mut controller = Controller::open(registers, mapper, memory)?;
        let disk = *controller.namespaces().first().ok_or("the controller has no namespace")?;
        // One entry stays free, by which a full ring is told from an empty one.
        let queue = controller.queue_pair(depth + 1)?;
        Ok(Self { controller, disk, queue })
    }

    /// Memory that stays mapped.
    pub(crate) fn buffer(&mut self, bytes: u64) -> Result<Buffer> {
        Ok(self.controller.allocate(bytes)?)
    }
}

fn mapper(translation: Type1, memory: &Arc<Ram>) -> Result<Mapper> {
    let pages = (1 << 32) / 4096;
    let allocator = |space: &iova::Space| {
        Ok(Box::new(Percpu::new(space, pages, Host::new())?) as Box<dyn Allocator + Send + Sync>)
    };
    let domain = Domain::new(Arc::new(translation), allocator, Invalidation::Elsewhere)?;
    let pool = Pool::new(memory.clone(), memory.base(), memory.bytes())?;
    Ok(Mapper::translated(Limits::of_bits(64), Arc::new(domain)).with_coherent(Arc::new(pool)))
}
