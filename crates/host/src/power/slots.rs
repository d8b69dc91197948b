//! Which slots can have a 64-bit window, by published tables.
//!
//! The tables are data (`data/power/slots.toml`), each row with its evidence. They help before an adapter is
//! moved; once it sits somewhere, the firmware's own answer decides (see
//! [`ddw`]).

use crate::power::{
    distribution::Distribution, firmware::FirmwareLevel, location::LocationCode, partition::MachineType,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toll::Evidence;

const BUILTIN: &str = include_str!("../../data/power/slots.toml");

/// The tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SlotTables {
    /// Publications, by key.
    #[serde(rename = "source")]
    pub sources: BTreeMap<String, String>,
    /// Least firmware.
    pub firmware: FirmwareMinimum,
    /// The article's limit for memory.
    pub memory: MemoryLimit,
    /// Sets of capable slots.
    #[serde(rename = "layout")]
    pub layouts: Vec<Layout>,
    /// Supported systems by commercial name.
    #[serde(rename = "system")]
    pub systems: Vec<System>,
    /// Machine types.
    #[serde(rename = "machine")]
    pub machines: Vec<MachineRow>,
    /// Distributions.
    #[serde(rename = "distribution")]
    pub distributions: Vec<DistributionMinimum>,
    /// Firmware that sizes slots by a setting.
    pub enlarged: Enlarged,
}

/// Least firmware at which any slot is capable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FirmwareMinimum {
    /// Release level: 740.
    pub release_min: u32,
    /// Where it is said.
    pub evidence: Evidence,
}

/// The published limit for a partition's maximum memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemoryLimit {
    /// Maximum memory may not be greater, in bytes. No kernel and no LoPAR edition knows this figure.
    pub article_limit_bytes: u64,
    /// Where it is said.
    pub evidence: Evidence,
}

/// A capable slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CapableSlot {
    /// `C2`.
    pub slot: String,
    /// Firmware release that this slot needs beyond the general minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware_release_min: Option<u32>,
}

/// A set of capable slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Layout {
    /// Its key.
    pub key: String,
    /// The slots, on planar P1 of the system unit.
    pub slots: Vec<CapableSlot>,
    /// Where it is said.
    pub evidence: Evidence,
}

/// A supported system by its commercial name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct System {
    /// The name.
    pub name: String,
    /// Its layout; `None` where no slots were published.
    #[serde(default)]
    pub layout: Option<String>,
    /// Only the first of several enclosures has capable slots.
    #[serde(default)]
    pub first_enclosure_only: bool,
    /// A remark.
    #[serde(default)]
    pub note: Option<String>,
    /// Where it is said.
    pub evidence: Evidence,
}

/// A machine type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MachineRow {
    /// `8231-E2C`.
    pub type_model: String,
    /// Commercial name.
    pub name: String,
    /// Generation of its POWER processors.
    pub generation: u32,
    /// Its layout; `None` where the published tables do not cover it.
    #[serde(default)]
    pub layout: Option<String>,
    /// Only the first of several enclosures has capable slots.
    #[serde(default)]
    pub first_enclosure_only: bool,
    /// A remark.
    #[serde(default)]
    pub note: Option<String>,
    /// That the type has this name.
    pub evidence: Evidence,
    /// That the layout, or none, belongs to it.
    pub layout_evidence: Evidence,
}

/// The first release of a distribution that can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DistributionMinimum {
    /// `ID` in os-release.
    pub ids: Vec<String>,
    /// Its name.
    pub name: String,
    /// Major and minor release.
    pub since: (u32, u32),
    /// Where it is said.
    pub evidence: Evidence,
}

/// Firmware that sizes a slot's window by a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Enlarged {
    /// Its name.
    pub setting: String,
    /// Where to find it.
    pub menu: String,
    /// First POWER generation that has it.
    pub generation_min: u32,
    /// That it exists.
    pub evidence: Evidence,
    /// Where it is found.
    pub menu_evidence: Evidence,
    /// What the slots get.
    pub sizing: Sizing,
}

