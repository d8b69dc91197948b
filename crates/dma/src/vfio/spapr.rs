//! VFIO's interface to POWER's DMA windows (`drivers/vfio/vfio_iommu_spapr_tce.c`).

use super::call;
use super::device::Device;
use super::error::VfioError;
use super::kernel_translation::{KernelTranslation, MapCalls, MapRequest, ProcessMemories};
use super::type1::Container;
use crate::{BusAddress, Ram, Window};
use rustix::io::Errno;
use std::fs::File;
use std::sync::Arc;
use vfio_bindings::bindings::vfio;

/// Page size of the default window.
const TCE_BYTES: u64 = 4096;
/// Levels of a created window's table; every kernel and firmware supports one.
const LEVELS: u32 = 1;

/// A translation through a DMA window of a POWER partition: the default one below 4 GiB, or a created one.
pub type Spapr = KernelTranslation<PowerWindow>;

/// A VFIO container and the window used in it.
#[derive(Debug)]
pub struct PowerWindow {
    container: Container,
    /// Address of the created window, which is removed on drop.
    created: Option<u64>,
}

impl KernelTranslation<PowerWindow> {
    /// Opens devices by addresses such as `0000:3b:00.0`, in the default window.
    ///
    /// # Errors
    /// [`VfioError::NotOfThisProcess`] unless all `memories` are from [`Ram::of_this_process`] or [`Ram::reserved`], or another [`VfioError`]
    pub fn open(adapters: &[&str], memories: &[Arc<Ram>]) -> Result<(Self, Vec<Device>), VfioError> {
        let memories = ProcessMemories::new(memories)?;
        let (container, devices) = opened(adapters, &memories)?;
        let info = info(&container.file)?;
        let (start, bytes) = (u64::from(info.dma32_window_start), u64::from(info.dma32_window_size));
        let window = window(start, bytes, TCE_BYTES)?;
        Ok((Self::new(PowerWindow { container, created: None }, memories, window), devices))
    }

    /// Opens devices in a new window of `bytes` with pages of `2^page_shift` bytes, if the kernel offers that.
    ///
    /// # Errors
    /// [`VfioError::NotOfThisProcess`] unless all `memories` are from [`Ram::of_this_process`] or [`Ram::reserved`], or another [`VfioError`]
    pub fn open_in_new_window(
        adapters: &[&str],
        memories: &[Arc<Ram>],
        page_shift: u32,
        bytes: u64,
    ) -> Result<(Self, Vec<Device>), VfioError> {
        let memories = ProcessMemories::new(memories)?;
        let (container, devices) = opened(adapters, &memories)?;
        let offered = info(&container.file)?.ddw.pgsizes;
        if page_shift >= u64::BITS || offered & 1 << page_shift == 0 {
            return Err(VfioError::Answer {
                what: "VFIO_IOMMU_SPAPR_TCE_GET_INFO",
                why: "no windows with this page size",
            });
        }
        let mut create = vfio::vfio_iommu_spapr_tce_create {
            argsz: size_of::<vfio::vfio_iommu_spapr_tce_create>() as u32,
            page_shift,
            window_size: bytes,
            levels: LEVELS,
            ..Default::default()
        };
        call::with(&container.file, &mut create).map_err(VfioError::call("VFIO_IOMMU_SPAPR_TCE_CREATE"))?;
        let window = window(create.start_addr, bytes, 1 << page_shift)?;
        let created = Some(create.start_addr);
        Ok((Self::new(PowerWindow { container, created }, memories, window), devices))
    }
}

impl Drop for PowerWindow {
    fn drop(&mut self) {
        let Some(start_addr) = self.created else { return };
        let argsz = size_of::<vfio::vfio_iommu_spapr_tce_remove>() as u32;
        let mut remove = vfio::vfio_iommu_spapr_tce_remove { argsz, start_addr, ..Default::default() };
        // If this fails, the kernel removes the window when the container is closed.
        let _ = call::with(&self.container.file, &mut remove);
    }
}

impl MapCalls for PowerWindow {
    const MAP: &'static str = Container::MAP;
    const UNMAP: &'static str = Container::UNMAP;

    fn map(&self, wanted: MapRequest) -> Result<i32, Errno> {
        self.container.map(wanted)
    }

    fn unmap(&self, at: BusAddress, bytes: u64) -> Result<i32, Errno> {
        self.container.unmap(at, bytes)
    }
}

/// Opens the devices and registers the memories, which pins them.
fn opened(adapters: &[&str], memories: &ProcessMemories) -> Result<(Container, Vec<Device>), VfioError> {
    let (kind, module) = (vfio::VFIO_SPAPR_TCE_v2_IOMMU, "vfio_iommu_spapr_tce");
    let container = Container::new(adapters, kind, "VFIO sPAPR TCE v2 IOMMU", module)?;
    for memory in memories.all() {
        let mut register = vfio::vfio_iommu_spapr_register_memory {
            argsz: size_of::<vfio::vfio_iommu_spapr_register_memory>() as u32,
            vaddr: memory.base().0,
            size: memory.bytes(),
            ..Default::default()
        };
        call::with(&container.file, &mut register)
            .map_err(VfioError::call("VFIO_IOMMU_SPAPR_REGISTER_MEMORY"))?;
    }
    let devices = container.devices(adapters)?;
    Ok((container, devices))
}

/// The default window, by `VFIO_IOMMU_SPAPR_TCE_GET_INFO`.
fn info(container: &File) -> Result<vfio::vfio_iommu_spapr_tce_info, VfioError> {
    let argsz = size_of::<vfio::vfio_iommu_spapr_tce_info>() as u32;
    let mut info = vfio::vfio_iommu_spapr_tce_info { argsz, ..Default::default() };
    call::with(container, &mut info).map_err(VfioError::call("VFIO_IOMMU_SPAPR_TCE_GET_INFO"))?;
    Ok(info)
}

/// A window of bus addresses. Fails if it is empty or exceeds 64 bits.
fn window(start: u64, bytes: u64, granule_bytes: u64) -> Result<Window, VfioError> {
    let none =
        VfioError::Answer { what: "VFIO_IOMMU_SPAPR_TCE_GET_INFO", why: "the window has no addresses" };
    let last = start
        .checked_add(bytes)
        .and_then(|beyond| beyond.checked_sub(1))
        .filter(|_| bytes > 0)
        .ok_or(none)?;
    Ok(Window { first: BusAddress(start), last: BusAddress(last), granule_bytes, reserved: Vec::new() })
}
