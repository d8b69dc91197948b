//! Decodes the same configuration space twice, from its bytes and from what the real lspci makes of
//! them, and expects the same facts.
//!
//! Needs `lspci` (pciutils 3.7 or newer); the variable `LSPCI` names another one. Without any, the test
//! says that it did not run.

use host::Text;
use host::pci::{Capabilities, ConfigSpace, Header, Presence, lspci};
use std::io::ErrorKind;
use std::process::Command;

// It belongs to the unit tests, where a panic is the report and more of it is used.
#[allow(clippy::unwrap_used, dead_code, unreachable_pub)]
#[path = "../src/pci/image.rs"]
mod image;

use image::{Body, Image};

/// What lspci prints for a dump of these bytes; `None` if there is no lspci here.
fn lspci_text(bytes: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump");
    std::fs::write(&path, format!("00:00.0 function\n{}\n", image::dump(bytes))).expect("a dump written");
    let program = std::env::var("LSPCI").unwrap_or_else(|_| "lspci".to_owned());
    match Command::new(program).arg("-nnvvv").arg("-F").arg(&path).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("lspci does not start: {error}"),
    }
}

/// Where lspci shows no extended list, the text alone cannot tell an empty one from one that was not read.
fn is_weaker<T: PartialEq>(text: &Presence<T>, bytes: &Presence<T>, extended: bool) -> bool {
    text == bytes || extended && text.is_unknown() && bytes.is_absent()
}

macro_rules! agree {
    ($text:expr, $bytes:expr, $listing:expr, $extended:expr, $($field:ident)*) => {
        $(assert!(
            is_weaker(&$text.$field, &$bytes.$field, $extended),
            "{}: {:?} in the text, {:?} in the bytes\n{}",
            stringify!($field), $text.$field, $bytes.$field, $listing
        );)*
    };
}

fn check(bytes: &[u8]) {
    let Some(listing) = lspci_text(bytes) else {
        eprintln!("not compared: lspci (pciutils) is not installed");
        return;
    };
    let records = lspci::parse(&Text::new("lspci", listing.as_str()));
    let [record] = records.as_slice() else { panic!("{} records in\n{listing}", records.len()) };
    let config = ConfigSpace::new(bytes);
    let (text, decoded) = (&record.capabilities, Capabilities::decode(config));
    agree!(text, decoded, listing, false, express power msi msi_x);
    agree!(text, decoded, listing, true, aer acs ari ats pri pasid sriov dpc resizable_bars);

    let header = Header::decode(config);
    assert_eq!((record.vendor, record.device), (header.vendor, header.device), "{listing}");
    assert_eq!(record.class, header.class, "{listing}");
    assert_eq!(record.revision, header.revision.filter(|&revision| revision != 0), "{listing}");
    assert_eq!(record.buses, header.buses, "{listing}");
    assert_eq!(record.subsystem, header.subsystem, "{listing}");
    assert_eq!(record.bus_master, header.bus_master, "{listing}");
}

macro_rules! stored {
    ($($name:ident: $file:literal,)*) => {
        $(#[test]
        fn $name() {
            let bytes = image::stored(include_str!(concat!("pci/", $file, ".config")));
            check(&bytes);
            check(&bytes[..256]);
            check(&bytes[..64]);
        })*
    };
}

stored! {
    nvme_of_pseries: "nvme-ppc-endpoint",
    nvme_of_q35: "nvme-x86-integrated",
    nvme_of_q35_with_iommu: "nvme-x86-vtd",
    nvme_of_arm_virt: "nvme-arm-integrated",
    e1000e_of_q35: "e1000e-x86-integrated",
    virtio_net_of_q35: "virtio-net-x86",
    ahci_of_q35: "ahci-x86",
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
fn ports_of_every_type() {
    for port in [0u16, 1, 4, 5, 6, 7, 8, 9, 10, 15] {
        for salt in [0u32, 0x1357_9bdf, 0xfedc_ba98, 0x0f0f_1234, 0xa5a5_5a5a, u32::MAX] {
            let image = if matches!(port, 4..=8) {
                Image::bridge(0, 1, 5)
            } else {
                Image::endpoint(0x15b3, 0x1017, 0x02_0000).set(0x10, &[0x0c]).set(0x12, &[0x10])
            };
            let slot = matches!(port, 4 | 6 | 8) && salt & 1 == 1;
            check(&image.capability(0x10, express(port, slot, salt).bytes()).bytes());
        }
    }
}

#[test]
fn extended_capabilities() {
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
            .dword(16, 0x0002 | (salt & 0x1f00));
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
        check(&image.bytes());
    }
}

#[test]
fn broken_lists() {
    let image = || {
        Image::endpoint(0x8086, 0x1234, 0x01_0802)
            .capability(0x01, Body::conventional(8).bytes())
            .capability(0x10, express(0, false, 0).bytes())
            .extended(0x0f, 1, Body::extended(8).bytes())
    };
    check(&image().set(0x41, &[0x40]).bytes());
    check(&image().set(0x41, &[0xfc]).set(0xfc, &[0xff, 0xff]).bytes());
    check(&image().set(0x102, &[0x01, 0x10]).bytes());
    check(&image().set(0x06, &[0]).bytes());
    check(&image().bytes()[..0x100]);
}
