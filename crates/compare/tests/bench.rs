//! Documents of `iotoll bench`, compared.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use compare::{GroupKind, Quantity, Side, Sign, Unit};
use serde_json::{Value, json};
use support::{compared, compared_texts};

fn summary(median: f64) -> Value {
    json!({"min": median, "lower_quartile": median, "median": median, "upper_quartile": median, "max": median})
}

fn document(schema: &str, body: Value) -> Value {
    let mut document = json!({
        "schema": schema, "made_by": "iotoll 0.1.0", "command": ["iotoll", "bench"], "date": "2026-11-01",
        "machine": {"cpu": "Made-up CPU", "cpus": 2, "architecture": "x86_64"}, "warnings": [], "settings": {"rounds": 9},
    });
    document.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    document
}

/// Two allocators with two threads on two CPUs: 100 pairs in each of these times.
fn iova(rounds: &[u64]) -> Value {
    let middle = rounds[rounds.len() / 2] as f64;
    let rounds: Vec<Value> =
        rounds.iter().map(|ns| json!({"pairs": 100, "wall_ns": ns * 50, "cpu_ns": ns * 100})).collect();
    let measured =
        json!({"ns_per_pair": summary(middle), "cpu_ns_per_pair": summary(middle), "rounds": rounds});
    let absent = json!({"contestant": "other", "absent": "no such CPU"});
    let entries = json!([{"contestant": "percpu", "measured": measured}, absent]);
    let case = json!({"scenario": "pairs", "threads": 2, "cpus": 8, "entries": entries});
    document("iotoll.bench/1", json!({"cases": [case]}))
}

#[test]
fn rounds_give_a_ratio_of_medians_with_an_interval() {
    let before = iova(&[98, 99, 100, 101, 102]);
    let found = compared(&before, &iova(&[48, 49, 50, 51, 52, 53])).unwrap();
    let [group] = &found.groups[..] else { panic!("{found:?}") };
    assert_eq!((group.kind, group.name.as_str()), (GroupKind::Case, "pairs, 2 threads"));
    let quantities: Vec<Quantity> = group.rows.iter().map(|row| row.quantity).collect();
    assert_eq!(quantities, [Quantity::NsPerPair, Quantity::CpuNsPerPair]);
    for row in &group.rows {
        assert_eq!((row.before, row.contestant.as_deref()), (Some(100.0), Some("percpu")));
        assert!((row.ratio.unwrap() - 0.505).abs() < 0.01 && row.sign == Some(Sign::Less), "{row:?}");
    }
    let same = compared(&before, &before).unwrap();
    assert!(same.groups[0].rows.iter().all(|row| row.ratio == Some(1.0) && row.sign.is_none()));
    let few = compared(&before, &iova(&[50, 51])).unwrap();
    let row = &few.groups[0].rows[0];
    assert_eq!((row.ratio, row.sign), (Some(0.51), None));
    assert!(row.reason.as_deref().unwrap().starts_with("too few rounds"));
}

#[test]
fn mappings_by_many_threads_are_compared_as_allocators_are() {
    let map = |rounds: &[u64]| {
        let mut document = iova(rounds);
        document["schema"] = "iotoll.bench-map-threads/1".into();
        document["cases"][0].as_object_mut().unwrap().remove("scenario");
        document
    };
    let found = compared(&map(&[98, 99, 100, 101, 102]), &map(&[48, 49, 50, 51, 52, 53])).unwrap();
    let [group] = &found.groups[..] else { panic!("{found:?}") };
    assert_eq!((group.kind, group.name.as_str()), (GroupKind::Case, "2 threads"));
    assert!(group.rows.iter().all(|row| row.sign == Some(Sign::Less)), "{group:?}");
}

