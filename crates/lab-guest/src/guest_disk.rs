//! An NVMe controller bound to vfio-pci, with mapped memory and one queue pair.

use crate::error::Result;
use dma::DmaCounters;
use dma::vfio::Interface;
use nvme::{Buffer, Controller, Namespace, QueuePair};
use std::sync::{Arc, Mutex};

/// Memory that is mapped for DMA.
const MEMORY_BYTES: u64 = 8 << 20;

/// A controller with one queue pair.
pub(crate) struct GuestDisk {
    /// Keeps the controller and its mappings.
    adapter: nvme::Adapter,
    controller: Arc<Mutex<Controller>>,
    pub(crate) disk: Namespace,
    pub(crate) queue: QueuePair,
}

impl GuestDisk {
    /// Opens the controller at a PCI address, for `depth` commands at a time.
    pub(crate) fn open(address: &str, depth: u16) -> Result<Self> {
        let adapter = nvme::Adapter::open(address, Interface::Type1, MEMORY_BYTES)?;
        let controller = adapter.controller();
        let mut guard = Controller::lock(&controller);
        let disk = *guard.namespaces().first().ok_or("the controller has no namespace")?;
        // One entry always stays unused, so that a full ring differs from an empty one.
        let queue = guard.queue_pair(depth + 1)?;
        drop(guard);
        Ok(Self { adapter, controller, disk, queue })
    }

    /// Allocates memory that stays mapped.
    pub(crate) fn buffer(&mut self, bytes: u64) -> Result<Buffer> {
        Ok(Controller::lock(&self.controller).allocate(bytes)?)
    }

    /// Counters of its mappings.
    pub(crate) fn counters(&self) -> DmaCounters {
        Controller::lock(&self.controller).counters()
    }

    /// Shuts the controller down.
    pub(crate) fn shut_down(self) -> Result<()> {
        let Self { adapter, controller, queue, .. } = self;
        drop((controller, queue));
        Ok(adapter.shut_down()?)
    }
}
