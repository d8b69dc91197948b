//! Selects the kernel's interface through which devices are opened.

use super::device::Device;
use super::error::VfioError;
use super::{Iommufd, Type1};
use crate::{BuildError, Domain, Limits, Mapper, Pool, Ram, Translation};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// A kernel interface that maps a process's memory for devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interface {
    /// [`Type1`]: `/dev/vfio/vfio`.
    Type1,
    /// [`Iommufd`]: `/dev/iommu`.
    Iommufd,
}

/// The name is not of an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no interface `{0}` to the IOMMU; expected vfio or iommufd")]
pub struct UnknownInterface(pub String);

impl fmt::Display for Interface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Type1 => "vfio",
            Self::Iommufd => "iommufd",
        })
    }
}

impl FromStr for Interface {
    type Err = UnknownInterface;

    fn from_str(name: &str) -> Result<Self, UnknownInterface> {
        match name {
            "vfio" => Ok(Self::Type1),
            "iommufd" => Ok(Self::Iommufd),
            other => Err(UnknownInterface(other.to_owned())),
        }
    }
}

impl Interface {
    /// The running kernel's interface for a device: iommufd if the device has a file for it, else VFIO's own.
    pub fn of_this_host(adapter: &str) -> Self {
        let has_file =
            Path::new("/dev/iommu").exists() && super::group::sysfs(adapter).join("vfio-dev").exists();
        if has_file { Self::Iommufd } else { Self::Type1 }
    }
}

/// Opens a device by an address such as `0000:3b:00.0`, with its own address space, in which `memories` can be mapped. Only [`Type1`] maps
/// [reserved](Ram::reserved) memory.
///
/// # Errors
/// [`VfioError::NotOfThisProcess`] unless all `memories` are from [`Ram::of_this_process`] or [`Ram::reserved`], or another
/// [`VfioError`]
pub fn open(
    adapter: &str,
    way: Interface,
    memories: &[Arc<Ram>],
) -> Result<(Arc<dyn Translation>, Device), VfioError> {
    let (translation, devices): (Arc<dyn Translation>, Vec<Device>) = match way {
        Interface::Type1 => {
            Type1::open(&[adapter], memories).map(|(one, devices)| (Arc::new(one) as _, devices))?
        }
        Interface::Iommufd => {
            Iommufd::open(&[adapter], memories).map(|(one, devices)| (Arc::new(one) as _, devices))?
        }
    };
    let none = VfioError::NoGroup { adapter: adapter.to_owned() };
    devices.into_iter().next().map(|device| (translation, device)).ok_or(none)
}

/// A mapper for the device. Coherent memory is allocated from `memory`.
///
/// # Errors
/// [`VfioError::Space`] if there is no address range or no whole page. [`VfioError::Answer`] if the translation's page size
/// is not a power of two.
pub fn mapper(translation: Arc<dyn Translation>, memory: &Arc<Ram>) -> Result<Mapper, VfioError> {
    let domain = Domain::builder(translation).build().map_err(|error| match error {
        BuildError::Space(error) => VfioError::Space(error),
        BuildError::Granule { .. } | BuildError::Thread(_) => {
            VfioError::Answer { what: "the IOMMU's page size", why: "not a power of two" }
        }
    })?;
    let pool = Pool::new(Arc::clone(memory) as _, memory.base(), memory.bytes())?;
    Ok(Mapper::translated(Limits::of_bits(64), domain).with_coherent(Arc::new(pool)))
}
