//! Device serial numbers in PCI configuration space, as bytes and as lspci prints them.
//!
//! The capability (PCI Express Base Specification, Device Serial Number) holds a 64-bit identifier, which makers of network
//! adapters derive from the MAC address.

use super::kind::{Counts, Kind};
use super::pseudonym::Key;

/// Where extended capabilities begin.
const EXTENDED_START: usize = 0x100;
const CONFIG_BYTES_MAX: usize = 4096;
/// Device Serial Number.
const SERIAL_NUMBER: u16 = 0x0003;

/// Replaces the serial numbers in a configuration space.
pub(super) fn redact(key: &Key, bytes: &mut [u8], counts: &mut Counts) {
    for at in serial_numbers(bytes) {
        let Some(field) = bytes.get_mut(at..at + 8) else { continue };
        let Ok(mut eui) = <[u8; 8]>::try_from(&*field) else { continue };
        // The lower dword comes first, and the identifier's first octet is the highest.
        eui.reverse();
        let mut pseudonym = key.eui64(eui);
        if pseudonym != eui {
            counts.add(Kind::SerialNumber);
            pseudonym.reverse();
            field.copy_from_slice(&pseudonym);
        }
    }
}

/// Offsets of the serial numbers, by the list of capabilities. Broken lists that come back to themselves end.
fn serial_numbers(bytes: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = EXTENDED_START;
    for _ in 0..(CONFIG_BYTES_MAX - EXTENDED_START) / 4 {
        let Some(header) =
            bytes.get(at..at + 4).and_then(|header| header.try_into().ok()).map(u32::from_le_bytes)
        else {
            break;
        };
        if (header & 0xffff) == u32::from(SERIAL_NUMBER) {
            found.push(at + 4);
        }
        at = usize::try_from(header >> 20).unwrap_or(0) & !3;
        if at < EXTENDED_START {
            break;
        }
    }
    found
}

/// Replaces the serial numbers in the dumps that `lspci -xxxx` prints: rows `140: 03 00 01 15 ...`.
pub(super) fn redact_dumps(key: &Key, text: &str, counts: &mut Counts) -> String {
    let mut out = String::with_capacity(text.len());
    let mut dump = Dump::default();
    for line in text.split_inclusive('\n') {
        let row = row(line);
        if row.as_ref().is_none_or(|(offset, _)| *offset != dump.bytes.len()) {
            dump.write(key, &mut out, counts);
        }
        match row {
            Some((offset, bytes)) if offset == dump.bytes.len() && offset < CONFIG_BYTES_MAX => {
                dump.lines.push((line, offset));
                dump.bytes.extend(bytes);
            }
            _ => out.push_str(line),
        }
    }
    dump.write(key, &mut out, counts);
    out
}

/// Rows of one dump that were read and not yet written.
#[derive(Default)]
struct Dump<'t> {
    lines: Vec<(&'t str, usize)>,
    bytes: Vec<u8>,
}

impl Dump<'_> {
    /// Writes the dump with its identifiers replaced. Lines without any stay as they were.
    fn write(&mut self, key: &Key, out: &mut String, counts: &mut Counts) {
        let before = self.bytes.clone();
        redact(key, &mut self.bytes, counts);
        let mut ends = self.lines.iter().skip(1).map(|(_, start)| *start).collect::<Vec<_>>();
        ends.push(self.bytes.len());
        for ((line, start), end) in self.lines.drain(..).zip(ends) {
            let new = self.bytes.get(start..end).unwrap_or_default();
            if before.get(start..end) == Some(new) {
                out.push_str(line);
                continue;
            }
            let head = line.split_once(": ").map_or("", |(head, _)| head);
            let digits: Vec<String> = new.iter().map(|byte| format!("{byte:02x}")).collect();
            let tail = &line[line.trim_end().len()..];
            out.push_str(&format!("{head}: {}{tail}", digits.join(" ")));
        }
        self.bytes.clear();
    }
}

/// The offset and the bytes of a row.
fn row(line: &str) -> Option<(usize, Vec<u8>)> {
    let (offset, bytes) = line.trim_end().split_once(": ")?;
    let offset = usize::from_str_radix(offset, 16).ok()?;
    let byte = |digits: &str| (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?;
    let bytes = bytes.split(' ').map(byte).collect::<Option<Vec<u8>>>()?;
    (!bytes.is_empty() && bytes.len() <= 16).then_some((offset, bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::new([7; Key::BYTES])
    }

    /// A configuration space with AER at 100h and a serial number at 150h.
    fn config() -> Vec<u8> {
        let mut bytes = vec![0; CONFIG_BYTES_MAX];
        bytes[0x100..0x104].copy_from_slice(&0x1500_0001_u32.to_le_bytes()[..]);
        bytes[0x102] = 0x02;
        bytes[0x103] = 0x15;
        bytes[0x150..0x154].copy_from_slice(&[0x03, 0x00, 0x01, 0x00]);
        bytes[0x154..0x15c].copy_from_slice(&[0x0c, 0x0b, 0x0a, 0xff, 0xff, 0x1c, 0xb1, 0x90]);
        bytes
    }

    #[test]
    fn the_serial_number_goes_and_nothing_else() {
        let mut bytes = config();
        let mut counts = Counts::default();
        redact(&key(), &mut bytes, &mut counts);
        assert_eq!(counts.of(Kind::SerialNumber), 1);
        assert_eq!(bytes[0x157..0x15c], [0xff, 0xff, 0x6f, 0x69, 0x02]);
        let mut rest = config();
        rest[0x154..0x15c].copy_from_slice(&bytes[0x154..0x15c]);
        assert_eq!(bytes, rest);
        let mac = key().mac([0x90, 0xb1, 0x1c, 0x0a, 0x0b, 0x0c]);
        assert_eq!(bytes[0x154..0x157], [mac[5], mac[4], mac[3]], "as the address that it is made of");
    }

    #[test]
    fn dumps_read_as_their_bytes_do() {
        let print = |bytes: &[u8]| {
            let row = |(at, row): (usize, &[u8])| {
                let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{:02x}: {}\n", at * 16, digits.join(" "))
            };
            let rows: String = bytes.chunks(16).enumerate().map(row).collect();
            format!("3b:00.0 Ethernet controller: X\n\tControl: I/O-\n{rows}\n3b:00.1 Y\n")
        };
        let mut bytes = config();
        redact(&key(), &mut bytes, &mut Counts::default());
        let mut counts = Counts::default();
        assert_eq!(redact_dumps(&key(), &print(&config()), &mut counts), print(&bytes));
        assert_eq!(counts.of(Kind::SerialNumber), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_twice_are_as_once(mut bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            redact(&key(), &mut bytes, &mut Counts::default());
            let once = bytes.clone();
            let mut counts = Counts::default();
            redact(&key(), &mut bytes, &mut counts);
            // Lists whose entries overlap are no device's; everything else stays.
            if serial_numbers(&once).windows(2).all(|pair| pair[0].abs_diff(pair[1]) >= 12) {
                prop_assert_eq!(bytes, once);
            }
        }
    }
}
