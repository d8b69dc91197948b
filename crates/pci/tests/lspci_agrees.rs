//! Decodes the same configuration space twice, from its bytes and from what the real lspci makes of
//! them, and expects the same facts.
//!
//! Needs `lspci`; the variable `LSPCI` names another one than the system's. Versions before 3.8 print less,
//! but must not contradict. Without any, the test says that it did not run.

#[path = "../../../tests/skip.rs"]
mod skip;

use pci::Text;
use pci::lspci::{self, Record};
use pci::{Capabilities, ConfigSpace, Header};
use skip::skip;
use std::io::ErrorKind;
use std::process::Command;
use toml::Value;

// It belongs to the unit tests, where a panic is the report and more of it is used.
#[allow(clippy::unwrap_used, dead_code, unreachable_pub)]
#[path = "../src/image.rs"]
mod image;

use image::{Body, Image};

/// What lspci prints for dumps of these images, one per bus; `None` if there is no lspci here.
///
/// Device and function are 0 throughout, because lspci leaves registers out for others.
fn lspci_text(program: &str, detail: &str, images: &[Vec<u8>]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump");
    let dump = |(bus, bytes): (usize, &Vec<u8>)| format!("{bus:02x}:00.0 x\n{}\n", image::dump(bytes));
    let dumps: String = images.iter().enumerate().map(dump).collect();
    std::fs::write(&path, dumps).expect("a dump written");
    match Command::new(program).arg(detail).arg("-F").arg(&path).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("lspci does not start: {error}"),
    }
}

/// Whether lspci prints all that we read: since 3.8.
fn prints_everything(program: &str) -> bool {
    let output = Command::new(program).arg("--version").output().expect("lspci's version");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.trim().rsplit(' ').next().unwrap_or_default();
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(3), Some(8))
}

/// Where the text contradicts the bytes, and where it knows less although `all` was asked for.
fn differences(text: &Value, bytes: &Value, all: bool, path: &str, found: &mut Vec<String>) {
    match (text, bytes) {
        (Value::Table(text), Value::Table(bytes)) => {
            for (key, value) in text {
                match bytes.get(key) {
                    Some(other) => differences(value, other, all, &format!("{path}.{key}"), found),
                    None => found.push(format!("{path}.{key}: {value} in the text only")),
                }
            }
            let missing = bytes.keys().filter(|key| all && !text.contains_key(*key));
            found.extend(missing.map(|key| format!("{path}.{key}: in the bytes only")));
        }
        // Where lspci shows no extended list, the text cannot tell an empty one from one that was not read.
        (Value::String(text), Value::String(bytes)) if text == "unknown" && bytes == "absent" => {}
        _ if text == bytes => {}
        _ => found.push(format!("{path}: {text} in the text, {bytes} in the bytes")),
    }
}

fn check(images: &[Vec<u8>]) {
    let program = std::env::var("LSPCI").unwrap_or_else(|_| "lspci".to_owned());
    for detail in ["-nnvvv", "-nnv", "-nvvD", "-xxxx"] {
        let Some(listing) = lspci_text(&program, detail, images) else {
            skip("lspci (pciutils) is not installed");
            return;
        };
        let records = lspci::parse(&Text::new("lspci", listing.as_str()));
        assert_eq!(records.len(), images.len(), "{listing}");
        let all = detail != "-nnv" && prints_everything(&program);
        for (record, bytes) in records.iter().zip(images) {
            compare(record, bytes, all, &listing);
        }
    }
}

fn compare(record: &Record, bytes: &[u8], all: bool, listing: &str) {
    let config = ConfigSpace::new(bytes);
    let value = |facts: &Capabilities| Value::try_from(facts).expect("facts as a table");
    let (text, decoded) = (value(&record.capabilities), value(&Capabilities::decode(config)));
    let mut found = Vec::new();
    differences(&text, &decoded, all, "", &mut found);
    assert!(found.is_empty(), "{}: {}\n{listing}", record.bdf, found.join("\n"));

    let header = Header::decode(config);
    assert_eq!((record.vendor, record.device), (header.vendor, header.device), "{listing}");
    assert_eq!(record.class, header.class, "{listing}");
    // The text leaves revision 0 out.
    assert_eq!(record.revision.unwrap_or(0), header.revision.unwrap_or(0), "{listing}");
    assert_eq!(record.buses, header.buses, "{listing}");
    assert_eq!(record.subsystem, header.subsystem, "{listing}");
    assert_eq!(record.bus_master, header.bus_master, "{listing}");
}

#[test]
fn lspci_agrees_on_captured_functions() {
    let stored = [
        include_str!("functions/nvme-ppc-endpoint.config"),
        include_str!("functions/nvme-x86-integrated.config"),
        include_str!("functions/nvme-x86-vtd.config"),
        include_str!("functions/nvme-arm-integrated.config"),
        include_str!("functions/e1000e-x86-integrated.config"),
        include_str!("functions/virtio-net-x86.config"),
        include_str!("functions/ahci-x86.config"),
    ];
    let whole: Vec<Vec<u8>> = stored.iter().map(|text| image::stored(text)).collect();
    check(&whole);
    let cut = |length: usize| whole.iter().map(|bytes| bytes[..length].to_vec()).collect::<Vec<_>>();
    check(&cut(256));
    check(&cut(64));
}

