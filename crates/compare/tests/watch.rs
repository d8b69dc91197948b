//! Documents of `iotoll watch`, compared.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use compare::{Cause, GroupKind, Quantity, Rate, Ratio, Round, Sign, Unit};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::Path;
use std::{env, fs};
use support::{BOUNCED, Cost, DISK, LAZY, STRICT, UNTRANSLATED, compared, disk, row, watched};
use toll::Stage;
use watch::Completed;

fn causes(comparison: &compare::Comparison) -> Vec<Cause> {
    disk(comparison).explanations.iter().map(|one| one.cause).collect()
}

#[test]
fn strict_to_lazy_is_cheaper_and_the_counts_say_why() {
    let found = compared(&watched(&STRICT, 12, 1), &watched(&LAZY, 12, 2)).unwrap();
    let kinds: Vec<GroupKind> = found.groups.iter().map(|group| group.kind).collect();
    assert_eq!(kinds, [GroupKind::AllAdapters, GroupKind::Adapter], "the timer is in one document alone");
    let cpu = row(disk(&found), Quantity::CpuNs);
    // 860 ns per request before, 431 after.
    assert!((cpu.ratio.unwrap() - 0.501).abs() < 0.02, "{cpu:?}");
    assert!(cpu.ratio_low.unwrap() < cpu.ratio.unwrap() && cpu.ratio.unwrap() < cpu.ratio_high.unwrap());
    assert_eq!((cpu.sign, cpu.unit, &cpu.reason), (Some(Sign::Less), Unit::Request, &None));
    assert_eq!(row(disk(&found), Quantity::Io).sign, Some(Sign::More));
    let maps = row(disk(&found), Quantity::Maps);
    assert_eq!((maps.ratio, maps.ratio_low, maps.sign), (Some(1.0), Some(1.0), None));
    let invalidations = row(disk(&found), Quantity::Invalidations);
    assert_eq!(
        (invalidations.before, invalidations.after, invalidations.ratio),
        (Some(1.0), Some(0.0), Some(0.0))
    );
    assert_eq!(causes(&found), [Cause::InvalidationsBatched]);
    let stages: Vec<Stage> = disk(&found).rows.iter().filter_map(|row| row.stage).collect();
    assert_eq!(stages.len(), 5);
    let doubts: Vec<&str> = found.doubts.iter().map(|doubt| doubt.words.as_str()).collect();
    assert_eq!(doubts, ["in this document alone: what works for no device"]);
}

#[test]
fn other_dma_paths_are_told_by_their_counts() {
    for (before, after, cause) in [
        (&LAZY, &STRICT, Cause::InvalidationsEach),
        (&STRICT, &UNTRANSLATED, Cause::TranslationEnded),
        (&UNTRANSLATED, &STRICT, Cause::TranslationBegan),
        (&BOUNCED, &UNTRANSLATED, Cause::BouncingEnded),
        (&UNTRANSLATED, &BOUNCED, Cause::BouncingBegan),
    ] {
        let found = compared(&watched(before, 9, 3), &watched(after, 9, 4)).unwrap();
        assert_eq!(causes(&found), [cause]);
    }
    let found = compared(&watched(&STRICT, 9, 3), &watched(&UNTRANSLATED, 9, 4)).unwrap();
    let begun = compared(&watched(&UNTRANSLATED, 9, 3), &watched(&STRICT, 9, 4)).unwrap();
    assert_eq!(row(disk(&found), Quantity::Iovas).ratio, Some(0.0));
    let iovas = row(disk(&begun), Quantity::Iovas);
    assert_eq!((iovas.ratio, iovas.reason.as_deref()), (None, Some("it was 0 before")));
}

#[test]
fn the_same_document_twice_has_no_sign() {
    let document = watched(&STRICT, 20, 5);
    let found = compared(&document, &document).unwrap();
    assert_eq!((found.groups.len(), &found.differences, &found.doubts), (1, &vec![], &vec![]));
    for row in &found.groups[0].rows {
        let is_1 = row.is_nothing() || row.ratio == Some(1.0);
        assert!(is_1 && row.sign.is_none(), "{row:?}");
    }
    assert!(found.groups[0].explanations.is_empty());
}

#[test]
fn few_intervals_give_a_ratio_without_interval() {
    let many = watched(&LAZY, 12, 6);
    for (seconds, reason) in [
        (1, "AFTER: one interval: no confidence interval"),
        (4, "AFTER: 4 intervals: a confidence interval needs 5"),
    ] {
        let found = compared(&many, &watched(&LAZY, seconds, 7)).unwrap();
        let cpu = row(disk(&found), Quantity::CpuNs);
        assert!(cpu.ratio.is_some() && cpu.ratio_low.is_none() && cpu.sign.is_none(), "{cpu:?}");
        assert_eq!(cpu.reason.as_deref(), Some(reason));
    }
}

