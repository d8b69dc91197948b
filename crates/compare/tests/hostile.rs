//! Documents that are cut off, of wrong types, or made up to do harm: an error with its place, or a comparison; never a panic.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{LAZY, STRICT, compared, compared_runs, compared_texts, watched};

fn refused(before: &str, words: &str) {
    let good = watched(&STRICT, 6, 1).to_string();
    let error = compared_texts(before, &good).unwrap_err().to_string();
    assert!(
        error.starts_with("before.json:") && error.contains(words) && !error.contains('\n'),
        "{words}: {error}"
    );
    let turned = compared_texts(&good, before).unwrap_err().to_string();
    assert!(turned.starts_with("after.json:") && turned.contains(words), "{words}: {turned}");
}

#[test]
fn what_is_no_document_is_refused_with_its_place() {
    let good = watched(&STRICT, 6, 1).to_string();
    refused("", ":1:0: EOF while parsing a value; expected a JSON document of iotoll");
    refused(&good[..300], ":1:300: EOF while parsing");
    refused("[1]", ":1:");
    refused(
        "{}",
        "a JSON object without a field `schema`; expected one of iotoll.watch/1, iotoll.toll-sheet/",
    );
    refused("{\"schema\": 7}", "expected a string");
    refused(
        "{\"schema\": \"iotoll.watch/2\"}",
        "schema is `iotoll.watch/2`; expected one of iotoll.watch/1,",
    );
    refused("{\"schema\": \"iotoll.watch/1\", \"schema\": \"iotoll.bench/1\"}", "duplicate field `schema`");
    refused(
        "{\"schema\": \"iotoll.watch/1\"}",
        "missing field `made_by`; expected a document of iotoll watch",
    );
    refused(
        &format!("{{\"schema\": \"iotoll.watch/1\", \"x\": {}", "[".repeat(100_000)),
        "EOF while parsing a list",
    );
}

#[test]
fn wrong_fields_are_refused_with_their_place() {
    let good = watched(&LAZY, 6, 1);
    let changed = |pointer: &str, value: Value| {
        let mut document = good.clone();
        *document.pointer_mut(pointer).unwrap() = value;
        document.to_string()
    };
    refused(&changed("/seconds", json!("nan")), "expected f64");
    refused(&changed("/seconds", json!(-1.0)), "seconds: is -1; expected 0 to 1000000000");
    refused(&changed("/seconds", json!(1e300)), "expected 0 to 1000000000");
    refused(&good.to_string().replacen("\"seconds\":6.0", "\"seconds\":1e999", 1), "number out of range");
    refused(&good.to_string().replacen("\"seconds\":6.0", "\"seconds\":NaN", 1), ":1:");
    refused(&changed("/intervals/2/seconds", json!(-0.5)), "intervals[2].seconds: is -0.5");
    refused(&changed("/calls", json!(-1)), "expected u64");
    refused(&changed("/calls", json!(1e30)), "expected u64");
    refused(
        &changed("/adapters/1/adapter", good["adapters"][0]["adapter"].clone()),
        "adapters[1]: \"0000:3b:00.0\" again",
    );
    refused(&changed("/adapters/0/actions/1/action", json!("map")), "adapters[0].actions[1]: Map again");
    refused(&changed("/adapters/0/actions/1/action", json!("dance")), "unknown variant `dance`");
    refused(&changed("/adapters/0/stages/1/stage", json!("dma-map")), "adapters[0].stages[1]: DmaMap again");
    refused(&changed("/intervals/0/adapters/1/adapter", json!("0000:3b:00.0")), "intervals[0].adapters[1]");
    refused(
        &changed("/intervals/0/adapters/0/mapping/stages/1/stage", json!("dma-map")),
        "intervals[0].adapters[0].mapping.stages[1]",
    );
    let interval = json!({"end_s": 1.0, "seconds": 1.0, "adapters": []});
    refused(
        &changed("/intervals", vec![interval; 10_001].into()),
        "intervals: has 10001 entries; expected at most 10000",
    );
    refused(&changed("/functions", vec![json!("iommu_map"); 257].into()), "functions: has 257 entries");
    let adapter = |number: usize| {
        let mut adapter = good["adapters"][1].clone();
        adapter["adapter"] = number.to_string().into();
        adapter
    };
    refused(&changed("/adapters", (0..4097).map(adapter).collect()), "adapters: has 4097 entries");
}

