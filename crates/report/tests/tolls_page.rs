//! The page of all committed toll sheets, `docs/reference/tolls.md`, is made from the sheets.
//!
//! `IOTOLL_UPDATE=1 cargo test -p iotoll-report --test tolls_page` writes it anew.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/sheets.rs"]
mod sheets;

use sheets::sheets;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::{fs, path::Path};
use toll::{Estimate, Event, Stage, Toll, TollSheet, grouped, toll_over};

const HEAD: &str = "\
# What an I/O costs

Instructions per I/O of each workload on each preset: those of the stages of DMA mapping, by the mean, of those of the whole I/O, by the
boots' medians. ± is half of the 95 % interval over boots. In brackets, where there are any, events per I/O: hypercalls (h), IOTLB
invalidations (i), entries written to translation tables (e), and on x86 repetitions of string instructions (r), each of which clears or
copies 1 to 8 bytes and counts as no instruction of its own; they are means too, with ± where it is one percent or more.

What a DMA path costs are its stages of DMA mapping, its events and its repetitions. The rest of a network I/O differs from boot to boot: two
presets differ in the whole for certain only where `iotoll lab show` says so without a `?`.

This page is made from the sheets in `data/tolls` by `IOTOLL_UPDATE=1 cargo test -p iotoll-report --test tolls_page`, and the sheets by
`iotoll lab run --all -o data/tolls`. [How counts are made](../internals/lab.md) tells the method and its limits.
";

fn cell(toll: &Toll) -> String {
    let dma = Estimate::of(&toll.means_by_boot(Stage::is_dma)).unwrap();
    let whole = Estimate::of(&toll.medians_by_boot()).unwrap();
    let mut cell = format!("{} of {}", with_margin(dma), with_margin(whole));
    let marks = [
        (Event::Hypercalls, 'h'),
        (Event::Invalidations, 'i'),
        (Event::TableEntries, 'e'),
        (Event::StringIterations, 'r'),
    ];
    let events: Vec<String> = marks.iter().filter_map(|(event, mark)| times(toll, *event, *mark)).collect();
    if !events.is_empty() {
        write!(cell, " ({})", events.join(" ")).unwrap();
    }
    cell
}

/// `1,030 ±1`, and no margin that rounds to zero.
fn with_margin(estimate: Estimate) -> String {
    let whole = |value: f64| grouped(value.abs().round() as u64);
    let half = estimate.half_width().unwrap_or_default();
    let sign = if estimate.mean.round() < 0.0 { "-" } else { "" };
    let margin = if half.round() > 0.0 { format!(" ±{}", whole(half)) } else { String::new() };
    format!("{sign}{}{margin}", whole(estimate.mean))
}

/// Pairs of presets that must cost the same: without an IOMMU, and through one that passes addresses through.
const CONTROL: [(&str, &str); 2] =
    [("arm-no-iommu", "arm-smmu-identity"), ("x86-no-iommu", "x86-vtd-identity")];

/// What the control shows by workload.
fn control(sheets: &[TollSheet]) -> String {
    let sheet = |preset: &str| sheets.iter().find(|sheet| sheet.preset == preset).unwrap();
    let mut text = "\n## The control\n\nA preset whose IOMMU passes addresses through must cost what one without an IOMMU costs. \
        Instructions per I/O more; `?`: the sign is not certain.\n"
        .to_owned();
    for (none, identity) in CONTROL.map(|(none, identity)| (sheet(none), sheet(identity))) {
        write!(
            text,
            "\n| {} over {} | DMA stages | of an I/O | elsewhere |\n|---|---:|---:|---:|\n",
            identity.preset, none.preset
        )
        .unwrap();
        for toll in &identity.tolls {
            let Some(base) = none.toll(&toll.workload) else { continue };
            let more = toll_over(toll, base);
            let doubt = |more: Estimate| if more.may_be_chance() { "?" } else { "" };
            let percent = more.dma.mean / Estimate::of(&base.medians_by_boot()).unwrap().mean * 100.0;
            writeln!(
                text,
                "| {} | {}{} | {percent:.3} % | {}{} |",
                toll.workload,
                with_margin(more.dma),
                doubt(more.dma),
                with_margin(more.elsewhere),
                doubt(more.elsewhere)
            )
            .unwrap();
        }
    }
    text
}

/// `i1`, `e8.91±0.36`; `None` where nothing was counted.
fn times(toll: &Toll, event: Event, mark: char) -> Option<String> {
    let events = Estimate::of(&toll.events_by_boot(event)).filter(|events| events.mean > 0.0)?;
    let half = events.half_width().unwrap_or_default();
    let number = |value: f64| match value {
        value if value >= 100.0 => grouped(value.round() as u64),
        value if value < 0.1 => format!("{value:.3}"),
        value if (value - value.round()).abs() < 0.005 => format!("{}", value.round()),
        value => format!("{value:.2}"),
    };
    let margin = if half >= 0.01 * events.mean { format!("±{}", number(half)) } else { String::new() };
    Some(format!("{mark}{}{margin}", number(events.mean)))
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
    page + &control(&sheets) + &explanations(&sheets)
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