/// How firmware shares out entries among slots (IBM Power System 9040-MR9; other machines may differ).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sizing {
    /// The default window, in bytes.
    pub default_window_bytes: u64,
    /// By installed memory, smallest first.
    pub steps: Vec<SizingStep>,
    /// Beyond the last step, in bytes.
    pub window_bytes_above: u64,
    /// Page shift at which an enabled slot covers installed memory.
    pub enabled_page_shift: u32,
    /// Least window of an enabled slot, in bytes.
    pub enabled_window_bytes_min: u64,
    /// Where it is said.
    pub evidence: Evidence,
}

/// One step of the sizing rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SizingStep {
    /// Applies below this much installed memory, in bytes.
    pub installed_below_bytes: u64,
    /// What a slot gets at 4 KiB pages, in bytes.
    pub window_bytes: u64,
}

/// Tables that contradict their own schema.
#[derive(Debug, thiserror::Error)]
pub enum SlotTablesError {
    /// Not TOML, or other fields.
    #[error("slot tables")]
    Toml(#[from] toml::de::Error),
    /// An evidence names a publication that is not listed.
    #[error("slot tables: {row} cites `{key}`, which [source] does not list")]
    UnknownSource {
        /// The row.
        row: String,
        /// The key.
        key: String,
    },
    /// A row names a layout that does not exist.
    #[error("slot tables: {row} has layout `{key}`, which no [[layout]] defines")]
    UnknownLayout {
        /// The row.
        row: String,
        /// The key.
        key: String,
    },
}

impl SlotTables {
    /// The tables that come with the program.
    pub fn builtin() -> Result<Self, SlotTablesError> {
        Self::parse(BUILTIN)
    }

    /// Reads tables and puts the publication in place of its key in every evidence.
    pub fn parse(text: &str) -> Result<Self, SlotTablesError> {
        let mut tables: Self = toml::from_str(text)?;
        tables.resolve_sources()?;
        tables.check_layouts()?;
        Ok(tables)
    }

    /// The row of a machine.
    pub fn machine(&self, machine: &MachineType) -> Option<&MachineRow> {
        self.machines.iter().find(|row| row.type_model == machine.as_str())
    }

    /// A layout by its key.
    pub fn layout(&self, key: &str) -> Option<&Layout> {
        self.layouts.iter().find(|layout| layout.key == key)
    }

    /// Whether the article rules this maximum memory out.
    pub fn exceeds_article_limit(&self, memory_max_bytes: u64) -> bool {
        memory_max_bytes > self.memory.article_limit_bytes
    }

    /// Replaces the keys of sources by the sources.
    fn resolve_sources(&mut self) -> Result<(), SlotTablesError> {
        let sources = std::mem::take(&mut self.sources);
        for (row, evidence) in self.evidences_mut() {
            let Evidence::Published { source } = evidence else { continue };
            match sources.get(source.as_str()) {
                Some(publication) => publication.clone_into(source),
                None => return Err(SlotTablesError::UnknownSource { row, key: source.clone() }),
            }
        }
        self.sources = sources;
        Ok(())
    }

    /// All evidence in the tables, each with its place.
    fn evidences_mut(&mut self) -> Vec<(String, &mut Evidence)> {
        let mut all = vec![
            ("[firmware]".to_owned(), &mut self.firmware.evidence),
            ("[memory]".to_owned(), &mut self.memory.evidence),
            ("[enlarged]".to_owned(), &mut self.enlarged.evidence),
            ("[enlarged] menu".to_owned(), &mut self.enlarged.menu_evidence),
            ("[enlarged.sizing]".to_owned(), &mut self.enlarged.sizing.evidence),
        ];
        all.extend(self.layouts.iter_mut().map(|row| (row.key.clone(), &mut row.evidence)));
        all.extend(self.systems.iter_mut().map(|row| (row.name.clone(), &mut row.evidence)));
        all.extend(self.distributions.iter_mut().map(|row| (row.name.clone(), &mut row.evidence)));
        for row in &mut self.machines {
            all.push((row.type_model.clone(), &mut row.evidence));
            all.push((row.type_model.clone(), &mut row.layout_evidence));
        }
        all
    }

