//! Made-up toll sheets: three to read, and any number to compare.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(dead_code, reason = "each test program uses a part")]

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use toll::{BootCounts, Event, Evidence, Occurrence, Spread, Stage, Tally, Toll, TollSheet};

pub(crate) const STRICT: &str = include_str!("../sheets/x86-vtd-strict.json");
pub(crate) const LAZY: &str = include_str!("../sheets/x86-vtd-lazy.json");
pub(crate) const NONE: &str = include_str!("../sheets/x86-no-iommu.json");

pub(crate) fn sheet(text: &str) -> TollSheet {
    TollSheet::read(text, "made-up.json").unwrap()
}

/// A toll whose sums hold, of a workload with this number.
fn toll(number: usize) -> impl Strategy<Value = Toll> {
    let functions = btree_map("[a-f]{1,2}", (0_usize..17, 0_u64..5000), 0..12);
    let named = btree_map("[x-z]", (0_u64..4, 0_u64..4000), 0..3);
    let events = btree_map((0_usize..8).prop_map(|n| Event::ALL[n]), named, 0..8);
    (functions, events, 1_u32..40, 2_u32..300).prop_map(move |(functions, events, ios, windows)| {
        let events = events.into_iter().map(|(event, named)| (event, tally(&named))).collect();
        made_of(number, &functions, events, ios, windows)
    })
}

fn made_of(
    number: usize,
    functions: &BTreeMap<String, (usize, u64)>,
    events: BTreeMap<Event, Tally>,
    ios: u32,
    windows: u32,
) -> Toll {
    let mut stages = BTreeMap::new();
    for (stage, count) in functions.values() {
        *stages.entry(Stage::ALL[*stage]).or_insert(0) += count;
    }
    let median = functions.values().map(|(_, count)| count).sum();
    let user = stages.get(&Stage::User).copied().unwrap_or(0);
    let instructions = Spread { median, min: median, p99: median, max: median, at_median: windows };
    let all_events: BTreeMap<Event, u64> =
        events.iter().map(|(event, tally)| (*event, tally.all.total)).collect();
    let none = all_events.keys().map(|event| (*event, 0)).collect();
    let boot = |windows: u32, events: BTreeMap<Event, u64>| BootCounts {
        windows: std::iter::repeat_n(median, windows as usize).collect(),
        stages: stages.iter().map(|(stage, count)| (*stage, count * u64::from(windows))).collect(),
        events,
    };
    Toll {
        workload: format!("workload-{number}"),
        what: "nothing".to_owned(),
        driver: "none".to_owned(),
        bytes_per_io: 4096,
        ios_per_window: NonZeroU32::new(ios).unwrap(),
        windows: NonZeroU32::new(windows).unwrap(),
        boots: vec![boot(windows - windows / 2, all_events), boot(windows / 2, none)],
        instructions,
        user,
        kernel: median - user,
        stages,
        functions: functions.iter().map(|(name, (_, count))| (name.clone(), *count)).collect(),
        events,
        evidence: Evidence::Assumed { why: "made up".to_owned() },
    }
}

fn tally(named: &BTreeMap<String, (u64, u64)>) -> Tally {
    let by_name: BTreeMap<String, Occurrence> = named
        .iter()
        .map(|(name, (median, more))| (name.clone(), Occurrence { median: *median, total: median + more }))
        .collect();
    let median = by_name.values().map(|one| one.median).max().unwrap_or(0);
    let total = by_name.values().map(|one| one.total).sum();
    Tally { all: Occurrence { median, total }, by_name }
}

/// A sheet whose sums hold.
pub(crate) fn any_sheet() -> impl Strategy<Value = TollSheet> {
    let tolls: Vec<_> = (0..4).map(|number| proptest::option::of(toll(number))).collect();
    tolls.prop_map(|tolls| TollSheet { tolls: tolls.into_iter().flatten().collect(), ..sheet(NONE) })
}

/// Bytes that are nearly a sheet: one with a few places overwritten.
pub(crate) fn broken_sheet() -> impl Strategy<Value = String> {
    vec((0..STRICT.len(), "[\\[\\]{},:\"0-9a-z. -]{0,3}"), 1..4).prop_map(|places| {
        let mut text = STRICT.to_owned();
        for (at, with) in places {
            let at = at.min(text.len());
            let end = (at + with.len()).min(text.len());
            text.replace_range(at..end, &with);
        }
        text
    })
}
