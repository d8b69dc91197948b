//! The ways to an adapter, by their names.

use super::device::Device;
use super::error::VfioError;
use super::{Iommufd, Type1};
use crate::{Domain, Invalidation, Limits, Mapper, Pool, Ram, Translation};
use iova::{Allocator, GapTree, Space};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// One of the kernel's interfaces to an IOMMU that maps memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// [`Type1`]: `/dev/vfio/vfio`.
    Type1,
    /// [`Iommufd`]: `/dev/iommu`.
    Iommufd,
}

/// There is no way of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no way `{0}` to an adapter; expected vfio or iommufd")]
pub struct NoWay(pub String);

impl FromStr for Way {
    type Err = NoWay;

    fn from_str(name: &str) -> Result<Self, NoWay> {
        match name {
            "vfio" => Ok(Self::Type1),
            "iommufd" => Ok(Self::Iommufd),
            other => Err(NoWay(other.to_owned())),
        }
    }
}

impl Way {
    /// What the running kernel offers: iommufd where an adapter has a file for it, or VFIO's own interface.
    pub fn of_this_host(adapter: &str) -> Self {
        let has_file =
            Path::new("/dev/iommu").exists() && super::group::sysfs(adapter).join("vfio-dev").exists();
        if has_file { Self::Iommufd } else { Self::Type1 }
    }
}

/// An adapter by its address as `0000:3b:00.0`, with addresses of its own in which `memory` can be mapped.
///
/// # Errors
/// [`VfioError`]
pub fn open(adapter: &str, way: Way, memory: Arc<Ram>) -> Result<(Arc<dyn Translation>, Device), VfioError> {
    let (translation, devices): (Arc<dyn Translation>, Vec<Device>) = match way {
        Way::Type1 => Type1::open(&[adapter], memory).map(|(one, devices)| (Arc::new(one) as _, devices))?,
        Way::Iommufd => {
            Iommufd::open(&[adapter], memory).map(|(one, devices)| (Arc::new(one) as _, devices))?
        }
    };
    let none = VfioError::NoGroup { adapter: adapter.to_owned() };
    devices.into_iter().next().map(|device| (translation, device)).ok_or(none)
}

/// What maps memory of this process for such an adapter, mostly once: coherent memory comes from all of `memory`.
///
/// # Errors
/// [`VfioError::Space`], if there is no address or no page.
pub fn mapper(translation: Arc<dyn Translation>, memory: &Arc<Ram>) -> Result<Mapper, VfioError> {
    let allocator = |space: &Space| Ok(Box::new(GapTree::new(space)?) as Box<dyn Allocator + Send + Sync>);
    let domain = Domain::new(translation, allocator, Invalidation::Elsewhere)?;
    let pool = Pool::new(Arc::clone(memory) as _, memory.base(), memory.bytes())?;
    Ok(Mapper::translated(Limits::of_bits(64), Arc::new(domain)).with_coherent(Arc::new(pool)))
}
