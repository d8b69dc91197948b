//! Several documents of each side, compared.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use compare::{Cause, Comparison, Doubt, Quantity, RUNS_MAX, Row, Sample, Side, Sign, compare_runs};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::slice;
use support::{DISK, LAZY, STRICT, compared, compared_runs, disk, row, watched};

/// Documents of `iotoll watch`, each of a run with its own seed.
fn runs(cost: &support::Cost, seeds: std::ops::Range<u64>) -> Vec<Value> {
    seeds.map(|seed| watched(cost, 9, seed)).collect()
}

/// A document of `iotoll bench map`, which has medians and no rounds: nanoseconds of each DMA path.
fn map(paths: &[(&str, f64)]) -> Value {
    let summary =
        |ns: f64| json!({"min": ns, "lower_quartile": ns, "median": ns, "upper_quartile": ns, "max": ns});
    let row = |(path, ns): &(&str, f64)| json!({"dma_path": path, "cells": [{"bytes": 4096, "ns_per_pair": summary(*ns)}]});
    json!({
        "schema": "iotoll.bench-map/2", "made_by": "iotoll 0.1.0", "command": ["iotoll", "bench"], "date": "2026-11-01",
        "machine": {"cpu": "Made-up CPU", "cpus": 2, "architecture": "x86_64"}, "warnings": [], "settings": {"rounds": 9},
        "rows": paths.iter().map(row).collect::<Vec<_>>(),
    })
}

fn maps<const N: usize>(ns: [f64; N]) -> Vec<Value> {
    ns.iter().map(|ns| map(&[("vtd-strict", *ns)])).collect()
}

/// The only figure of a document of [`map`].
fn only_row(comparison: &Comparison) -> &Row {
    assert_eq!((comparison.groups.len(), comparison.groups[0].rows.len()), (1, 1));
    &comparison.groups[0].rows[0]
}

fn words(comparison: &Comparison) -> Vec<&str> {
    comparison.doubts.iter().map(|doubt| doubt.words.as_str()).collect()
}

#[test]
fn three_runs_of_each_side_give_intervals_from_runs() {
    let found = compared_runs(&runs(&STRICT, 1..4), &runs(&LAZY, 11..15)).unwrap();
    assert_eq!((found.sample(), found.has_several_runs()), (Sample::Runs, true));
    assert_eq!((found.runs.before.len(), found.runs.after.len()), (3, 4));
    assert_eq!((&found.before, &found.after), (&found.runs.before[0], &found.runs.after[0]));
    assert_eq!(words(&found), ["in documents of this side alone: what works for no device"]);
    let cpu = row(disk(&found), Quantity::CpuNs);
    assert_eq!((cpu.sample, cpu.sign), (Some(Sample::Runs), Some(Sign::Less)));
    assert_eq!((cpu.runs_before, cpu.runs_after), (3, 4));
    // The mean of what each pair says, which are one document each.
    let alone = |cost, seed| {
        let document = watched(cost, 9, seed);
        row(disk(&compared(&document, &document).unwrap()), Quantity::CpuNs).before.unwrap()
    };
    let mean = (1..4).map(|seed| alone(&STRICT, seed)).sum::<f64>() / 3.0;
    assert!((cpu.before.unwrap() / mean - 1.0).abs() < 1e-12, "{cpu:?}, expected {mean}");
    assert_eq!(disk(&found).explanations[0].cause, Cause::InvalidationsBatched);
    let maps = row(disk(&found), Quantity::Maps);
    assert_eq!((maps.ratio, maps.ratio_low, maps.ratio_high), (Some(1.0), Some(1.0), Some(1.0)));
    let invalidations = row(disk(&found), Quantity::Invalidations);
    assert_eq!((invalidations.ratio, invalidations.ratio_high), (Some(0.0), Some(0.0)));
}

