//! An NVMe adapter of this host, driven from user space through VFIO or iommufd, with an IOMMU or in VFIO's no-IOMMU
//! mode.

use crate::controller::Controller;
use crate::controller_error::NvmeError;
use dma::vfio::{self, Device, Interrupt, VfioError};
use dma::{Mapper, Ram};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Why an adapter can't be opened or shut down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The memory for queues and buffers could not be allocated.
    #[error("can't allocate {bytes} bytes of memory for queues and buffers")]
    Memory {
        /// Bytes requested.
        bytes: u64,
        /// The allocation's error.
        source: io::Error,
    },
    /// VFIO or iommufd refused the adapter or a mapping.
    #[error(transparent)]
    Vfio(#[from] VfioError),
    /// The controller can't be brought up or shut down.
    #[error(transparent)]
    Nvme(#[from] NvmeError),
}

/// An adapter bound to `vfio-pci` whose controller is enabled. It can reach only the memory given to it.
#[derive(Debug)]
pub struct Adapter {
    /// Declared before `device`, so that it is dropped while the device is still open.
    controller: Arc<Mutex<Controller>>,
    device: Device,
}

impl Adapter {
    /// Opens the adapter at an address such as `0000:3b:00.0`, and allocates `memory_bytes` for its queues and
    /// buffers.
    ///
    /// # Errors
    /// [`AdapterError`]
    pub fn open(address: &str, interface: vfio::Interface, memory_bytes: u64) -> Result<Self, AdapterError> {
        let memory = Ram::of_this_process(memory_bytes);
        let memory = memory.map_err(|source| AdapterError::Memory { bytes: memory_bytes, source })?;
        let memory = Arc::new(memory);
        let (translation, device) = vfio::open(address, interface, Arc::clone(&memory))?;
        let mapper = vfio::mapper(translation, &memory)?;
        Self::bring_up(mapper, device, memory)
    }

    /// Opens an adapter in VFIO's no-IOMMU mode, with [pinned](Ram::pinned) memory. The adapter can reach all memory
    /// of the host.
    ///
    /// When this process dies, the adapter may still write for a moment. Another process should hold the memory's
    /// [files](Ram::pins) open until the device is reset.
    ///
    /// # Errors
    /// [`AdapterError`]
    ///
    /// # Safety
    /// No IOMMU catches a wrong address: the adapter would read or overwrite any memory of the host, of this process too.
    /// The user must have accepted that. The caller makes sure that:
    ///
    /// - each [`Piece`](crate::prp::Piece) given to a queue of this adapter is within `memory`, as all pieces of its
    ///   controller's [buffers](crate::Controller::allocate) are
    /// - the adapter is an NVMe controller that accesses only the memory that its commands and registers name
    #[allow(unsafe_code, reason = "nothing stops the adapter from writing anywhere, so the caller must")]
    pub unsafe fn open_without_iommu(address: &str, memory: Arc<Ram>) -> Result<Self, AdapterError> {
        // SAFETY: the controller writes addresses of its queues, PRP lists and buffers to registers and commands. It allocates
        // all of these from `memory`. Other addresses come from pieces, for which the caller is responsible.
        let (mapper, device) = unsafe { vfio::open_without_iommu(address, &memory) }?;
        Self::bring_up(mapper, device, memory)
    }

    /// Enables the device, maps its registers, and opens the controller.
    fn bring_up(mapper: Mapper, device: Device, memory: Arc<Ram>) -> Result<Self, AdapterError> {
        device.enable()?;
        let registers = Arc::new(device.registers(0)?);
        let controller = Controller::open(registers, mapper, memory)?;
        Ok(Self { controller: Arc::new(Mutex::new(controller)), device })
    }

    /// The controller, shared by the threads that create queues on it.
    pub fn controller(&self) -> Arc<Mutex<Controller>> {
        Arc::clone(&self.controller)
    }

    /// Interrupts for vectors 0 to `number - 1`. Vector 0 belongs to the admin queue, which is polled here.
    ///
    /// # Errors
    /// [`AdapterError::Vfio`]
    pub fn interrupts(&self, number: u32) -> Result<Vec<Interrupt>, AdapterError> {
        Ok(self.device.interrupts(number)?)
    }

    /// Shuts the controller down, which saves its write cache, and closes the device. Fails if another thread still
    /// holds the controller.
    ///
    /// # Errors
    /// [`NvmeError::InUse`] or another [`AdapterError::Nvme`]. The device is closed all the same, and the kernel
    /// resets it.
    pub fn shut_down(self) -> Result<(), AdapterError> {
        match Arc::try_unwrap(self.controller) {
            Ok(controller) => {
                Ok(controller.into_inner().unwrap_or_else(PoisonError::into_inner).shut_down()?)
            }
            // A thread still holds the controller, and may be using a queue.
            Err(_) => Err(NvmeError::InUse.into()),
        }
    }
}
