//! VFIO's no-IOMMU mode (Linux 4.5): it lends an adapter for which nothing translates, and which reaches all memory. The kernel has to be
//! told that this is wanted, and marks itself as tainted (`drivers/vfio/group.c`).

use super::device::Device;
use super::error::VfioError;
use super::group::Group;
use super::type1::Container;
use crate::{Limits, Mapper, Pool, Ram};
use std::sync::Arc;
use vfio_bindings::bindings::vfio::VFIO_NOIOMMU_IOMMU;

/// An adapter by its address as `0000:3b:00.0`, which reads and writes [pinned](Ram::pinned) memory at the addresses that it has, and what maps
/// that memory: nothing is to be done for it. No wrong address that the adapter is told is caught by anything.
///
/// # Errors
/// [`VfioError`]
pub fn open_without_iommu(adapter: &str, memory: &Arc<Ram>) -> Result<(Mapper, Device), VfioError> {
    if memory.pins().is_none() {
        return Err(VfioError::NotPinned);
    }
    let (what, module) = ("no-IOMMU mode", "vfio enable_unsafe_noiommu_mode=1");
    let groups = || Group::made_up(adapter).map(|group| vec![group]);
    let container = Container::with_groups(groups, VFIO_NOIOMMU_IOMMU, what, module)?;
    // The kernel keeps group and container for as long as the adapter's own file is open.
    let device = container.devices(&[adapter])?.into_iter().next();
    let device = device.ok_or_else(|| VfioError::NoGroup { adapter: adapter.to_owned() })?;
    let pool = Pool::new(Arc::clone(memory) as _, memory.base(), memory.bytes())?;
    let mapper = Mapper::direct(Limits::of_bits(64), 0).with_coherent(Arc::new(pool));
    Ok((mapper, device.reaching(Arc::clone(memory))))
}