/// Stages are those of the time without watching, and this has an interval, unless a document knows it only about.
#[test]
fn times_are_without_watching_where_that_is_known() {
    let mut before = watched(&STRICT, 9, 1);
    let after = watched(&LAZY, 9, 2);
    let known = compared(&before, &after).unwrap();
    let without = row(disk(&known), Quantity::CpuWithoutWatchingNs);
    assert!(without.interval().is_some(), "{without:?}");
    let stages = |found: &Comparison| {
        let rows = disk(found).rows.iter().filter(|row| row.stage.is_some());
        let before = |row: &Row| (row.quantity, row.before.unwrap());
        rows.map(before).collect::<Vec<_>>()
    };
    let sum: f64 = stages(&known).iter().map(|stage| stage.1).sum();
    assert!((sum / without.before.unwrap() - 1.0).abs() < 1e-6, "{:?} {without:?}", stages(&known));
    assert!(stages(&known).iter().all(|stage| stage.0 == Quantity::CpuWithoutWatchingNs));
    for hooks in
        [json!([]), json!([{"hook": "probe", "inside_ns": 0, "outside_ns": 9, "is_measured": false}])]
    {
        before["hooks"] = hooks;
        let about = compared(&before, &after).unwrap();
        let without = row(disk(&about), Quantity::CpuWithoutWatchingNs);
        let reason = Some("what watching added is known only approximately");
        assert_eq!((without.interval(), without.reason.as_deref()), (None, reason));
        assert!(stages(&about).iter().all(|stage| stage.0 == Quantity::CpuNs));
    }
}

/// Two documents are compared as ever, and each row says so.
#[test]
fn one_document_of_each_side_is_compared_by_its_rounds() {
    let found = compared(&watched(&STRICT, 9, 1), &watched(&LAZY, 9, 2)).unwrap();
    assert_eq!((found.sample(), found.has_several_runs()), (Sample::Rounds, false));
    let cpu = row(disk(&found), Quantity::CpuNs);
    assert_eq!((cpu.sample, cpu.runs_before, cpu.runs_after), (Some(Sample::Rounds), 1, 1));
    assert_eq!((found.runs.before.len(), found.runs.after.len()), (1, 1));
}

#[test]
fn fewer_than_three_of_a_side_are_pooled_and_that_is_the_first_doubt() {
    for (before, after) in [(1..3, 11..13), (1..2, 11..15), (1..5, 11..12)] {
        let mut documents = runs(&STRICT, before);
        documents[0]["warnings"] = json!(["a busy machine"]);
        let found = compared_runs(&documents, &runs(&STRICT, after)).unwrap();
        let first = &found.doubts[0];
        assert!(
            first.words.starts_with("what differs from run to run is accounted for in no interval"),
            "{first:?}"
        );
        assert_eq!((first.side, first.files.len(), found.doubts.len()), (None, 0, 2));
        let cpu = row(disk(&found), Quantity::CpuNs);
        assert_eq!(cpu.sample, Some(Sample::Rounds));
        let rounds = |row: &Row| row.ratio_high.unwrap() - row.ratio_low.unwrap();
        let one = compared(&watched(&STRICT, 9, 1), &watched(&STRICT, 9, 11)).unwrap();
        assert!(rounds(cpu) < rounds(row(disk(&one), Quantity::CpuNs)), "more rounds say more");
    }
    // Five intervals are enough, of whichever documents.
    let short = |seed| watched(&STRICT, 3, seed);
    let found = compared_runs(&[short(1), short(2)], &[short(3), short(4)]).unwrap();
    assert_eq!(row(disk(&found), Quantity::CpuNs).sample, Some(Sample::Rounds));
}

/// Runs differ by 10 %, and the rounds within a run by far less: pooled, a difference is certain that runs do not show.
#[test]
fn what_differs_from_run_to_run_is_in_intervals_from_runs() {
    let slower = |factor: f64, seed| {
        let ns = STRICT.ns.map(|ns| ns * factor);
        watched(&support::Cost { ns, ..STRICT }, 9, seed)
    };
    let before = [slower(1.0, 1), slower(1.1, 2), slower(0.9, 3)];
    let after = [slower(1.05, 4), slower(1.15, 5), slower(0.95, 6)];
    let one = compared(&before[0], &after[0]).unwrap();
    assert_eq!(row(disk(&one), Quantity::CpuNs).sign, Some(Sign::More));
    let all = compared_runs(&before, &after).unwrap();
    let cpu = row(disk(&all), Quantity::CpuNs);
    assert_eq!(cpu.sign, None);
    assert!(cpu.ratio_low.unwrap() < 0.9 && cpu.ratio_high.unwrap() > 1.2, "{cpu:?}");
}