    /// Checks that each machine's layout exists.
    fn check_layouts(&self) -> Result<(), SlotTablesError> {
        let systems = self.systems.iter().map(|row| (&row.name, &row.layout));
        let machines = self.machines.iter().map(|row| (&row.type_model, &row.layout));
        for (row, layout) in systems.chain(machines) {
            if let Some(key) = layout.as_ref().filter(|key| self.layout(key).is_none()) {
                return Err(SlotTablesError::UnknownLayout { row: row.clone(), key: key.clone() });
            }
        }
        Ok(())
    }
}

/// Whether a slot is enabled for large windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotCapacity {
    /// As delivered.
    Ordinary,
    /// Enabled by the setting.
    Enlarged,
}

impl Sizing {
    /// Entries that a slot gets on a machine with this much memory installed, in bytes: what the query
    /// should answer as its largest block.
    pub fn block_tces(&self, installed_bytes: u64, capacity: SlotCapacity) -> u64 {
        let step = self.steps.iter().find(|step| installed_bytes < step.installed_below_bytes);
        let ordinary = step.map_or(self.window_bytes_above, |step| step.window_bytes) >> 12;
        match capacity {
            SlotCapacity::Ordinary => ordinary,
            SlotCapacity::Enlarged => {
                let covered = installed_bytes.max(self.enabled_window_bytes_min);
                ordinary.max(covered.checked_shr(self.enabled_page_shift).unwrap_or(0))
            }
        }
    }
}

/// Where an adapter is and what it runs under; whatever was not readable is `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Placement<'a> {
    /// The machine.
    pub machine: Option<&'a MachineType>,
    /// Its firmware.
    pub firmware: Option<&'a FirmwareLevel>,
    /// The adapter's location.
    pub location: Option<&'a LocationCode>,
    /// The distribution.
    pub distribution: Option<&'a Distribution>,
}

/// What the tables say about a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotAdvice {
    /// The answer.
    pub verdict: Verdict,
    /// What to do, in a sentence or two; empty if nothing.
    pub what_to_do: String,
    /// What the answer depends on, and could not be read or is not told apart by the tables.
    pub conditions: Vec<String>,
    /// The rows it was taken from.
    pub evidence: Vec<Evidence>,
}

/// The answer of the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The adapter sits in a capable slot.
    Capable {
        /// The slot.
        slot: String,
    },
    /// It should sit in another one.
    Move {
        /// Where it sits, if known.
        from: Option<String>,
        /// Slots capable with this firmware.
        to: Vec<String>,
    },
    /// The firmware must be updated first.
    FirmwareTooOld {
        /// The level.
        have: String,
        /// Release level needed.
        need_release: u32,
    },
    /// The distribution lacks the feature.
    DistributionTooOld {
        /// The release.
        have: String,
        /// First release that has it.
        since: (u32, u32),
    },
    /// A virtual adapter: it sits in no slot.
    Virtual,
    /// The tables know the machine but do not cover it.
    NotCovered {
        /// Commercial name.
        name: String,
    },
    /// The tables do not know the machine.
    UnknownMachine,
}

impl SlotTables {
    /// Looks a placement up.
    pub fn advice(&self, placement: &Placement<'_>) -> SlotAdvice {
        if placement.location.is_some_and(LocationCode::is_virtual) {
            return SlotAdvice::verdict_alone(Verdict::Virtual);
        }
        let machine = placement.machine.and_then(|machine| self.machine(machine));
        let Some(machine) = machine else { return self.advise_unknown_machine() };
        if let Some(advice) = self.advise_old_distribution(placement.distribution) {
            return advice;
        }
        let layout = machine.layout.as_deref().and_then(|key| self.layout(key));
        let Some(layout) = layout else { return self.advise_uncovered_machine(machine) };
        if let Some(advice) = self.advise_old_firmware(placement.firmware) {
            return advice;
        }
        let mut advice = self.advise_slot(layout, placement);
        advice.conditions.extend(self.conditions(machine, placement));
        advice.evidence.extend([machine.evidence.clone(), machine.layout_evidence.clone()]);
        advice
    }

