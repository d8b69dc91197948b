//! Workloads: the I/Os that a program in the guest makes between its marks.

use crate::Arch;
use crate::preset::{Access, EmulatedAdapter, Preset};
use serde::Deserialize;
use std::collections::BTreeMap;

const BUILT_IN: &str = include_str!("../data/lab/workloads.toml");

/// The kernel driver that gives a user-space driver access to an adapter.
pub(crate) const USER_DRIVER: &str = "vfio-pci";

/// A workload from `data/lab/workloads.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name; the table's key in the file.
    #[serde(skip)]
    pub name: String,
    /// A one-line description.
    pub what: String,
    /// The adapter that it uses.
    pub adapter: EmulatedAdapter,
    /// The program's arguments, with placeholders as `{disk}`.
    pub command: String,
    /// Bytes that one I/O transfers, in both directions together.
    pub bytes_per_io: u64,
    /// I/Os in each of its windows.
    #[serde(default = "one_io")]
    pub ios_per_window: u64,
    /// Virtual CPUs of the machine that it runs on.
    pub vcpus: u32,
    /// The architectures that it runs on; all if the list is empty.
    #[serde(default)]
    pub archs: Vec<Arch>,
    /// How it accesses the disk; it runs only on presets with the same access.
    #[serde(default)]
    pub access: Access,
}

/// Most workloads mark every I/O.
fn one_io() -> u64 {
    1
}

/// No workload's name matches a pattern.
#[derive(Debug, thiserror::Error)]
#[error("no workload of {preset} matches `{pattern}`; `iotoll lab list` names them")]
pub struct WorkloadError {
    preset: String,
    pattern: String,
}

impl Workload {
    /// All built-in workloads, sorted by name.
    ///
    /// # Panics
    /// Never: a test parses the built-in table.
    pub fn all() -> Vec<Self> {
        #[expect(clippy::unwrap_used, reason = "the text is compiled in and read by a test")]
        let table: BTreeMap<String, Self> = toml::from_str(BUILT_IN).unwrap();
        table.into_iter().map(|(name, workload)| Self { name, ..workload }).collect()
    }

    /// The kernel driver that its adapter is bound to.
    pub fn driver(&self) -> &'static str {
        match self.access {
            Access::Kernel | Access::Ways => self.adapter.driver(),
            Access::User => USER_DRIVER,
        }
    }

    /// The workloads that run on a preset and whose name matches one of the patterns, in which `*` stands for any
    /// text. All of the preset's workloads if there are no patterns.
    ///
    /// # Errors
    /// [`WorkloadError`] for a pattern that no workload matches.
    pub fn select(preset: &Preset, patterns: &[String]) -> Result<Vec<Self>, WorkloadError> {
        let has = |workload: &Self| match workload.adapter {
            EmulatedAdapter::None => true,
            adapter => preset.adapters.contains(&adapter) && workload.access == preset.access(),
        };
        let mut possible = Self::all();
        let runs_on = |archs: &[Arch]| archs.is_empty() || archs.contains(&preset.arch);
        possible.retain(|workload| has(workload) && runs_on(&workload.archs));
        for pattern in patterns {
            if !possible.iter().any(|workload| matches(pattern, &workload.name)) {
                let (preset, pattern) = (preset.name.clone(), pattern.clone());
                return Err(WorkloadError { preset, pattern });
            }
        }
        if !patterns.is_empty() {
            possible.retain(|workload| patterns.iter().any(|pattern| matches(pattern, &workload.name)));
        }
        Ok(possible)
    }
}

/// Whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name.strip_prefix(front).is_some_and(|name| {
            (0..=name.len()).any(|skip| name.is_char_boundary(skip) && matches(rest, &name[skip..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::preset::Presets;

    #[test]
    fn a_preset_runs_only_workloads_of_its_adapters() {
        let presets = Presets::built_in().unwrap();
        let all = Workload::select(presets.get("ppc-tce-window-32bit").unwrap(), &[]).unwrap();
        assert!(
            all.iter()
                .all(|workload| matches!(workload.adapter, EmulatedAdapter::E1000 | EmulatedAdapter::None))
        );
        assert!(all.len() > 4);
    }

    #[test]
    fn a_preset_runs_only_workloads_with_its_access() {
        let presets = Presets::built_in().unwrap();
        let accesses = |preset: &str| {
            let all = Workload::select(presets.get(preset).unwrap(), &[]).unwrap();
            let of_disks = all.iter().filter(|workload| workload.adapter == EmulatedAdapter::Nvme);
            of_disks.map(|workload| workload.access).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(accesses("x86-vtd-strict"), [Access::Kernel].into());
        assert_eq!(accesses("x86-vtd-strict-ways"), [Access::Ways].into());
        assert_eq!(accesses("x86-vtd-user"), [Access::User].into());
    }

    #[test]
    fn patterns_select_workloads_by_name() {
        let presets = Presets::built_in().unwrap();
        let preset = presets.get("x86-no-iommu").unwrap();
        let names = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            Workload::select(preset, &patterns)
                .map(|chosen| chosen.into_iter().map(|w| w.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["nvme-read-4k"]).unwrap(), ["nvme-read-4k"]);
        assert_eq!(names(&["nvme-*-128k"]).unwrap(), ["nvme-read-128k", "nvme-write-128k"]);
        assert!(names(&["nvme-read-5k"]).unwrap_err().to_string().contains("nvme-read-5k"));
    }
}
