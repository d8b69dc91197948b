//! Message signalled interrupts.

use super::config::{Structure, field, field16, flag};
use serde::Serialize;

/// MSI capability (`PCI_CAP_ID_MSI`; Base Specification 7.7.1).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Msi {
    /// MSI Enable.
    pub enabled: Option<bool>,
    /// Vectors that the function asks for.
    pub vectors_max: Option<u16>,
    /// Vectors that it was given.
    pub vectors: Option<u16>,
}

impl Msi {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        let control = at.word(2);
        let vectors = |mask| field(control, mask).and_then(|log2| 1u16.checked_shl(log2));
        Self { enabled: flag(control, 0x1), vectors_max: vectors(0xe), vectors: vectors(0x70) }
    }
}

/// MSI-X capability (`PCI_CAP_ID_MSIX`; Base Specification 7.7.2).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MsiX {
    /// MSI-X Enable.
    pub enabled: Option<bool>,
    /// Function Mask: all vectors are silent.
    pub masked: Option<bool>,
    /// Entries of the vector table.
    pub vectors: Option<u16>,
}

impl MsiX {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        let control = at.word(2);
        Self {
            enabled: flag(control, 0x8000),
            masked: flag(control, 0x4000),
            // Table Size is encoded as N - 1.
            vectors: field16(control, 0x7ff).map(|last| last + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    #[test]
    fn vectors() {
        let bytes = Image::endpoint(1, 2, 0)
            .capability(0x05, Body::conventional(14).word(2, 0x004b).bytes())
            .capability(0x11, Body::conventional(12).word(2, 0xc7ff).bytes())
            .bytes();
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        let msi = Msi { enabled: Some(true), vectors_max: Some(32), vectors: Some(16) };
        assert_eq!(found.msi.get(), Some(&msi));
        let msi_x = MsiX { enabled: Some(true), masked: Some(true), vectors: Some(2048) };
        assert_eq!(found.msi_x.get(), Some(&msi_x));
    }
}