/// Version 2 of the PCI Express structure with a device/port type and registers that differ by `salt`.
fn express(port: u16, slot: bool, salt: u32) -> Body {
    let low = salt as u16;
    Body::conventional(60)
        .word(0x02, 0x2 | (port << 4) | if slot { 0x100 } else { 0 })
        .dword(0x04, salt.rotate_left(3))
        .word(0x08, low & 0x7fff)
        .dword(0x0c, 0x0700_0000 | (1 + salt % 6) | 0x100 | (salt & 0xc00))
        .word(0x10, low.rotate_left(5))
        .word(0x12, (1 + (low % 6)) | 0x80 | (low & 0xf800))
        .dword(0x14, salt.rotate_left(11))
        .word(0x1a, low.rotate_left(2))
        .dword(0x24, salt.rotate_left(17))
        .word(0x28, low.rotate_left(9))
        .dword(0x2c, (2 << (salt % 6)) | 2)
        .word(0x30, low % 6)
}

#[test]
fn lspci_agrees_on_ports_of_every_type() {
    let mut images = Vec::new();
    for port in [0u16, 1, 4, 5, 6, 7, 8, 9, 10, 15] {
        for salt in [0u32, 0x1357_9bdf, 0xfedc_ba98, 0x0f0f_1234, 0xa5a5_5a5a, u32::MAX] {
            let image = if matches!(port, 4..=8) {
                Image::bridge(0, 1, 5)
            } else {
                Image::endpoint(0x15b3, 0x1017, 0x02_0000).set(0x10, &[0x0c]).set(0x12, &[0x10])
            };
            let slot = matches!(port, 4 | 6 | 8) && salt & 1 == 1;
            images.push(image.capability(0x10, express(port, slot, salt).bytes()).bytes());
        }
    }
    check(&images);
}

#[test]
fn lspci_agrees_on_extended_capabilities() {
    let mut images = Vec::new();
    for salt in [0u32, 0x1357_9bdf, 0xfedc_ba98, 0x0f0f_1234, 0xa5a5_5a5a, u32::MAX] {
        let low = salt as u16;
        let two = |first: u16, second: u16| Body::extended(8).word(4, first).word(6, second);
        let sriov = Body::extended(64)
            .word(0x08, low & 0x1f)
            .word(0x0c, low >> 8)
            .word(0x0e, low >> 7)
            .word(0x10, low >> 9)
            .word(0x14, low)
            .word(0x16, low >> 1)
            .word(0x1a, low.rotate_left(3));
        // lspci up to 3.9 names only these bits.
        let aer = Body::extended(0x48).dword(4, salt & 0x003f_f030).dword(0x10, salt & 0x31c1);
        let bars = Body::extended(0x14)
            .dword(4, salt & 0xffff_fff0)
            .dword(8, 0x0840)
            .dword(12, salt.rotate_left(7) & 0x0fff_fff0)
            .dword(16, 0x0002 | (salt & 0x2300));
        let image = Image::endpoint(0x15b3, 0x101b, 0x02_0700)
            .capability(0x01, Body::conventional(8).word(2, 3).word(4, low & 3).bytes())
            .capability(0x05, Body::conventional(24).word(2, low & 0x01db).bytes())
            .capability(0x11, Body::conventional(12).word(2, low & 0xc7ff).bytes())
            .capability(0x10, express(0, false, salt).bytes())
            .extended(0x01, 2, aer.bytes())
            .extended(0x0d, 1, two(low & 0x7f, (low >> 3) & 0x7f).bytes())
            .extended(0x0e, 1, two(low & 0xff03, 0).bytes())
            .extended(0x0f, 1, two(low & 0x1f, low & 0x801f).bytes())
            .extended(
                0x13,
                1,
                Body::extended(16).word(4, low & 1).dword(8, salt).dword(12, salt >> 3).bytes(),
            )
            .extended(0x1b, 1, two(low & 0x1f06, low & 0x7).bytes())
            .extended(0x10, 1, sriov.bytes())
            .extended(0x1d, 1, Body::extended(16).word(8, low & 1).bytes())
            .extended(0x15, 1, bars.bytes());
        images.push(image.bytes());
    }
    check(&images);
}

#[test]
fn lspci_agrees_on_malformed_capability_lists() {
    let image = || {
        Image::endpoint(0x8086, 0x1234, 0x01_0802)
            .capability(0x01, Body::conventional(8).bytes())
            .capability(0x10, express(0, false, 0).bytes())
            .extended(0x0f, 1, Body::extended(8).bytes())
    };
    check(&[
        image().set(0x41, &[0x40]).bytes(),
        image().set(0x41, &[0xfc]).set(0xfc, &[0xff, 0xff]).bytes(),
        image().set(0x102, &[0x01, 0x10]).bytes(),
        image().set(0x06, &[0]).bytes(),
        image().bytes()[..0x100].to_vec(),
    ]);
}
