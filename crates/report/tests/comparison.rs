//! Documents compared, as a terminal and a page show them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use compare::{Compared, Comparison, compare, compare_runs};
use report::{Length, Style};
use std::path::Path;

/// Kept documents of `iotoll watch`, the second changed by a replacement of text.
fn comparison(before: &str, after: &str, (from, to): (&str, &str)) -> Comparison {
    let read = |name: &str| {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../compare/tests/documents/{name}.json"));
        std::fs::read_to_string(file).unwrap()
    };
    let (first, second) = (read(before), read(after));
    assert!(second.contains(from), "{from}");
    let second = second.replace(from, to);
    match compare((&first, "before.json"), (&second, "after.json")).unwrap() {
        Compared::Figures(comparison) => *comparison,
        Compared::Sheets(_) => panic!("not toll sheets"),
    }
}

fn text(comparison: &Comparison, width: usize) -> String {
    report::text(&report::comparison(comparison), width, Style::Plain, Length::Folded)
}

#[test]
fn strict_to_lazy() {
    let found = comparison("strict", "lazy", ("", ""));
    insta::assert_snapshot!("strict-to-lazy", text(&found, 100));
    insta::assert_snapshot!("strict-to-lazy-60", text(&found, 60));
}

#[test]
fn the_same_document_has_no_certain_difference() {
    let shown = text(&comparison("strict", "strict", ("", "")), 100);
    assert!(shown.starts_with("DMA mapping costs "), "{shown}");
    assert!(shown.lines().next().unwrap().ends_with("which may be no difference"), "{shown}");
    assert!(!shown.contains("went from"), "{shown}");
}

#[test]
fn what_was_not_counted_is_said() {
    let found = comparison("strict", "strict", ("\"uncounted\": null", "\"uncounted\": \"no rights\""));
    insta::assert_snapshot!("uncounted", text(&found, 100));
}

#[test]
fn what_a_document_holds_reaches_no_terminal_and_no_page_as_a_command() {
    let evil = "\\u001b[31m<script>alert(1)</script>\\u202e\\n- forged";
    for from in ["6.12.1", "Made-up CPU", "0000:3b:00.0", "2026-11-01", "qi_submit_sync", "iotoll 0.1.0"] {
        let mut found = comparison("strict", "strict", (from, evil));
        found.after.file = "\u{1b}[31m<script>.json".to_owned();
        let page = report::comparison(&found);
        let shown = report::text(&page, 100, Style::Plain, Length::Folded);
        assert!(!shown.contains(['\u{1b}', '\u{202e}']) && !shown.contains("\n- forged"), "{from}: {shown}");
        let html = report::html(&page, "iotoll · compare", "test");
        assert!(!html.contains("<script>") && !html.contains('\u{1b}'), "{from}");
    }
}

/// Streams are bits per second as in `iotoll bench net`; a warning of both documents names both.
#[test]
fn streams_and_warnings_of_both_are_in_words() {
    let mut found = comparison("strict", "strict", ("", ""));
    found.doubts = vec![compare::Doubt { side: None, files: Vec::new(), words: "a busy machine".to_owned() }];
    let row = &mut found.groups[0].rows[0];
    row.quantity = compare::Quantity::StreamBytesPerSecond;
    (row.before, row.after) = (Some(1.25e8), Some(2.5e8));
    let host = &mut found.groups[0].rows[1];
    (host.quantity, host.unit) = (compare::Quantity::HostCpuNs, compare::Unit::Message);
    let shown = text(&found, 100);
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "warning BEFORE and AFTER: a busy machine",
        "throughput 1.00 Gbit/s 2.00 Gbit/s",
        "CPU time of the whole host per message",
    ] {
        assert!(flat.contains(words), "{words}: {shown}");
    }
}

