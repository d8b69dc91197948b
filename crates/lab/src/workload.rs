//! Workloads: what the program in the guest does between its marks.

use crate::Arch;
use crate::preset::{Access, Adapter, Preset};
use serde::Deserialize;
use std::collections::BTreeMap;

const BUILT_IN: &str = include_str!("../../../data/lab/workloads.toml");

/// The kernel's driver of adapters that programs drive.
pub(crate) const USER_DRIVER: &str = "vfio-pci";

/// A workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name; the table's key in the file.
    #[serde(skip)]
    pub name: String,
    /// What it is, in a line.
    pub what: String,
    /// The adapter it exercises.
    pub adapter: Adapter,
    /// The program's arguments, with places to fill in.
    pub command: String,
    /// Data that one I/O moves, both ways.
    pub bytes_per_io: u64,
    /// Virtual CPUs of the machine.
    pub vcpus: u32,
    /// The architectures that it runs on; all if there are none.
    #[serde(default)]
    pub archs: Vec<Arch>,
    /// How it reaches its adapter, which the machine must allow for.
    #[serde(default)]
    pub access: Access,
}

/// There is no workload of a name that fits.
#[derive(Debug, thiserror::Error)]
#[error("no workload of {preset} fits `{pattern}`; `iotoll lab list` names them")]
pub struct WorkloadError {
    preset: String,
    pattern: String,
}

impl Workload {
    /// All of them, by name.
    ///
    /// # Panics
    /// Never: a test reads the table that is built in.
    pub fn all() -> Vec<Self> {
        #[expect(clippy::unwrap_used, reason = "the text is compiled in and read by a test")]
        let table: BTreeMap<String, Self> = toml::from_str(BUILT_IN).unwrap();
        table.into_iter().map(|(name, workload)| Self { name, ..workload }).collect()
    }

    /// The driver that the kernel has bound to its adapter.
    pub fn driver(&self) -> &'static str {
        match self.access {
            Access::Kernel | Access::Ways => self.adapter.driver(),
            Access::User => USER_DRIVER,
        }
    }

    /// Those that a preset's adapters can run, and of these those whose name fits one of some patterns, in
    /// which `*` stands for anything. No pattern takes all.
    ///
    /// # Errors
    /// [`WorkloadError`] for a pattern that nothing fits.
    pub fn of(preset: &Preset, patterns: &[String]) -> Result<Vec<Self>, WorkloadError> {
        let has = |workload: &Self| match workload.adapter {
            Adapter::None => true,
            adapter => preset.adapters.contains(&adapter) && workload.access == preset.access(),
        };
        let mut possible = Self::all();
        let runs_on = |archs: &[Arch]| archs.is_empty() || archs.contains(&preset.arch);
        possible.retain(|workload| has(workload) && runs_on(&workload.archs));
        for pattern in patterns {
            if !possible.iter().any(|workload| fits(pattern, &workload.name)) {
                let (preset, pattern) = (preset.name.clone(), pattern.clone());
                return Err(WorkloadError { preset, pattern });
            }
        }
        if !patterns.is_empty() {
            possible.retain(|workload| patterns.iter().any(|pattern| fits(pattern, &workload.name)));
        }
        Ok(possible)
    }
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name.strip_prefix(front).is_some_and(|name| {
            (0..=name.len()).any(|skip| name.is_char_boundary(skip) && fits(rest, &name[skip..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::preset::Presets;

    #[test]
    fn a_preset_runs_what_its_adapters_can() {
        let presets = Presets::built_in().unwrap();
        let all = Workload::of(presets.get("ppc-tce-window-32bit").unwrap(), &[]).unwrap();
        assert!(all.iter().all(|workload| matches!(workload.adapter, Adapter::E1000 | Adapter::None)));
        assert!(all.len() > 4);
    }

    #[test]
    fn a_preset_runs_what_reaches_its_disks() {
        let presets = Presets::built_in().unwrap();
        let accesses = |preset: &str| {
            let all = Workload::of(presets.get(preset).unwrap(), &[]).unwrap();
            let of_disks = all.iter().filter(|workload| workload.adapter == Adapter::Nvme);
            of_disks.map(|workload| workload.access).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(accesses("x86-vtd-strict"), [Access::Kernel].into());
        assert_eq!(accesses("x86-vtd-strict-ways"), [Access::Ways].into());
        assert_eq!(accesses("x86-vtd-user"), [Access::User].into());
    }

    #[test]
    fn patterns_choose() {
        let presets = Presets::built_in().unwrap();
        let preset = presets.get("x86-no-iommu").unwrap();
        let names = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            Workload::of(preset, &patterns)
                .map(|chosen| chosen.into_iter().map(|w| w.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["nvme-read-4k"]).unwrap(), ["nvme-read-4k"]);
        assert_eq!(names(&["nvme-*-128k"]).unwrap(), ["nvme-read-128k", "nvme-write-128k"]);
        assert!(names(&["nvme-read-5k"]).unwrap_err().to_string().contains("nvme-read-5k"));
    }
}