/// Three boots each of a guest with Debian's Linux 6.12, VT-d and an NVMe disk, in strict and in lazy mode. The intervals are SciPy's (1.17.1: `t`
/// and `brentq`), of the sums of nanoseconds by requests, and of requests by seconds, that the six documents hold.
#[test]
fn six_boots_of_a_real_kernel_give_the_interval_of_another_program() {
    let document = |text| serde_json::from_str::<Value>(text).unwrap();
    let strict = [
        include_str!("documents/guest-strict-1.json"),
        include_str!("documents/guest-strict-2.json"),
        include_str!("documents/guest-strict-3.json"),
    ]
    .map(document);
    let lazy = [
        include_str!("documents/guest-lazy-1.json"),
        include_str!("documents/guest-lazy-2.json"),
        include_str!("documents/guest-lazy-3.json"),
    ]
    .map(document);
    let found = compared_runs(&strict, &lazy).unwrap();
    let [group] = &found.groups[..] else { panic!("{found:?}") };
    for (quantity, expected) in [
        (Quantity::CpuNs, [0.665_805, 0.529_851, 0.883_645]),
        (Quantity::Io, [0.997_554, 0.571_226, 1.988_637]),
    ] {
        let interval = row(group, quantity).interval().unwrap();
        for (found, expected) in [interval.ratio, interval.low, interval.high].into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{quantity:?}: {found}, expected {expected}");
        }
    }
    assert_eq!(group.explanations[0].cause, Cause::InvalidationsBatched);
    // Each pair is sure of what the runs are not: fewer I/Os per second in one, more in another.
    let sign = |place: usize| {
        let pair = compared(&strict[place], &lazy[place]).unwrap();
        row(&pair.groups[0], Quantity::Io).sign
    };
    assert_eq!([sign(0), sign(1), sign(2)], [Some(Sign::Less), None, Some(Sign::More)]);
    assert_eq!(row(group, Quantity::Io).sign, None);
}

/// Documents that have no rounds get intervals once there are three of each side. The interval is SciPy's, as in `ratio.rs`.
#[test]
fn documents_without_rounds_have_intervals_from_runs() {
    let found = compared_runs(&maps([598.3, 611.0, 604.4]), &maps([412.7, 398.1, 405.9])).unwrap();
    let row = only_row(&found);
    let interval = row.interval().unwrap();
    assert!((interval.low - 0.646_324_786).abs() < 1e-9 && (interval.high - 0.695_815_781).abs() < 1e-9);
    assert_eq!((row.sample, row.sign), (Some(Sample::Runs), Some(Sign::Less)));
    let few = compared_runs(&maps([598.3, 611.0]), &maps([412.7, 398.1])).unwrap();
    let row = only_row(&few);
    assert!((row.ratio.unwrap() - 405.4 / 604.65).abs() < 1e-9, "{row:?}");
    assert_eq!(row.sample, None);
    assert!(row.reason.as_deref().unwrap().starts_with("the documents have no rounds"));
}