/// A text whose numbers of nanoseconds are all another by this factor, so that it is of another run.
fn with_ns(text: &str, factor: f64) -> String {
    let scaled = |line: &str| {
        let (name, number) = line.split_once("\"ns\": ")?;
        let (number, comma) = number.strip_suffix(',').map_or((number, ""), |number| (number, ","));
        Some(format!("{name}\"ns\": {}{comma}", (number.parse::<f64>().ok()? * factor) as u64))
    };
    text.lines().map(|line| scaled(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// Kept documents of both sides, each scaled by these factors.
fn runs(before: &[f64], after: &[f64], change: impl Fn(usize, String) -> String) -> Comparison {
    let read = |name: &str, factors: &[f64]| -> Vec<(String, String)> {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../compare/tests/documents/{name}.json"));
        let text = std::fs::read_to_string(file).unwrap();
        let run = |(place, factor): (usize, &f64)| {
            (change(place, with_ns(&text, *factor)), format!("{name}-{place}.json"))
        };
        factors.iter().enumerate().map(run).collect()
    };
    let (before, after) = (read("strict", before), read("lazy", after));
    compared(&before, &after)
}

/// Documents with the names of their files, compared.
fn compared(before: &[(String, String)], after: &[(String, String)]) -> Comparison {
    let before: Vec<(&str, &str)> =
        before.iter().map(|(text, file)| (text.as_str(), file.as_str())).collect();
    let after: Vec<(&str, &str)> = after.iter().map(|(text, file)| (text.as_str(), file.as_str())).collect();
    match compare_runs(&before, &after).unwrap() {
        Compared::Figures(comparison) => *comparison,
        Compared::Sheets(_) => panic!("not toll sheets"),
    }
}

#[test]
fn several_runs() {
    let found = runs(&[1.0, 1.06, 0.95], &[1.0, 0.93, 1.04, 1.01], |_, text| text);
    insta::assert_snapshot!("several-runs", text(&found, 100));
    let page = report::html(&report::comparison(&found), "iotoll · compare", "test");
    for words in ["strict-2.json", "lazy-3.json", "the mean of 3 runs", "and AFTER of 4"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("from run to run, from boot to boot"), "it is in these intervals");
}

/// The doubt comes first, a document that was not counted is named, and rows say how many documents have them.
#[test]
fn few_runs_and_partial_figures() {
    let change = |place, text: String| match place {
        1 => text.replace("\"uncounted\": null", "\"uncounted\": \"no rights\""),
        _ => text,
    };
    let found = runs(&[1.0, 9.0, 2.0], &[1.0, 9.0], change);
    insta::assert_snapshot!("few-runs", text(&found, 100));
}

/// Documents of `iotoll bench map` with three sizes.
fn map(ns: f64) -> String {
    let cell = |bytes: u32| {
        format!(
            "{{\"bytes\": {bytes}, \"ns_per_pair\": {{\"min\": {ns}, \"lower_quartile\": {ns}, \"median\": {ns}, \"upper_quartile\": {ns}, \
             \"max\": {ns}}}}}"
        )
    };
    let cells = [4096, 16384, 65536].map(cell).join(",");
    format!(
        "{{\"schema\": \"iotoll.bench-map/2\", \"made_by\": \"iotoll 0.1.0\", \"command\": [\"iotoll\", \"bench\", \"map\"], \
         \"date\": \"2026-11-01\", \"machine\": {{\"cpu\": \"Made-up CPU\", \"cpus\": 2, \"architecture\": \"x86_64\"}}, \
         \"warnings\": [], \"settings\": {{}}, \"rows\": [{{\"dma_path\": \"vtd-strict\", \"cells\": [{cells}]}}, \
         {{\"dma_path\": \"swiotlb\", \"cells\": [{cells}]}}]}}"
    )
}

fn compared_maps(before: &[f64], after: &[f64]) -> Comparison {
    let documents = |side: &[f64]| side.iter().map(|ns| (map(*ns), format!("{ns}.json"))).collect::<Vec<_>>();
    compared(&documents(before), &documents(after))
}

/// What is the same of all figures is said once, whatever the number of tables.
#[test]
fn documents_without_rounds_say_so_once() {
    let shown = text(&compared_maps(&[100.0], &[150.0]), 100);
    assert_eq!(shown.matches("have no rounds").count(), 1, "{shown}");
    assert!(shown.contains("- all figures: the documents have no rounds: no confidence interval"), "{shown}");
    let shown = text(&compared_maps(&[100.0, 101.0, 102.0], &[150.0, 149.0, 151.0]), 100);
    assert!(!shown.contains("have no rounds"), "{shown}");
    assert!(
        shown.starts_with("6 of 6 figures differ by more than their runs vary: 6 higher, 0 lower"),
        "{shown}"
    );
}

/// Neither document counted, and the adapter completed nothing: reasons, and no table of titles alone.
#[test]
fn what_nothing_was_counted_of_has_no_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compare/tests/documents/strict.json");
    let silent = std::fs::read_to_string(file).unwrap();
    let silent = silent.replace("\"uncounted\": null", "\"uncounted\": \"no rights\"");
    let idle: String = silent
        .lines()
        .map(|line| match line.split_once("\"block_requests\": ") {
            Some((name, _)) => format!("{name}\"block_requests\": 0,\n"),
            None => format!("{line}\n"),
        })
        .collect();
    let Compared::Figures(found) = compare((&idle, "before.json"), (&idle, "after.json")).unwrap() else {
        panic!("not toll sheets")
    };
    let shown = text(&found, 100);
    assert!(!shown.contains("95 % interval\n"), "{shown}");
    assert!(shown.contains("CPU time with watching, CPU time without watching, dma-map,"), "{shown}");
}
