//! Virtual functions and the routing IDs they are given.

use super::config::{Structure, field16, flag};
use serde::Serialize;

/// Single Root I/O Virtualization (`PCI_EXT_CAP_ID_SRIOV`; Base Specification 9.3.3).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Sriov {
    /// VF Enable.
    pub enabled: Option<bool>,
    /// VFs may be numbered over device boundaries (ARI Capable Hierarchy). Lowest physical function only.
    pub ari_hierarchy: Option<bool>,
    /// InitialVFs.
    pub initial: Option<u16>,
    /// TotalVFs: the most there can be.
    pub total: Option<u16>,
    /// NumVFs: as many as there are, or would be once enabled.
    pub number: Option<u16>,
    /// First VF Offset: routing ID of the first, relative to this function.
    pub offset: Option<u16>,
    /// VF Stride: distance of routing IDs.
    pub stride: Option<u16>,
    /// VF Device ID, which VFs do not show themselves.
    pub device: Option<u16>,
}

impl Sriov {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        let control = at.word(0x08);
        let word = |offset| field16(at.word(offset), 0xffff);
        Self {
            enabled: flag(control, 0x01),
            ari_hierarchy: flag(control, 0x10),
            initial: word(0x0c),
            total: word(0x0e),
            number: word(0x10),
            offset: word(0x14),
            stride: word(0x16),
            device: word(0x1a),
        }
    }
}

/// Alternative Routing-ID Interpretation (`PCI_EXT_CAP_ID_ARI`; Base Specification 7.8.8).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Ari {
    /// Next Function Number; 0 ends the chain.
    pub next_function: Option<u8>,
    /// ACS is applied per function group.
    pub acs_groups: Option<bool>,
}

impl Ari {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        let capability = at.word(4);
        Self { next_function: super::config::field8(capability, 0xff00), acs_groups: flag(capability, 0x2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    #[test]
    fn physical_function() {
        let sriov = Body::extended(64)
            .word(0x08, 0x19)
            .word(0x0c, 8)
            .word(0x0e, 16)
            .word(0x10, 4)
            .word(0x14, 2)
            .word(0x16, 1)
            .word(0x1a, 0x1018);
        let bytes = Image::endpoint(0x15b3, 0x1017, 0x02_0000)
            .capability(0x10, Body::conventional(60).word(2, 0x02).bytes())
            .extended(0x0e, 1, Body::extended(8).word(4, 0x0102).bytes())
            .extended(0x10, 1, sriov.bytes())
            .bytes();
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        let expect = Sriov {
            enabled: Some(true),
            ari_hierarchy: Some(true),
            initial: Some(8),
            total: Some(16),
            number: Some(4),
            offset: Some(2),
            stride: Some(1),
            device: Some(0x1018),
        };
        assert_eq!(found.sriov.get(), Some(&expect));
        assert_eq!(found.ari.get(), Some(&Ari { next_function: Some(1), acs_groups: Some(true) }));
    }
}
