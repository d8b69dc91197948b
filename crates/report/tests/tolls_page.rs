//! The page of all committed toll sheets, `docs/reference/tolls.md`, is made from the sheets.
//!
//! `IOTOLL_UPDATE=1 cargo test -p report --test tolls_page` writes it anew.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/sheets.rs"]
mod sheets;

use sheets::sheets;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::{fs, path::Path};
use toll::{Event, Toll, TollSheet, grouped};

const HEAD: &str = "\
# What an I/O costs

Instructions per I/O of each workload on each preset, medians. In brackets, where there are any, events per I/O: hypercalls (h), IOTLB
invalidations (i), and entries written to translation tables (e); ~ marks a mean where the median is 0. This page is made from the
sheets in `data/tolls` by `IOTOLL_UPDATE=1 cargo test -p report --test tolls_page`, and the sheets by `iotoll lab run --all -o data/tolls`.
[How counts are made](../internals/lab.md) tells the method and its limits.
";

fn cell(toll: &Toll) -> String {
    let mut cell = grouped(toll.per_io(toll.instructions.median).round() as u64);
    let marks = [(Event::Hypercalls, 'h'), (Event::Invalidations, 'i'), (Event::TableEntries, 'e')];
    let events: Vec<String> = marks.iter().filter_map(|(event, mark)| times(toll, *event, *mark)).collect();
    if !events.is_empty() {
        write!(cell, " ({})", events.join(" ")).unwrap();
    }
    cell
}

fn times(toll: &Toll, event: Event, mark: char) -> Option<String> {
    let all = toll.events.get(&event)?.all;
    let (median, mean) = (toll.per_io(all.median), toll.mean_per_io(all.total));
    match (median, mean) {
        (_, 0.0) => None,
        (0.0, mean) => Some(format!("{mark}~{mean:.2}")),
        (median, _) if median.fract() == 0.0 => Some(format!("{mark}{median}")),
        (median, _) => Some(format!("{mark}{median:.2}")),
    }
}

/// Pairs of sheets whose difference the page lists by function.
const EXPLAINED: &[(&str, &str)] = &[
    ("ppc-direct-window", "ppc-tce-window"),
    ("ppc-tce-window", "ppc-tce-window-single"),
    ("x86-no-iommu", "x86-vtd-identity"),
    ("x86-vtd-identity", "x86-vtd-lazy"),
    ("x86-vtd-lazy", "x86-vtd-strict"),
    ("arm-smmu-identity", "arm-smmu-lazy"),
    ("arm-smmu-lazy", "arm-smmu-strict"),
];
const EXPLAINED_WORKLOAD: &str = "nvme-read-4k";
/// Functions listed for each pair.
const NAMED: usize = 16;

/// The difference between two sheets' instructions by function, the largest first.
fn explanation(from: &Toll, to: &Toll) -> String {
    let names: BTreeSet<&String> = from.functions.keys().chain(to.functions.keys()).collect();
    let of = |toll: &Toll, name: &String| toll.functions.get(name).map_or(0, |count| *count as i64);
    let mut changes: Vec<(&String, i64)> = names
        .into_iter()
        .map(|name| (name, of(to, name) - of(from, name)))
        .filter(|change| change.1 != 0)
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.1.abs()));
    let named = changes.iter().take(NAMED).map(|(name, more)| format!("`{name}` {more:+}"));
    let others: i64 = changes.iter().skip(NAMED).map(|change| change.1).sum();
    let rest = changes.len().saturating_sub(NAMED);
    let whole: i64 = changes.iter().map(|change| change.1).sum();
    let medians = to.instructions.median as i64 - from.instructions.median as i64;
    assert_eq!(whole, medians, "functions add up to the difference of {}", from.workload);
    let named: Vec<String> = named.collect();
    format!("{}, {rest} others {others:+}", named.join(", "))
}

fn explanations(sheets: &[TollSheet]) -> String {
    let toll = |preset: &str| sheets.iter().find(|sheet| sheet.preset == preset)?.toll(EXPLAINED_WORKLOAD);
    let mut text = format!(
        "\n## Which functions make the difference\n\nInstructions of one `{EXPLAINED_WORKLOAD}`, function by function.\n\n| from | to | more | in |\n|---|---|---:|---|\n"
    );
    for (a, b) in EXPLAINED {
        let (from, to) = (toll(a).unwrap(), toll(b).unwrap());
        let more = to.instructions.median as i64 - from.instructions.median as i64;
        writeln!(text, "| {a} | {b} | {more:+} | {} |", explanation(from, to)).unwrap();
    }
    text
}

fn page() -> String {
    let sheets = sheets();
    let mut platforms: BTreeMap<String, Vec<&TollSheet>> = BTreeMap::new();
    for sheet in &sheets {
        let platform = format!("{}, Linux {}", sheet.machine.arch, sheet.kernel.release);
        platforms.entry(platform).or_default().push(sheet);
    }
    let mut page = HEAD.to_owned();
    for (platform, sheets) in &platforms {
        write!(page, "\n## {platform}\n\n| workload |").unwrap();
        sheets.iter().for_each(|sheet| write!(page, " {} |", sheet.preset).unwrap());
        writeln!(page, "\n|---|{}", "---:|".repeat(sheets.len())).unwrap();
        let workloads: BTreeSet<&str> =
            sheets.iter().flat_map(|sheet| &sheet.tolls).map(|toll| toll.workload.as_str()).collect();
        for workload in workloads {
            let cells = sheets.iter().map(|sheet| sheet.toll(workload).map(cell).unwrap_or_default());
            writeln!(page, "| {workload} | {} |", cells.collect::<Vec<_>>().join(" | ")).unwrap();
        }
    }
    page + &explanations(&sheets)
}

#[test]
fn the_page_of_tolls_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tolls.md");
    let page = page();
    if std::env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == page,
        "docs/reference/tolls.md is stale; see the head of this test"
    );
}
