//! Why an adapter can't be driven.

use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// What went wrong on the way to an adapter.
#[derive(Debug, thiserror::Error)]
pub enum VfioError {
    /// A file can't be opened.
    #[error("can't open {file}")]
    Open {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The adapter is in no IOMMU group: there is no IOMMU, or it is switched off.
    #[error("{adapter} is in no IOMMU group: no IOMMU, or it is off (intel_iommu=on, amd_iommu=on)")]
    NoGroup {
        /// Its address.
        adapter: String,
    },
    /// VFIO has made up no group for the adapter.
    #[error(
        "{adapter} has no group of VFIO's own: either there is an IOMMU, or it was bound to vfio-pci before no-IOMMU mode was on \
         (/sys/module/vfio/parameters/enable_unsafe_noiommu_mode)"
    )]
    NoMadeUpGroup {
        /// Its address.
        adapter: String,
    },
    /// Memory for an adapter that nothing translates for is not pinned.
    #[error("an adapter that nothing translates for can only have memory that is pinned")]
    NotPinned,
    /// Another adapter of the group has a driver of the kernel.
    #[error("IOMMU group {group} is not viable: bind all of its adapters to vfio-pci, or to no driver")]
    NotViable {
        /// The group.
        group: u32,
    },
    /// The kernel has not this kind of IOMMU interface.
    #[error("the kernel offers no {what} (modprobe {module})")]
    NotOffered {
        /// Which.
        what: &'static str,
        /// The module that would bring it.
        module: &'static str,
    },
    /// The adapter is not bound to vfio-pci, or the kernel has no such files.
    #[error("{adapter} has no {what}: bind it to vfio-pci, with a kernel from {since} on")]
    NotBound {
        /// Its address.
        adapter: String,
        /// What is missing.
        what: &'static str,
        /// The first kernel that has it.
        since: &'static str,
    },
    /// Its bus addresses, or the memory for it, can't be managed.
    #[error("its bus addresses, or memory for it")]
    Space(#[from] iova::SpaceError),
    /// A call failed.
    #[error("{what} failed")]
    Call {
        /// Which.
        what: &'static str,
        /// Why.
        source: Errno,
    },
    /// The kernel's answer makes no sense.
    #[error("{what}: {why}")]
    Answer {
        /// Of which call.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl VfioError {
    pub(super) fn open(file: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Open { file: file.into(), source }
    }

    pub(super) fn call(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |source| Self::Call { what, source }
    }
}
