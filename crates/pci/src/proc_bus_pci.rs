//! `/proc/bus/pci/devices`: one line per function, with BARs, sizes and driver.
//!
//! ```text
//! 0018  1b360010  b  febc4004  0 0 0 0 0 0  4000  0 0 0 0 0 0  nvme
//! |     |         |  |                      |                  driver, if any
//! |     |         |  6 BARs and ROM         their sizes, bytes
//! |     |         IRQ
//! |     vendor, device
//! bus, device and function (devfn)
//! ```
//!
//! All numbers are hexadecimal. The file has no domains: with several, an address can stand for more
//! than one function.

use crate::{Citation, Text};

/// Number of regions in a line: six BARs and the expansion ROM (`PCI_ROM_RESOURCE`).
const REGIONS: usize = 7;

/// One function's line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLine {
    /// Bus number, in a domain that the file does not name.
    pub bus: u8,
    /// Device number.
    pub device: u8,
    /// Function number.
    pub function: u8,
    /// Vendor ID.
    pub vendor_id: u16,
    /// Device ID.
    pub device_id: u16,
    /// Interrupt line.
    pub irq: u32,
    /// Six BARs and the ROM; low bits hold the region's flags.
    pub regions: [Region; REGIONS],
    /// Driver in use.
    pub driver: Option<String>,
    /// Another line has the same address: there are several domains.
    pub ambiguous: bool,
    /// The line.
    pub at: Citation,
}

/// A BAR as the kernel assigned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Region {
    /// Bus address as the CPU sees it, with the BAR's flags in its low bits.
    pub address: u64,
    /// Size in bytes; 0 if unused.
    pub bytes: u64,
}

/// Parses the lines; malformed ones are skipped.
pub fn parse(text: &Text) -> Vec<DeviceLine> {
    let mut lines: Vec<DeviceLine> =
        text.lines().filter_map(|(number, line)| parse_line(line, || text.cite(number, line))).collect();
    mark_ambiguous(&mut lines);
    lines
}

/// Marks the lines whose address occurs more than once.
fn mark_ambiguous(lines: &mut [DeviceLine]) {
    let address = |line: &DeviceLine| (line.bus, line.device, line.function);
    let mut seen = std::collections::HashMap::new();
    for line in lines.iter() {
        *seen.entry(address(line)).or_insert(0u32) += 1;
    }
    for line in lines {
        line.ambiguous = seen.get(&address(line)).is_some_and(|&count| count > 1);
    }
}

/// Parses one line; `None` if it is malformed.
fn parse_line(line: &str, cite: impl FnOnce() -> Citation) -> Option<DeviceLine> {
    let mut columns = line.split_whitespace();
    let (bus, devfn) = split_hex_pair(columns.next()?, 2)?;
    let (vendor, device) = split_hex_pair(columns.next()?, 4)?;
    let irq = u32::try_from(parse_hex(columns.next()?)?).ok()?;
    let mut regions = [Region::default(); REGIONS];
    for region in &mut regions {
        region.address = parse_hex(columns.next()?)?;
    }
    for region in &mut regions {
        region.bytes = parse_hex(columns.next()?)?;
    }
    let devfn = u8::try_from(devfn).ok()?;
    Some(DeviceLine {
        bus: u8::try_from(bus).ok()?,
        device: devfn >> 3,
        function: devfn & 7,
        vendor_id: u16::try_from(vendor).ok()?,
        device_id: u16::try_from(device).ok()?,
        irq,
        regions,
        driver: columns.next().map(str::to_owned),
        ambiguous: false,
        at: cite(),
    })
}

/// Splits a column into two hexadecimal numbers of `digits` digits each.
fn split_hex_pair(column: &str, digits: usize) -> Option<(u64, u64)> {
    if column.len() != 2 * digits {
        return None;
    }
    Some((parse_hex(column.get(..digits)?)?, parse_hex(column.get(digits..)?)?))
}

/// Parses a hexadecimal number without prefix.
fn parse_hex(column: &str) -> Option<u64> {
    let plain = !column.is_empty() && column.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(column, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NVME: &str = "0018\t1b360010\tb\t        febc4004\t               0\t               0\t               0\t               0\t               0\t               0\t            4000\t               0\t               0\t               0\t               0\t               0\t               0\tnvme";

    fn lines(body: &str) -> Vec<DeviceLine> {
        parse(&Text::new("proc/bus/pci/devices", body))
    }

    #[test]
    fn parses_one_line() {
        let found = lines(&format!("{NVME}\n"));
        let [line] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((line.bus, line.device, line.function), (0, 3, 0));
        assert_eq!((line.vendor_id, line.device_id, line.irq), (0x1b36, 0x0010, 11));
        assert_eq!(line.regions[0], Region { address: 0xfebc_4004, bytes: 0x4000 });
        assert_eq!(line.driver.as_deref(), Some("nvme"));
        assert_eq!(line.at.line, Some(1));
        assert!(!line.ambiguous);
    }

    #[test]
    fn a_line_may_name_no_driver() {
        let found = lines(NVME.trim_end_matches("nvme"));
        assert_eq!(found[0].driver, None);
    }

    #[test]
    fn an_address_in_two_domains_is_ambiguous() {
        let found = lines(&format!("{NVME}\n{}\n{NVME}\n", NVME.replace("0018", "3b01")));
        let ambiguous: Vec<bool> = found.iter().map(|line| line.ambiguous).collect();
        assert_eq!(ambiguous, [true, false, true]);
        assert_eq!((found[1].bus, found[1].function), (0x3b, 1));
    }

    #[test]
    fn skips_malformed_lines() {
        for body in ["", "0018", "0018\t1b360010\tb\t0", &NVME.replace("1b360010", "1b3600é1")] {
            assert_eq!(lines(body), [], "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(body in "[0-9a-f\t é\n]{0,400}") {
            let _ = lines(&body);
        }
    }
}
