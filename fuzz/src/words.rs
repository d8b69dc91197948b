//! Words and numbers as people type them and as kernels print them.

use crate::parts;
use host::Bdf;
use host::kernel::options::{parse_number, parse_size};
use host::memory::{MemoryType, PhysRange, plan::Wish};
use host::pci::{
    ClassCode,
    link_speed::{LinkSpeed, LinkWidth},
};
use host::power::{firmware::FirmwareLevel, location::LocationCode, partition::MachineType};
use lab::kernel::{Mirror, Series};
use toll::{DmaPath, Tolerance};

/// One word taken for each kind: what is read and written again reads the same.
pub fn words(data: &[u8]) {
    let [word, rest] = parts(data).map(String::from_utf8_lossy);
    let _ = (parse_number(&word), parse_size(&word), host::memory::range::parse_size(&word));
    let _ = (LinkSpeed::parse(&word).map(|speed| speed.to_string()), LinkWidth::parse(&word));
    let _ = ClassCode::parse(&word).map(|class| (class.kind(), class.to_string()));
    let _ = lab::qemu::Release::parse(&word);
    let _ = (word.parse::<Series>(), word.parse::<FirmwareLevel>(), word.parse::<MachineType>());
    let _ = Mirror::debian_org().with_archive(&word).and_then(|mirror| mirror.with_security(&rest));
    let _ = word.parse::<Tolerance>();
    let _ = MemoryType::from_mtrr_keyword(&word);
    if let Ok(dma_path) = word.parse::<DmaPath>() {
        assert_eq!(dma_path.to_string().parse::<DmaPath>().ok(), Some(dma_path));
    }
    if let Ok(address) = word.parse::<Bdf>() {
        assert_eq!(address.to_string().parse::<Bdf>().ok(), Some(address));
    }
    if let Ok(range) = word.parse::<PhysRange>() {
        assert_eq!(range.to_string().parse::<PhysRange>().ok(), Some(range));
    }
    if let Ok(wish) = word.parse::<Wish>() {
        let _ = wish.to_string();
    }
    if let Ok(location) = word.parse::<LocationCode>() {
        let _ = (location.to_string(), location.slot(), location.port(), location.planar());
    }
}
