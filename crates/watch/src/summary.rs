//! What mapping cost each adapter within a span of time.

use crate::completed::Completed;
use crate::function::{Action, Function};
use crate::tally::Tally;
use crate::watcher::Reading;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toll::Stage;

/// An adapter, or a device that is none: see [`AdapterSummary::adapter`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdapterSummary {
    /// Its PCI address. For a device that is no PCI device, its name in the kernel; empty for calls that worked for no device, such as
    /// the flush of a queue of invalidations.
    pub adapter: String,
    /// What it completed.
    pub completed: Completed,
    /// What the kernel's functions did for it. Empty, as the next two, where nothing could be counted
    /// ([`Record::uncounted`](crate::Record::uncounted)).
    pub actions: Vec<ActionSummary>,
    /// What stayed mapped; `None` if calls were lost, which may be the ones that mapped or unmapped it.
    pub stays_mapped: Option<StaysMapped>,
    /// The CPU time that they took.
    pub stages: Vec<StageSummary>,
    /// The same by the functions that called each other, as for a flame graph.
    pub paths: Vec<Path>,
}

/// By how much more there was at the end of the time than at its begin; negative if it was less. Calls that map and unmap are not held
/// against each other: drivers leave the unmapping out where nothing translates or bounces (`dma_need_unmap`, Linux 6.8).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StaysMapped {
    /// Bytes in the IOMMU's table; `None` if calls did not say how many, as on POWER.
    pub table_bytes: Option<i64>,
    /// Bytes of coherent memory.
    pub coherent_bytes: i64,
    /// Bounce buffers in use.
    pub bounce_buffers: i64,
}

impl StaysMapped {
    /// What actions added less what they removed.
    fn of(actions: &[ActionSummary]) -> Self {
        let tally = |action| actions.iter().find(|one| one.action == action).map(|one| &one.tally);
        let difference = |more: u64, less: u64| more.wrapping_sub(less) as i64;
        let of = |[more, less]: [Action; 2], number: fn(&Tally) -> u64| {
            difference(tally(more).map_or(0, number), tally(less).map_or(0, number))
        };
        let table = [Action::WriteTable, Action::ClearTable]
            .map(|action| tally(action).map_or(Some(0), Tally::bytes_if_known));
        Self {
            table_bytes: table[0].zip(table[1]).map(|(written, cleared)| difference(written, cleared)),
            coherent_bytes: of([Action::AllocateCoherent, Action::FreeCoherent], |tally| tally.bytes),
            bounce_buffers: of([Action::TakeBounce, Action::ReturnBounce], |tally| tally.calls),
        }
    }
}

/// Calls of one action.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActionSummary {
    /// What was done.
    pub action: Action,
    /// Calls, bytes, parts, and time including what they called.
    #[serde(flatten)]
    pub tally: Tally,
}

/// CPU time of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageSummary {
    /// Which.
    pub stage: Stage,
    /// Nanoseconds of its functions by themselves, interrupts and programs that count included.
    pub ns: u64,
    /// Nanoseconds of programs in it, about: their number times [`Record::program_ns`](crate::Record::program_ns), and at most `ns`.
    /// `None` if that was not measured.
    pub programs_ns: Option<u64>,
}

/// Functions that called each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// The outermost first.
    pub functions: Vec<&'static str>,
    /// Calls of the innermost.
    pub calls: u64,
    /// Nanoseconds of the innermost by itself, as in [`StageSummary::ns`].
    pub own_ns: u64,
    /// As in [`StageSummary::programs_ns`].
    pub programs_ns: Option<u64>,
}

impl AdapterSummary {
    /// Calls of an action; none if there were none.
    pub fn calls(&self, action: Action) -> u64 {
        self.tally(action).map_or(0, |tally| tally.calls)
    }

    /// What was counted of an action.
    pub fn tally(&self, action: Action) -> Option<&Tally> {
        self.actions.iter().find(|one| one.action == action).map(|one| &one.tally)
    }

    /// CPU nanoseconds of all stages.
    pub fn ns(&self) -> u64 {
        self.stages.iter().map(|stage| stage.ns).sum()
    }

    /// Nanoseconds of programs among them, about; `None` if that was not measured.
    pub fn programs_ns(&self) -> Option<u64> {
        self.stages.iter().map(|stage| stage.programs_ns).sum()
    }
}

type Counted = BTreeMap<Vec<&'static Function>, Tally>;