    /// Advice for a machine that no table has.
    fn advise_unknown_machine(&self) -> SlotAdvice {
        SlotAdvice {
            what_to_do: format!(
                "look in the machine's PCIe adapter placement document for slots with Dynamic DMA Window or \
                 64-bit DMA capability; {}",
                self.setting_to_check()
            ),
            evidence: vec![self.enlarged.evidence.clone(), self.enlarged.menu_evidence.clone()],
            ..SlotAdvice::verdict_alone(Verdict::UnknownMachine)
        }
    }

    /// Advice for a machine that is known, but not its slots.
    fn advise_uncovered_machine(&self, machine: &MachineRow) -> SlotAdvice {
        let verdict = Verdict::NotCovered { name: machine.name.clone() };
        let mut advice = SlotAdvice {
            conditions: machine.note.iter().cloned().collect(),
            ..SlotAdvice::verdict_alone(verdict)
        };
        advice.evidence = vec![machine.evidence.clone(), machine.layout_evidence.clone()];
        if machine.generation >= self.enlarged.generation_min {
            advice.what_to_do = self.setting_to_check();
            advice.evidence.extend([self.enlarged.evidence.clone(), self.enlarged.menu_evidence.clone()]);
        }
        advice
    }

    /// The firmware setting to check, in words.
    fn setting_to_check(&self) -> String {
        let Enlarged { setting, menu, .. } = &self.enlarged;
        format!("check that the slot is enabled by the firmware setting \"{setting}\" ({menu})")
    }

    /// Advice to update the distribution, if it is too old for 64-bit DMA windows.
    fn advise_old_distribution(&self, distribution: Option<&Distribution>) -> Option<SlotAdvice> {
        let have = distribution?;
        let row = self.distributions.iter().find(|row| row.ids.contains(&have.id))?;
        if (have.major, have.minor) >= row.since {
            return None;
        }
        let (major, minor) = row.since;
        Some(SlotAdvice {
            what_to_do: format!("update to {} {major}.{minor} or later", row.name),
            evidence: vec![row.evidence.clone()],
            ..SlotAdvice::verdict_alone(Verdict::DistributionTooOld {
                have: have.to_string(),
                since: row.since,
            })
        })
    }

    /// Advice to update the firmware, if it is too old for 64-bit DMA windows.
    fn advise_old_firmware(&self, firmware: Option<&FirmwareLevel>) -> Option<SlotAdvice> {
        let have = firmware.filter(|have| have.release < self.firmware.release_min)?;
        Some(firmware_too_old(have, self.firmware.release_min, self.firmware.evidence.clone(), &[]))
    }

    /// Advice for an adapter in a machine whose slots are known.
    fn advise_slot(&self, layout: &Layout, placement: &Placement<'_>) -> SlotAdvice {
        let release = placement.firmware.map(|firmware| firmware.release);
        let usable: Vec<String> = layout
            .slots
            .iter()
            .filter(|slot| {
                slot.firmware_release_min.is_none_or(|min| release.is_some_and(|have| have >= min))
            })
            .map(|slot| slot.slot.clone())
            .collect();
        let here = placement.location.and_then(LocationCode::slot);
        let row = here
            .as_ref()
            .filter(|_| in_system_unit(placement.location))
            .and_then(|here| layout.slots.iter().find(|slot| slot.slot == *here));
        match (row, placement.firmware, row.and_then(|row| row.firmware_release_min)) {
            (Some(_), Some(have), Some(need)) if have.release < need => {
                firmware_too_old(have, need, layout.evidence.clone(), &usable)
            }
            (Some(row), _, _) => SlotAdvice {
                evidence: vec![layout.evidence.clone()],
                ..SlotAdvice::verdict_alone(Verdict::Capable { slot: row.slot.clone() })
            },
            (None, _, _) => SlotAdvice {
                what_to_do: format!("move the adapter to slot {} of the system unit", usable.join(" or ")),
                evidence: vec![layout.evidence.clone()],
                ..SlotAdvice::verdict_alone(Verdict::Move { from: here, to: usable })
            },
        }
    }

