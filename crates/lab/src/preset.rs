//! Presets: named combinations of a machine, a DMA path and a kernel command line.

use crate::Arch;
use serde::Deserialize;
use std::collections::BTreeMap;
use toll::{DmaPath, TomlProblem, TomlText};

const BUILT_IN: &str = include_str!("../data/lab/presets.toml");

/// The adapters that the lab's machines can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmulatedAdapter {
    /// QEMU's NVMe controller.
    Nvme,
    /// Intel 82574; its driver maps every packet.
    E1000e,
    /// Intel 82540, with a DMA mask of 32 bits.
    E1000,
    /// virtio network adapter behind the IOMMU.
    VirtioNet,
    /// No adapter at all.
    None,
}

impl EmulatedAdapter {
    /// The name of its Linux driver.
    pub fn driver(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::E1000e => "e1000e",
            Self::E1000 => "e1000",
            Self::VirtioNet => "virtio_net",
            Self::None => "none",
        }
    }

    /// QEMU's device for a network adapter; `None` for other adapters.
    pub fn network_device(self) -> Option<&'static str> {
        match self {
            Self::E1000e => Some("e1000e"),
            Self::E1000 => Some("e1000"),
            // Without ioeventfd, QEMU processes a request when the virtual CPU writes the doorbell.
            Self::VirtioNet => Some("virtio-net-pci,disable-legacy=on,iommu_platform=on,ioeventfd=off"),
            Self::Nvme | Self::None => None,
        }
    }
}

/// How the guest's programs access the measured disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// By system calls that wait for the kernel driver's interrupts.
    #[default]
    Kernel,
    /// By the kernel driver's other interfaces, as io_uring passthrough; some need queues without interrupts.
    Ways,
    /// By a user-space driver.
    User,
}

/// A named machine, DMA path and kernel command line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name; the table's key in the file.
    #[serde(skip)]
    pub name: String,
    /// The architecture.
    pub arch: Arch,
    /// The DMA path that its adapters must have; the lab checks it.
    pub dma_path: DmaPath,
    /// A one-line description.
    pub what: String,
    /// The series of Debian's kernels, as `6.1`.
    pub series: String,
    /// Kernel arguments in addition to the lab's own.
    #[serde(default)]
    pub append: String,
    /// QEMU's CPU model in place of the lab's own. It decides which code the kernel patches in.
    #[serde(default)]
    pub cpu: Option<String>,
    /// Options of QEMU's machine in addition to the lab's own.
    #[serde(default)]
    pub machine: String,
    /// QEMU devices that are added before the adapters, as an IOMMU.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Which adapters the machine has.
    pub adapters: Vec<EmulatedAdapter>,
    /// Kernel modules to load before those of the adapters.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Number of the NVMe driver's queues without interrupts (`nvme.poll_queues`).
    #[serde(default)]
    pub poll_queues: u32,
    /// The preset of the same machine and kernel without translation, whose counts are subtracted.
    pub untranslated: Option<String>,
}

impl Preset {
    /// How the guest's programs access the measured disk.
    pub fn access(&self) -> Access {
        match self.dma_path {
            DmaPath::User => Access::User,
            _ if self.poll_queues > 0 => Access::Ways,
            _ => Access::Kernel,
        }
    }
}

/// Why presets can't be read, or one can't be found.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// The file is not valid TOML, or has a wrong key or value.
    #[error(transparent)]
    Syntax(#[from] TomlProblem),
    /// A name that is not a safe file name: sheets are written to files of this name.
    #[error(
        "{path}: preset `{name}` is not a safe file name; expected letters, digits, `-`, `_` and `.`, and no `.` first"
    )]
    Name {
        /// The file.
        path: String,
        /// The name.
        name: String,
    },
    /// There is no preset of this name.
    #[error("no preset `{name}`; `iotoll lab list` names them, the nearest is `{nearest}`")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The most similar name of a preset.
        nearest: String,
    },
}

