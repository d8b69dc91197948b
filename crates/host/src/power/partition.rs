//! Which machine this is, and whether Linux runs on it as a partition.

use crate::{
    Cited, Text,
    power::device_tree::{PropertyError, string},
};
use serde::Serialize;
use std::{fmt, str::FromStr};

/// What Linux runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// A partition of PowerVM: windows are the hypervisor's.
    PowerVm,
    /// A guest of QEMU's pseries machine, under KVM or emulated: same interface, other limits.
    QemuPseries,
    /// Bare metal: the kernel owns the I/O tables and needs no hypercalls.
    PowerNv,
}

/// The platform by `/proc/cpuinfo`. `None` where it has no POWER platform line.
pub fn platform(cpuinfo: &Text) -> Option<Cited<Platform>> {
    let field = |wanted: &str| {
        cpuinfo.lines().find_map(|(number, line)| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == wanted).then_some((number, line, value.trim()))
        })
    };
    let (number, line, name) = field("platform")?;
    let emulated = field("model").is_some_and(|(_, _, model)| is_qemu(model));
    let platform = match name {
        "PowerNV" => Platform::PowerNv,
        "pSeries" if emulated => Platform::QemuPseries,
        "pSeries" => Platform::PowerVm,
        _ => return None,
    };
    Some(Cited::new(platform, cpuinfo.cite(number, line)))
}

/// Whether a `model` property or line is that of QEMU's pseries machine.
pub fn is_qemu(model: &str) -> bool {
    model.contains("emulated by qemu")
}

/// Machine type and model: `8231-E2C`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineType(String);

/// Text that names no machine type and model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineTypeError {
    /// The property holds no text.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// Other words, such as those of QEMU.
    #[error("`{0}` is not a machine type and model; expected one like IBM,8231-E2C")]
    Form(String),
}

impl MachineType {
    /// From the root's `model` property.
    pub fn from_property(bytes: &[u8]) -> Result<Self, MachineTypeError> {
        string("model", bytes)?.parse()
    }

    /// `8231-E2C`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MachineType {
    type Err = MachineTypeError;

    /// Accepts `IBM,8231-E2C` and `8231-E2C`.
    fn from_str(text: &str) -> Result<Self, MachineTypeError> {
        let name = text.trim().rsplit(',').next().unwrap_or_default();
        let plain = |part: &str, len: usize| {
            part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        };
        match name.split_once('-') {
            Some((kind, model)) if plain(kind, 4) && plain(model, 3) => Ok(Self(name.to_owned())),
            _ => Err(MachineTypeError::Form(text.chars().take(60).collect())),
        }
    }
}

impl fmt::Display for MachineType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `system-id`: the machine's serial number, `IBM,02` before it naming maker and place.
pub fn system_id(bytes: &[u8]) -> Result<String, PropertyError> {
    string("system-id", bytes)
}

/// `ibm,partition-name`.
pub fn partition_name(bytes: &[u8]) -> Result<String, PropertyError> {
    string("ibm,partition-name", bytes)
}

/// `ibm,partition-no`.
pub fn partition_number(bytes: &[u8]) -> Result<u32, PropertyError> {
    crate::power::device_tree::u32_cell("ibm,partition-no", bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(cpuinfo: &str, expect: Option<Platform>) {
        let found = platform(&Text::new("proc/cpuinfo", cpuinfo));
        assert_eq!(found.map(|cited| cited.value), expect, "{cpuinfo}");
    }

    #[test]
    fn platforms() {
        let qemu = "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\n\n\
            timebase\t: 512000000\nplatform\t: pSeries\nmodel\t\t: IBM pSeries (emulated by qemu)\n";
        check(qemu, Some(Platform::QemuPseries));
        check("platform\t: pSeries\nmodel\t\t: IBM,8231-E2C\n", Some(Platform::PowerVm));
        check("platform\t: PowerNV\nmodel\t\t: 8335-GTW\n", Some(Platform::PowerNv));
        check("platform\t: PowerMac\n", None);
        check("vendor_id\t: GenuineIntel\n", None);
        let cited = platform(&Text::new("proc/cpuinfo", qemu)).unwrap();
        assert_eq!(cited.at.to_string(), "proc/cpuinfo:5: platform\t: pSeries");
    }

    #[test]
    fn machine_types() {
        for text in ["IBM,8231-E2C", "8231-E2C", "IBM,9117-MMD"] {
            assert!(text.parse::<MachineType>().is_ok(), "{text}");
        }
        for text in ["IBM pSeries (emulated by qemu)", "", "IBM,8231", "8231-e2c", "8231-E2CC", "82é1-E2C"] {
            assert!(text.parse::<MachineType>().is_err(), "{text}");
        }
        assert_eq!(MachineType::from_property(b"IBM,8231-E2C\0").unwrap().as_str(), "8231-E2C");
        assert!(MachineType::from_property(b"IBM pSeries (emulated by qemu)\0").is_err());
    }

    #[test]
    fn identities() {
        assert_eq!(system_id(b"IBM,021234567\0").unwrap(), "IBM,021234567");
        assert_eq!(partition_name(b"web\0").unwrap(), "web");
        assert_eq!(partition_number(&[0, 0, 0, 2]), Ok(2));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>, text: String) {
            let _ = (MachineType::from_property(&bytes), text.parse::<MachineType>());
            let _ = (system_id(&bytes), partition_name(&bytes), partition_number(&bytes));
            let _ = platform(&Text::new("proc/cpuinfo", text));
        }
    }
}