    /// What the advice for a slot depends on, in words.
    fn conditions(&self, machine: &MachineRow, placement: &Placement<'_>) -> Vec<String> {
        let mut conditions: Vec<String> = machine.note.iter().cloned().collect();
        if machine.first_enclosure_only {
            conditions.push(
                "only the slots of the first enclosure (CEC 1) are capable; a location code does not tell which \
                 enclosure is the first"
                    .to_owned(),
            );
        }
        if placement.firmware.is_none() {
            let slots = self.layouts.iter().filter(|layout| machine.layout.as_ref() == Some(&layout.key));
            let higher = slots
                .flat_map(|layout| &layout.slots)
                .filter_map(|slot| Some(format!(", slot {} {}", slot.slot, slot.firmware_release_min?)));
            conditions.push(format!(
                "the firmware level is not known: release {} or later is needed{}",
                self.firmware.release_min,
                higher.collect::<String>()
            ));
        }
        conditions
    }
}

impl SlotAdvice {
    /// A verdict without advice, conditions or evidence.
    fn verdict_alone(verdict: Verdict) -> Self {
        Self { verdict, what_to_do: String::new(), conditions: Vec::new(), evidence: Vec::new() }
    }
}

/// Advice to update the firmware to release `need`, or to move the adapter to a slot in `instead`.
fn firmware_too_old(have: &FirmwareLevel, need: u32, evidence: Evidence, instead: &[String]) -> SlotAdvice {
    let update = format!("update the system firmware from {have} to release {need} or later");
    SlotAdvice {
        what_to_do: match instead {
            [] => update,
            slots => format!("{update}, or move the adapter to slot {}", slots.join(" or ")),
        },
        evidence: vec![evidence],
        ..SlotAdvice::verdict_alone(Verdict::FirmwareTooOld { have: have.to_string(), need_release: need })
    }
}

