//! The level of the system firmware.
//!
//! `openprom/ibm,fw-vernum_encoded` holds it as `AL770_028` or, on later machines, as
//! `FW950.30 (VL950_092)`: two letters for the family of machines, the release level, the service pack
//! level (IBM, POWER7 system firmware release notes, "System firmware file naming convention").

use crate::power::device_tree::{PropertyError, string};
use std::{fmt, str::FromStr};

/// A firmware level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirmwareLevel {
    /// Machine family: `AL` entry, `AM` midrange, `AH` high-end POWER7; later `SV`, `VL`, `ML` ...
    pub family: String,
    /// Release level; grows over the years, through all generations: 770, 950, 1040.
    pub release: u32,
    /// Service pack level within the release.
    pub service_pack: u32,
    /// The last service pack that could not be installed concurrently, where it is told.
    pub disruptive: Option<u32>,
    /// The name in announcements: `FW950.30`.
    pub announced: Option<String>,
}

/// Text that is not a firmware level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FirmwareError {
    /// The property holds no text.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// Another form, as machines before POWER5 have it (`TCP00032`).
    #[error("`{0}` is not a firmware level; expected one like AL770_028 or FW950.30 (VL950_092)")]
    Form(String),
}

impl FirmwareLevel {
    /// From `openprom/ibm,fw-vernum_encoded`.
    pub fn from_property(bytes: &[u8]) -> Result<Self, FirmwareError> {
        string("ibm,fw-vernum_encoded", bytes)?.parse()
    }
}

impl FromStr for FirmwareLevel {
    type Err = FirmwareError;

    /// Accepts a level, a file name (`01AL770_119_032`), or a level in brackets behind its announced name.
    fn from_str(text: &str) -> Result<Self, FirmwareError> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        parse(text).ok_or_else(|| FirmwareError::Form(text.chars().take(40).collect()))
    }
}

fn parse(text: &str) -> Option<FirmwareLevel> {
    let (announced, level) = match text.split_once('(') {
        Some((name, rest)) => (Some(name.trim()), rest.strip_suffix(')')?),
        None => (None, text),
    };
    let level = level.trim();
    let level = level.strip_prefix("01").unwrap_or(level);
    let (family, numbers) = level.split_at_checked(2)?;
    let mut numbers = numbers.split('_');
    let found = FirmwareLevel {
        family: family.to_owned(),
        release: parse_digits(numbers.next()?, 3..=4)?,
        service_pack: parse_digits(numbers.next()?, 3..=3)?,
        disruptive: numbers.next().map(|last| parse_digits(last, 3..=3).ok_or(())).transpose().ok()?,
        announced: announced.filter(|name| !name.is_empty()).map(str::to_owned),
    };
    let letters = family.bytes().all(|b| b.is_ascii_uppercase());
    (letters && numbers.next().is_none()).then_some(found)
}

/// Parses a decimal number of as many digits.
fn parse_digits(text: &str, width: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let plain = width.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for FirmwareLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}_{:03}", self.family, self.release, self.service_pack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: Option<(&str, u32, u32)>) {
        let found = text.parse::<FirmwareLevel>().ok();
        let found = found.as_ref().map(|f| (f.family.as_str(), f.release, f.service_pack));
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn levels() {
        check("AL770_028", Some(("AL", 770, 28)));
        check("01AL770_119_032", Some(("AL", 770, 119)));
        check("FW950.30 (VL950_092)", Some(("VL", 950, 92)));
        check("ML1040_027", Some(("ML", 1040, 27)));
        check("SF240_332", Some(("SF", 240, 332)));
        check("TCP00032", None);
        check("AL770", None);
        check("AL770_", None);
        check("AL+70_028", None);
        check("AL770_028_032_1", None);
        check("FW950.30 (VL950_092", None);
        check("é770_028", None);
        check("", None);
    }

    #[test]
    fn properties() {
        let level = FirmwareLevel::from_property(b"AL770_028\0").unwrap();
        assert_eq!(level.to_string(), "AL770_028");
        let level = FirmwareLevel::from_property(b"FW950.30 (VL950_092)\0").unwrap();
        assert_eq!(level.announced.as_deref(), Some("FW950.30"));
        let error = FirmwareLevel::from_property(b"TCP00032\0").unwrap_err().to_string();
        assert!(error.starts_with("`TCP00032` is not a firmware level"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text: String) {
            let _ = (FirmwareLevel::from_property(&bytes), text.parse::<FirmwareLevel>());
        }

        #[test]
        fn levels_round_trip(family in "[A-Z]{2}", release in 100u32..=9999, service_pack in 0u32..=999) {
            let text = format!("{family}{release}_{service_pack:03}");
            prop_assert_eq!(text.parse::<FirmwareLevel>().unwrap().to_string(), text);
        }
    }
}