#[test]
fn what_was_not_counted_has_no_ratio() {
    let counted = watched(&STRICT, 9, 8);
    let mut other = counted.clone();
    other["uncounted"] = "no rights".into();
    let found = compared(&counted, &other).unwrap();
    assert!(row(disk(&found), Quantity::Io).ratio.is_some());
    for quantity in [Quantity::CpuNs, Quantity::Maps, Quantity::Invalidations] {
        let row = row(disk(&found), quantity);
        assert_eq!((row.before, row.after, row.ratio), (None, None, None));
        assert_eq!(row.reason.as_deref(), Some("AFTER: not counted: no rights"));
    }
    assert!(found.doubts.iter().any(|doubt| doubt.words.contains("no rights")));

    // A function that could not be watched takes its action and stage along, and nothing else.
    let mut other = counted.clone();
    other["unwatched"] = json!([{"function": "qi_submit_sync", "why": "refused"}]);
    let found = compared(&other, &watched(&LAZY, 9, 8)).unwrap();
    let invalidations = row(disk(&found), Quantity::Invalidations);
    assert_eq!(
        invalidations.reason.as_deref(),
        Some("BEFORE: not counted: qi_submit_sync could not be watched")
    );
    assert!(row(disk(&found), Quantity::Maps).ratio.is_some() && causes(&found).is_empty());
    let stage = disk(&found).rows.iter().find(|row| row.stage == Some(Stage::Invalidation)).unwrap();
    assert_eq!(stage.ratio, None);
}

#[test]
fn lost_calls_widen_intervals_and_many_take_the_ratio() {
    let (before, after) = (watched(&STRICT, 9, 9), watched(&STRICT, 9, 10));
    let width = |lost: u64| {
        let mut before = before.clone();
        before["losses"]["interrupted"] = lost.into();
        let found = compared(&before, &after).unwrap();
        let cpu = row(disk(&found), Quantity::CpuNs);
        let told =
            found.doubts.iter().any(|doubt| doubt.words.contains("calls of the kernel's DMA functions"));
        assert_eq!(told, lost > 0);
        assert!(row(disk(&found), Quantity::Io).ratio.is_some(), "the kernel's own counter");
        cpu.ratio.map(|_| cpu.ratio_high.unwrap() - cpu.ratio_low.unwrap())
    };
    let (none, some) = (width(0).unwrap(), width(4000).unwrap());
    assert!(some > none + 0.0019, "{none} {some}");
    assert_eq!(width(400_000), None);
    assert_eq!(width(u64::MAX), None);
}

#[test]
fn intervals_that_do_not_add_up_give_none() {
    let before = watched(&STRICT, 9, 11);
    let mut after = before.clone();
    after["intervals"].as_array_mut().unwrap().pop();
    let found = compared(&before, &after).unwrap();
    let cpu = row(disk(&found), Quantity::CpuNs);
    assert_eq!(cpu.reason.as_deref(), Some("AFTER: intervals do not add up to the sum"));
    assert!(cpu.ratio.is_some() && cpu.sign.is_none());
}

/// A document of windows of a second, each of which stands for 20: the disk completed so many requests in each period.
fn part_time(cost: &Cost, periods: &[u64], seed: u64) -> Value {
    let mut document = watched(cost, periods.len() as u32, seed);
    let scaled = |value: &mut Value, times: f64| {
        *value = ((value.as_u64().unwrap() as f64 * times).round() as u64).into();
    };
    document["seconds"] = (20.0 * periods.len() as f64).into();
    for (interval, requests) in document["intervals"].as_array_mut().unwrap().iter_mut().zip(periods) {
        interval["stands_for_s"] = 20.0.into();
        interval["adapters"][0]["completed_in_period"]["block_requests"] = (*requests).into();
    }
    let disk = &mut document["adapters"][0];
    let all: u64 = periods.iter().sum();
    let factor = all as f64 / disk["completed"]["block_requests"].as_u64().unwrap() as f64;
    disk["completed"]["block_requests"] = all.into();
    for action in disk["actions"].as_array_mut().unwrap() {
        ["calls", "bytes"].into_iter().for_each(|name| scaled(&mut action[name], factor));
    }
    for stage in disk["stages"].as_array_mut().unwrap() {
        ["ns", "programs_ns"].into_iter().for_each(|name| scaled(&mut stage[name], factor));
    }
    document
}

/// The bursts of a load, by period of 20 seconds.
const BURSTS: [[u64; 6]; 2] =
    [[400_000, 100_000, 800_000, 400_000, 0, 450_000], [500_000, 450_000, 0, 0, 800_000, 400_000]];

