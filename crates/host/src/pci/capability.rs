//! What a function can do and what is switched on, from its capability structures.

use super::acs::Acs;
use super::config::{ConfigSpace, Structure};
use super::error::{Aer, Dpc};
use super::express::Express;
use super::interrupt::{Msi, MsiX};
use super::power::PowerManagement;
use super::rebar::ResizableBars;
use super::sriov::{Ari, Sriov};
use super::translation::{Ats, Pasid, Pri};
use serde::Serialize;

/// Conventional capability IDs (`PCI_CAP_ID_*`).
pub(super) mod id {
    pub(in crate::pci) const POWER_MANAGEMENT: u16 = 0x01;
    pub(in crate::pci) const MSI: u16 = 0x05;
    pub(in crate::pci) const PCI_X: u16 = 0x07;
    /// Subsystem IDs of a bridge (`PCI_CAP_ID_SSVID`).
    pub(in crate::pci) const SUBSYSTEM: u16 = 0x0d;
    pub(in crate::pci) const EXPRESS: u16 = 0x10;
    pub(in crate::pci) const MSI_X: u16 = 0x11;
}

/// Extended capability IDs (`PCI_EXT_CAP_ID_*`).
pub(super) mod extended_id {
    pub(in crate::pci) const AER: u16 = 0x01;
    pub(in crate::pci) const ACS: u16 = 0x0d;
    pub(in crate::pci) const ARI: u16 = 0x0e;
    pub(in crate::pci) const ATS: u16 = 0x0f;
    pub(in crate::pci) const SRIOV: u16 = 0x10;
    pub(in crate::pci) const PRI: u16 = 0x13;
    pub(in crate::pci) const REBAR: u16 = 0x15;
    pub(in crate::pci) const PASID: u16 = 0x1b;
    pub(in crate::pci) const DPC: u16 = 0x1d;
}

/// Whether something is there, where "could not be read" is an answer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence<T> {
    /// It is there.
    Present(T),
    /// It is not there: the whole list was read.
    Absent,
    /// Nobody could look.
    #[default]
    Unknown,
}

impl<T> Presence<T> {
    /// The thing, if it is there.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Whether it is known to be there.
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present(_))
    }

    /// Whether it is known not to be there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether nobody could look.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// Makes something else of the thing.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Presence<U> {
        match self {
            Self::Present(value) => Presence::Present(make(value)),
            Self::Absent => Presence::Absent,
            Self::Unknown => Presence::Unknown,
        }
    }

    /// A second witness, heard only where this one knows nothing.
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Unknown => other,
            Self::Present(_) | Self::Absent => self,
        }
    }
}

/// The capabilities of one function that decide how its DMA travels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Capabilities {
    /// PCI Express: device, link and slot registers.
    pub express: Presence<Express>,
    /// Power Management.
    pub power: Presence<PowerManagement>,
    /// Message Signalled Interrupts.
    pub msi: Presence<Msi>,
    /// MSI-X.
    pub msi_x: Presence<MsiX>,
    /// Advanced Error Reporting.
    pub aer: Presence<Aer>,
    /// Access Control Services.
    pub acs: Presence<Acs>,
    /// Alternative Routing-ID Interpretation.
    pub ari: Presence<Ari>,
    /// Address Translation Services.
    pub ats: Presence<Ats>,
    /// Page Request Interface.
    pub pri: Presence<Pri>,
    /// Process Address Space IDs.
    pub pasid: Presence<Pasid>,
    /// Single Root I/O Virtualization: on physical functions only.
    pub sriov: Presence<Sriov>,
    /// Downstream Port Containment.
    pub dpc: Presence<Dpc>,
    /// Resizable BARs.
    pub resizable_bars: Presence<ResizableBars>,
}

