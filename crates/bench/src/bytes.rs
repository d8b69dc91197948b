//! Amounts of memory, parsed from and printed with units.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A text that is not an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid number of bytes; expected 1 to 1024M, as 4096, 64K or 2M")]
pub struct BadBytes;

impl Bytes {
    /// The largest accepted amount.
    pub const MAX: Self = Self(1 << 30);
}

impl FromStr for Bytes {
    type Err = BadBytes;

    fn from_str(text: &str) -> Result<Self, BadBytes> {
        let (digits, shift) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 10),
            None => text.strip_suffix(['m', 'M']).map_or((text, 0), |digits| (digits, 20)),
        };
        let number: u64 = digits.parse().map_err(|_| BadBytes)?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| (1..=Self::MAX.0).contains(bytes));
        bytes.map(Self).ok_or(BadBytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(formatter, "{} MiB", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(formatter, "{} KiB", bytes >> 10),
            bytes => write!(formatter, "{bytes} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_and_printed() {
        for (text, bytes, printed) in [
            ("4096", 4096, "4 KiB"),
            ("64K", 65536, "64 KiB"),
            ("2m", 2 << 20, "2 MiB"),
            ("100", 100, "100 B"),
        ] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (bytes, printed));
        }
        for text in ["", "K", "0", "-1", "1025M", "99999999999999999999", "18446744073709551615K", "4G"] {
            assert_eq!(text.parse::<Bytes>(), Err(BadBytes), "{text}");
        }
    }
}
