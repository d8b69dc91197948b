//! Documents of `iotoll watch` with made-up counts, written by the types that it writes with.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use bench::{Head, HostSummary, Origin};
use compare::{Compared, Comparison, DocumentError, Group, Quantity, Row};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use toll::Stage;
use watch::{
    Action, ActionSummary, Activity, AdapterSummary, Completed, HookCost, HookKind, Interval, Losses,
    Mapping, Record, StageSummary, Tally,
};

pub(crate) const DISK: &str = "0000:3b:00.0";
const STAGES: [Stage; 5] =
    [Stage::DmaMap, Stage::Iova, Stage::TableWrite, Stage::Invalidation, Stage::DmaUnmap];

/// What an I/O costs on a made-up DMA path.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// Nanoseconds of each of [`STAGES`].
    pub(crate) ns: [f64; 5],
    /// IOVAs and table writes.
    pub(crate) translated: u64,
    /// Invalidations of the disk.
    pub(crate) invalidations: u64,
    /// Bytes through bounce buffers.
    pub(crate) bounced: u64,
    /// Requests per second.
    pub(crate) rate: f64,
}

pub(crate) const STRICT: Cost = Cost {
    ns: [110.0, 60.0, 180.0, 420.0, 90.0],
    translated: 1,
    invalidations: 1,
    bounced: 0,
    rate: 40_000.0,
};
pub(crate) const LAZY: Cost =
    Cost { ns: [110.0, 50.0, 180.0, 6.0, 85.0], translated: 1, invalidations: 0, bounced: 0, rate: 44_000.0 };
pub(crate) const UNTRANSLATED: Cost =
    Cost { ns: [40.0, 0.0, 0.0, 0.0, 30.0], translated: 0, invalidations: 0, bounced: 0, rate: 46_000.0 };
pub(crate) const BOUNCED: Cost = Cost { bounced: 4096, ..UNTRANSLATED };

/// What was done for the disk in a second.
fn activity(cost: &Cost, random: &mut Pcg64Mcg) -> Activity {
    let mut near_1 = |spread: f64| 1.0 + spread * (random.next_u64() as f64 / u64::MAX as f64 - 0.5);
    let io = (cost.rate * near_1(0.1)) as u64;
    let stages: Vec<StageSummary> = (STAGES.into_iter().zip(cost.ns))
        .filter(|(_, ns)| *ns > 0.0)
        .map(|(stage, ns)| {
            let ns = (ns * near_1(0.06) * io as f64) as u64;
            StageSummary { stage, ns, programs_ns: Some(ns / 10) }
        })
        .collect();
    let completed = Completed {
        block_requests: io,
        block_bytes: io * 4096,
        packets: 0,
        packet_bytes: 0,
        interrupts: io / 2,
    };
    let mapping = Mapping {
        maps: io,
        mapped_bytes: Some(io * 4096),
        unmaps: io,
        iovas: io * cost.translated,
        table_writes: io * cost.translated,
        invalidations: io * cost.invalidations,
        bounced_bytes: io * cost.bounced,
        ns: stages.iter().map(|one| one.ns).sum(),
        stages,
    };
    Activity {
        adapter: DISK.to_owned(),
        completed,
        completed_in_period: Some(completed),
        mapping: Some(mapping),
    }
}

/// The timer that flushes the IOTLB for all.
fn timer() -> Activity {
    let stages = vec![StageSummary { stage: Stage::Invalidation, ns: 40_000, programs_ns: Some(4000) }];
    let mapping = Mapping {
        maps: 0,
        mapped_bytes: Some(0),
        unmaps: 0,
        iovas: 0,
        table_writes: 0,
        invalidations: 100,
        bounced_bytes: 0,
        ns: 40_000,
        stages,
    };
    let completed = Completed::default();
    Activity {
        adapter: String::new(),
        completed,
        completed_in_period: Some(completed),
        mapping: Some(mapping),
    }
}

/// The sums of a device over all intervals.
fn summary(name: &str, intervals: &[Interval]) -> AdapterSummary {
    let of =
        || intervals.iter().flat_map(|interval| interval.adapters.iter().filter(|one| one.adapter == name));
    let sum =
        |count: fn(&Mapping) -> u64| of().filter_map(|one| one.mapping.as_ref()).map(count).sum::<u64>();
    let action = |action, calls: u64, bytes: u64| ActionSummary {
        action,
        tally: Tally { calls, bytes, parts: calls, ..Tally::default() },
        programs_ns: None,
    };
    let (maps, bounced) = (sum(|mapping| mapping.maps), sum(|mapping| mapping.bounced_bytes));
    let actions = vec![
        action(Action::Map, maps, maps * 4096),
        action(Action::Unmap, sum(|mapping| mapping.unmaps), 0),
        action(Action::AllocateIova, sum(|mapping| mapping.iovas), 0),
        action(Action::WriteTable, sum(|mapping| mapping.table_writes), 0),
        action(Action::Invalidate, sum(|mapping| mapping.invalidations), 0),
        action(Action::TakeBounce, bounced / 4096, bounced),
    ];
    let stage = |stage| {
        let all = of().filter_map(|one| one.mapping.as_ref()).flat_map(|mapping| &mapping.stages);
        let ns = all.filter(|one| one.stage == stage).map(|one| one.ns).sum();
        StageSummary { stage, ns, programs_ns: Some(ns / 10) }
    };
    let mut completed = Completed::default();
    of().for_each(|one| completed += one.completed);
    AdapterSummary {
        adapter: name.to_owned(),
        completed,
        completed_while_counted: completed,
        actions: actions.into_iter().filter(|one| one.tally.calls > 0).collect(),
        stays_mapped: None,
        stages: STAGES.map(stage).into_iter().filter(|one| one.ns > 0).collect(),
        paths: Vec::new(),
    }
}