#[test]
fn i_o_in_pauses_counts_and_costs_are_those_of_windows() {
    let [before, after] = BURSTS.map(|periods| part_time(&STRICT, &periods, periods[0]));
    let found = compared(&before, &after).unwrap();
    let io = row(disk(&found), Quantity::Io);
    assert_eq!((io.before, io.after), (Some(2_150_000.0 / 120.0), Some(2_150_000.0 / 120.0)));
    let rate = |periods: [u64; 6]| {
        let rounds = periods.map(|requests| Round { amount: requests as f64, units: 20.0 });
        Rate::of(&rounds).unwrap()
    };
    let ratio = Ratio::of(&rate(BURSTS[1]), &rate(BURSTS[0])).unwrap();
    assert!(ratio.low < 0.5 && ratio.high > 2.0, "{ratio:?}");
    assert_eq!((io.ratio_low, io.ratio_high), (Some(ratio.low), Some(ratio.high)));
    let maps = row(disk(&found), Quantity::Maps);
    assert_eq!((maps.before, maps.ratio_low, maps.ratio_high), (Some(1.0), Some(1.0), Some(1.0)), "{maps:?}");
    let cpu = row(disk(&found), Quantity::CpuNs);
    assert!((cpu.before.unwrap() / 860.0 - 1.0).abs() < 0.03, "{cpu:?}");
    assert!(cpu.ratio_low.unwrap() > 0.9 && cpu.ratio_high.unwrap() < 1.1, "{cpu:?}");

    let mut short = after.clone();
    short["intervals"].as_array_mut().unwrap().pop();
    let found = compared(&before, &short).unwrap();
    for quantity in [Quantity::Io, Quantity::CpuNs, Quantity::Maps] {
        let reason = row(disk(&found), quantity).reason.as_deref();
        assert_eq!(reason, Some("AFTER: intervals do not add up to the sum"), "{quantity:?}");
    }
}

/// Documents of old estimate I/O from windows.
#[test]
fn i_o_that_was_estimated_from_windows_has_no_interval() {
    let sums = [1, 2].map(|seed| {
        let of = |document: &Value| document["adapters"][0]["completed"]["block_requests"].as_u64().unwrap();
        20 * of(&watched(&STRICT, 6, seed))
    });
    let [before, after] = [1, 2].map(|seed| {
        let mut document = part_time(&STRICT, &[sums[seed as usize - 1], 0, 0, 0, 0, 0], seed);
        for interval in document["intervals"].as_array_mut().unwrap() {
            interval["adapters"][0].as_object_mut().unwrap().remove("completed_in_period");
        }
        document["adapters"][0].as_object_mut().unwrap().remove("completed_while_counted");
        document
    });
    let found = compared(&before, &after).unwrap();
    let io = row(disk(&found), Quantity::Io);
    assert!(io.ratio.is_some() && io.ratio_low.is_none(), "{io:?}");
    assert_eq!(io.reason.as_deref(), Some("BEFORE: I/O was counted in windows alone"));
    assert!(row(disk(&found), Quantity::CpuNs).ratio_low.is_some());
}

#[test]
fn where_no_window_met_i_o_its_cost_is_unknown() {
    let met = part_time(&STRICT, &BURSTS[0], 1);
    let mut unmet = part_time(&STRICT, &BURSTS[1], 2);
    unmet["adapters"][0]["completed_while_counted"] = serde_json::to_value(Completed::default()).unwrap();
    for interval in unmet["intervals"].as_array_mut().unwrap() {
        interval["adapters"][0]["completed"] = serde_json::to_value(Completed::default()).unwrap();
    }
    let found = compared(&met, &unmet).unwrap();
    assert!(row(disk(&found), Quantity::Io).ratio.is_some());
    for quantity in [Quantity::CpuNs, Quantity::Maps, Quantity::Invalidations] {
        let row = row(disk(&found), quantity);
        assert_eq!((row.after, row.ratio), (None, None));
        assert_eq!(row.reason.as_deref(), Some("AFTER: not counted: no window met I/O"));
    }
    assert!(causes(&found).is_empty());

    // It does not count among those whose cost is known.
    let mut both = met.clone();
    let mut other = both["adapters"][0].clone();
    other["adapter"] = "0000:00:04.0".into();
    other["completed_while_counted"] = serde_json::to_value(Completed::default()).unwrap();
    ["actions", "stages"].into_iter().for_each(|name| other[name] = json!([]));
    both["adapters"].as_array_mut().unwrap().push(other);
    let found = compared(&met, &both).unwrap();
    assert_eq!(found.groups[0].kind, GroupKind::AllAdapters);
    assert_eq!(row(&found.groups[0], Quantity::Io).ratio, Some(2.0));
    assert_eq!(row(&found.groups[0], Quantity::Maps).after, Some(1.0));
}