/// Whether a preset's name is safe as the name of its sheet, scratch folder and flame graphs.
fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
}

/// A set of presets by name.
#[derive(Debug, Clone)]
pub struct Presets(BTreeMap<String, Preset>);

impl Presets {
    /// The built-in presets.
    ///
    /// # Errors
    /// [`PresetError::Syntax`], never in practice: a test parses them.
    pub fn built_in() -> Result<Self, PresetError> {
        Self::parse(BUILT_IN, "built-in presets")
    }

    /// Adds presets of another set; they replace those of the same name.
    pub fn merged_with(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Parses the text of a file of presets; `file` is its name for errors.
    ///
    /// # Errors
    /// [`PresetError::Syntax`] with the file and line, or [`PresetError::Name`].
    pub fn parse(text: &str, file: &str) -> Result<Self, PresetError> {
        let mut presets: BTreeMap<String, Preset> = TomlText::new(text, file).read()?;
        for (name, preset) in &mut presets {
            if !is_file_name(name) {
                return Err(PresetError::Name { path: file.to_owned(), name: name.clone() });
            }
            preset.name.clone_from(name);
        }
        Ok(Self(presets))
    }

    /// All presets, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Preset> {
        self.0.values()
    }

    /// The preset of a name.
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

/// The number of letters in the common prefix and the common suffix of two words.
fn common_letters(a: &str, b: &str) -> usize {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| pairs.take_while(|(a, b)| a == b).count();
    same(&mut a.chars().zip(b.chars())) + same(&mut a.chars().rev().zip(b.chars().rev()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_untranslated_preset_has_the_same_kernel() {
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

    /// The comment at the beginning of the built-in file has a line for each key, and no other keys.
    #[test]
    fn the_comment_in_the_built_in_file_documents_the_keys() {
        let comment = BUILT_IN.lines().take_while(|line| line.starts_with('#')).skip(2);
        let documented: BTreeSet<&str> =
            comment.map(|line| line.split_whitespace().nth(1).unwrap()).collect();
        let tables: BTreeMap<String, toml::Table> = toml::from_str(BUILT_IN).unwrap();
        let used = tables.values().flat_map(toml::Table::keys).map(String::as_str);
        // Only users' own presets have another CPU model.
        let keys: BTreeSet<&str> = used.chain(["cpu"]).collect();
        assert_eq!(documented, keys);
    }

    #[test]
    fn a_file_adds_and_replaces() {
        let text = "[mine]\narch='arm'\ndma_path='identity'\nwhat='x'\nseries='6.1'\nadapters=['nvme']\n";
        let presets = Presets::built_in().unwrap().merged_with(Presets::parse(text, "mine.toml").unwrap());
        assert_eq!(presets.get("mine").unwrap().arch, Arch::Arm);
        assert!(presets.get("x86-vtd-lazy").is_ok());
    }

    #[test]
    fn names_that_are_not_safe_file_names_are_refused() {
        for name in ["../../etc/cron.d/x", "/tmp/x", "..", ".x", "", "a b", "a\\u001b[2J"] {
            let text = format!(
                "[\"{name}\"]\narch='arm'\ndma_path='identity'\nwhat='x'\nseries='6.1'\nadapters=['nvme']\n"
            );
            let refused = Presets::parse(&text, "mine.toml").unwrap_err();
            assert!(matches!(refused, PresetError::Name { .. }), "{name}: {refused}");
        }
    }

    #[test]
    fn errors_name_the_line_or_the_nearest_preset() {
        let wrong = Presets::parse("[mine]\narch='m68k'\n", "mine.toml").unwrap_err().to_string();
        assert!(wrong.contains("mine.toml:2: ") && wrong.contains("m68k"), "{wrong}");
        let unknown = Presets::built_in().unwrap().get("x86-vtd-lasy").unwrap_err().to_string();
        assert!(unknown.contains("`x86-vtd-lazy`"), "{unknown}");
    }
}