/// A document of a host with a disk, of so many seconds.
pub(crate) fn watched(cost: &Cost, seconds: u32, seed: u64) -> Value {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let is_lazy = cost.translated > 0 && cost.invalidations == 0;
    let intervals: Vec<Interval> = (1..=seconds)
        .map(|second| {
            let disk = activity(cost, &mut random);
            let adapters = if is_lazy { vec![disk, timer()] } else { vec![disk] };
            Interval { end_s: f64::from(second), seconds: 1.0, stands_for_s: 1.0, adapters }
        })
        .collect();
    let names: &[&str] = if is_lazy { &[DISK, ""] } else { &[DISK] };
    let record = Record {
        seconds: f64::from(seconds),
        part_time: None,
        uncounted: None,
        assumes_parameters: false,
        probed: Vec::new(),
        functions: vec!["dma_map_page_attrs", "iommu_map", "qi_submit_sync"],
        unwatched: Vec::new(),
        losses: Losses::default(),
        program_ns: Some(60.0),
        hooks: vec![HookCost {
            hook: HookKind::Trampoline,
            inside_ns: 20.0,
            outside_ns: 40.0,
            is_measured: true,
        }],
        calls: 4_000_000,
        adapters: names.iter().map(|name| summary(name, &intervals)).collect(),
        hardware_counts: Vec::new(),
        stacks: None,
        intervals,
    };
    let machine = HostSummary {
        cpu: Some("Made-up CPU".to_owned()),
        cpus: 8,
        architecture: "x86_64".to_owned(),
        kernel: Some("6.12.1".to_owned()),
        governor: None,
        is_virtual: Some(false),
        load_average: Some(0.1),
    };
    let command = vec!["iotoll".to_owned(), "watch".to_owned(), "--json".to_owned()];
    let origin = Origin { made_by: "iotoll 0.1.0".to_owned(), command, date: "2026-11-01".to_owned() };
    let mut document = serde_json::to_value(Head::new("iotoll.watch/1", origin, machine)).unwrap();
    let Value::Object(fields) = serde_json::to_value(record).unwrap() else {
        panic!("a record is an object")
    };
    document.as_object_mut().unwrap().extend(fields);
    document
}

/// Two documents compared, or why they can't be.
pub(crate) fn compared(before: &Value, after: &Value) -> Result<Comparison, DocumentError> {
    compared_texts(&before.to_string(), &after.to_string())
}

pub(crate) fn compared_texts(before: &str, after: &str) -> Result<Comparison, DocumentError> {
    match compare::compare((before, "before.json"), (after, "after.json"))? {
        Compared::Figures(comparison) => Ok(*comparison),
        Compared::Sheets(_) => panic!("not toll sheets"),
    }
}

/// The names that [`compared_runs`] gives to documents of each side.
pub(crate) const FILES: [[&str; 6]; 2] =
    [["a1", "a2", "a3", "a4", "a5", "a6"], ["b1", "b2", "b3", "b4", "b5", "b6"]];

/// Up to six documents of each side compared, or why they can't be.
pub(crate) fn compared_runs(before: &[Value], after: &[Value]) -> Result<Comparison, DocumentError> {
    let texts = [before, after].map(|side| side.iter().map(Value::to_string).collect::<Vec<_>>());
    let [before, after] = [0, 1]
        .map(|side| texts[side].iter().map(String::as_str).zip(FILES[side]).collect::<Vec<(&str, &str)>>());
    match compare::compare_runs(&before, &after)? {
        Compared::Figures(comparison) => Ok(*comparison),
        Compared::Sheets(_) => panic!("not toll sheets"),
    }
}

/// The group of the disk.
pub(crate) fn disk(comparison: &Comparison) -> &Group {
    comparison.groups.iter().find(|group| group.name == DISK).unwrap()
}

pub(crate) fn row(group: &Group, quantity: Quantity) -> &Row {
    group.row(quantity).unwrap()
}
