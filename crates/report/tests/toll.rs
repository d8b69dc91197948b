//! Toll sheets as a terminal shows them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use report::{Length, Style};
use std::path::Path;
use toll::{Event, Limit, TollSheet, compare};
use unicode_width::UnicodeWidthStr;

const SHEETS: [&str; 3] = ["x86-vtd-strict", "x86-no-iommu", "x86-vtd-lazy"];

fn sheet(name: &str) -> TollSheet {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../toll/tests/sheets/{name}.json"));
    TollSheet::read(&std::fs::read_to_string(file).unwrap(), name).unwrap()
}

fn sheets() -> Vec<TollSheet> {
    SHEETS.into_iter().map(sheet).collect()
}

fn difference(a: &TollSheet, b: &TollSheet, limit: Limit, width: usize) -> String {
    report::text(&report::toll_difference(a, b, &compare(a, b, limit)), width, Style::Plain, Length::Folded)
}

#[test]
fn a_sheet_at_220_and_at_80_columns() {
    insta::assert_snapshot!(
        "sheet-220",
        report::text(&report::toll_sheet(&sheet("x86-vtd-lazy")), 220, Style::Plain, Length::Folded)
    );
    insta::assert_snapshot!(
        "sheet-80",
        report::text(&report::toll_sheet(&sheet("x86-vtd-lazy")), 80, Style::Plain, Length::Folded)
    );
}

#[test]
fn a_sheet_without_workloads_says_so() {
    let empty = TollSheet { tolls: Vec::new(), ..sheet("x86-no-iommu") };
    assert!(
        report::text(&report::toll_sheet(&empty), 100, Style::Plain, Length::Folded)
            .contains("It has no workload.")
    );
}

#[test]
fn a_workload_on_each_dma_path() {
    let shown =
        report::text(&report::toll_table(&sheets(), "nvme-read-4k"), 110, Style::Plain, Length::Folded);
    insta::assert_snapshot!("dma_paths", shown);
}

#[test]
fn without_an_untranslated_dma_path_the_toll_is_not_made_up() {
    let shown = report::text(
        &report::toll_table(&[sheet("x86-vtd-strict")], "nvme-read-4k"),
        110,
        Style::Plain,
        Length::Folded,
    );
    assert!(shown.contains("what translation costs is unknown"), "{shown}");
    assert!(!shown.contains('+'), "{shown}");
    let none =
        report::text(&report::toll_table(&sheets(), "nvme-write-4k"), 110, Style::Plain, Length::Folded);
    assert!(none.contains("No sheet has this workload."), "{none}");
}

#[test]
fn machines_and_kernels_are_kept_apart() {
    let mut other = sheet("x86-vtd-strict");
    other.kernel.release = "6.12.1".to_owned();
    let shown = report::text(
        &report::toll_table(&[sheets(), vec![other]].concat(), "udp-send-64"),
        110,
        Style::Plain,
        Length::Folded,
    );
    let (old, new) = shown.split_once("Linux 6.12.1").unwrap();
    assert!(old.contains("Linux 6.1.0-50-amd64") && old.contains("+761"), "{old}");
    assert!(new.contains("what translation costs is unknown"), "{new}");
}

#[test]
fn growth_names_the_responsible_stages_and_functions() {
    let (lazy, strict) = (sheet("x86-vtd-lazy"), sheet("x86-vtd-strict"));
    insta::assert_snapshot!("difference", difference(&lazy, &strict, Limit::default(), 100));
    let limit =
        Limit { instructions: "1000".parse().unwrap(), events: "1".parse().unwrap(), ..Limit::default() };
    insta::assert_snapshot!("within-limit", difference(&lazy, &strict, limit, 100));
}

