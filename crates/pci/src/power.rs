//! Power states.

use super::config::{Structure, field};
use serde::Serialize;

/// Power Management capability (`PCI_CAP_ID_PM`; Base Specification 7.5.2).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PowerManagement {
    /// The state when it was read. Other registers of a function outside D0 may not be its working values.
    pub state: Option<PowerState>,
}

/// PowerState of the control and status register; a function in D3cold does not answer at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PowerState {
    /// Working.
    D0,
    /// Light sleep.
    D1,
    /// Deeper sleep.
    D2,
    /// Off, with power present.
    D3Hot,
}

impl PowerState {
    pub(super) fn decode(code: u32) -> Option<Self> {
        [Self::D0, Self::D1, Self::D2, Self::D3Hot].get(usize::try_from(code).ok()?).copied()
    }
}

impl PowerManagement {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        Self { state: field(at.word(4), 0x3).and_then(PowerState::decode) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    fn check(control: u16, expect: PowerState) {
        let bytes =
            Image::endpoint(1, 2, 0).capability(0x01, Body::conventional(8).word(4, control).bytes()).bytes();
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        assert_eq!(found.power.get().unwrap().state, Some(expect), "{control:#x}");
    }

    #[test]
    fn states() {
        check(0x0008, PowerState::D0);
        check(0x0001, PowerState::D1);
        check(0x8103, PowerState::D3Hot);
    }
}
