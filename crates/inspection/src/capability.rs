//! Capabilities in the configuration space of a PCI function.

use host::pci::acs::Acs;
use host::pci::error::{Aer, Dpc};
use host::pci::express::Express;
use host::pci::interrupt::{Msi, MsiX};
use host::pci::power::PowerManagement;
use host::pci::rebar::ResizableBars;
use host::pci::sriov::{Ari, Sriov};
use host::pci::translation::{Ats, Pasid, Pri};
use host::pci::{Capabilities as Facts, Presence};
use serde::Serialize;

/// A capability, its state and its registers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capability<T> {
    /// Whether the function has it.
    pub state: CapabilityState,
    /// Its registers; null unless it is present.
    pub registers: Option<T>,
}

/// Whether a function has a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CapabilityState {
    /// It is in the list of capabilities.
    Present,
    /// The list was read to its end, and does not have it.
    Absent,
    /// The list could not be read completely: users without privilege see only 64 bytes of the configuration space.
    Unknown,
}

impl<T: Clone> From<&Presence<T>> for Capability<T> {
    fn from(presence: &Presence<T>) -> Self {
        let (state, registers) = match presence {
            Presence::Present(registers) => (CapabilityState::Present, Some(registers.clone())),
            Presence::Absent => (CapabilityState::Absent, None),
            Presence::Unknown => (CapabilityState::Unknown, None),
        };
        Self { state, registers }
    }
}

/// The capabilities that matter for DMA.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// PCI Express.
    pub express: Capability<Express>,
    /// Power management.
    pub power: Capability<PowerManagement>,
    /// Message signalled interrupts.
    pub msi: Capability<Msi>,
    /// MSI-X.
    pub msi_x: Capability<MsiX>,
    /// Advanced error reporting.
    pub aer: Capability<Aer>,
    /// Access control services.
    pub acs: Capability<Acs>,
    /// Alternative routing-ID interpretation.
    pub ari: Capability<Ari>,
    /// Address translation services.
    pub ats: Capability<Ats>,
    /// Page request interface.
    pub pri: Capability<Pri>,
    /// Process address space IDs.
    pub pasid: Capability<Pasid>,
    /// Single root I/O virtualisation.
    pub sriov: Capability<Sriov>,
    /// Downstream port containment.
    pub dpc: Capability<Dpc>,
    /// Resizable BARs.
    pub resizable_bars: Capability<ResizableBars>,
}

impl From<&Facts> for Capabilities {
    fn from(facts: &Facts) -> Self {
        Self {
            express: (&facts.express).into(),
            power: (&facts.power).into(),
            msi: (&facts.msi).into(),
            msi_x: (&facts.msi_x).into(),
            aer: (&facts.aer).into(),
            acs: (&facts.acs).into(),
            ari: (&facts.ari).into(),
            ats: (&facts.ats).into(),
            pri: (&facts.pri).into(),
            pasid: (&facts.pasid).into(),
            sriov: (&facts.sriov).into(),
            dpc: (&facts.dpc).into(),
            resizable_bars: (&facts.resizable_bars).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_has_one_shape() {
        for (presence, expect) in [
            (Presence::Present(1), r#"{"state":"present","registers":1}"#),
            (Presence::Absent, r#"{"state":"absent","registers":null}"#),
            (Presence::Unknown, r#"{"state":"unknown","registers":null}"#),
        ] {
            assert_eq!(serde_json::to_string(&Capability::from(&presence)).unwrap(), expect);
        }
    }
}