#[test]
fn warns_of_sheets_that_can_not_be_compared() {
    let a = sheet("x86-vtd-lazy");
    let mut b = a.clone();
    b.tolls[1].workload = "udp-send-1400".to_owned();
    b.tolls[0].bytes_per_io = 512;
    b.tolls[0].events.remove(&Event::Invalidations);
    insta::assert_snapshot!("remarks", difference(&a, &b, Limit::default(), 100));
    assert!(difference(&a, &a, Limit::default(), 100).starts_with("No count differs in 2 workloads\n"));
}

#[test]
fn of_many_functions_the_largest_are_listed_and_the_rest_is_summed() {
    let (a, mut b) = (sheet("x86-vtd-lazy"), sheet("x86-vtd-lazy"));
    let toll = &mut b.tolls[0];
    for number in 1..=30 {
        toll.functions.insert(format!("f{number:02}"), number);
    }
    let shown = difference(&a, &b, Limit::default(), 100);
    assert!(shown.contains("f30") && shown.contains("f11") && !shown.contains("f10"), "{shown}");
    assert!(shown.contains("and 10 functions more, together +55; --json lists them"), "{shown}");
}

/// A sheet whose every text would steer a terminal or burst a table.
fn hostile() -> TollSheet {
    const HOSTILE: &str =
        "\u{1b}[31m\u{202e}網路\n_a_name_that_nobody_would_give_to_a_function_but_somebody_does";
    let mut sheet = sheet("x86-vtd-strict");
    let machine = &mut sheet.machine;
    for text in [&mut sheet.preset, &mut machine.arch, &mut machine.cpu, &mut sheet.kernel.release] {
        *text = HOSTILE.to_owned();
    }
    let toll = &mut sheet.tolls[0];
    for text in [&mut toll.workload, &mut toll.what, &mut toll.driver] {
        *text = HOSTILE.to_owned();
    }
    let count = toll.functions.remove("nvme_irq").unwrap();
    toll.functions.insert(HOSTILE.to_owned(), count + u64::MAX / 2);
    toll.instructions.max = u64::MAX;
    toll.instructions.p99 = u64::MAX;
    sheet
}

fn all_views(sheet: &TollSheet, width: usize) -> [String; 4] {
    let lazy = self::sheet("x86-vtd-lazy");
    let mut like = lazy.clone();
    like.tolls[0].workload.clone_from(&sheet.tolls[0].workload);
    [
        report::text(&report::toll_sheet(sheet), width, Style::Plain, Length::Folded),
        report::text(
            &report::toll_table(std::slice::from_ref(sheet), &sheet.tolls[0].workload),
            width,
            Style::Plain,
            Length::Folded,
        ),
        difference(&lazy, sheet, Limit::default(), width),
        difference(&like, sheet, Limit::default(), width),
    ]
}

#[test]
fn no_line_exceeds_the_width_or_controls_the_terminal() {
    for sheet in [sheet("x86-vtd-strict"), hostile()] {
        for width in 60..=240 {
            for line in all_views(&sheet, width).iter().flat_map(|view| view.lines()) {
                assert!(line.width() <= width, "{} columns, asked for {width}: {line}", line.width());
                assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line}");
            }
        }
    }
}

#[test]
fn colours_change_no_word() {
    let (lazy, strict) = (sheet("x86-vtd-lazy"), sheet("x86-vtd-strict"));
    let changes = compare(&lazy, &strict, Limit::default());
    let views = |style: Style| {
        [
            report::text(&report::toll_sheet(&strict), 100, style, Length::Folded),
            report::text(&report::toll_table(&sheets(), "nvme-read-4k"), 100, style, Length::Folded),
            report::text(&report::toll_difference(&lazy, &strict, &changes), 100, style, Length::Folded),
        ]
    };
    for (coloured, plain) in views(Style::Colour).iter().zip(views(Style::Plain)) {
        assert!(coloured.contains('\u{1b}'));
        assert_eq!(words(&without_escapes(coloured)), words(&plain));
    }
}

/// The table pads painted cells inside the paint: blanks at line ends may differ.
fn words(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).collect()
}

fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('m').unwrap().1)
}