#[test]
fn documents_without_rounds_are_compared_by_medians() {
    let map = |ns: f64| {
        let cells =
            json!([{"bytes": 4096, "ns_per_pair": summary(ns)}, {"bytes": 65536, "absent": "too large"}]);
        document("iotoll.bench-map/2", json!({"rows": [{"dma_path": "vtd-strict", "cells": cells}]}))
    };
    let memtype = |ns: f64| {
        let rows = json!([{"access": "load", "cells": [{"bytes": 4096, "ns_per_access": summary(ns)}]}]);
        document("iotoll.bench-memtype/1", json!({"areas": [{"name": "memory", "rows": rows}]}))
    };
    let blk = |rate: f64| {
        let cell =
            json!({"depth": 8, "reads_per_second": summary(rate), "reads_per_cpu_second": summary(rate)});
        document("iotoll.bench-blk/1", json!({"rows": [{"way": "pread", "cells": [cell]}]}))
    };
    for (before, after, case, rows) in [
        (map(100.0), map(150.0), "4096 bytes", 1),
        (memtype(100.0), memtype(150.0), "memory, 4096 bytes", 1),
        (blk(100.0), blk(150.0), "8 in flight", 2),
    ] {
        let found = compared(&before, &after).unwrap();
        assert_eq!((found.groups[0].name.as_str(), found.groups[0].rows.len()), (case, rows));
        for row in &found.groups[0].rows {
            assert_eq!((row.ratio, row.ratio_low, row.sign), (Some(1.5), None, None));
            assert!(row.reason.as_deref().unwrap().contains("no rounds"));
        }
    }
}

/// Documents of before writes were measured have no operation in their rows, and compare with new ones.
#[test]
fn reads_and_writes_of_a_disk_are_compared_each_with_its_own() {
    let row = |operation: &str, rate: f64| {
        let mut cell = json!({"depth": 8, "reads_per_second": null, "reads_per_cpu_second": null, "writes_per_second": null, "writes_per_cpu_second": null});
        for rate_of in ["second", "cpu_second"] {
            cell[format!("{operation}s_per_{rate_of}")] = summary(rate);
        }
        json!({"way": "io_uring", "operation": operation, "cells": [cell]})
    };
    let new = |reads: f64, writes: f64| {
        document("iotoll.bench-blk/1", json!({"rows": [row("read", reads), row("write", writes)]}))
    };
    let ratios = |before: &Value, after: &Value| -> Vec<(Quantity, Option<f64>)> {
        let found = compared(before, after).unwrap();
        found.groups[0].rows.iter().map(|row| (row.quantity, row.ratio)).collect()
    };
    let reads = [Quantity::ReadsPerSecond, Quantity::ReadsPerCpuSecond];
    let writes = [Quantity::WritesPerSecond, Quantity::WritesPerCpuSecond];
    let both = [reads.map(|of| (of, Some(1.5))), writes.map(|of| (of, Some(3.0)))].concat();
    assert_eq!(ratios(&new(100.0, 10.0), &new(150.0, 30.0)), both);
    let cell =
        json!({"depth": 8, "reads_per_second": summary(100.0), "reads_per_cpu_second": summary(100.0)});
    let old = document("iotoll.bench-blk/1", json!({"rows": [{"way": "io_uring", "cells": [cell]}]}));
    assert_eq!(ratios(&old, &new(150.0, 30.0)), both[..2]);
}