/// What was done between two readings, by adapter, those with the most CPU time first. Adapters for which nothing was done, and
/// which completed nothing, are left out.
pub fn adapters(
    earlier: &Reading,
    later: &Reading,
    completed: impl Fn(&str) -> Completed,
    names: impl IntoIterator<Item = String>,
) -> Vec<AdapterSummary> {
    let mut devices: BTreeMap<String, Counted> =
        names.into_iter().map(|name| (name, Counted::new())).collect();
    for ((device, path), tally) in &later.tallies {
        let before = earlier.tallies.get(&(device.clone(), path.clone()));
        let since = before.map_or_else(|| tally.clone(), |before| tally.since(before));
        let device = devices.entry(device.clone()).or_default();
        if since.calls > 0 {
            device.insert(path.clone(), since);
        }
    }
    let is_complete = later.losses.since(&earlier.losses).total() == 0;
    let summary = |(adapter, counted): (String, Counted)| {
        let completed = completed(&adapter);
        let paths = paths(&counted, later.program_ns);
        let actions = actions(&counted);
        AdapterSummary {
            completed,
            stays_mapped: is_complete.then(|| StaysMapped::of(&actions)),
            actions,
            stages: stages(&counted, &paths),
            paths,
            adapter,
        }
    };
    let mut all: Vec<AdapterSummary> = devices.into_iter().map(summary).collect();
    all.retain(|one| !one.paths.is_empty() || one.completed != Completed::default());
    all.sort_by_key(|one| std::cmp::Reverse(one.ns()));
    all
}

/// Calls by action. Kernel functions of one action call each other, so only the outermost counts.
fn actions(counted: &Counted) -> Vec<ActionSummary> {
    let mut actions: BTreeMap<Action, Tally> = BTreeMap::new();
    for (path, tally) in counted {
        let mut actions_of_path = path.iter().map(|function| function.action);
        let Some(Some(action)) = actions_of_path.next_back() else { continue };
        if !actions_of_path.any(|outer| outer == Some(action)) {
            actions.entry(action).or_default().add(tally);
        }
    }
    actions.into_iter().map(|(action, tally)| ActionSummary { action, tally }).collect()
}

/// Each path with its own time, and that of the programs that ran in it for the functions that it called.
fn paths(counted: &Counted, program_ns: Option<f64>) -> Vec<Path> {
    let path = |(functions, tally): (&Vec<&'static Function>, &Tally)| {
        let is_called =
            |other: &[&Function]| other.len() == functions.len() + 1 && other.starts_with(functions);
        let callees = counted.iter().filter(|(other, _)| is_called(other));
        let programs: u64 = callees.map(|(_, callee)| callee.calls).sum();
        let programs_ns = program_ns.map(|ns| ((programs as f64 * ns) as u64).min(tally.own_ns));
        let functions = functions.iter().map(|function| function.name).collect();
        Path { functions, calls: tally.calls, own_ns: tally.own_ns, programs_ns }
    };
    counted.iter().map(path).collect()
}

