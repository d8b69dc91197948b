//! iommufd, the kernel's newer interface to IOMMUs (`drivers/iommu/iommufd/`).

use super::device::Device;
use super::error::VfioError;
use super::group::{read_write, sysfs};
use super::kernel_translation::{KernelTranslation, MapCalls, MapRequest, ProcessMemories};
use super::{call, ranges};
use crate::{BusAddress, Ram, Window};
use iommufd_bindings::iommufd;
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfio_bindings::bindings::vfio;

/// Most address ranges accepted from the kernel.
const RANGES_MAX: usize = 128;

/// A translation through an I/O address space (IOAS) of iommufd.
pub type Iommufd = KernelTranslation<AddressSpace>;

/// `/dev/iommu` and an IOAS in it.
#[derive(Debug)]
pub struct AddressSpace {
    file: File,
    number: u32,
}

impl KernelTranslation<AddressSpace> {
    /// Opens devices by addresses such as `0000:3b:00.0` and attaches them to a new address space, in which `memories`
    /// can be mapped.
    ///
    /// # Errors
    /// [`VfioError::NotOfThisProcess`] unless all `memories` are from [`Ram::of_this_process`] or [`Ram::reserved`], or another [`VfioError`]
    pub fn open(adapters: &[&str], memories: &[Arc<Ram>]) -> Result<(Self, Vec<Device>), VfioError> {
        let memories = ProcessMemories::new(memories)?;
        let file = read_write(Path::new("/dev/iommu"))?;
        let mut space = iommufd::iommu_ioas_alloc {
            size: size_of::<iommufd::iommu_ioas_alloc>() as u32,
            ..Default::default()
        };
        call::with(&file, &mut space).map_err(VfioError::call("IOMMU_IOAS_ALLOC"))?;
        let space = space.out_ioas_id;
        let attach = |adapter: &&str| attach(adapter, &file, space);
        let devices = adapters.iter().map(attach).collect::<Result<Vec<_>, _>>()?;
        // The ranges are final only after all devices are attached.
        let window = window(&file, space)?;
        Ok((Self::new(AddressSpace { file, number: space }, memories, window), devices))
    }
}

impl MapCalls for AddressSpace {
    const MAP: &'static str = "IOMMU_IOAS_MAP";
    const UNMAP: &'static str = "IOMMU_IOAS_UNMAP";

    fn map(&self, wanted: MapRequest) -> Result<i32, Errno> {
        let MapRequest { at, memory, bytes, access } = wanted;
        let flag = |has: bool, flag: u32| if has { flag } else { 0 };
        let mut argument = iommufd::iommu_ioas_map {
            size: size_of::<iommufd::iommu_ioas_map>() as u32,
            flags: iommufd::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA
                | flag(access.reads(), iommufd::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE)
                | flag(access.writes(), iommufd::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE),
            ioas_id: self.number,
            user_va: memory.0,
            length: bytes,
            iova: at.0,
            ..Default::default()
        };
        call::with(&self.file, &mut argument)
    }

    fn unmap(&self, at: BusAddress, bytes: u64) -> Result<i32, Errno> {
        let mut argument = iommufd::iommu_ioas_unmap {
            size: size_of::<iommufd::iommu_ioas_unmap>() as u32,
            ioas_id: self.number,
            iova: at.0,
            length: bytes,
        };
        call::with(&self.file, &mut argument)
    }
}

/// Opens a device through its cdev and attaches it to the address space.
fn attach(adapter: &str, iommufd: &File, space: u32) -> Result<Device, VfioError> {
    let file = read_write(&device_file(adapter)?)?;
    let mut bind = vfio::vfio_device_bind_iommufd {
        // The size excludes the token field of newer kernels.
        argsz: std::mem::offset_of!(vfio::vfio_device_bind_iommufd, token_uuid_ptr) as u32,
        iommufd: iommufd.as_raw_fd(),
        ..Default::default()
    };
    call::with(&file, &mut bind).map_err(VfioError::call("VFIO_DEVICE_BIND_IOMMUFD"))?;
    let mut attach = vfio::vfio_device_attach_iommufd_pt {
        argsz: std::mem::offset_of!(vfio::vfio_device_attach_iommufd_pt, pasid) as u32,
        pt_id: space,
        ..Default::default()
    };
    call::with(&file, &mut attach).map_err(VfioError::call("VFIO_DEVICE_ATTACH_IOMMUFD_PT"))?;
    Device::new(file.into())
}

/// A device's `/dev/vfio/devices/vfioN`.
fn device_file(adapter: &str) -> Result<PathBuf, VfioError> {
    let what = "/sys/.../vfio-dev/ and /dev/vfio/devices/";
    let none = || VfioError::NotBound { adapter: adapter.to_owned(), what, since: "6.6 (VFIO_DEVICE_CDEV)" };
    let mut folder = std::fs::read_dir(sysfs(adapter).join("vfio-dev")).map_err(|_| none())?;
    let name = folder.next().and_then(Result::ok).ok_or_else(none)?.file_name();
    Ok(Path::new("/dev/vfio/devices").join(name))
}

/// The IOVAs that an address space may use, and the page size.
fn window(file: &File, space: u32) -> Result<Window, VfioError> {
    let mut allowed = vec![iommufd::iommu_iova_range::default(); RANGES_MAX];
    let mut argument = iommufd::iommu_ioas_iova_ranges {
        size: size_of::<iommufd::iommu_ioas_iova_ranges>() as u32,
        ioas_id: space,
        num_iovas: RANGES_MAX as u32,
        allowed_iovas: allowed.as_mut_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    call::with(file, &mut argument).map_err(VfioError::call("IOMMU_IOAS_IOVA_RANGES"))?;
    allowed.truncate(argument.num_iovas as usize);
    let seen = allowed.iter().map(|range| (range.start, range.last)).collect();
    // Use the process's page size, whatever smaller alignment the IOMMU allows.
    let granule = argument.out_iova_alignment.next_power_of_two().max(rustix::param::page_size() as u64);
    let none = VfioError::Answer { what: "IOMMU_IOAS_IOVA_RANGES", why: "no address ranges" };
    ranges::window(seen, granule).ok_or(none)
}
