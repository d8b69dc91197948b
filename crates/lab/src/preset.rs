//! Presets: a machine, a DMA path and a kernel command line under one name.

use crate::Arch;
use serde::Deserialize;
use std::collections::BTreeMap;
use toll::{DmaPath, TomlProblem, TomlText};

const BUILT_IN: &str = include_str!("../../../data/lab/presets.toml");

/// The adapters that machines of the lab can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adapter {
    /// QEMU's NVMe controller.
    Nvme,
    /// Intel 82574: its driver maps every packet.
    E1000e,
    /// Intel 82540, with a DMA mask of 32 bits.
    E1000,
    /// virtio network adapter that goes through the IOMMU.
    VirtioNet,
    /// No adapter at all.
    None,
}

impl Adapter {
    /// The driver that Linux has for it.
    pub fn driver(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::E1000e => "e1000e",
            Self::E1000 => "e1000",
            Self::VirtioNet => "virtio_net",
            Self::None => "none",
        }
    }

    /// QEMU's word for it, where it is a network adapter.
    pub fn network_device(self) -> Option<&'static str> {
        match self {
            Self::E1000e => Some("e1000e"),
            Self::E1000 => Some("e1000"),
            // Without ioeventfd the request is served on the virtual CPU that made it, at its time.
            Self::VirtioNet => Some("virtio-net-pci,disable-legacy=on,iommu_platform=on,ioeventfd=off"),
            Self::Nvme | Self::None => None,
        }
    }
}

/// How programs reach a machine's disks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Through the kernel's driver, as most programs do.
    #[default]
    Kernel,
    /// By all other ways that the kernel's driver has, of which some take queues without interrupts.
    Ways,
    /// By a driver of their own.
    User,
}

/// A preset.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name; the table's key in the file.
    #[serde(skip)]
    pub name: String,
    /// The architecture.
    pub arch: Arch,
    /// The DMA path its adapters are to take.
    pub dma_path: DmaPath,
    /// What it is, in a line.
    pub what: String,
    /// The series of packaged kernels, as `6.1`.
    pub series: String,
    /// Kernel arguments besides the lab's own.
    #[serde(default)]
    pub append: String,
    /// Options of QEMU's machine besides the lab's own.
    #[serde(default)]
    pub machine: String,
    /// QEMU devices that stand before the adapters.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Which adapters the machine has.
    pub adapters: Vec<Adapter>,
    /// Kernel modules to load before those of the adapters.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Queues of a disk that the kernel polls.
    #[serde(default)]
    pub poll_queues: u32,
    /// The preset of the same machine and kernel without translation.
    pub untranslated: Option<String>,
}

impl Preset {
    /// How programs reach its disks.
    pub fn access(&self) -> Access {
        match self.dma_path {
            DmaPath::User => Access::User,
            _ if self.poll_queues > 0 => Access::Ways,
            _ => Access::Kernel,
        }
    }
}

/// What is wrong with a file of presets, or with a name.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// It is not what it should be.
    #[error(transparent)]
    Syntax(#[from] TomlProblem),
    /// A name that leads out of the folder that sheets are written to.
    #[error(
        "{path}: preset `{name}`: its sheet is a file of this name; expected letters, digits, `-`, `_` and `.`, and no `.` first"
    )]
    Name {
        /// The file.
        path: String,
        /// The name.
        name: String,
    },
    /// There is none of that name.
    #[error("no preset `{name}`; `iotoll lab list` names them, the nearest is `{nearest}`")]
    Unknown {
        /// The name asked for.
        name: String,
        /// One that looks like it.
        nearest: String,
    },
}

/// Whether a preset's sheet, scratch folder and flames can have its name.
fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
}

/// All presets there are, by name.
#[derive(Debug, Clone)]
pub struct Presets(BTreeMap<String, Preset>);

impl Presets {
    /// Those built in.
    ///
    /// # Errors
    /// [`PresetError::Syntax`], which a test excludes.
    pub fn built_in() -> Result<Self, PresetError> {
        Self::read(BUILT_IN, "presets built in")
    }

    /// With those of others, which replace presets of the same name.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Those of a text alone; the name of its file is for errors only.
    ///
    /// # Errors
    /// [`PresetError::Syntax`] naming the file and the place.
    pub fn read(text: &str, file: &str) -> Result<Self, PresetError> {
        let mut presets: BTreeMap<String, Preset> = TomlText::new(text, file).read()?;
        for (name, preset) in &mut presets {
            if !is_file_name(name) {
                return Err(PresetError::Name { path: file.to_owned(), name: name.clone() });
            }
            preset.name.clone_from(name);
        }
        Ok(Self(presets))
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Preset> {
        self.0.values()
    }

    /// The one of a name.
    ///
    /// # Errors
    /// [`PresetError::Unknown`] with the nearest name.
    pub fn get(&self, name: &str) -> Result<&Preset, PresetError> {
        self.0.get(name).ok_or_else(|| {
            let likeness = |known: &&String| common_letters(known, name);
            let nearest = self.0.keys().max_by_key(likeness).cloned().unwrap_or_default();
            PresetError::Unknown { name: name.to_owned(), nearest }
        })
    }
}

/// How many letters two words have in common from the front, then from the back.
fn common_letters(a: &str, b: &str) -> usize {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| pairs.take_while(|(a, b)| a == b).count();
    same(&mut a.chars().zip(b.chars())) + same(&mut a.chars().rev().zip(b.chars().rev()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn built_in_presets_are_whole() {
        let presets = Presets::built_in().unwrap();
        for preset in presets.iter() {
            let Some(name) = &preset.untranslated else { continue };
            let untranslated = presets.get(name).unwrap();
            assert_eq!(
                (untranslated.arch, &untranslated.series),
                (preset.arch, &preset.series),
                "{}",
                preset.name
            );
            assert!(untranslated.untranslated.is_none(), "{}", preset.name);
        }
    }

    #[test]
    fn a_file_adds_and_replaces() {
        let text = "[mine]\narch='arm'\ndma_path='identity'\nwhat='x'\nseries='6.1'\nadapters=['nvme']\n";
        let presets = Presets::built_in().unwrap().and(Presets::read(text, "mine.toml").unwrap());
        assert_eq!(presets.get("mine").unwrap().arch, Arch::Arm);
        assert!(presets.get("x86-vtd-lazy").is_ok());
    }

    #[test]
    fn a_name_leads_out_of_no_folder() {
        for name in ["../../etc/cron.d/x", "/tmp/x", "..", ".x", "", "a b", "a\\u001b[2J"] {
            let text = format!(
                "[\"{name}\"]\narch='arm'\ndma_path='identity'\nwhat='x'\nseries='6.1'\nadapters=['nvme']\n"
            );
            let refused = Presets::read(&text, "mine.toml").unwrap_err();
            assert!(matches!(refused, PresetError::Name { .. }), "{name}: {refused}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let wrong = Presets::read("[mine]\narch='m68k'\n", "mine.toml").unwrap_err().to_string();
        assert!(wrong.contains("mine.toml:2: ") && wrong.contains("m68k"), "{wrong}");
        let unknown = Presets::built_in().unwrap().get("x86-vtd-lasy").unwrap_err().to_string();
        assert!(unknown.contains("`x86-vtd-lazy`"), "{unknown}");
    }
}