#[test]
fn equal_runs_and_zeros_have_plain_ratios() {
    // Equal texts are no runs of their own, so the dates differ.
    let on_days = |mut documents: Vec<Value>, month: &str| {
        for (day, document) in documents.iter_mut().enumerate() {
            document["date"] = format!("2026-{month}-0{}", day + 1).into();
        }
        documents
    };
    let equal = compared_runs(&on_days(maps([0.1; 3]), "01"), &on_days(maps([0.3; 3]), "02")).unwrap();
    let row = only_row(&equal);
    assert_eq!((row.before, row.after, row.sign), (Some(0.1), Some(0.3), Some(Sign::More)));
    assert!(row.ratio_high.unwrap() - row.ratio_low.unwrap() < 1e-14);
    let same = compared_runs(&on_days(maps([0.1; 3]), "01"), &on_days(maps([0.1; 3]), "02")).unwrap();
    let row = only_row(&same);
    assert_eq!((row.ratio_low, row.ratio_high, row.sign), (Some(1.0), Some(1.0), None));

    let to_zero = compared_runs(&maps([5.0, 6.0, 7.0]), &on_days(maps([0.0; 3]), "02")).unwrap();
    let row = only_row(&to_zero);
    assert_eq!((row.ratio, row.ratio_high, row.sign), (Some(0.0), Some(0.0), Some(Sign::Less)));
    let from_zero = compared_runs(&on_days(maps([0.0; 3]), "01"), &maps([5.0, 6.0, 7.0])).unwrap();
    let row = only_row(&from_zero);
    assert_eq!((row.ratio, row.ratio_low, row.reason.as_deref()), (None, None, Some("it was 0 before")));
    let wild = compared_runs(&on_days(maps([0.0, 0.0, 9.0]), "01"), &maps([5.0, 6.0, 7.0])).unwrap();
    let row = only_row(&wild);
    assert!(row.ratio.is_some() && row.ratio_low.is_none());
    assert!(row.reason.as_deref().unwrap().contains("could be 0"));
    let huge = compared_runs(&maps([1e308, 1e308 / 3.0, -1e308]), &maps([5.0, 6.0, 7.0])).unwrap();
    assert_eq!((only_row(&huge).before, only_row(&huge).ratio), (None, None));
}

/// A figure that some documents do not have is of the others; with too few of these it has no interval, and is not 0.
#[test]
fn what_only_some_documents_have_is_of_those() {
    let both = |strict: f64| map(&[("vtd-strict", strict), ("swiotlb", strict * 2.0)]);
    let before = [both(100.0), both(101.0), both(102.0), map(&[("vtd-strict", 103.0)])];
    let after =
        [both(50.0), both(51.0), map(&[("vtd-strict", 52.0)]), map(&[("vtd-strict", 53.0), ("pci", 1.0)])];
    let found = compared_runs(&before, &after).unwrap();
    let [strict, swiotlb] = &found.groups[0].rows[..] else { panic!("{found:?}") };
    assert_eq!((strict.runs_before, strict.runs_after, strict.sample), (4, 4, Some(Sample::Runs)));
    assert_eq!((swiotlb.runs_before, swiotlb.runs_after, swiotlb.sample), (3, 2, None));
    assert_eq!((swiotlb.before, swiotlb.after), (Some(202.0), Some(101.0)));
    let reason = "AFTER: 2 documents have it: a confidence interval from runs needs 3";
    assert_eq!(swiotlb.reason.as_deref(), Some(reason));
    assert_eq!(words(&found), ["1 figure is in documents of this side alone"]);

    // A document that was not counted, and one in which the disk did nothing.
    let mut before = runs(&STRICT, 1..5);
    before[1]["uncounted"] = "no rights".into();
    let mut after = runs(&LAZY, 11..15);
    after[0]["adapters"] = json!([]);
    after[0]["intervals"] = json!([]);
    let found = compared_runs(&before, &after).unwrap();
    assert_eq!(disk(&found).explanations[0].cause, Cause::InvalidationsBatched);
    let cpu = row(disk(&found), Quantity::CpuNs);
    assert_eq!((cpu.runs_before, cpu.runs_after, cpu.sample), (3, 3, Some(Sample::Runs)));
    assert!(cpu.before.unwrap() > 800.0 && cpu.after.unwrap() > 400.0, "{cpu:?}");
    assert_eq!(row(disk(&found), Quantity::Io).runs_before, 4, "the kernel's own counter");
    let uncounted = &found.doubts[0];
    assert_eq!((uncounted.side, &uncounted.files[..]), (Some(Side::Before), &["a2".to_owned()][..]));
    before.iter_mut().for_each(|document| document["uncounted"] = "no rights".into());
    let found = compared_runs(&before, &after).unwrap();
    let cpu = row(disk(&found), Quantity::CpuNs);
    assert_eq!(
        (cpu.before, cpu.after, cpu.reason.as_deref()),
        (None, None, Some("BEFORE: not counted: no rights"))
    );
}