/// Slot names of expansion drawers are the same as those of the system unit, and mean other slots.
fn in_system_unit(location: Option<&LocationCode>) -> bool {
    location
        .is_some_and(|code| code.may_be_system_unit() && code.planar().is_none_or(|planar| planar == "P1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tables() -> SlotTables {
        SlotTables::builtin().unwrap()
    }

    /// `machine firmware location distribution`, a dash for what is not known.
    fn advice(words: &str) -> SlotAdvice {
        let [machine, firmware, location, id, version]: [&str; 5] =
            words.split(' ').collect::<Vec<_>>().try_into().unwrap();
        tables().advice(&Placement {
            machine: machine.parse().ok().as_ref(),
            firmware: firmware.parse().ok().as_ref(),
            location: location.parse().ok().as_ref(),
            distribution: Distribution::new(id, version).as_ref(),
        })
    }

    fn check(words: &str, expect: Verdict) {
        assert_eq!(advice(words).verdict, expect, "{words}");
    }

    fn capable(slot: &str) -> Verdict {
        Verdict::Capable { slot: slot.to_owned() }
    }

    fn move_to(from: Option<&str>, to: &[&str]) -> Verdict {
        let to = to.iter().map(|slot| (*slot).to_owned()).collect();
        Verdict::Move { from: from.map(str::to_owned), to }
    }

    fn firmware(have: &str, need_release: u32) -> Verdict {
        Verdict::FirmwareTooOld { have: have.to_owned(), need_release }
    }

    #[test]
    fn slots() {
        check("8246-L2D AL770_028 U78AA.001.WZSGXXX-P1-C2-T1 rhel 6.4", capable("C2"));
        check("8246-L2D AL770_028 U78AA.001.WZSGXXX-P1-C5-T1 rhel 6.4", capable("C5"));
        check("8246-L2D AL770_028 U78AA.001.WZSGXXX-P1-C3-T1 rhel 6.4", move_to(Some("C3"), &["C2", "C5"]));
        check("8246-L2D AL770_028 U78AA.001.WZSGXXX-P1-C4-T1 rhel 6.4", move_to(Some("C4"), &["C2", "C5"]));
        check("8246-L2D AL770_028 U78AA.001.WZSGXXX-P1-T5 rhel 6.4", move_to(None, &["C2", "C5"]));
        check("8246-L2D AL770_028 - rhel 6.4", move_to(None, &["C2", "C5"]));
    }

    #[test]
    fn drawers_and_risers_are_other_slots() {
        check("8205-E6D AL770_028 U5802.001.00H1234-P1-C2-T1 rhel 6.4", move_to(Some("C2"), &["C2", "C5"]));
        check(
            "8205-E6D AL770_028 U78AA.001.WZSGXXX-P1-C8-C2 rhel 6.4",
            move_to(Some("C8-C2"), &["C2", "C5"]),
        );
        check("8205-E6D AL770_028 U78AA.001.WZSGXXX-P2-C2 rhel 6.4", move_to(Some("C2"), &["C2", "C5"]));
        check("8205-E6D AL770_028 U8205.E6D.06ABCDE-V3-C2-T1 rhel 6.4", Verdict::Virtual);
    }

    #[test]
    fn firmware_levels() {
        check("8231-E2C AL730_142 U78AB.001.WZSGXXX-P1-C2 rhel 6.4", firmware("AL730_142", 740));
        check("9117-MMC AM740_152 U78C0.001.DBJXXXX-P1-C2 rhel 6.4", capable("C2"));
        check("9117-MMC AM740_152 U78C0.001.DBJXXXX-P1-C4 rhel 6.4", firmware("AM740_152", 760));
        check("9117-MMC AM760_044 U78C0.001.DBJXXXX-P1-C4 rhel 6.4", capable("C4"));
        check("9117-MMC AM740_152 U78C0.001.DBJXXXX-P1-C1 rhel 6.4", move_to(Some("C1"), &["C2", "C5"]));
        let all = move_to(Some("C1"), &["C2", "C4", "C5", "C6"]);
        check("9117-MMC AM760_044 U78C0.001.DBJXXXX-P1-C1 rhel 6.4", all);
        let blocked = advice("9117-MMC AM740_152 U78C0.001.DBJXXXX-P1-C6 rhel 6.4");
        assert_eq!(
            blocked.what_to_do,
            "update the system firmware from AM740_152 to release 760 or later, or move the adapter to slot C2 \
             or C5"
        );
    }

    #[test]
    fn unknown_facts_become_conditions() {
        let unread = advice("9117-MMC - U78C0.001.DBJXXXX-P1-C4 rhel 6.4");
        assert_eq!(unread.verdict, capable("C4"));
        assert_eq!(
            unread.conditions.last().unwrap(),
            "the firmware level is not known: release 740 or later is needed, slot C4 760, slot C6 760"
        );
        assert!(unread.conditions[0].contains("CEC 1"));
        assert!(advice("8408-E8D AM770_119 U78AA.001.X-P1-C4 rhel 6.4").conditions.is_empty());
    }

    #[test]
    fn distributions() {
        let old = |have: &str, since| Verdict::DistributionTooOld { have: have.to_owned(), since };
        for (id, version, verdict) in [
            ("rhel", "5.9", old("rhel 5.9", (6, 1))),
            ("rhel", "6.0", old("rhel 6.0", (6, 1))),
            ("rhel", "6.1", capable("C2")),
            ("rhel", "8.6", capable("C2")),
            ("sles", "10.4", old("sles 10.4", (11, 2))),
            ("sles", "11", old("sles 11.0", (11, 2))),
            ("sles", "11.1", old("sles 11.1", (11, 2))),
            ("sles", "11.2", capable("C2")),
            ("sles", "15-SP3", capable("C2")),
            ("debian", "12", capable("C2")),
        ] {
            check(&format!("8246-L2D AL770_028 U78AA.001.WZSGXXX-P1-C2-T1 {id} {version}"), verdict);
        }
    }

    #[test]
    fn machines_outside_the_tables() {
        let none = |name: &str| Verdict::NotCovered { name: name.to_owned() };
        check("8233-E8B AL730_142 U78A0.001.X-P1-C2 rhel 6.4", none("IBM Power 750 Express"));
        check("9040-MR9 VL950_092 U78D8.001.X-P1-C2 rhel 8.4", none("IBM Power System E950"));
        check("9999-XXX VL950_092 U78D8.001.X-P1-C2 rhel 8.4", Verdict::UnknownMachine);
        check("- - - - -", Verdict::UnknownMachine);
        let unknown = advice("9999-XXX - - - -");
        assert!(unknown.what_to_do.contains("I/O Adapter Enlarged Capacity"), "{}", unknown.what_to_do);
        let first = advice("8231-E2B AL730_142 U78AB.001.X-P1-C5 rhel 6.4");
        assert!(first.conditions[0].contains("P1-C3 to P1-C6"));
    }

    #[test]
    fn every_row_has_its_evidence() {
        let mut tables = tables();
        assert!(tables.sources.values().all(|source| source.contains(',')), "title, author");
        let sources: Vec<String> = tables.sources.values().cloned().collect();
        for (row, evidence) in tables.evidences_mut() {
            match evidence {
                Evidence::Published { source } => assert!(sources.contains(source), "{row}: {source}"),
                Evidence::Assumed { why } => assert!(why.len() > 10, "{row}"),
                other => panic!("{row}: {other}"),
            }
        }
    }

    #[test]
    fn tables_agree_with_the_article() {
        let tables = tables();
        let systems = |layout: Option<&str>| {
            tables.systems.iter().filter(|row| row.layout.as_deref() == layout).count()
        };
        assert_eq!((systems(Some("two-slots")), systems(Some("four-slots")), systems(None)), (6, 4, 4));
        for machine in tables.machines.iter().filter(|machine| machine.layout.is_some()) {
            let system = tables.systems.iter().find(|system| system.name == machine.name).unwrap();
            assert_eq!(system.layout, machine.layout, "{}", machine.type_model);
            assert_eq!(system.first_enclosure_only, machine.first_enclosure_only, "{}", machine.type_model);
        }
        assert!(!tables.exceeds_article_limit(2 << 40));
        assert!(tables.exceeds_article_limit((2 << 40) + 1));
    }

    #[test]
    fn machine_types_are_well_formed_and_unique() {
        let tables = tables();
        let mut names: Vec<&str> = tables.machines.iter().map(|row| row.type_model.as_str()).collect();
        assert!(names.iter().all(|name| name.parse::<MachineType>().is_ok()));
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }

    #[test]
    fn bad_tables() {
        let cite = BUILTIN.replacen("source = \"article\"", "source = \"nowhere\"", 1);
        let error = SlotTables::parse(&cite).unwrap_err().to_string();
        assert_eq!(error, "slot tables: [firmware] cites `nowhere`, which [source] does not list");
        let layout = BUILTIN.replacen("layout = \"two-slots\"", "layout = \"no-slots\"", 1);
        let error = SlotTables::parse(&layout).unwrap_err().to_string();
        assert_eq!(
            error,
            "slot tables: IBM PowerLinux 7R1 has layout `no-slots`, which no [[layout]] defines"
        );
        assert!(SlotTables::parse("").is_err());
    }

    #[test]
    fn sizes_by_the_setting() {
        const GIB: u64 = 1 << 30;
        let sizing = tables().enlarged.sizing;
        let tces = |gib: u64, capacity| sizing.block_tces(gib * GIB, capacity);
        assert_eq!(tces(32, SlotCapacity::Ordinary), 1 << 22);
        assert_eq!(tces(64, SlotCapacity::Ordinary), 1 << 23);
        // The `lb=1000000` of kernel messages.
        assert_eq!(tces(1024, SlotCapacity::Ordinary), 0x100_0000);
        assert_eq!(tces(1024, SlotCapacity::Enlarged), 0x100_0000);
        assert_eq!(tces(4096, SlotCapacity::Enlarged), 0x400_0000);
    }

    proptest! {
        #[test]
        fn no_words_panic(machine in "[0-9]{4}-[A-Z0-9]{3}", location: String, version: String, installed: u64) {
            static TABLES: std::sync::LazyLock<SlotTables> = std::sync::LazyLock::new(tables);
            let tables = &TABLES;
            let _ = tables.advice(&Placement {
                machine: machine.parse().ok().as_ref(),
                firmware: None,
                location: location.parse().ok().as_ref(),
                distribution: Distribution::new("rhel", &version).as_ref(),
            });
            let _ = tables.enlarged.sizing.block_tces(installed, SlotCapacity::Enlarged);
        }
    }
}
