//! Access Control Services: whether a port sends peers' requests up to the IOMMU or lets them pass.

use super::config::{Structure, flag};
use serde::Serialize;

/// Access Control Services extended capability (`PCI_EXT_CAP_ID_ACS`; Base Specification 7.7.11).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Acs {
    /// What the port implements (ACS Capability).
    pub supported: AcsControls,
    /// What is switched on (ACS Control).
    pub enabled: AcsControls,
}

/// The controls, one per register bit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcsControls {
    /// V: requester IDs from below are checked.
    pub source_validation: Option<bool>,
    /// B: requests with translated addresses are blocked, which rules ATS out below.
    pub translation_blocking: Option<bool>,
    /// R: peer-to-peer requests are redirected upstream.
    pub request_redirect: Option<bool>,
    /// C: peer-to-peer completions are redirected upstream.
    pub completion_redirect: Option<bool>,
    /// U: what arrives from upstream for upstream is sent back up.
    pub upstream_forwarding: Option<bool>,
    /// E: peers are blocked one by one.
    pub egress_control: Option<bool>,
    /// T: requests with translated addresses may go to a peer directly.
    pub direct_translated: Option<bool>,
}

impl AcsControls {
    /// Whether peers below this port are kept apart: all of V, R, C and U, as Linux asks for before it
    /// puts functions into IOMMU groups of their own.
    pub fn isolate(&self) -> Option<bool> {
        Some(
            self.source_validation?
                && self.request_redirect?
                && self.completion_redirect?
                && self.upstream_forwarding?,
        )
    }

    fn decode(register: Option<u32>) -> Self {
        Self {
            source_validation: flag(register, 0x01),
            translation_blocking: flag(register, 0x02),
            request_redirect: flag(register, 0x04),
            completion_redirect: flag(register, 0x08),
            upstream_forwarding: flag(register, 0x10),
            egress_control: flag(register, 0x20),
            direct_translated: flag(register, 0x40),
        }
    }
}

impl Acs {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        Self { supported: AcsControls::decode(at.word(4)), enabled: AcsControls::decode(at.word(6)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    fn check(control: u16, isolate: bool) {
        let bytes = Image::bridge(0, 1, 1)
            .capability(0x10, Body::conventional(60).word(2, 0x42).bytes())
            .extended(0x0d, 1, Body::extended(8).word(4, 0x5f).word(6, control).bytes())
            .bytes();
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        let acs = found.acs.get().unwrap();
        assert_eq!(acs.supported.direct_translated, Some(true));
        assert_eq!(acs.supported.egress_control, Some(false));
        assert_eq!(acs.enabled.isolate(), Some(isolate), "{control:#x}");
    }

    #[test]
    fn controls() {
        check(0x1d, true);
        check(0x5f, true);
        check(0x0d, false);
        check(0, false);
        assert_eq!(AcsControls::default().isolate(), None);
    }
}
