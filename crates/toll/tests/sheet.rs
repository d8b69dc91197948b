//! Toll sheets as they are read: what is written comes back, and what is wrong is named.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{LAZY, NONE, STRICT, any_sheet, broken_sheet, sheet};
use toll::{DmaPath, Event, Flaw, Part, SheetError, Stage, TollSheet};

#[test]
fn a_sheet_is_read() {
    let strict = sheet(STRICT);
    assert_eq!(
        (strict.dma_path, strict.kernel.release.as_str()),
        (DmaPath::TranslatedStrict, "6.1.0-50-amd64")
    );
    let toll = strict.toll("nvme-read-4k").unwrap();
    assert_eq!(toll.stages[&Stage::Invalidation], 734);
    assert_eq!(toll.events[&Event::Invalidations].all.median, 1);
    assert_eq!(strict.toll("nvme-write-4k"), None);
    let batched = strict.toll("udp-send-64").unwrap();
    assert_eq!(batched.per_io(batched.instructions.median), batched.instructions.median as f64 / 16.0);
    assert_eq!(batched.mean_per_io(8000), 1.0);
}

proptest! {
    #[test]
    fn written_values_are_read_back(made in any_sheet()) {
        prop_assert_eq!(made.check(), Ok(()));
        let text = serde_json::to_string_pretty(&made).unwrap();
        prop_assert_eq!(TollSheet::read(&text, "made.json"), Ok(made));
    }

    #[test]
    fn no_text_is_a_panic(text in "\\PC{0,200}") {
        let error = TollSheet::read(&text, "noise.json").unwrap_err().to_string();
        prop_assert!(error.starts_with("noise.json:"), "{error}");
    }

    #[test]
    fn a_broken_sheet_is_refused_or_holds(text in broken_sheet()) {
        match TollSheet::read(&text, "broken.json") {
            Ok(sheet) => prop_assert_eq!(sheet.check(), Ok(())),
            Err(error) => prop_assert!(error.to_string().starts_with("broken.json:"), "{error}"),
        }
    }
}

/// The words with which a text is refused.
fn refused(text: &str) -> String {
    TollSheet::read(text, "tolls/x.json").unwrap_err().to_string()
}

#[test]
fn other_documents_are_refused_with_their_place() {
    let check = |text: &str, expect: &str| assert_eq!(refused(text), expect);
    check("", "tolls/x.json:1:0: not a toll sheet: EOF while parsing a value");
    check("{\n  \"schema\"\n}", "tolls/x.json:3:1: not a toll sheet: expected `:`");
    check(
        "{}",
        "tolls/x.json: a JSON object without a field `schema`; expected \"schema\": \"iotoll.toll-sheet/4\"",
    );
    check(
        "{\"schema\": \"iotoll.inspect/2\"}",
        "tolls/x.json: schema is `iotoll.inspect/2`; expected `iotoll.toll-sheet/4`",
    );
    check(
        "{\"schema\": \"iotoll.toll-sheet/4\"}",
        "tolls/x.json:1:33: not a toll sheet: missing field `made_by`",
    );
    check(
        "{\"schema\": 1}",
        "tolls/x.json:1:12: not a toll sheet: invalid type: integer `1`, expected a string",
    );
    let cut = &LAZY[..LAZY.len() / 2];
    assert!(refused(cut).contains("EOF while parsing"), "{}", refused(cut));
}

#[test]
fn fields_are_neither_unknown_nor_of_another_type() {
    let line = |needle: &str| LAZY.lines().position(|line| line.contains(needle)).unwrap() + 1;
    let check = |from: &str, to: &str, words: &str| {
        assert!(LAZY.contains(from), "{from}");
        let error = refused(&LAZY.replacen(from, to, 1));
        assert!(error.starts_with("tolls/x.json:") && error.contains(words), "{error}");
        error
    };
    let error = check("\"vcpus\": 1", "\"vcpus\": -1", "invalid value: integer `-1`, expected u32");
    assert!(error.starts_with(&format!("tolls/x.json:{}:", line("\"vcpus\""))), "{error}");
    check("\"repeats\"", "\"runs\"", "unknown field `runs`, expected one of `schema`");
    check("\"translated-lazy\"", "\"lazy\"", "unknown variant `lazy`, expected one of `no-iommu`");
    check("\"dma-map\"", "\"mapping\"", "unknown variant `mapping`, expected one of `user`");
    check("\"hypercalls\"", "\"traps\"", "unknown variant `traps`, expected one of `hypercalls`");
    check("\"windows\": 2000", "\"windows\": 0", "integer `0`, expected a nonzero u32");
    check("\"why\"", "\"reason\"", "unknown field `reason`, expected `why`");
    check("\"median\": 20894", "\"median\": 20894.5", "expected u64");
}

/// Where a field of the first toll's row is that has a name in its column: `row("stages", "stage", "user", "instructions")`.
fn row(table: &str, column: &str, name: &str, field: &str) -> String {
    let document: Value = serde_json::from_str(STRICT).unwrap();
    let rows = document["tolls"][0][table].as_array().unwrap();
    let at = rows.iter().position(|row| row[column] == name).unwrap();
    format!("/tolls/0/{table}/{at}/{field}")
}

/// A made-up sheet with one value of it replaced.
fn with(pointer: &str, value: Value) -> TollSheet {
    let mut document: Value = serde_json::from_str(STRICT).unwrap();
    *document.pointer_mut(pointer).unwrap() = value;
    serde_json::from_value(document).unwrap()
}

