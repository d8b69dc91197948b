//! What of a host and an adapter decides which toll sheets are near to them.

use crate::diagnose::rules::{Maker, iommu_maker};
use crate::facts::iommu::Kind;
use crate::facts::{Adapter, Host};
use crate::kernel::{Architecture, KernelVersion};
use crate::pci;
use ddw::TceCalls;

/// The workloads that adapters of a class are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Workload {
    /// A read of 4 KiB.
    Read4k,
    /// A UDP request and response of 64 bytes.
    Udp64,
    /// A UDP request and response of 16 KiB.
    Udp16k,
}

impl Workload {
    /// Those of an adapter; none for classes that no sheet is of.
    pub(super) fn of(adapter: &Adapter) -> &'static [Self] {
        match adapter.function.ids.class.map(pci::ClassCode::kind) {
            Some(pci::Kind::Storage(_)) => &[Self::Read4k],
            Some(pci::Kind::Network | pci::Kind::Fabric) => &[Self::Udp64, Self::Udp16k],
            _ => &[],
        }
    }

    /// The I/O, in a few words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Read4k => "4 KiB read",
            Self::Udp64 => "64 B UDP echo",
            Self::Udp16k => "16 KiB UDP echo",
        }
    }

    /// The end of its name: one of those that digests keep.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Read4k => "-read-4k",
            Self::Udp64 => "-udp-64",
            Self::Udp16k => "-udp-16k",
        }
    }
}

/// Where an adapter works.
#[derive(Debug, Clone, Copy)]
pub(super) struct Environment<'h> {
    pub(super) architecture: Option<&'h Architecture>,
    pub(super) iommu: Option<Kind>,
    pub(super) tce_calls: Option<TceCalls>,
    pub(super) kernel: Option<&'h KernelVersion>,
    pub(super) driver: Option<&'h str>,
}

impl<'h> Environment<'h> {
    pub(super) fn of(host: &'h Host, adapter: &'h Adapter) -> Self {
        Self {
            architecture: host.platform.architecture.as_ref(),
            iommu: iommu(host),
            tce_calls: host.power.as_ref().and_then(|partition| partition.tce_calls),
            kernel: host.kernel(),
            driver: driver(adapter),
        }
    }
}

/// What translates; by the processor's maker where only the log shows that something does.
pub(super) fn iommu(host: &Host) -> Option<Kind> {
    let seen = host.iommus.instances.first().map(|instance| instance.kind);
    let told = || match (&host.log.translation_active, iommu_maker(host)) {
        _ if host.is_power() => Some(Kind::Tce),
        (Some(_), Maker::Intel) => Some(Kind::VtD),
        (Some(_), Maker::Amd) => Some(Kind::AmdVi),
        _ => None,
    };
    seen.or_else(told)
}

/// The driver that maps an adapter's buffers. For a virtio network adapter it is `virtio_net`, not `virtio-pci`.
fn driver(adapter: &Adapter) -> Option<&str> {
    let driver = adapter.function.driver.as_ref()?.value.as_str();
    let is_network = adapter.function.ids.class.map(pci::ClassCode::kind) == Some(pci::Kind::Network);
    Some(if driver == "virtio-pci" && is_network { "virtio_net" } else { driver })
}