/// The sum of each stage. `paths` are those of what was counted, in the same order.
fn stages(counted: &Counted, paths: &[Path]) -> Vec<StageSummary> {
    let mut stages: BTreeMap<Stage, StageSummary> = BTreeMap::new();
    for (functions, path) in counted.keys().zip(paths) {
        if let Some(Function { stage, .. }) = functions.last() {
            let stage = *stage;
            let sum = stages.entry(stage).or_insert(StageSummary { stage, ns: 0, programs_ns: Some(0) });
            sum.ns += path.own_ns;
            sum.programs_ns = sum.programs_ns.zip(path.programs_ns).map(|(sum, ns)| sum + ns);
        }
    }
    stages.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::function::FUNCTIONS;
    use crate::programs;

    /// The functions of these names.
    fn functions(names: &[&str]) -> Vec<&'static Function> {
        let named = |name: &&str| FUNCTIONS.iter().find(|function| function.name == *name).unwrap();
        names.iter().map(named).collect()
    }

    fn tally(calls: u64, bytes: u64, ns: u64, own_ns: u64) -> Tally {
        Tally { calls, bytes, parts: calls, ns, own_ns, ..Tally::default() }
    }

    fn reading(tallies: &[(&str, &[&'static str], Tally)], program_ns: Option<f64>) -> Reading {
        let tallies = tallies
            .iter()
            .map(|(device, path, tally)| ((device.to_string(), functions(path)), tally.clone()));
        Reading { tallies: tallies.collect(), program_ns, ..Reading::default() }
    }

    const DISK: &str = "0000:3b:00.0";
    const OUTER: &[&str] = &["dma_map_page_attrs"];
    const INNER: &[&str] = &["dma_map_page_attrs", "dma_map_phys"];
    const TABLE: &[&str] = &["dma_map_page_attrs", "dma_map_phys", "iommu_map"];

    #[test]
    fn a_call_within_one_of_the_same_action_is_not_counted_again() {
        let later = reading(
            &[
                (DISK, OUTER, tally(10, 4096, 1000, 100)),
                (DISK, INNER, tally(10, 4096, 900, 400)),
                (DISK, TABLE, tally(10, 4096, 500, 500)),
            ],
            None,
        );
        let all = adapters(&Reading::default(), &later, |_| Completed::default(), []);
        assert_eq!((all.len(), all[0].calls(Action::Map), all[0].calls(Action::WriteTable)), (1, 10, 10));
        assert_eq!((all[0].tally(Action::Map).unwrap().ns, all[0].ns()), (1000, 1000));
        let stages: Vec<(Stage, u64)> = all[0].stages.iter().map(|one| (one.stage, one.ns)).collect();
        assert_eq!(stages, [(Stage::DmaMap, 500), (Stage::TableWrite, 500)]);
    }

    #[test]
    fn what_was_mapped_and_not_unmapped_stays() {
        let sized = |calls: u64, bytes_each: u64| {
            let mut words = vec![0; programs::TALLY_WORDS];
            words[programs::tally::CALLS] = calls;
            words[programs::tally::BYTES] = calls * bytes_each;
            words[programs::tally::BYTES_BUCKETS + bytes_each.ilog2() as usize] = calls;
            Tally::of_cpus(&words)
        };
        let of = |tallies: &[(&str, &[&'static str], Tally)], lost: u64| {
            let mut later = reading(tallies, None);
            later.losses.depth = lost;
            adapters(&Reading::default(), &later, |_| Completed::default(), [])[0].stays_mapped
        };
        let table = |clears: Tally| {
            [(DISK, TABLE, sized(10, 4096)), (DISK, &["dma_unmap_phys", "iommu_unmap_fast"][..], clears)]
        };
        assert_eq!(of(&table(sized(9, 4096)), 0).unwrap().table_bytes, Some(4096));
        assert_eq!(of(&table(sized(12, 4096)), 0).unwrap().table_bytes, Some(-8192));
        assert_eq!(of(&table(tally(10, 0, 10, 10)), 0).unwrap().table_bytes, None, "some did not say it");
        assert_eq!(of(&table(sized(9, 4096)), 1), None, "a call was lost");
        let others = [
            (DISK, &["dma_alloc_attrs"][..], sized(2, 8192)),
            (DISK, &["dma_free_attrs"][..], sized(1, 8192)),
            (DISK, &["dma_map_phys", "swiotlb_map"][..], sized(5, 100)),
            (DISK, &["dma_unmap_phys", "__swiotlb_tbl_unmap_single"][..], sized(7, 100)),
        ];
        let found = of(&others, 0).unwrap();
        assert_eq!(found, StaysMapped { table_bytes: Some(0), coherent_bytes: 8192, bounce_buffers: -2 });
    }

    #[test]
    fn programs_are_in_the_time_of_the_caller() {
        let later = reading(
            &[(DISK, OUTER, tally(10, 0, 1000, 600)), (DISK, INNER, tally(10, 0, 400, 400))],
            Some(20.0),
        );
        let all = adapters(&Reading::default(), &later, |_| Completed::default(), []);
        let own: Vec<(u64, Option<u64>)> =
            all[0].paths.iter().map(|path| (path.own_ns, path.programs_ns)).collect();
        assert_eq!(own, [(600, Some(200)), (400, Some(0))]);
        assert_eq!((all[0].ns(), all[0].programs_ns()), (1000, Some(200)));
    }

    #[test]
    fn only_what_came_between_the_readings_counts() {
        let earlier =
            reading(&[(DISK, OUTER, tally(10, 4096, 1000, 1000)), ("idle", OUTER, tally(5, 5, 5, 5))], None);
        let later =
            reading(&[(DISK, OUTER, tally(15, 6144, 1400, 1400)), ("idle", OUTER, tally(5, 5, 5, 5))], None);
        let busy = |name: &str| match name {
            "0000:00:03.0" => Completed { packets: 1, ..Completed::default() },
            _ => Completed::default(),
        };
        let names = ["0000:00:03.0", "0000:00:04.0"].map(str::to_owned);
        let all = adapters(&earlier, &later, busy, names);
        let named: Vec<(&str, u64)> =
            all.iter().map(|one| (one.adapter.as_str(), one.calls(Action::Map))).collect();
        assert_eq!(named, [(DISK, 5), ("0000:00:03.0", 0)]);
        assert_eq!(all[0].tally(Action::Map).unwrap().bytes, 2048);
    }
}
