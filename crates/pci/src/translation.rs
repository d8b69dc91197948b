//! Translation on the device's side: ATS, page requests and process address spaces.

use super::config::{Structure, field, field8, flag};
use serde::Serialize;

/// Address Translation Services (`PCI_EXT_CAP_ID_ATS`; Base Specification 10.5.1).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Ats {
    /// The device keeps translations of its own.
    pub enabled: Option<bool>,
    /// Invalidations that it takes without pushing back.
    pub invalidate_queue_depth: Option<u8>,
    /// Smallest Translation Unit: translations cover at least 4096 << this many bytes.
    pub smallest_unit: Option<u8>,
}

impl Ats {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        let (capability, control) = (at.word(4), at.word(6));
        Self {
            enabled: flag(control, 0x8000),
            invalidate_queue_depth: field8(capability, 0x1f).map(Self::queue_depth),
            smallest_unit: field8(control, 0x1f),
        }
    }

    /// Invalidate Queue Depth, where 0 stands for 32.
    pub(super) fn queue_depth(code: u8) -> u8 {
        if code == 0 { 32 } else { code }
    }
}

/// Page Request Interface (`PCI_EXT_CAP_ID_PRI`; Base Specification 10.5.2).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Pri {
    /// The device may ask for pages that are not there.
    pub enabled: Option<bool>,
    /// Requests that it can have outstanding.
    pub requests_max: Option<u32>,
    /// Requests that it was granted.
    pub requests_allocated: Option<u32>,
}

impl Pri {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        Self { enabled: flag(at.word(4), 0x1), requests_max: at.dword(8), requests_allocated: at.dword(12) }
    }
}

/// Process Address Space ID (`PCI_EXT_CAP_ID_PASID`; Base Specification 7.8.9).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Pasid {
    /// Requests carry a PASID.
    pub enabled: Option<bool>,
    /// Execute permission can be asked for.
    pub execute: Option<bool>,
    /// Execute permission is in use.
    pub execute_enabled: Option<bool>,
    /// Privileged mode can be asked for.
    pub privileged: Option<bool>,
    /// Privileged mode is in use.
    pub privileged_enabled: Option<bool>,
    /// Max PASID Width: the device handles 2^this many address spaces.
    pub width_bits_max: Option<u8>,
}

impl Pasid {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        let (capability, control) = (at.word(4), at.word(6));
        Self {
            enabled: flag(control, 0x1),
            execute: flag(capability, 0x2),
            execute_enabled: flag(control, 0x2),
            privileged: flag(capability, 0x4),
            privileged_enabled: flag(control, 0x4),
            width_bits_max: field(capability, 0x1f00).and_then(|bits| u8::try_from(bits).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    #[test]
    fn shared_virtual_memory_device() {
        let bytes = Image::endpoint(0x8086, 0x0b25, 0x08_8000)
            .capability(0x10, Body::conventional(60).word(2, 0x92).bytes())
            .extended(0x0f, 1, Body::extended(8).word(4, 0x60).word(6, 0x8001).bytes())
            .extended(0x1b, 1, Body::extended(8).word(4, 0x1406).word(6, 0x5).bytes())
            .extended(0x13, 1, Body::extended(16).word(4, 1).dword(8, 512).dword(12, 32).bytes())
            .bytes();
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        let ats = Ats { enabled: Some(true), invalidate_queue_depth: Some(32), smallest_unit: Some(1) };
        assert_eq!(found.ats.get(), Some(&ats));
        let pasid = Pasid {
            enabled: Some(true),
            execute: Some(true),
            execute_enabled: Some(false),
            privileged: Some(true),
            privileged_enabled: Some(true),
            width_bits_max: Some(20),
        };
        assert_eq!(found.pasid.get(), Some(&pasid));
        let pri = Pri { enabled: Some(true), requests_max: Some(512), requests_allocated: Some(32) };
        assert_eq!(found.pri.get(), Some(&pri));
        assert!(found.acs.is_absent());
    }
}
