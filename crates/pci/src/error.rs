//! Errors that a function has recorded: Advanced Error Reporting and Downstream Port Containment.

use super::config::{Structure, flag};
use serde::{Serialize, Serializer};

/// Advanced Error Reporting (`PCI_EXT_CAP_ID_ERR`; Base Specification 7.8.4).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Aer {
    /// Uncorrectable Error Status: bits stay set until somebody clears them.
    pub uncorrectable: Option<UncorrectableErrors>,
    /// Correctable Error Status.
    pub correctable: Option<CorrectableErrors>,
}

impl Aer {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        Self {
            uncorrectable: at.dword(0x04).map(UncorrectableErrors),
            correctable: at.dword(0x10).map(CorrectableErrors),
        }
    }
}

/// A status bit: its mask, lspci's flags for it (newest first), our name.
pub(super) struct Bit {
    pub(super) mask: u32,
    pub(super) lspci: &'static [&'static str],
    name: &'static str,
}

/// The row of a status bit: its number, lspci's names for it, and ours.
const fn bit(number: u32, lspci: &'static [&'static str], name: &'static str) -> Bit {
    Bit { mask: 1 << number, lspci, name }
}

const UNCORRECTABLE: [Bit; 22] = [
    bit(4, &["DLP"], "data-link-protocol"),
    bit(5, &["SDES"], "surprise-down"),
    bit(12, &["TLP"], "poisoned-tlp"),
    bit(13, &["FCP"], "flow-control-protocol"),
    bit(14, &["CmpltTO"], "completion-timeout"),
    bit(15, &["CmpltAbrt"], "completer-abort"),
    bit(16, &["UnxCmplt"], "unexpected-completion"),
    bit(17, &["RxOF"], "receiver-overflow"),
    bit(18, &["MalfTLP"], "malformed-tlp"),
    bit(19, &["ECRC"], "ecrc"),
    bit(20, &["UnsupReq"], "unsupported-request"),
    bit(21, &["ACSViol"], "acs-violation"),
    bit(22, &["UncorrIntErr"], "internal"),
    bit(23, &["BlockedTLP"], "multicast-blocked-tlp"),
    bit(24, &["AtomicOpBlocked"], "atomic-egress-blocked"),
    bit(25, &["TLPBlockedErr"], "tlp-prefix-blocked"),
    bit(26, &["PoisonTLPBlocked"], "poisoned-tlp-egress-blocked"),
    bit(27, &["DMWrReqBlocked"], "dmwr-egress-blocked"),
    bit(28, &["IDECheck"], "ide-check"),
    bit(29, &["MisIDETLP"], "misrouted-ide-tlp"),
    bit(30, &["PCRC_CHECK"], "pcrc-check"),
    bit(31, &["TLPXlatBlocked"], "tlp-translation-egress-blocked"),
];

const CORRECTABLE: [Bit; 8] = [
    bit(0, &["RxErr"], "receiver-error"),
    bit(6, &["BadTLP"], "bad-tlp"),
    bit(7, &["BadDLLP"], "bad-dllp"),
    bit(8, &["Rollover"], "replay-number-rollover"),
    bit(12, &["Timeout"], "replay-timer-timeout"),
    bit(13, &["AdvNonFatalErr", "NonFatalErr"], "advisory-non-fatal"),
    bit(14, &["CorrIntErr"], "internal"),
    bit(15, &["HeaderOF"], "header-log-overflow"),
];

/// Bits of Uncorrectable Error Status (`PCI_ERR_UNC_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UncorrectableErrors(pub u32);

/// Bits of Correctable Error Status (`PCI_ERR_COR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorrectableErrors(pub u32);

impl UncorrectableErrors {
    /// Names of the errors recorded.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        names_of_set_bits(&UNCORRECTABLE, self.0)
    }

    pub(super) fn bits() -> &'static [Bit] {
        &UNCORRECTABLE
    }
}

impl CorrectableErrors {
    /// Names of the errors recorded.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        names_of_set_bits(&CORRECTABLE, self.0)
    }

    pub(super) fn bits() -> &'static [Bit] {
        &CORRECTABLE
    }
}

/// The names of the bits that are set.
fn names_of_set_bits(bits: &'static [Bit], status: u32) -> impl Iterator<Item = &'static str> {
    bits.iter().filter(move |bit| status & bit.mask != 0).map(|bit| bit.name)
}

impl Serialize for UncorrectableErrors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl Serialize for CorrectableErrors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

/// Downstream Port Containment (`PCI_EXT_CAP_ID_DPC`; Base Specification 7.9.14).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Dpc {
    /// The port has cut off what is below it.
    pub triggered: Option<bool>,
}

impl Dpc {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        Self { triggered: flag(at.word(0x08), 0x1) }
    }
}

#[cfg(test)]
mod tests {
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    #[test]
    fn recorded_errors() {
        let bytes = Image::bridge(0, 1, 1)
            .capability(0x10, Body::conventional(60).word(2, 0x42).bytes())
            .extended(0x01, 2, Body::extended(0x48).dword(4, 0x0010_4000).dword(0x10, 0x2001).bytes())
            .extended(0x1d, 1, Body::extended(16).word(8, 1).bytes())
            .bytes();
        let found = Capabilities::decode(ConfigSpace::new(&bytes));
        let aer = found.aer.get().unwrap();
        let uncorrectable: Vec<_> = aer.uncorrectable.unwrap().names().collect();
        assert_eq!(uncorrectable, ["completion-timeout", "unsupported-request"]);
        let correctable: Vec<_> = aer.correctable.unwrap().names().collect();
        assert_eq!(correctable, ["receiver-error", "advisory-non-fatal"]);
        assert_eq!(found.dpc.get().unwrap().triggered, Some(true));
    }
}
