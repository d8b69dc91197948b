//! The address of a PCI function: domain, bus, device, function.

use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr};

/// The address of a PCI function, as Linux writes it: `0000:3b:00.0`.
///
/// Domains are 32 bits wide because Linux numbers those of VMD controllers from 0x10000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    /// PCI domain (ACPI: segment group).
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

/// Text that is not the address of a PCI function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a PCI address; expected [domain:]bus:device.function in hexadecimal, like 0000:3b:00.0"
)]
pub struct BdfError(String);

impl Bdf {
    /// The function of domain 0 with a requester ID: bus in the upper byte, device and function in the lower.
    pub fn of_requester_id(id: u16) -> Self {
        let [bus, below] = id.to_be_bytes();
        Self { domain: 0, bus, device: below >> 3, function: below & 7 }
    }

    /// What it sends as the source of its requests, without the domain.
    pub fn requester_id(self) -> u16 {
        u16::from_be_bytes([self.bus, self.device << 3 | self.function])
    }
}

impl FromStr for Bdf {
    type Err = BdfError;

    /// Accepts both `0000:3b:00.0` and, as lspci prints it for domain 0, `3b:00.0`.
    fn from_str(text: &str) -> Result<Self, BdfError> {
        parse(text).ok_or_else(|| BdfError(text.chars().take(40).collect()))
    }
}

fn parse(text: &str) -> Option<Bdf> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    let bdf = Bdf {
        domain: parse_hex(domain, 8)?,
        bus: u8::try_from(parse_hex(bus, 2)?).ok()?,
        device: u8::try_from(parse_hex(device, 2)?).ok()?,
        function: u8::try_from(parse_hex(function, 1)?).ok()?,
    };
    (bdf.device < 32 && bdf.function < 8).then_some(bdf)
}

/// Parses a hexadecimal number of 1 to `digits_max` digits.
fn parse_hex(digits: &str, digits_max: usize) -> Option<u32> {
    let plain =
        !digits.is_empty() && digits.len() <= digits_max && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl fmt::Debug for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Bdf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(text.parse::<Bdf>().ok().map(|b| b.to_string()).as_deref(), expect, "{text}");
    }

    #[test]
    fn addresses() {
        check("0000:3b:00.0", Some("0000:3b:00.0"));
        check("3b:00.0", Some("0000:3b:00.0"));
        check("10000:e1:1f.7", Some("10000:e1:1f.7"));
        check("0000:3b:20.0", None);
        check("0000:3b:00.8", None);
        check("0000:+3:00.0", None);
        check("0000:3b:00", None);
        check("", None);
    }
}
