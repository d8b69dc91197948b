//! An NVMe adapter of this host, driven through VFIO or iommufd, or through VFIO where nothing translates.

use crate::controller::{Controller, NvmeError};
use dma::vfio::{self, Device, Interrupt, VfioError, Way};
use dma::{Mapper, Ram};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Why an adapter can't be driven.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// This process gets no memory.
    #[error("{bytes} bytes of memory for it")]
    Memory {
        /// That were asked for.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// The kernel does not lend it.
    #[error(transparent)]
    Vfio(#[from] VfioError),
    /// The controller does not come up.
    #[error(transparent)]
    Nvme(#[from] NvmeError),
}

/// An adapter that `vfio-pci` has, brought up, and the memory that it may reach: nothing else of this process.
#[derive(Debug)]
pub struct Adapter {
    /// Dropped before the device is let go.
    controller: Arc<Mutex<Controller>>,
    device: Device,
}

impl Adapter {
    /// The adapter at an address as `0000:3b:00.0`, with so much memory for queues and buffers.
    ///
    /// # Errors
    /// [`AdapterError`]
    pub fn open(address: &str, way: Way, memory_bytes: u64) -> Result<Self, AdapterError> {
        let memory = Ram::of_this_process(memory_bytes);
        let memory = memory.map_err(|source| AdapterError::Memory { bytes: memory_bytes, source })?;
        let memory = Arc::new(memory);
        let (translation, device) = vfio::open(address, way, Arc::clone(&memory))?;
        let mapper = vfio::mapper(translation, &memory)?;
        Self::bring_up(mapper, device, memory)
    }

    /// The adapter at an address that nothing translates for, with [pinned](Ram::pinned) memory. It reaches all memory of the host: whoever opens one so
    /// has been told, and trusts the adapter and this driver. When this process dies the adapter may write for a moment more, so
    /// another process should have the memory's [files](Ram::pins) until the adapter has been let go.
    ///
    /// # Errors
    /// [`AdapterError`]
    pub fn open_without_iommu(address: &str, memory: Arc<Ram>) -> Result<Self, AdapterError> {
        let (mapper, device) = vfio::open_without_iommu(address, &memory)?;
        Self::bring_up(mapper, device, memory)
    }

    fn bring_up(mapper: Mapper, device: Device, memory: Arc<Ram>) -> Result<Self, AdapterError> {
        device.enable()?;
        let registers = Arc::new(device.registers(0)?);
        let controller = Controller::open(registers, mapper, memory)?;
        Ok(Self { controller: Arc::new(Mutex::new(controller)), device })
    }

    /// Its controller, which threads share to ask for queues.
    pub fn controller(&self) -> Arc<Mutex<Controller>> {
        Arc::clone(&self.controller)
    }

    /// Interrupts of its vectors 0 and on. Vector 0 is the admin queue's, which is polled here.
    ///
    /// # Errors
    /// [`AdapterError::Vfio`]
    pub fn interrupts(&self, number: u32) -> Result<Vec<Interrupt>, AdapterError> {
        Ok(self.device.interrupts(number)?)
    }

    /// Shuts it down, so that all that was written stays, and lets it go. Everybody else must have let the controller go.
    ///
    /// # Errors
    /// [`AdapterError::Nvme`]; it is let go all the same, and reset by the kernel.
    pub fn shut_down(self) -> Result<(), AdapterError> {
        match Arc::try_unwrap(self.controller) {
            Ok(controller) => {
                Ok(controller.into_inner().unwrap_or_else(PoisonError::into_inner).shut_down()?)
            }
            // Somebody has a queue, and may be using it.
            Err(_) => Err(NvmeError::Lacks("right to be shut down: queues of it are in use").into()),
        }
    }
}