/// An area that is uncached after a change and was write-back before is slower, and the data were wrong before.
#[test]
fn transfers_are_compared_by_memory_whatever_its_type() {
    let transfer = |kind: &str, megabytes: f64, warnings: &[&str]| {
        let round = |place: u32| {
            let rate = megabytes * 1e6 * (1.0 + f64::from(place) / 1000.0);
            json!({"controller_writes": 1e9, "controller_reads": null, "cpu_stores": rate, "cpu_loads": rate})
        };
        let rounds: Vec<Value> = (0..9).map(round).collect();
        let memory = json!({"name": "memmap= at 0x10000000", "memory_type": kind, "rounds": rounds});
        let mut document = document("iotoll.bench-transfer/1", json!({"memories": [memory]}));
        document["warnings"] = warnings.into();
        document
    };
    let before = transfer("WB", 2000.0, &["data differed in memmap= at 0x10000000 (WB)"]);
    let found = compared(&before, &transfer("UC", 85.0, &[])).unwrap();
    let cases: Vec<&str> = found.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(cases, ["controller writes", "CPU loads", "CPU stores"]);
    let [writes, loads, _] = &found.groups[..] else { panic!("{found:?}") };
    assert_eq!((writes.rows[0].ratio, writes.rows[0].sign), (Some(1.0), None));
    assert_eq!(loads.rows[0].sign, Some(Sign::Less));
    assert!((loads.rows[0].ratio.unwrap() - 0.0425).abs() < 0.001, "{loads:?}");
    let kind =
        found.differences.iter().find(|one| one.what == "memory type of memmap= at 0x10000000").unwrap();
    assert_eq!((kind.before.as_deref(), kind.after.as_deref()), (Some("WB"), Some("UC")));
    assert!(found.doubts.iter().any(|doubt| doubt.words.starts_with("data differed")), "{:?}", found.doubts);
}

#[test]
fn other_machines_and_settings_are_told() {
    let before = iova(&[100; 5]);
    let mut after = before.clone();
    after["machine"]["cpu"] = "Another".into();
    after["settings"]["rounds"] = 5.into();
    after["cases"][0]["entries"][0]["contestant"] = "magazine".into();
    let found = compared(&before, &after).unwrap();
    let names: Vec<&str> = found.differences.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(names, ["CPU", "setting rounds"]);
    let doubts: Vec<&str> = found.doubts.iter().map(|one| one.words.as_str()).collect();
    assert!(
        doubts[0].starts_with("the CPUs differ") && doubts[1] == "2 figures are in this document alone",
        "{doubts:?}"
    );
    assert!(found.groups.is_empty());
}

#[test]
fn hostile_benchmarks_are_errors_with_their_place() {
    let good = iova(&[100; 5]);
    let refused = |document: &Value, words: &str| {
        let error = compared(document, &good).unwrap_err().to_string();
        assert!(error.starts_with("before.json:") && error.contains(words), "{error}");
    };
    let mut other = good.clone();
    other["cases"][0]["entries"][1] = good["cases"][0]["entries"][0].clone();
    refused(&other, "pairs, 2 threads, percpu: measured twice; expected each case once");
    let mut other = good.clone();
    other["cases"][0]["threads"] = "many".into();
    refused(&other, "expected u64; expected a document of iotoll bench iova");
    let mut other = good.clone();
    other["settings"] = Value::Null;
    refused(&other, "expected a map");
    let mut zero = good.clone();
    zero["cases"][0]["entries"][0]["measured"]["ns_per_pair"] = summary(0.0);
    for round in zero["cases"][0]["entries"][0]["measured"]["rounds"].as_array_mut().unwrap() {
        *round = json!({"pairs": 0, "wall_ns": 0, "cpu_ns": u64::MAX});
    }
    let found = compared(&zero, &good).unwrap();
    assert_eq!(found.groups[0].rows[0].ratio, None);
    assert!(compared_texts(&good.to_string()[..200], &good.to_string()).is_err());
}

/// A cell of `iotoll bench net`: a round trip of `ns` in each round, and CPU time of half of it on each host.
fn net(round_trips: &[u64]) -> Value {
    let middle = round_trips[round_trips.len() / 2] as f64;
    let usage = |ns: u64| {
        json!({"wall_ns": 1_000_000_000, "received_bytes": 0, "process_ns": ns * 250,
            "host": {"busy_ns": ns * 500, "interrupts_ns": ns * 100, "steal_ns": 0}})
    };
    let rounds: Vec<Value> = (round_trips.iter())
        .map(|ns| {
            json!({"seconds": 1.0, "transactions": 1000, "bytes": 64_000, "lost": 0, "round_trip_p50_ns": ns,
                "client": usage(*ns), "server": usage(*ns)})
        })
        .collect();
    let side =
        json!({"process_ns": summary(middle / 4.0), "host_ns": summary(middle / 2.0), "interrupts_ns": null});
    let cell = json!({"test": "udp-rr", "bytes": 64, "instances": 1, "transactions_per_second": summary(1000.0),
        "bytes_per_second": summary(64_000.0),
        "round_trip_p50_ns": summary(middle), "cpu": {"client": side, "server": side}, "rounds": rounds});
    document("iotoll.bench-net/1", json!({"cells": [cell]}))
}

