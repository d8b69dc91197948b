//! Benchmarks as tables and as a page, from made-up figures.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/made_up.rs"]
mod made_up;

use made_up::made_up;
use report::{Length, Style};

#[test]
fn on_a_terminal() {
    let shown = report::text(&report::benchmark(&made_up()), 100, Style::Plain, Length::Folded);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn on_a_page() {
    let page = report::benchmark_page(&made_up());
    assert!(page.contains("A CPU &lt;b&gt;") && !page.contains('\u{1b}'));
    // A line for each who was measured, a point for each number of threads.
    assert_eq!(page.matches("<path class=\"line line").count(), 4);
    assert_eq!(page.matches("<circle class=\"point").count(), 2 * 3 + 2);
    assert!(page.contains("FAILED 6.00 ±4 %"), "{page}");
    assert!(page.contains("No small: the space has too many pages."));
    assert!(page.contains("pages in caches: 128 16,384"), "drift is told round by round");
}
