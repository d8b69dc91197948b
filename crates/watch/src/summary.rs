//! What mapping cost each adapter within a span of time.

use crate::completed::Completed;
use crate::function::{Action, Function};
use crate::hook_cost::HookCost;
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
    /// What it completed, in all the time.
    pub completed: Completed,
    /// The part of that which it completed while calls were counted: less only where a part of the time was counted
    /// ([`Record::part_time`](crate::Record::part_time)).
    pub completed_while_counted: Completed,
    /// What the kernel's functions did for it. Empty, as stages and paths are, where nothing could be counted
    /// ([`Record::uncounted`](crate::Record::uncounted)).
    pub actions: Vec<ActionSummary>,
    /// What stayed mapped; `None` if not all calls were counted: those may have mapped or unmapped it.
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
    /// Nanoseconds of that time that watching added, about. `None` if what that costs was not measured.
    pub programs_ns: Option<u64>,
}

impl ActionSummary {
    /// Nanoseconds without what watching added, if that is known.
    pub fn net_ns(&self) -> Option<u64> {
        Some(self.tally.ns.saturating_sub(self.programs_ns?))
    }
}

/// CPU time of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageSummary {
    /// Which.
    pub stage: Stage,
    /// Nanoseconds of its functions by themselves, interrupts and programs that count included.
    pub ns: u64,
    /// Nanoseconds that watching added to it, about: by [`Record::hooks`](crate::Record::hooks), and at most `ns`. `None` if what that costs
    /// was not measured.
    pub programs_ns: Option<u64>,
}

impl StageSummary {
    /// Nanoseconds without what watching added, if that is known.
    pub fn net_ns(&self) -> Option<u64> {
        Some(self.ns.saturating_sub(self.programs_ns?))
    }
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
    /// The I/O that costs are divided by, and its name. `None` if there was none, or none while calls were counted: then what one costs is
    /// not known.
    pub fn io_of_costs(&self) -> Option<(u64, &'static str)> {
        self.completed.io().filter(|_| self.completed_while_counted.io_of_kind(&self.completed) > 0)
    }

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
        self.stages.iter().fold(0, |sum, stage| sum.saturating_add(stage.ns))
    }

    /// Nanoseconds of them that watching added, about; `None` if that was not measured.
    pub fn programs_ns(&self) -> Option<u64> {
        self.stages.iter().try_fold(0, |sum: u64, stage| Some(sum.saturating_add(stage.programs_ns?)))
    }

    /// CPU nanoseconds of all stages without what watching added, if that is known.
    pub fn net_ns(&self) -> Option<u64> {
        self.stages.iter().map(StageSummary::net_ns).try_fold(0, |sum: u64, ns| Some(sum.saturating_add(ns?)))
    }
}

/// How many times a time may be exceeded by what watching is taken to have added to it, as far as some calls cost less than others.
const ADDED_MAX: f64 = 1.25;

type Counted = BTreeMap<Vec<&'static Function>, Tally>;
type Costs = BTreeMap<&'static Function, HookCost>;

/// What was done in a span of time, by adapter, those with the most CPU time first. Adapters for which nothing was done, and which completed
/// nothing, are left out.
pub fn adapters(reading: &Reading, completed: &BTreeMap<String, Completed>) -> Vec<AdapterSummary> {
    let mut devices: BTreeMap<&str, Counted> =
        completed.keys().map(|name| (name.as_str(), Counted::new())).collect();
    for ((device, path), tally) in &reading.tallies {
        devices.entry(device).or_default().insert(path.clone(), tally.clone());
    }
    let summary = |(adapter, counted): (&str, Counted)| {
        let paths = paths(&counted, &reading.costs);
        let actions = actions(&counted, &reading.costs);
        let completed = completed.get(adapter).copied().unwrap_or_default();
        AdapterSummary {
            adapter: adapter.to_owned(),
            completed,
            completed_while_counted: completed,
            stays_mapped: (reading.losses.total() == 0).then(|| StaysMapped::of(&actions)),
            actions,
            stages: stages(&counted, &paths),
            paths,
        }
    };
    let mut all: Vec<AdapterSummary> = devices.into_iter().map(summary).collect();
    all.retain(|one| !one.paths.is_empty() || one.completed != Completed::default());
    all.sort_by_key(|one| std::cmp::Reverse(one.ns()));
    all
}