impl Capabilities {
    /// Decodes what the bytes reach; the rest stays unknown.
    pub fn decode(config: ConfigSpace<'_>) -> Self {
        let conventional = config.capabilities();
        let extended = config.extended_capabilities();
        let plain = |id| conventional.find(id).map(|offset| config.structure(offset));
        let wide = |id| extended.find(id).map(|offset| config.structure(offset));
        Self {
            express: plain(id::EXPRESS).map(Express::decode),
            power: plain(id::POWER_MANAGEMENT).map(PowerManagement::decode),
            msi: plain(id::MSI).map(Msi::decode),
            msi_x: plain(id::MSI_X).map(MsiX::decode),
            aer: wide(extended_id::AER).map(Aer::decode),
            acs: wide(extended_id::ACS).map(Acs::decode),
            ari: wide(extended_id::ARI).map(Ari::decode),
            ats: wide(extended_id::ATS).map(Ats::decode),
            pri: wide(extended_id::PRI).map(Pri::decode),
            pasid: wide(extended_id::PASID).map(Pasid::decode),
            sriov: wide(extended_id::SRIOV).map(Sriov::decode),
            dpc: wide(extended_id::DPC).map(Dpc::decode),
            resizable_bars: wide(extended_id::REBAR).map(|at: Structure<'_>| ResizableBars::decode(at)),
        }
    }

    /// This witness, completed by a second one where this one could not look.
    pub fn or(self, other: Self) -> Self {
        Self {
            express: self.express.or(other.express),
            power: self.power.or(other.power),
            msi: self.msi.or(other.msi),
            msi_x: self.msi_x.or(other.msi_x),
            aer: self.aer.or(other.aer),
            acs: self.acs.or(other.acs),
            ari: self.ari.or(other.ari),
            ats: self.ats.or(other.ats),
            pri: self.pri.or(other.pri),
            pasid: self.pasid.or(other.pasid),
            sriov: self.sriov.or(other.sriov),
            dpc: self.dpc.or(other.dpc),
            resizable_bars: self.resizable_bars.or(other.resizable_bars),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::express::{PayloadSize, PortType};
    use crate::pci::image::{Body, Image, stored};
    use crate::pci::power::PowerState;
    use crate::pci::{LinkSpeed, LinkWidth};

    const NVME: &str = include_str!("../../tests/pci/nvme-ppc-endpoint.config");
    const NIC: &str = include_str!("../../tests/pci/e1000e-x86-integrated.config");

    #[test]
    fn nvme_controller_of_a_pseries_machine() {
        let bytes = stored(NVME);
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        let express = found.express.get().unwrap();
        assert_eq!((express.version, express.port), (Some(2), Some(PortType::Endpoint)));
        assert_eq!(express.device.payload_max, Some(PayloadSize::B128));
        assert_eq!(express.device.function_level_reset, Some(true));
        assert_eq!(express.device.relaxed_ordering_enabled, Some(false));
        assert_eq!(express.link.speed, Some(LinkSpeed::Gt2_5));
        assert_eq!(express.link.width, LinkWidth::new(1));
        let msi_x = found.msi_x.get().unwrap();
        assert_eq!((msi_x.enabled, msi_x.vectors), (Some(true), Some(65)));
        assert_eq!(found.power.get().unwrap().state, Some(PowerState::D0));
        assert!(found.msi.is_absent());
        assert!(found.ats.is_absent() && found.acs.is_absent() && found.sriov.is_absent());
    }

    #[test]
    fn integrated_endpoint_has_no_link() {
        let bytes = stored(NIC);
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        let express = found.express.get().unwrap();
        assert_eq!(express.port, Some(PortType::RootComplexIntegratedEndpoint));
        assert_eq!(express.link, Default::default());
        assert_eq!(express.version, Some(1));
        assert_eq!(express.device2, Default::default());
        assert_eq!(found.msi.get().unwrap().enabled, Some(false));
        assert!(found.aer.is_present());
    }

    #[test]
    fn shorter_reads_know_less() {
        let bytes = stored(NIC);
        let conventional = Capabilities::decode(ConfigSpace::new(&bytes[..256]));
        assert!(conventional.express.is_present());
        assert!(conventional.aer.is_unknown() && conventional.ats.is_unknown());
        let header = Capabilities::decode(ConfigSpace::new(&bytes[..64]));
        assert_eq!(header, Capabilities::default());
        assert_eq!(Capabilities::decode(ConfigSpace::new(&[])), Capabilities::default());
    }

    #[test]
    fn a_second_witness_fills_gaps_only() {
        let bytes = stored(NIC);
        let whole = Capabilities::decode(ConfigSpace::new(&bytes));
        let short = Capabilities::decode(ConfigSpace::new(&bytes[..256]));
        assert_eq!(short.or(whole.clone()), whole);
        let other =
            Image::endpoint(1, 2, 0).capability(0x10, Body::conventional(60).word(2, 0x42).bytes()).bytes();
        let other = Capabilities::decode(ConfigSpace::new(&other));
        assert_eq!(whole.clone().or(other), whole);
    }
}
