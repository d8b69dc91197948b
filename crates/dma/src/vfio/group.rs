//! IOMMU groups: devices that the IOMMU can't tell apart.

use super::call;
use super::error::VfioError;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use vfio_bindings::bindings::vfio::{VFIO_GROUP_FLAGS_VIABLE, vfio_group_status};

const SET_CONTAINER: u8 = 104;
const GET_DEVICE_FD: u8 = 106;

/// The name of groups that VFIO creates for devices without an IOMMU (`drivers/vfio/group.c`).
pub const NO_IOMMU_GROUP: &str = "vfio-noiommu";

/// An open group.
#[derive(Debug)]
pub(super) struct Group {
    number: u32,
    file: File,
}

impl Group {
    /// Opens the groups of devices, each once.
    pub(super) fn of(adapters: &[&str]) -> Result<Vec<Self>, VfioError> {
        let numbers =
            adapters.iter().map(|adapter| group_number(adapter)).collect::<Result<BTreeSet<_>, _>>()?;
        numbers.into_iter().map(|number| Self::open(number, &number.to_string())).collect()
    }

    /// Opens the group that VFIO created for a device without an IOMMU, if no-IOMMU mode is on
    /// (`enable_unsafe_noiommu_mode`).
    pub(super) fn open_no_iommu(adapter: &str) -> Result<Self, VfioError> {
        let name = std::fs::read_to_string(sysfs(adapter).join("iommu_group/name")).unwrap_or_default();
        if name.trim() != NO_IOMMU_GROUP {
            return Err(VfioError::NoNoIommuGroup { adapter: adapter.to_owned() });
        }
        let number = group_number(adapter)?;
        Self::open(number, &format!("noiommu-{number}"))
    }

    /// Opens a group's file. Fails if another driver uses a device of the group.
    fn open(number: u32, name: &str) -> Result<Self, VfioError> {
        let file = read_write(&Path::new("/dev/vfio").join(name))?;
        let mut status = vfio_group_status { argsz: size_of::<vfio_group_status>() as u32, flags: 0 };
        call::with(&file, &mut status).map_err(VfioError::call("VFIO_GROUP_GET_STATUS"))?;
        match status.flags & VFIO_GROUP_FLAGS_VIABLE {
            0 => Err(VfioError::NotViable { group: number }),
            _ => Ok(Self { number, file }),
        }
    }

    /// Adds it to a container, whose mappings then apply to its devices.
    pub(super) fn join(&self, container: BorrowedFd<'_>) -> Result<(), VfioError> {
        use rustix::fd::AsRawFd;
        call::with_file(&self.file, SET_CONTAINER, container.as_raw_fd())
            .map_err(VfioError::call("VFIO_GROUP_SET_CONTAINER"))?;
        Ok(())
    }

    /// Whether it contains a device.
    pub(super) fn has(&self, adapter: &str) -> bool {
        group_number(adapter).is_ok_and(|number| number == self.number)
    }

    /// Opens one of its devices.
    pub(super) fn device(&self, adapter: &str) -> Result<OwnedFd, VfioError> {
        let answer = |why| VfioError::Answer { what: "VFIO_GROUP_GET_DEVICE_FD", why };
        let name = CString::new(adapter).map_err(|_| answer("the address has a zero in it"))?;
        let number = call::with_name(self.file.as_fd(), GET_DEVICE_FD, &name)
            .map_err(VfioError::call("VFIO_GROUP_GET_DEVICE_FD"))?;
        owned(number).ok_or_else(|| answer("no file descriptor"))
    }
}

/// Opens a device file for reading and writing.
pub(super) fn read_write(path: &Path) -> Result<File, VfioError> {
    let open = OpenOptions::new().read(true).write(true).open(path);
    open.map_err(|source| VfioError::open(path, source))
}

/// A device's folder in sysfs.
pub(super) fn sysfs(adapter: &str) -> PathBuf {
    // An address with a slash could name another folder, so it names none.
    Path::new("/sys/bus/pci/devices").join(adapter.replace('/', "|"))
}

/// The number of an adapter's IOMMU group.
fn group_number(adapter: &str) -> Result<u32, VfioError> {
    let link = std::fs::read_link(sysfs(adapter).join("iommu_group")).ok();
    let number = link.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok());
    number.ok_or_else(|| VfioError::NoGroup { adapter: adapter.to_owned() })
}

/// The file descriptor that an ioctl returned; `None` for a negative number.
#[allow(unsafe_code, reason = "the kernel returns a file by its number")]
fn owned(number: i32) -> Option<OwnedFd> {
    // SAFETY: the ioctl created this descriptor for its caller.
    (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}
