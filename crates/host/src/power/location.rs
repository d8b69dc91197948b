//! Location codes: where in the machine a part sits.
//!
//! `U78AA.001.WZSGXXX-P1-C2-T1` is enclosure type 78AA, its model (or sequence) and serial number, planar 1,
//! card slot 2, port 1 (IBM, "Finding parts, locations, and addresses"; LoPAR, Location Codes).

use crate::power::device_tree::{PropertyError, strings};
use std::{fmt, str::FromStr};

/// Longest code looked at, in bytes (LoPAR caps them at 79 characters and the closing NUL).
const CODE_BYTES_MAX: usize = 79;

/// One step of a code: a letter for the kind of part and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// `P` planar, `C` card connector, `T` port, `V` virtual, `D` device, `L` logical path ...
    pub kind: String,
    /// The number, kept as written.
    pub number: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind, self.number)
    }
}

/// A location code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocationCode {
    /// The code as written.
    pub code: String,
    /// Enclosure: unit type or feature code, model or sequence, serial number: `78AA.001.WZSGXXX`.
    pub enclosure: String,
    /// The steps from the enclosure to the part.
    pub labels: Vec<Label>,
}

/// Text that is not a location code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a location code; expected one like U78AA.001.WZSGXXX-P1-C2-T1")]
pub struct LocationError(String);

impl FromStr for LocationCode {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        parse(text).ok_or_else(|| LocationError(text.chars().take(CODE_BYTES_MAX).collect()))
    }
}

fn parse(text: &str) -> Option<LocationCode> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let mut steps = text.strip_prefix('U').filter(|_| text.len() <= CODE_BYTES_MAX)?.split('-');
    let enclosure = steps.next().filter(|unit| is_enclosure(unit))?;
    let labels = steps.map(parse_label).collect::<Option<Vec<_>>>()?;
    Some(LocationCode { code: text.to_owned(), enclosure: enclosure.to_owned(), labels })
}

/// Whether the first part of a location code has the form `TYPE.MODEL.SERIAL`.
fn is_enclosure(unit: &str) -> bool {
    let parts: Vec<&str> = unit.split('.').collect();
    let plain = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
    // Older machines leave the model out.
    (2..=3).contains(&parts.len()) && parts.iter().all(plain)
}

/// Parses a part of a location code: letters and a number, such as `P1` or `C8`.
fn parse_label(step: &str) -> Option<Label> {
    let digits = step.find(|c: char| c.is_ascii_digit()).unwrap_or(step.len());
    let (kind, number) = step.split_at(digits);
    let plain = step.bytes().all(|b| b.is_ascii_alphanumeric());
    (plain && !kind.is_empty()).then(|| Label { kind: kind.to_owned(), number: number.to_owned() })
}

impl LocationCode {
    /// Type of the enclosure: `78AA`.
    pub fn unit_type(&self) -> &str {
        self.enclosure.split('.').next().unwrap_or_default()
    }

    /// The planar: `P1`.
    pub fn planar(&self) -> Option<String> {
        self.labels.iter().find(|label| label.kind == "P").map(Label::to_string)
    }

    /// The card slot: `C2`. A card on a riser names both, `C8-C1`, so that it is never taken for slot `C1`
    /// of the planar.
    pub fn slot(&self) -> Option<String> {
        let cards: Vec<String> =
            self.labels.iter().filter(|label| label.kind == "C").map(Label::to_string).collect();
        (!cards.is_empty() && !self.is_virtual()).then(|| cards.join("-"))
    }

    /// The port on the card: `T1`.
    pub fn port(&self) -> Option<String> {
        self.labels.iter().find(|label| label.kind == "T").map(Label::to_string)
    }

    /// The slot without the port: `U78AA.001.WZSGXXX-P1-C2`.
    pub fn slot_code(&self) -> String {
        let labels = self.labels.iter().take_while(|label| label.kind == "P" || label.kind == "C");
        labels.fold(format!("U{}", self.enclosure), |code, label| format!("{code}-{label}"))
    }

    /// A virtual adapter: its "slot" is a number in the partition profile.
    pub fn is_virtual(&self) -> bool {
        self.labels.iter().any(|label| label.kind == "V")
    }

    /// Whether the enclosure is a system unit, whose types begin with 78. Expansion drawers show their
    /// feature code (5802, 5877 ...); some later drawers have a 78 type, too, so `true` is no proof.
    pub fn may_be_system_unit(&self) -> bool {
        self.unit_type().starts_with("78")
    }
}

impl fmt::Display for LocationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code)
    }
}

/// `ibm,loc-code` of a node: a list, most nodes having one. QEMU puts words of its own there.
pub fn location_codes(bytes: &[u8]) -> Result<Vec<Result<LocationCode, LocationError>>, PropertyError> {
    Ok(strings("ibm,loc-code", bytes)?.iter().map(|code| code.parse()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(code: &str, planar: Option<&str>, slot: Option<&str>, port: Option<&str>, slot_code: &str) {
        let location: LocationCode = code.parse().unwrap();
        assert_eq!(location.planar().as_deref(), planar, "{code}");
        assert_eq!(location.slot().as_deref(), slot, "{code}");
        assert_eq!(location.port().as_deref(), port, "{code}");
        assert_eq!(location.slot_code(), slot_code);
        assert_eq!(location.to_string(), code);
    }

    #[test]
    fn codes() {
        check("U78AA.001.WZSGXXX-P1-C2-T1", Some("P1"), Some("C2"), Some("T1"), "U78AA.001.WZSGXXX-P1-C2");
        check("U78AA.001.WZSGXXX-P1-C2", Some("P1"), Some("C2"), None, "U78AA.001.WZSGXXX-P1-C2");
        check("U5802.001.00H1234-P1-C2-T1", Some("P1"), Some("C2"), Some("T1"), "U5802.001.00H1234-P1-C2");
        check("U78D3.001.1234567-P1-C8-C1", Some("P1"), Some("C8-C1"), None, "U78D3.001.1234567-P1-C8-C1");
        check("U8231.E2C.06ABCDE-V3-C20-T1", None, None, Some("T1"), "U8231.E2C.06ABCDE");
        check("U9111.1234567-P1", Some("P1"), None, None, "U9111.1234567-P1");
    }

    #[test]
    fn drawers_are_distinguished_from_system_units() {
        let unit = |code: &str| code.parse::<LocationCode>().unwrap().may_be_system_unit();
        assert!(unit("U78AA.001.WZSGXXX-P1-C2"));
        assert!(!unit("U5802.001.00H1234-P1-C2"));
    }

    #[test]
    fn other_words() {
        for text in ["", "U", "qemu_nvme:0000:00:03.0", "U78AA.001.X-", "U78AA.001.X--C1", "P1", "U78AA-P1"] {
            assert!(text.parse::<LocationCode>().is_err(), "{text}");
        }
        let codes = location_codes(b"qemu_nvme:0000:00:03.0\0").unwrap();
        assert_eq!(codes.len(), 1);
        let error = codes[0].as_ref().unwrap_err().to_string();
        assert!(error.starts_with("`qemu_nvme:0000:00:03.0` is not a location code"), "{error}");
        assert!(location_codes(b"U78AA.001.WZSGXXX-P1-C2-T1\0").unwrap()[0].is_ok());
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, bytes: Vec<u8>) {
            let _ = text.parse::<LocationCode>();
            let _ = location_codes(&bytes);
        }
    }
}
