//! Two documents compared, as a terminal and a page show them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use compare::{Compared, Comparison, compare};
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
    found.doubts = vec![compare::Doubt { side: None, words: "a busy machine".to_owned() }];
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