#[test]
fn heads_that_differ_are_told() {
    let before = watched(&STRICT, 9, 12);
    let mut after = before.clone();
    after["machine"]["kernel"] = "6.12.2".into();
    after["machine"]["cpus"] = 4.into();
    after["command"] = json!(["iotoll", "watch", "--json", "--seconds", "9"]);
    after["functions"] = json!(["dma_map_page_attrs", "iommu_map"]);
    let found = compared(&before, &after).unwrap();
    let names: Vec<&str> = found.differences.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(names, ["kernel", "number of CPUs", "command line", "functions watched in one alone"]);
    assert_eq!(found.differences[0].after.as_deref(), Some("6.12.2"));
    assert_eq!(found.differences[3].before.as_deref(), Some("qi_submit_sync"));
    assert!(found.doubts.iter().any(|doubt| doubt.side.is_none() && doubt.words.contains("CPUs differ")));
}

#[test]
fn requests_and_packets_are_compared_per_second() {
    let before = watched(&STRICT, 9, 13);
    let text = before.to_string().replace("block_requests", "x").replace("packets", "block_requests");
    let after: Value = serde_json::from_str(&text.replace("\"x\"", "\"packets\"")).unwrap();
    let found = compared(&before, &after).unwrap();
    assert!(disk(&found).row(Quantity::Io).is_none());
    let cpu = row(disk(&found), Quantity::CpuNs);
    assert_eq!((cpu.unit, cpu.ratio), (Unit::Second, Some(1.0)));
}

/// The documents that pages show.
#[test]
fn kept_documents_are_those_of_this_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    for (name, cost, seed) in [("strict", &STRICT, 21), ("lazy", &LAZY, 22)] {
        let file = folder.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&watched(cost, 12, seed)).unwrap() + "\n";
        if env::var_os("IOTOLL_UPDATE").is_some() {
            fs::write(&file, &text).unwrap();
        }
        assert!(
            fs::read_to_string(&file).unwrap_or_default() == text,
            "IOTOLL_UPDATE=1 makes {name}.json anew"
        );
    }
}

/// All counts and times of a document times a factor; what adapters completed stays.
fn scaled(document: &Value, factor: u64) -> Value {
    let mut scaled = document.clone();
    for adapter in scaled["adapters"].as_array_mut().unwrap() {
        scale(&mut adapter["actions"], factor);
        scale(&mut adapter["stages"], factor);
    }
    for interval in scaled["intervals"].as_array_mut().unwrap() {
        for activity in interval["adapters"].as_array_mut().unwrap() {
            scale(&mut activity["mapping"], factor);
        }
    }
    scaled
}

fn scale(value: &mut Value, factor: u64) {
    match value {
        Value::Number(number) => *value = number.as_u64().unwrap().checked_mul(factor).unwrap().into(),
        Value::Array(values) => values.iter_mut().for_each(|value| scale(value, factor)),
        Value::Object(fields) => fields.values_mut().for_each(|value| scale(value, factor)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_counts_times_a_factor_are_a_ratio_of_that(factor in 2_u64..1000, seed in 0_u64..1000, seconds in 5_u32..80) {
        let before = watched(&STRICT, seconds, seed);
        let found = compared(&before, &scaled(&before, factor)).unwrap();
        for row in &disk(&found).rows {
            let expected = if row.quantity == Quantity::Io { 1.0 } else { factor as f64 };
            prop_assert!(row.is_nothing() || (row.ratio.unwrap() / expected - 1.0).abs() < 1e-9, "{row:?}");
        }
        prop_assert_eq!(row(disk(&found), Quantity::CpuNs).sign, Some(Sign::More));
        prop_assert_eq!(&disk(&found).name, DISK);
    }
}

/// A guest with Debian's Linux 6.1, VT-d and an NVMe disk, in strict and in lazy mode. A nanosecond is an instruction.
#[test]
fn lazy_mode_of_a_real_kernel_is_told_by_its_counts() {
    let document = |text| serde_json::from_str::<Value>(text).unwrap();
    let strict = document(include_str!("documents/guest-strict.json"));
    let lazy = document(include_str!("documents/guest-lazy.json"));
    let found = compared(&strict, &lazy).unwrap();
    let disk = found.groups.iter().find(|group| group.name == "0000:00:05.0").unwrap();
    assert_eq!(row(disk, Quantity::Invalidations).ratio, Some(0.0));
    let [with, without] =
        [Quantity::CpuNs, Quantity::CpuWithoutWatchingNs].map(|of| row(disk, of).interval().unwrap());
    assert!(without.low > 0.7 && without.high < 0.8, "{without:?}");
    assert!(with.high < without.low, "watching makes it look like more: {with:?}");
    assert_eq!(row(disk, Quantity::Maps).ratio, Some(1.0));
}
