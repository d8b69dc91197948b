//! The first line of a record, and other lines with IDs or bus numbers.

use super::hex;
use crate::Bdf;
use crate::class::ClassCode;
use crate::header::{BridgeBuses, SubsystemId};

/// The parts of a record's first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading<'a> {
    pub(super) bdf: Bdf,
    /// Without programming interface.
    pub(super) class: Option<ClassCode>,
    pub(super) class_name: Option<&'a str>,
    pub(super) ids: Option<(u16, u16)>,
    pub(super) name: Option<&'a str>,
    pub(super) revision: Option<u8>,
    pub(super) interface: Option<u8>,
}

impl<'a> Heading<'a> {
    /// Parses `3b:00.0 CLASS: DEVICE (rev 01) (prog-if 02 [NVM Express])`, where CLASS and DEVICE are names,
    /// numbers, or both.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (address, rest) = line.split_once(' ')?;
        let bdf = parse_full_address(address)?;
        let (class, device) = rest.split_once(": ")?;
        let (class_name, class) = name_and_class(class);
        let (device, interface) = split_suffix(device, " (prog-if ");
        let (device, revision) = split_suffix(device, " (rev ");
        let (name, ids) = name_and_ids(device);
        Some(Self { bdf, class, class_name, ids, name, revision, interface })
    }

    /// Parses an address alone, which stands for a first line that was cut off.
    pub(super) fn parse_address(line: &str) -> Option<Self> {
        let bdf = parse_full_address(line)?;
        Some(Self {
            bdf,
            class: None,
            class_name: None,
            ids: None,
            name: None,
            revision: None,
            interface: None,
        })
    }
}

/// Parses an address with all its digits. Fewer digits could be a time of day at the start of a log line.
pub(super) fn parse_full_address(text: &str) -> Option<Bdf> {
    let bdf: Bdf = text.parse().ok()?;
    let full = bdf.to_string();
    (full == text || full.strip_prefix("0000:") == Some(text)).then_some(bdf)
}

/// Splits off a suffix such as ` (rev 01)` and parses its number.
fn split_suffix<'a>(text: &'a str, opening: &str) -> (&'a str, Option<u8>) {
    let Some((before, after)) = text.rsplit_once(opening) else { return (text, None) };
    let number = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (before, number)
}

/// Name and class code of `Ethernet controller`, `Ethernet controller [0200]`, `0200`, or `Class 0200` if it has no name.
pub(super) fn name_and_class(text: &str) -> (Option<&str>, Option<ClassCode>) {
    if let Some((name, code)) = split_brackets(text) {
        return (Some(name), ClassCode::parse(code));
    }
    match ClassCode::parse(text.strip_prefix("Class ").unwrap_or(text)) {
        Some(class) => (None, Some(class)),
        None => (Some(text), None),
    }
}

/// Name and IDs of `Maker Model`, `Maker Model [15b3:1017]`, `15b3:1017`, or if neither has a name `Device 15b3:1017` or
/// `Device [15b3:1017]`.
pub(super) fn name_and_ids(text: &str) -> (Option<&str>, Option<(u16, u16)>) {
    let in_brackets = split_brackets(text).and_then(|(name, ids)| Some((name, parse_ids(ids)?)));
    if let Some((name, ids)) = in_brackets {
        return (Some(name).filter(|name| *name != "Device"), Some(ids));
    }
    match parse_ids(text.strip_prefix("Device ").unwrap_or(text)) {
        Some(ids) => (None, Some(ids)),
        None => (Some(text), None),
    }
}

/// Splits `NAME [CODE]`.
pub(super) fn split_brackets(text: &str) -> Option<(&str, &str)> {
    text.trim_end().strip_suffix(']')?.rsplit_once(" [")
}

/// Parses `vendor:device`.
fn parse_ids(text: &str) -> Option<(u16, u16)> {
    let (vendor, device) = text.trim().split_once(':')?;
    Some((hex(vendor, 4)?, hex(device, 4)?))
}

/// Parses the text after `Subsystem: `: IDs and name.
pub(super) fn subsystem(text: &str) -> (Option<SubsystemId>, Option<String>) {
    let (name, ids) = name_and_ids(text);
    (ids.and_then(|(vendor, device)| SubsystemId::of_registers(vendor, device)), name.map(str::to_owned))
}

/// Parses `primary=00, secondary=01, subordinate=05, sec-latency=0`.
pub(super) fn buses(text: &str) -> Option<BridgeBuses> {
    let number = |name: &str| {
        let value = text.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))?;
        u8::from_str_radix(value, 16).ok()
    };
    Some(BridgeBuses {
        primary: number("primary")?,
        secondary: number("secondary")?,
        subordinate: number("subordinate")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(device: &str, name: Option<&str>, ids: Option<(u16, u16)>) {
        assert_eq!(name_and_ids(device), (name, ids), "{device}");
    }

    #[test]
    fn separates_names_from_ids() {
        check("15b3:1017", None, Some((0x15b3, 0x1017)));
        check("Device 15b3:1017", None, Some((0x15b3, 0x1017)));
        check("Device [15b3:1017]", None, Some((0x15b3, 0x1017)));
        check("Maker Device 1017", Some("Maker Device 1017"), None);
        check("Maker Model [15b3:1017]", Some("Maker Model"), Some((0x15b3, 0x1017)));
        check("Maker Model [Brand]", Some("Maker Model [Brand]"), None);
        check("Maker [Brand] Device [15b3:1017]", Some("Maker [Brand] Device"), Some((0x15b3, 0x1017)));
    }

    fn check_class(text: &str, name: Option<&str>, class: Option<&str>) {
        assert_eq!(name_and_class(text), (name, class.and_then(ClassCode::parse)), "{text}");
    }

    #[test]
    fn separates_class_names_from_codes() {
        check_class("PCI bridge", Some("PCI bridge"), None);
        check_class("PCI bridge [0604]", Some("PCI bridge"), Some("0604"));
        check_class("0604", None, Some("0604"));
        check_class("Class ff01", None, Some("ff01"));
    }

    #[test]
    fn parses_the_bus_numbers_of_bridges() {
        let expect = BridgeBuses { primary: 0, secondary: 0x3a, subordinate: 0xff };
        assert_eq!(buses("primary=00, secondary=3a, subordinate=ff, sec-latency=0"), Some(expect));
        assert_eq!(buses("primary=00, secondary=3a"), None);
    }
}