#[test]
fn lost_calls_of_one_document_count() {
    let (mut before, after) = (runs(&STRICT, 1..4), runs(&STRICT, 11..14));
    let width = |before: &[Value]| {
        let found = compared_runs(before, &after).unwrap();
        let cpu = row(disk(&found), Quantity::CpuNs).interval();
        (cpu.map(|cpu| cpu.high - cpu.low), words(&found).join("; "))
    };
    let (none, _) = width(&before);
    before[2]["losses"]["interrupted"] = 4000.into();
    let (some, told) = width(&before);
    assert!(some.unwrap() > none.unwrap() + 0.0019, "{none:?} {some:?}");
    assert!(told.contains("4000 calls") && told.contains("0.0999 % of a document at most"), "{told}");
    before[0]["losses"]["interrupted"] = u64::MAX.into();
    let (none, told) = width(&before);
    assert!(none.is_none() && told.contains("costs have no ratio"), "{told}");
}

#[test]
fn documents_of_a_side_that_differ_are_doubted() {
    let mut before = runs(&STRICT, 1..5);
    before[1]["machine"]["kernel"] = "6.12.2".into();
    before[2]["machine"]["cpu"] = "Another".into();
    before[3]["functions"] = json!(["dma_map_page_attrs", "iommu_map"]);
    before[1]["warnings"] = json!(["a busy machine"]);
    before[2]["warnings"] = json!(["a busy machine", "a debug build"]);
    let mut after = runs(&STRICT, 11..14);
    after.iter_mut().for_each(|document| document["warnings"] = json!(["a debug build"]));
    let found = compared_runs(&before, &after).unwrap();
    let doubt = |side, files: &[&str], words: &str| Doubt {
        side,
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        words: words.to_owned(),
    };
    let side = Some(Side::Before);
    assert_eq!(
        found.doubts,
        [
            doubt(side, &[], "the documents of this side differ in kernel: 6.12.1 (3), 6.12.2 (1)"),
            doubt(side, &[], "the documents of this side differ in CPU: Another (1), Made-up CPU (3)"),
            doubt(side, &[], "functions watched in some documents of this side alone: qi_submit_sync"),
            doubt(None, &[], "the CPUs differ, so times differ by them, too"),
            doubt(side, &["a2", "a3"], "a busy machine"),
            doubt(None, &["a3", "b1", "b2", "b3"], "a debug build"),
        ]
    );
    let kernel = &found.differences[0];
    assert_eq!((kernel.before.as_deref(), kernel.after.as_deref()), (Some("6.12.1, 6.12.2"), Some("6.12.1")));

    // Settings of benchmarks, too.
    let mut before = maps([1.0, 2.0, 3.0]);
    before[0]["settings"]["rounds"] = 5.into();
    let found = compared_runs(&before, &maps([4.0, 5.0, 6.0])).unwrap();
    assert_eq!(words(&found), ["the documents of this side differ in setting rounds: 5 (1), 9 (2)"]);
}

/// A file of the other side by mistake.
#[test]
fn a_document_on_another_dma_path_is_doubted_and_nothing_is_explained() {
    let mut before = runs(&STRICT, 1..4);
    before.push(watched(&LAZY, 9, 4));
    let found = compared_runs(&before, &runs(&LAZY, 11..14)).unwrap();
    assert!(disk(&found).explanations.is_empty());
    let doubt =
        found.doubts.iter().find(|doubt| doubt.words == "by its counts on another DMA path than a1").unwrap();
    assert_eq!((doubt.side, &doubt.files[..]), (Some(Side::Before), &["a4".to_owned()][..]));
}

