//! Errors of opening and using devices through VFIO and iommufd.

use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// Why a device can't be opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfioError {
    /// A file can't be opened.
    #[error("can't open {file}")]
    Open {
        /// The file.
        file: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The device has no IOMMU group: there is no IOMMU, or it is off.
    #[error("{adapter} is in no IOMMU group: there is no IOMMU, or it is off (intel_iommu=on, amd_iommu=on)")]
    NoGroup {
        /// Its address.
        adapter: String,
    },
    /// VFIO created no no-IOMMU group for the device.
    #[error(
        "{adapter} has no no-IOMMU group of VFIO: either it has an IOMMU, or it was bound to vfio-pci before no-IOMMU mode was on \
         (/sys/module/vfio/parameters/enable_unsafe_noiommu_mode)"
    )]
    NoNoIommuGroup {
        /// Its address.
        adapter: String,
    },
    /// Only memory from [`Ram::of_this_process`](crate::Ram::of_this_process) can be mapped: the kernel takes virtual
    /// addresses of this process, and other memory has other addresses.
    #[error(
        "the memory is not at virtual addresses of this process; expected memory from Ram::of_this_process"
    )]
    NotOfThisProcess,
    /// Without an IOMMU the memory must be pinned or reserved.
    #[error("an adapter without an IOMMU needs pinned or reserved memory")]
    NotPinned,
    /// Another device of the group is bound to a kernel driver.
    #[error("IOMMU group {group} is not viable: bind all of its devices to vfio-pci, or to no driver")]
    NotViable {
        /// The group.
        group: u32,
    },
    /// The kernel does not have this interface.
    #[error("the kernel does not offer {what} (modprobe {module})")]
    NotOffered {
        /// The interface.
        what: &'static str,
        /// The module that provides it.
        module: &'static str,
    },
    /// The device is not bound to vfio-pci, or the kernel is too old for these files.
    #[error("{adapter} has no {what}: bind it to vfio-pci, on Linux {since} or later")]
    NotBound {
        /// Its address.
        adapter: String,
        /// The missing file.
        what: &'static str,
        /// The first kernel version that has it.
        since: &'static str,
    },
    /// The allocator does not support the bus addresses, or the memory has no whole page.
    #[error("can't allocate bus addresses or memory for the adapter")]
    Space(#[from] iova::SpaceError),
    /// A system call failed.
    #[error("{what} failed")]
    Call {
        /// The call.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
    /// The kernel's answer is invalid.
    #[error("{what}: {why}")]
    Answer {
        /// The call.
        what: &'static str,
        /// What is wrong.
        why: &'static str,
    },
}

impl VfioError {
    /// The error for a file that can't be opened.
    pub(super) fn open(file: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Open { file: file.into(), source }
    }

    /// The error for an ioctl, by its name.
    pub(super) fn call(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |source| Self::Call { what, source: source.into() }
    }
}
