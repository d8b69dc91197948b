//! VFIO's no-IOMMU mode (Linux 4.5): opens a device without an IOMMU, which can reach all memory. It must be enabled,
//! and taints the kernel (`drivers/vfio/group.c`).

#![allow(unsafe_code, reason = "nothing stops the device from writing anywhere, so the caller must")]

use super::device::Device;
use super::error::VfioError;
use super::group::Group;
use super::type1::Container;
use crate::{Limits, Mapper, Pool, Ram};
use std::sync::Arc;
use vfio_bindings::bindings::vfio::VFIO_NOIOMMU_IOMMU;

/// Opens a device by an address such as `0000:3b:00.0`. It does DMA at physical addresses of [pinned](Ram::pinned)
/// memory; the mapper has nothing to do.
///
/// # Errors
/// [`VfioError`]
///
/// # Safety
/// No IOMMU catches a wrong address: the device would read or overwrite any memory of the host, of this process too.
/// While the device or its registers are open, the caller makes sure that:
///
/// - each address given to the device, by a register or in memory that it reads, is in `memory` or is a
///   [physical](Ram::physical) one of [reserved](Ram::reserved) memory, with the whole range that the device accesses there
/// - the device accesses nothing else by itself
///
/// The user must have accepted that the host depends on this.
pub unsafe fn open_without_iommu(adapter: &str, memory: &Arc<Ram>) -> Result<(Mapper, Device), VfioError> {
    if memory.pins().is_none() {
        return Err(VfioError::NotPinned);
    }
    let (what, module) = ("no-IOMMU mode", "vfio enable_unsafe_noiommu_mode=1");
    let groups = || Group::open_no_iommu(adapter).map(|group| vec![group]);
    let container = Container::with_groups(groups, VFIO_NOIOMMU_IOMMU, what, module)?;
    // The kernel keeps group and container while the device file is open.
    let device = container.devices(&[adapter])?.into_iter().next();
    let device = device.ok_or_else(|| VfioError::NoGroup { adapter: adapter.to_owned() })?;
    let pool = Pool::new(Arc::clone(memory) as _, memory.base(), memory.bytes())?;
    let mapper = Mapper::direct(Limits::of_bits(64), 0).with_coherent(Arc::new(pool));
    Ok((mapper, device.keeping_memory(Arc::clone(memory))))
}