#[test]
fn networks_are_compared_by_rate_round_trip_and_cpu_time_of_both_sides() {
    let before = net(&[980, 990, 1000, 1010, 1020]);
    let found = compared(&before, &net(&[480, 490, 500, 510, 520])).unwrap();
    let [group] = &found.groups[..] else { panic!("{found:?}") };
    assert_eq!(group.name, "udp-rr, 64 B, 1 instance");
    let rows: Vec<(&str, Quantity, Option<Sign>)> =
        group.rows.iter().map(|row| (row.contestant.as_deref().unwrap(), row.quantity, row.sign)).collect();
    let less = Some(Sign::Less);
    assert_eq!(
        rows,
        [
            ("", Quantity::TransactionsPerSecond, None),
            ("", Quantity::RoundTripNs, less),
            ("client", Quantity::ProcessCpuNs, less),
            ("client", Quantity::HostCpuNs, less),
            ("server", Quantity::ProcessCpuNs, less),
            ("server", Quantity::HostCpuNs, less),
        ]
    );
    let host = &group.rows[3];
    assert_eq!((host.before, host.after), (Some(500.0), Some(250.0)));
    assert!((host.ratio.unwrap() - 0.5).abs() < 0.01, "{host:?}");
    assert_eq!(host.unit, Unit::Transaction);
    let mut hostile = before.clone();
    for round in hostile["cells"][0]["rounds"].as_array_mut().unwrap() {
        round["seconds"] = 0.0.into();
        round["client"]["wall_ns"] = 0.into();
    }
    let found = compared(&hostile, &before).unwrap();
    assert!(found.groups[0].rows.iter().any(|row| row.reason.is_some()));
}

/// A stream has no transactions: its throughput is compared, and CPU time per message.
#[test]
fn streams_are_compared_by_throughput_and_messages() {
    let mut before = net(&[980, 990, 1000, 1010, 1020]);
    before["cells"][0]["test"] = "tcp-stream".into();
    before["cells"][0]["bytes"] = 8192.into();
    before["cells"][0]["round_trip_p50_ns"] = Value::Null;
    let mut after = before.clone();
    after["cells"][0]["bytes_per_second"] = summary(128_000.0);
    for round in after["cells"][0]["rounds"].as_array_mut().unwrap() {
        round["bytes"] = 128_000.into();
    }
    let found = compared(&before, &after).unwrap();
    let [group] = &found.groups[..] else { panic!("{found:?}") };
    assert_eq!(group.name, "tcp-stream, 8 KiB messages, 1 instance");
    let throughput = &group.rows[0];
    assert_eq!(throughput.quantity, Quantity::StreamBytesPerSecond);
    assert_eq!((throughput.before, throughput.after), (Some(64_000.0), Some(128_000.0)));
    assert_eq!(throughput.sign, Some(Sign::More));
    assert!(group.rows[1..].iter().all(|row| row.unit == Unit::Message), "{group:?}");
}

#[test]
fn what_both_documents_say_is_said_once() {
    let mut before = net(&[980, 990, 1000, 1010, 1020]);
    before["warnings"] = json!(["a debug build", "a busy machine"]);
    let mut after = before.clone();
    after["warnings"] = json!(["a debug build", "a busy machine at night", "a busy machine at night"]);
    let found = compared(&before, &after).unwrap();
    let doubts: Vec<(Option<Side>, &str)> =
        found.doubts.iter().map(|doubt| (doubt.side, doubt.words.as_str())).collect();
    let (before, after) = (Some(Side::Before), Some(Side::After));
    assert_eq!(
        doubts,
        [(None, "a debug build"), (before, "a busy machine"), (after, "a busy machine at night")]
    );
}