#[test]
fn what_would_fake_certainty_is_refused() {
    let refused = |before: &[Value], after: &[Value], words: &str| {
        let error = compared_runs(before, after).unwrap_err().to_string();
        assert!(error.starts_with(words) && !error.contains('\n'), "{words}: {error}");
    };
    let [one, two] = [watched(&STRICT, 6, 1), watched(&STRICT, 6, 2)];
    let (one, two) = (&one, &two);
    refused(
        &[one.clone(), two.clone(), one.clone()],
        slice::from_ref(two),
        "a3: the same document as a1, which was given before; expected each run once",
    );
    refused(&[one.clone(), two.clone()], slice::from_ref(two), "b1: the same document as a2");
    assert!(
        compared_runs(slice::from_ref(one), slice::from_ref(one)).is_ok(),
        "one of each side may be the same"
    );
    refused(
        &[one.clone(), maps([1.0])[0].clone()],
        slice::from_ref(two),
        "a1 is a document of iotoll watch (iotoll.watch/1) and a2 is ",
    );
    refused(&[], slice::from_ref(two), "BEFORE: 0 documents; expected 1 to 100");

    let text = one.to_string();
    let many = vec![(text.as_str(), "many"); RUNS_MAX + 1];
    let error = compare_runs(&[(&two.to_string(), "two")], &many).unwrap_err().to_string();
    assert_eq!(error, "AFTER: 101 documents; expected 1 to 100");
    // White space at the end makes no other run.
    let error = compare_runs(
        &[(&text, "a"), (&format!("{text}\n"), "b")],
        &[("{\"schema\": \"iotoll.watch/1\"}", "c")],
    );
    assert!(error.unwrap_err().to_string().starts_with("b: the same document as a"));
    let sheet = include_str!("../../toll/tests/sheets/x86-vtd-strict.json");
    let other = include_str!("../../toll/tests/sheets/x86-vtd-lazy.json");
    let error =
        compare_runs(&[(sheet, "strict.json")], &[(other, "lazy.json"), (&format!("{other} "), "again")]);
    assert!(error.unwrap_err().to_string().starts_with("again: the same document as lazy.json"));
    let third = sheet.replacen("x86", "x68", 1);
    let error = compare_runs(&[(sheet, "strict.json")], &[(other, "lazy.json"), (&third, "third.json")]);
    assert!(error.unwrap_err().to_string().starts_with("lazy.json: one of several toll sheets of a side"));
}

/// The disk's rows without the names of files.
fn figures(comparison: &Comparison) -> Vec<[Option<f64>; 5]> {
    let rows = disk(comparison).rows.iter();
    rows.map(|row| [row.before, row.after, row.ratio, row.ratio_low, row.ratio_high]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// From runs and from pooled rounds, also if these are joined.
    #[test]
    fn the_order_of_documents_does_not_matter(seed in 0_u64..1000, turned in 1_usize..4, number in 2_usize..5, seconds in 5_u32..40) {
        let documents = |from: u64| -> Vec<Value> {
            (0..number as u64).map(|place| watched(&STRICT, seconds + place as u32, from + place)).collect()
        };
        let (before, after) = (documents(seed), documents(seed + 100));
        let (mut other_before, mut other_after) = (before.clone(), after.clone());
        other_before.rotate_left(turned % number);
        other_after.reverse();
        let found = compared_runs(&before, &after).unwrap();
        let other = compared_runs(&other_before, &other_after).unwrap();
        prop_assert_eq!(&disk(&found).name, DISK);
        for (one, other) in figures(&found).into_iter().flatten().zip(figures(&other).into_iter().flatten()) {
            let is_same = match (one, other) {
                (Some(one), Some(other)) => (one - other).abs() <= 1e-12 * one.abs(),
                (one, other) => one == other,
            };
            prop_assert!(is_same, "{one:?} {other:?}");
        }
    }

    /// Turned round, the ratio is the inverse.
    #[test]
    fn the_sides_turned_round_give_the_inverse(before in proptest::collection::vec(50.0..80.0_f64, 3..7), after in proptest::collection::vec(50.0..80.0_f64, 3..7)) {
        let documents = |all: &[f64]| all.iter().map(|ns| map(&[("vtd-strict", *ns)])).collect::<Vec<_>>();
        let (before, after) = (documents(&before), documents(&after));
        let (found, turned) = (compared_runs(&before, &after), compared_runs(&after, &before));
        let (found, turned) = (found.unwrap(), turned.unwrap());
        let (found, turned) = (only_row(&found).interval().unwrap(), only_row(&turned).interval().unwrap());
        prop_assert!((found.ratio * turned.ratio - 1.0).abs() < 1e-9);
        prop_assert!((found.low * turned.high - 1.0).abs() < 1e-9 && (found.high * turned.low - 1.0).abs() < 1e-9);
    }
}
