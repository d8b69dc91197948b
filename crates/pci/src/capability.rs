//! The capabilities of a function that matter for DMA: which it has, and which are switched on.

use super::acs::Acs;
use super::capability_id::{conventional, extended};
use super::config::{ConfigSpace, Structure};
use super::error::{Aer, Dpc};
use super::express::Express;
use super::interrupt::{Msi, MsiX};
use super::power::PowerManagement;
use super::presence::Presence;
use super::rebar::ResizableBars;
use super::sriov::{Ari, Sriov};
use super::translation::{Ats, Pasid, Pri};
use serde::Serialize;

/// The capabilities of one function that decide how its DMA travels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
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
    /// Decodes every capability that the bytes contain; capabilities beyond them stay unknown.
    pub fn decode(config: ConfigSpace<'_>) -> Self {
        let capabilities = config.capabilities();
        let extended_capabilities = config.extended_capabilities();
        let find = |id| capabilities.find(id).map(|offset| config.structure(offset));
        let find_extended = |id| extended_capabilities.find(id).map(|offset| config.structure(offset));
        Self {
            express: find(conventional::EXPRESS).map(Express::decode),
            power: find(conventional::POWER_MANAGEMENT).map(PowerManagement::decode),
            msi: find(conventional::MSI).map(Msi::decode),
            msi_x: find(conventional::MSI_X).map(MsiX::decode),
            aer: find_extended(extended::AER).map(Aer::decode),
            acs: find_extended(extended::ACS).map(Acs::decode),
            ari: find_extended(extended::ARI).map(Ari::decode),
            ats: find_extended(extended::ATS).map(Ats::decode),
            pri: find_extended(extended::PRI).map(Pri::decode),
            pasid: find_extended(extended::PASID).map(Pasid::decode),
            sriov: find_extended(extended::SRIOV).map(Sriov::decode),
            dpc: find_extended(extended::DPC).map(Dpc::decode),
            resizable_bars: find_extended(extended::REBAR)
                .map(|registers: Structure<'_>| ResizableBars::decode(registers)),
        }
    }

    /// These capabilities, with those that are unknown taken from `other`, a second source.
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
    use crate::express::{PayloadSize, PortType};
    use crate::image::{Body, Image, stored};
    use crate::power::PowerState;
    use crate::{LinkSpeed, LinkWidth};

    const NVME: &str = include_str!("../tests/functions/nvme-ppc-endpoint.config");
    const NIC: &str = include_str!("../tests/functions/e1000e-x86-integrated.config");

    #[test]
    fn decodes_the_nvme_controller_of_a_pseries_machine() {
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
    fn capabilities_beyond_a_short_read_are_unknown() {
        let bytes = stored(NIC);
        let conventional = Capabilities::decode(ConfigSpace::new(&bytes[..256]));
        assert!(conventional.express.is_present());
        assert!(conventional.aer.is_unknown() && conventional.ats.is_unknown());
        let header = Capabilities::decode(ConfigSpace::new(&bytes[..64]));
        assert_eq!(header, Capabilities::default());
        assert_eq!(Capabilities::decode(ConfigSpace::new(&[])), Capabilities::default());
    }

    #[test]
    fn a_second_source_replaces_only_unknown_facts() {
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
