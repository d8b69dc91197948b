//! An NVMe adapter of this host, driven from user space through VFIO or iommufd, with an IOMMU or in VFIO's no-IOMMU
//! mode.

use crate::controller::Controller;
use crate::controller_error::NvmeError;
use crate::interrupts::Interrupts;
use crate::prp::Piece;
use dma::vfio::{self, Device, Interrupt, VfioError};
use dma::{BusAddress, Direction, DmaCounters, DmaError, Mapper, Ram};
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
    /// Reserved memory can't be mapped for the adapter.
    #[error("can't map reserved memory for the adapter")]
    Reserved(#[from] DmaError),
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
    reserved: Vec<ReservedBuffer>,
    forces_snooping: Option<bool>,
}

/// Reserved memory that the adapter reaches.
#[derive(Debug, Clone)]
pub struct ReservedBuffer {
    /// The memory, for the CPU.
    pub memory: Arc<Ram>,
    /// All of it, by the controller's address.
    pub piece: Piece,
}

impl Adapter {
    /// Opens the adapter at an address such as `0000:3b:00.0`, and allocates `memory_bytes` for its queues and
    /// buffers.
    ///
    /// # Errors
    /// [`AdapterError`]
    pub fn open(address: &str, interface: vfio::Interface, memory_bytes: u64) -> Result<Self, AdapterError> {
        Self::open_with_reserved(address, interface, memory_bytes, Vec::new())
    }

    /// Opens an adapter, and maps [reserved](Ram::reserved) memory for it too, until it is shut down. That takes
    /// [`Interface::Type1`](vfio::Interface::Type1).
    ///
    /// # Errors
    /// [`AdapterError`]
    pub fn open_with_reserved(
        address: &str,
        interface: vfio::Interface,
        memory_bytes: u64,
        reserved: Vec<Arc<Ram>>,
    ) -> Result<Self, AdapterError> {
        let memory = Ram::of_this_process(memory_bytes);
        let memory = memory.map_err(|source| AdapterError::Memory { bytes: memory_bytes, source })?;
        let memory = Arc::new(memory);
        let memories: Vec<Arc<Ram>> = [&memory].into_iter().chain(&reserved).map(Arc::clone).collect();
        let (translation, device) = vfio::open(address, interface, &memories)?;
        let forces_snooping = translation.forces_snooping();
        let mapper = vfio::mapper(translation, &memory)?;
        let mut counters = DmaCounters::default();
        let mut map = |memory: Arc<Ram>| {
            let bytes = memory.bytes();
            let at = mapper.map(memory.base(), bytes, Direction::Bidirectional, &mut counters)?;
            Ok::<_, DmaError>(ReservedBuffer { memory, piece: Piece { at, bytes } })
        };
        let reserved = reserved.into_iter().map(&mut map).collect::<Result<_, _>>()?;
        Ok(Self { reserved, forces_snooping, ..Self::bring_up(mapper, device, memory)? })
    }

    /// Opens an adapter in VFIO's no-IOMMU mode, with [pinned](Ram::pinned) memory and perhaps [reserved](Ram::reserved)
    /// memory. The adapter can reach all memory of the host.
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
    /// - each [`Piece`] given to a queue of this adapter is within `memory`, as all pieces of its controller's
    ///   [buffers](crate::Controller::allocate) are, or within `reserved`, whose bus addresses are taken to be its physical ones, as on x86
    /// - the adapter is an NVMe controller that accesses only the memory that its commands and registers name
    #[allow(unsafe_code, reason = "nothing stops the adapter from writing anywhere, so the caller must")]
    pub unsafe fn open_without_iommu(
        address: &str,
        memory: Arc<Ram>,
        reserved: Vec<Arc<Ram>>,
    ) -> Result<Self, AdapterError> {
        // SAFETY: the controller writes addresses of its queues, PRP lists and buffers to registers and commands. It allocates
        // all of these from `memory`. Other addresses come from pieces, for which the caller is responsible.
        let (mapper, device) = unsafe { vfio::open_without_iommu(address, &memory) }?;
        let buffer = |memory: Arc<Ram>| {
            let at = BusAddress(memory.physical().ok_or(VfioError::NotPinned)?);
            Ok::<_, VfioError>(ReservedBuffer { piece: Piece { at, bytes: memory.bytes() }, memory })
        };
        let reserved = reserved.into_iter().map(buffer).collect::<Result<_, _>>()?;
        // Nothing changes what the adapter asks for.
        let forces_snooping = Some(false);
        Ok(Self { reserved, forces_snooping, ..Self::bring_up(mapper, device, memory)? })
    }

    /// Enables the device, maps its registers, and opens the controller.
    fn bring_up(mapper: Mapper, device: Device, memory: Arc<Ram>) -> Result<Self, AdapterError> {
        device.enable()?;
        let registers = device.registers(0)?;
        let mut controller = Controller::open(registers, mapper, memory)?;
        if let Some(request) = device.removal_request()? {
            controller.on_removal_request(request);
        }
        Ok(Self {
            controller: Arc::new(Mutex::new(controller)),
            device,
            reserved: Vec::new(),
            forces_snooping: None,
        })
    }

    /// The controller, shared by the threads that create queues on it.
    pub fn controller(&self) -> Arc<Mutex<Controller>> {
        Arc::clone(&self.controller)
    }

    /// Whether queues or others still have the controller, so that it can't be [shut down](Self::shut_down).
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.controller) > 1
    }

    /// The reserved memory with which it was opened, in that order.
    pub fn reserved(&self) -> &[ReservedBuffer] {
        &self.reserved
    }

    /// Whether the IOMMU makes all accesses of the adapter snoop the CPU's caches; `None` if the kernel does not say.
    pub fn forces_snooping(&self) -> Option<bool> {
        self.forces_snooping
    }

    /// Interrupts for up to `queues` queues, as many as the adapter has vectors for and the kernel provides. Call it once.
    ///
    /// # Errors
    /// [`AdapterError::Vfio`]; also if there is no vector but the admin queue's.
    pub fn queue_interrupts(&self, queues: u32) -> Result<Arc<Interrupts>, AdapterError> {
        // One more, for the admin queue.
        let vectors = self.device.vectors_max()?.min(queues.saturating_add(1)).max(2);
        let all = self.device.interrupts(vectors)?;
        Ok(Arc::new(Interrupts::new(all.into_iter().skip(1))))
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