/// The part of a path from where its innermost functions were begun anew. No function calls itself: if one is in a path twice, an interrupt
/// came, or the end of the outer one was not seen.
fn begun_anew<'p>(path: &'p [&'static Function]) -> &'p [&'static Function] {
    let is_repeated = |place: usize| path[..place].contains(&path[place]);
    let is_without_repetition =
        |part: &[&Function]| (1..part.len()).all(|place| !part[..place].contains(&part[place]));
    let begin = (0..path.len()).find(|place| is_repeated(*place) && is_without_repetition(&path[*place..]));
    begin.map_or(path, |begin| &path[begin..])
}

/// Calls by action. Kernel functions of one action call each other, so only the outermost counts.
fn actions(counted: &Counted, costs: &Costs) -> Vec<ActionSummary> {
    let mut actions: BTreeMap<Action, ActionSummary> = BTreeMap::new();
    for (path, tally) in counted {
        let mut actions_of_path = begun_anew(path).iter().map(|function| function.action);
        let Some(Some(action)) = actions_of_path.next_back() else { continue };
        if !actions_of_path.any(|outer| outer == Some(action)) {
            let nothing = || ActionSummary { action, tally: Tally::default(), programs_ns: Some(0) };
            let sum = actions.entry(action).or_insert_with(nothing);
            sum.tally.add(tally);
            sum.programs_ns =
                sum.programs_ns.zip(watching_ns(path, counted, costs)).map(|(sum, ns)| sum + ns);
        }
    }
    actions.into_values().collect()
}

/// Nanoseconds that watching added to the calls of a path: inside of its function, and all for what it called in turn.
fn watching_ns(path: &[&'static Function], counted: &Counted, costs: &Costs) -> Option<u64> {
    let of_path = |(other, tally): (&Vec<&'static Function>, &Tally)| {
        let cost = costs.get(other.last()?)?;
        let ns = if other == path { cost.inside_ns } else { cost.ns() };
        Some(ns * tally.calls as f64)
    };
    let within = counted.iter().filter(|(other, _)| other.starts_with(path));
    plausible(within.map(of_path).sum::<Option<f64>>()?, counted.get(path)?.ns)
}

/// Each path with its own time, and what watching added to it: inside of its function, and outside of those that it called.
fn paths(counted: &Counted, costs: &Costs) -> Vec<Path> {
    let path = |(functions, tally): (&Vec<&'static Function>, &Tally)| {
        let is_near =
            |other: &[&Function]| other.len() <= functions.len() + 1 && other.starts_with(functions);
        let added = |(other, tally): (&Vec<&'static Function>, &Tally)| {
            let cost = costs.get(other.last()?)?;
            let ns = if other == functions { cost.inside_ns } else { cost.outside_ns };
            Some(ns * tally.calls as f64)
        };
        let watching_ns = counted.iter().filter(|(other, _)| is_near(other)).map(added).sum::<Option<f64>>();
        Path {
            functions: functions.iter().map(|function| function.name).collect(),
            calls: tally.calls,
            own_ns: tally.own_ns,
            programs_ns: watching_ns.and_then(|ns| plausible(ns, tally.own_ns)),
        }
    };
    counted.iter().map(path).collect()
}

/// What watching added to a time; `None` if that would be much more than the time, so that what a call costs is not known here.
fn plausible(watching_ns: f64, ns: u64) -> Option<u64> {
    (watching_ns <= ADDED_MAX * ns as f64).then(|| (watching_ns as u64).min(ns))
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
    use crate::hook_cost::HookKind;
    use crate::programs;

    /// The functions of these names.
    fn functions(names: &[&str]) -> Vec<&'static Function> {
        let named = |name: &&str| FUNCTIONS.iter().find(|function| function.name == *name).unwrap();
        names.iter().map(named).collect()
    }

    fn tally(calls: u64, bytes: u64, ns: u64, own_ns: u64) -> Tally {
        Tally { calls, bytes, parts: calls, ns, own_ns, ..Tally::default() }
    }

    /// Watching costs a call 5 ns inside of it and 15 ns outside, where that is known.
    fn reading(tallies: &[(&str, &[&'static str], Tally)], is_cost_known: bool) -> Reading {
        let counted = tallies
            .iter()
            .map(|(device, path, tally)| ((device.to_string(), functions(path)), tally.clone()));
        let cost =
            HookCost { hook: HookKind::Trampoline, inside_ns: 5.0, outside_ns: 15.0, is_measured: true };
        let costs = FUNCTIONS.iter().filter(|_| is_cost_known).map(|function| (function, cost));
        Reading { tallies: counted.collect(), costs: costs.collect(), ..Reading::default() }
    }

    fn summaries(reading: &Reading) -> Vec<AdapterSummary> {
        adapters(reading, &BTreeMap::new())
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
            false,
        );
        let all = summaries(&later);
        assert_eq!((all.len(), all[0].calls(Action::Map), all[0].calls(Action::WriteTable)), (1, 10, 10));
        assert_eq!((all[0].tally(Action::Map).unwrap().ns, all[0].ns()), (1000, 1000));
        let stages: Vec<(Stage, u64)> = all[0].stages.iter().map(|one| (one.stage, one.ns)).collect();
        assert_eq!(stages, [(Stage::DmaMap, 500), (Stage::TableWrite, 500)]);
    }

    /// After a call whose end was not seen, all later calls from deeper in the stack are within it.
    #[test]
    fn a_call_within_one_of_the_same_function_is_counted() {
        // Whichever of them did not end, ten calls are ten.
        let [outer, inner, table] = [TABLE[0], TABLE[1], TABLE[2]];
        for within in [&[][..], &[outer], &[inner], &[outer, inner], &[outer, inner, table]] {
            let of = |path: &[&'static str]| [within, path].concat();
            let (outer, inner, table) = (of(OUTER), of(INNER), of(TABLE));
            let counted = tally(10, 4096, 1000, 100);
            let later = reading(
                &[
                    (DISK, &outer, counted.clone()),
                    (DISK, &inner, counted.clone()),
                    (DISK, &table, counted.clone()),
                ],
                false,
            );
            let all = summaries(&later);
            assert_eq!((all[0].calls(Action::Map), all[0].calls(Action::WriteTable)), (10, 10), "{within:?}");
        }
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
            let mut later = reading(tallies, false);
            later.losses.depth = lost;
            summaries(&later)[0].stays_mapped
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
    fn watching_costs_a_call_and_its_caller() {
        let outer = (DISK, OUTER, tally(10, 0, 1000, 600));
        let later = reading(&[outer.clone(), (DISK, INNER, tally(10, 0, 400, 400))], true);
        let all = summaries(&later);
        let own: Vec<(u64, Option<u64>)> =
            all[0].paths.iter().map(|path| (path.own_ns, path.programs_ns)).collect();
        assert_eq!(own, [(600, Some(10 * 5 + 10 * 15)), (400, Some(10 * 5))]);
        assert_eq!((all[0].ns(), all[0].programs_ns(), all[0].net_ns()), (1000, Some(250), Some(750)));
        let map = &all[0].actions[0];
        assert_eq!(
            (map.programs_ns, map.net_ns()),
            (Some(10 * 5 + 10 * 20), Some(750)),
            "with all of what it called"
        );
        assert_eq!(later.watching_ns(), Some(20.0 * 20.0), "with what is outside of all calls");
        let short = |ns| summaries(&reading(&[(DISK, OUTER, tally(10, 0, ns, ns))], true))[0].programs_ns();
        assert_eq!(
            (short(45), short(30)),
            (Some(45), None),
            "not more than it took, and unknown if it took much less"
        );
        let unknown = reading(&[outer], false);
        assert_eq!((summaries(&unknown)[0].programs_ns(), unknown.watching_ns()), (None, None));
    }

    #[test]
    fn only_what_came_between_the_readings_counts() {
        let earlier =
            reading(&[(DISK, OUTER, tally(10, 4096, 1000, 1000)), ("idle", OUTER, tally(5, 5, 5, 5))], false);
        let later =
            reading(&[(DISK, OUTER, tally(15, 6144, 1400, 1400)), ("idle", OUTER, tally(5, 5, 5, 5))], false);
        let busy = ("0000:00:03.0".to_owned(), Completed { packets: 1, ..Completed::default() });
        let idle = ("0000:00:04.0".to_owned(), Completed::default());
        let mut between = later.since(&earlier);
        let all = adapters(&between, &BTreeMap::from([busy, idle]));
        let named: Vec<(&str, u64)> =
            all.iter().map(|one| (one.adapter.as_str(), one.calls(Action::Map))).collect();
        assert_eq!(named, [(DISK, 5), ("0000:00:03.0", 0)]);
        assert_eq!(all[0].tally(Action::Map).unwrap().bytes, 2048);
        between.add(earlier);
        assert_eq!(summaries(&between)[0].calls(Action::Map), 15, "sums of spans");
    }
}