#[test]
fn contradictions_are_named_with_both_numbers() {
    let check = |pointer: &str, value: Value, expect: &str| {
        let flawed = with(pointer, value);
        assert_eq!(flawed.check().unwrap_err().to_string(), expect);
        let read = TollSheet::read(&serde_json::to_string(&flawed).unwrap(), "f.json").unwrap_err();
        assert_eq!(read.to_string(), format!("f.json: {expect}"));
    };
    let of = |words: &str| format!("preset x86-vtd-strict, workload nvme-read-4k: {words}");
    let expected = "expected the median window's 21613";
    check(
        "/tolls/0/kernel",
        json!(21590),
        &of(&format!("`user` and `kernel` add up to 21614 instructions; {expected}")),
    );
    check(
        &row("stages", "stage", "invalidation", "instructions"),
        json!(0),
        &of(&format!("`stages` add up to 20879 instructions; {expected}")),
    );
    check(
        &row("functions", "function", "nvme_irq", "instructions"),
        json!(411),
        &of(&format!("`functions` add up to 21614 instructions; {expected}")),
    );
    let windows = "by the windows of all boots";
    check(
        "/tolls/0/instructions/min",
        json!(1),
        &of(&format!("the smallest count is 1; expected 21601 {windows}")),
    );
    check(
        "/tolls/0/instructions/at_median",
        json!(0),
        &of(&format!("the number of windows at the median is 0; expected 1960 {windows}")),
    );
    check(
        "/tolls/0/windows",
        json!(2001),
        &of(&format!("the number of windows is 2001; expected 2000 {windows}")),
    );
    check(
        "/tolls/0/boots",
        json!([]),
        &of("counted in 0 boots; expected 2 as in `boots` of the sheet, at least 1"),
    );
    check(
        "/tolls/0/boots/1/stages",
        json!([]),
        "preset x86-vtd-strict, workload nvme-read-4k, boot 2: `stages` add up to 0 instructions; expected 21634340 as in `windows`",
    );
    check(
        "/tolls/0/boots/1/events",
        json!([]),
        &of("invalidations of all boots add up to 1000; expected the total of 2000"),
    );
    check(
        &row("events", "event", "doorbells", "total"),
        json!(4001),
        &of("doorbells of all boots add up to 4000; expected the total of 4001"),
    );
    check(
        "/boots/1/seed",
        json!(1),
        "preset x86-vtd-strict: two boots have the seed 1; expected another seed for each boot",
    );
    check(
        "/base",
        json!("x86-vtd-strict"),
        "preset x86-vtd-strict is its own base; expected the preset without translation, or none",
    );
    check(
        "/tolls/0/boots/1",
        json!({"windows": [], "stages": [], "events": []}),
        "preset x86-vtd-strict, workload nvme-read-4k, boot 2: no windows; expected at least 1",
    );
    check(
        &row("events", "event", "hypercalls", "median"),
        json!(1),
        &of("the median of its events is 1; expected at most 0, which is their total"),
    );
    check(
        "/tolls/1/workload",
        json!("nvme-read-4k"),
        "preset x86-vtd-strict: workload nvme-read-4k appears twice; expected once",
    );
    for date in ["2026-13-01", "31.1.2026", "2026-1-31", "2026-01-31-01", "2026-01-+1", ""] {
        let expect =
            format!("preset x86-vtd-strict: measured on `{date}`; expected a date such as 2024-12-31");
        check("/measured_on", json!(date), &expect);
    }
}

#[test]
fn a_name_has_one_row() {
    let mut document: Value = serde_json::from_str(STRICT).unwrap();
    let functions = document["tolls"][0]["functions"].as_array_mut().unwrap();
    functions.push(json!({"function": "nvme_irq", "instructions": 0}));
    let words = refused(&document.to_string());
    assert!(words.ends_with("two rows of `nvme_irq`; expected one"), "{words}");
}

#[test]
fn user_mode_is_counted_once() {
    let mut flawed = sheet(STRICT);
    let toll = &mut flawed.tolls[0];
    (toll.user, toll.kernel) = (toll.user + 1, toll.kernel - 1);
    let words = flawed.check().unwrap_err().to_string();
    assert!(words.ends_with("stage `user` has 24 instructions; expected 25 as in `user`"), "{words}");
}

#[test]
fn sums_beyond_64_bits_are_no_overflow() {
    let flawed = with(&row("functions", "function", "nvme_irq", "instructions"), json!(u64::MAX));
    let flaw = flawed.check().unwrap_err();
    let sum = u128::from(u64::MAX) + 21613 - 410;
    assert!(matches!(flaw, Flaw::Sum { part: Part::Function, sum: found, .. } if found == sum), "{flaw}");
}

#[test]
fn errors_can_be_distinguished() {
    let text = NONE.replace("toll-sheet/4", "toll-sheet/5");
    let expect = SheetError::Schema { file: "a".to_owned(), found: "iotoll.toll-sheet/5".to_owned() };
    assert_eq!(TollSheet::read(&text, "a"), Err(expect));
    let old = TollSheet::read(&NONE.replace("toll-sheet/4", "toll-sheet/3"), "a").unwrap_err().to_string();
    assert!(old.contains("make the sheet again with `iotoll lab run`"), "{old}");
}