#[test]
fn documents_of_different_kinds_are_refused_by_name() {
    let error =
        compared_texts(&watched(&STRICT, 6, 1).to_string(), "{\"schema\": \"iotoll.bench/1\"}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "before.json is a document of iotoll watch (iotoll.watch/1) and after.json is a document of iotoll bench iova \
         (iotoll.bench/1); expected documents of one kind"
    );
}

#[test]
fn the_largest_numbers_are_compared_without_a_panic() {
    let good = watched(&LAZY, 6, 1);
    let mut huge = good.clone();
    make_huge(&mut huge);
    let runs = |document: &Value| -> Vec<Value> {
        let of_day = |day: usize| {
            let mut run = document.clone();
            run["date"] = format!("2026-11-0{day}").into();
            run
        };
        (1..5).map(of_day).collect()
    };
    let (good_runs, huge_runs) = (runs(&good), runs(&huge));
    let mixed = [&good_runs[..2], &huge_runs[2..]].concat();
    for found in [
        compared(&good, &huge),
        compared(&huge, &good),
        compared(&huge, &huge),
        compared_runs(&good_runs, &huge_runs),
        compared_runs(&huge_runs, &good_runs),
        compared_runs(&mixed, &runs(&watched(&STRICT, 6, 1))),
        compared_runs(&huge_runs[..2], &good_runs),
    ] {
        let found = found.unwrap();
        let rows = found.groups.iter().flat_map(|group| &group.rows);
        for row in rows {
            let numbers = [row.before, row.after, row.ratio, row.ratio_low, row.ratio_high];
            assert!(numbers.iter().flatten().all(|number| number.is_finite()), "{row:?}");
        }
    }
}

/// All whole numbers at their limit.
fn make_huge(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_u64() => *value = u64::MAX.into(),
        Value::Array(values) => values.iter_mut().for_each(make_huge),
        Value::Object(fields) => fields.values_mut().for_each(make_huge),
        _ => {}
    }
}

#[test]
fn a_document_in_which_nothing_happened_is_compared() {
    let mut empty = watched(&STRICT, 6, 1);
    empty["seconds"] = 0.0.into();
    empty["adapters"] = json!([]);
    empty["intervals"] = json!([]);
    let found = compared(&empty, &empty).unwrap();
    assert!(found.groups[0].rows.iter().all(|row| row.ratio.is_none()));
    assert!(compared(&empty, &watched(&STRICT, 6, 1)).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A document that was cut or damaged anywhere is an error or a comparison.
    #[test]
    fn damaged_documents_do_no_harm(at in 0.0..1.0_f64, damage in "[-0-9e.\"{}\\[\\],a-z]{0,3}", cut in any::<bool>()) {
        let good = watched(&LAZY, 5, 1).to_string();
        let at = (at * good.len() as f64) as usize;
        let rest = if cut { "" } else { &good[(at + damage.len()).min(good.len())..] };
        let damaged = format!("{}{damage}{rest}", &good[..at]);
        let others: Vec<String> = (2..7).map(|seed| watched(&LAZY, 5, seed).to_string()).collect();
        let [one, two, three, four, five] = &others[..] else { panic!("five") };
        let before = [("one.json", one.as_str()), ("damaged.json", damaged.as_str()), ("two.json", two)];
        let after = [three, four, five].map(|text| (text.as_str(), "after.json"));
        let several = compare::compare_runs(&before.map(|(file, text)| (text, file)), &after);
        for error in [compared_texts(&damaged, &good).err(), several.err()].into_iter().flatten() {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
