//! Toll sheets as a terminal shows them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use report::{Length, Style};
use std::path::Path;
use toll::{DmaPath, Event, Limit, Occurrence, PriceList, Stage, Tally, TollSheet, compare, toll_over};
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
    report::text(
        &report::toll_difference(a, b, &compare(a, b, limit), &[]),
        width,
        Style::Plain,
        Length::Folded,
    )
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

fn comparison(sheets: &[TollSheet], width: usize, style: Style) -> String {
    report::text(&report::toll_comparison(sheets, &[price_list()]), width, style, Length::Folded)
}

/// Prices that are easy to multiply with.
fn price_list() -> PriceList {
    const TEXT: &str = r#"
        platform = "an x86 made up"
        arch = "x86"
        applies_to = "nothing"
        instruction_ns = { value = 1, evidence = { kind = "assumed", why = "made up" } }
        event_ns.invalidations = { value = 1000, evidence = { kind = "assumed", why = "made up" } }
        event_ns.string-iterations = { value = 0.5, evidence = { kind = "assumed", why = "made up" } }
    "#;
    PriceList::read(TEXT, "made up").unwrap()
}

#[test]
fn workloads_on_each_dma_path() {
    insta::assert_snapshot!("dma_paths", comparison(&sheets(), 110, Style::Plain));
}

#[test]
fn without_its_base_the_toll_of_a_sheet_is_not_made_up() {
    let shown = comparison(&[sheet("x86-vtd-strict"), sheet("x86-vtd-lazy")], 200, Style::Plain);
    assert!(one_line(&shown).contains("what translation costs is unknown"), "{shown}");
    assert!(!shown.contains('+'), "{shown}");
}

#[test]
fn machines_and_kernels_are_kept_apart() {
    let mut other = sheet("x86-vtd-strict");
    other.kernel.release = "6.12.1".to_owned();
    let shown = comparison(&[sheets(), vec![other]].concat(), 200, Style::Plain);
    let (old, new) = shown.split_once("Linux 6.12.1").unwrap();
    assert!(old.contains("Linux 6.1.0-50-amd64") && old.contains("over x86-no-iommu"), "{old}");
    assert!(one_line(new).contains("what translation costs is unknown"), "{new}");
}

#[test]
fn a_second_untranslated_dma_path_is_the_control() {
    let mut identity = sheet("x86-no-iommu");
    (identity.preset, identity.base) = ("x86-vtd-identity".to_owned(), Some("x86-no-iommu".to_owned()));
    identity.dma_path = DmaPath::Identity;
    let boot = &mut identity.tolls[0].boots[0];
    *boot.stages.entry(Stage::Schedule).or_default() += 378 * boot.windows.len() as u64;
    let shown = one_line(&comparison(&[sheet("x86-no-iommu"), identity], 200, Style::Plain));
    // 378 instructions in one of two boots, of 18,904; Student's quantile for one degree of freedom is 12.7.
    let control = "control: two untranslated DMA paths differ by 0.0 % (nvme-read-4k of x86-vtd-identity) at most in the DMA \
                   stages, and by +1.0 % ±12.7 % (nvme-read-4k of x86-vtd-identity) in the whole I/O";
    assert!(shown.contains(control), "{shown}");
    assert!(!one_line(&comparison(&sheets(), 200, Style::Plain)).contains("control:"));
}

#[test]
fn repetitions_of_string_instructions_are_shown_and_priced() {
    let (mut none, mut bounce) = (sheet("x86-no-iommu"), sheet("x86-vtd-lazy"));
    none.tolls[0].events.insert(Event::StringIterations, Tally::default());
    for boot in &mut none.tolls[0].boots {
        boot.events.insert(Event::StringIterations, 0);
    }
    let toll = &mut bounce.tolls[0];
    let over = toll_over(toll, none.toll(&toll.workload).unwrap()).dma.mean;
    for boot in &mut toll.boots {
        boot.events.insert(Event::StringIterations, 8190 * boot.windows.len() as u64);
    }
    let (median, total) = (8190, 8190 * u64::from(toll.windows.get()));
    toll.events
        .insert(Event::StringIterations, Tally { all: Occurrence { median, total }, ..Tally::default() });
    let shown = comparison(&[none, bounce], 140, Style::Plain);
    let row = shown.lines().find(|line| line.contains("x86-vtd-lazy") && line.contains("8,190")).unwrap();
    // With 0.004 invalidations of 1000 ns.
    assert_eq!(over + 8190.0 * 0.5 + 4.0, 6089.0);
    assert!(row.ends_with("+6.09 µs"), "{row}");
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
        comparison(&[sheet.clone(), lazy.clone()], width, Style::Plain),
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
            comparison(&sheets(), 100, style),
            report::text(&report::toll_difference(&lazy, &strict, &changes, &[]), 100, style, Length::Folded),
        ]
    };
    for (coloured, plain) in views(Style::Colour).iter().zip(views(Style::Plain)) {
        assert!(coloured.contains('\u{1b}'));
        assert_eq!(words(&without_escapes(coloured)), words(&plain));
    }
}

/// The table pads painted cells inside the paint: blanks at line ends may differ.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn words(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).collect()
}

fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('m').unwrap().1)
}
