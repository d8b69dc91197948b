//! The page of a benchmark of mapping by many threads: time by number of threads, as tables and as the picture of Cascardo's talk.

use super::words;
use crate::page::drawing::{Drawing, Kind, Line, Plot};
use crate::page::fact::Fact;
use crate::page::quantity::{count, figure, grouped, per_io};
use crate::page::table::{Row, Table};
use crate::page::{Block, Page};
use bench::{MapCase, MapEntry, MapMeasured, MapThreads, PerPair};
use escape::terminal::plain;

/// The machine and the contestants, then times, ratios and events by number of threads.
pub fn map_threads(run: &MapThreads) -> Page {
    let (contestants, baseline) = (count(run.contestants.len(), "contestant"), plain(&run.baseline));
    let mut page =
        Page::titled(format!("Mapping and unmapping by threads: {contestants}, against {baseline}"));
    page.warnings(&run.head.warnings);
    page.facts(facts(run).iter().map(|(name, value)| Fact::known(name, value)), 9);
    page.push(Block::Drawing(map_threads_drawing(run)));
    page.heading("Contestants");
    let widest = run.contestants.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
    page.facts(run.contestants.iter().map(|one| Fact::known(&one.name, &one.what)), widest + 2);
    for (contestant, why) in not_measured(run) {
        page.bullet(format!("no {contestant}: {why}"));
    }
    page.heading("Seconds for a million pairs by each thread, as in Cascardo's talk of 2013");
    page.table(table(run, |case, measured| seconds(talk_seconds(case, measured))));
    page.heading(format!(
        "CPU nanoseconds per pair; in brackets the ratio to {baseline}, quartiles of the rounds"
    ));
    page.table(table(run, |_, measured| {
        let over = measured
            .over_baseline
            .map(|over| format!(" ({}-{})", figure(over.lower_quartile), figure(over.upper_quartile)));
        figure(measured.ns_per_pair.median) + &over.unwrap_or_default()
    }));
    page.prose(
        format!(
            "Elapsed time x CPUs in use / pairs: median of {} rounds. Each ratio is to {baseline} in the same round. On a machine \
             that is otherwise idle, a line that stays level waits for nobody. With tce+host and virtio-iommu, a busy CPU or more threads than \
             CPUs show how long the host's thread waits for a CPU: that is no price of a hypercall.",
            run.settings.rounds
        ),
        2,
    );
    if let Some(case) = run.cases.last() {
        page.heading(format!(
            "What a pair does besides executing instructions, with {}",
            words::threads(case.threads)
        ));
        page.table(events(case));
    }
    page
}

/// The picture of the talk: seconds for a million pairs by each thread, against the number of threads.
pub fn map_threads_drawing(run: &MapThreads) -> Drawing {
    let line = |(index, one): (usize, &bench::Named)| {
        let point = |case: &MapCase| {
            let measured = case.entries[index].measured.as_ref()?;
            Some((case.threads as f64, talk_seconds(case, measured)))
        };
        Line { name: plain(&one.name), points: run.cases.iter().filter_map(point).collect() }
    };
    let lines = run.contestants.iter().enumerate().map(line).filter(|line| !line.points.is_empty());
    Drawing(Kind::Plot(Plot {
        name: "Seconds for a million maps and unmaps by each thread, against the number of threads"
            .to_owned(),
        x_title: "threads".to_owned(),
        y_title: "s for a million pairs by each thread".to_owned(),
        lines: lines.collect(),
        mark: run.cases.first().map(|case| (case.cpus as f64, count(case.cpus, "CPU"))),
    }))
}

/// The time in which each thread makes a million pairs, all at once.
fn talk_seconds(case: &MapCase, measured: &MapMeasured) -> f64 {
    case.threads as f64 * 1e6 / measured.pairs_per_second.median
}

/// Seconds, of which those below 1 have three decimals.
fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{value:.3}") } else { figure(value) }
}

/// The machine and the settings, as names and values.
fn facts(run: &MapThreads) -> Vec<(&'static str, String)> {
    let settings = &run.settings;
    let length = match settings.pairs {
        Some(pairs) => format!("{} pairs, shared among the threads (at least one each)", grouped(pairs)),
        None => format!("about {} ms", settings.round_ms),
    };
    let pinned = if settings.pin { "pinned to a CPU each" } else { "not pinned" };
    let rounds = format!(
        "{} of {length} for each, taking turns; threads {pinned}; mappings of {}",
        settings.rounds, settings.bytes
    );
    let mut facts = words::machine(&run.head).to_vec();
    facts.extend([("rounds", rounds), words::made_by(&run.head)]);
    facts
}

/// A cell for each contestant and number of threads.
fn table(run: &MapThreads, cell: impl Fn(&MapCase, &MapMeasured) -> String) -> Table {
    let row = |(index, one): (usize, &bench::Named)| {
        let of_case = |case: &MapCase| {
            case.entries[index].measured.as_ref().map(|measured| cell(case, measured)).unwrap_or_default()
        };
        Row { name: plain(&one.name), ink: None, cells: run.cases.iter().map(of_case).collect() }
    };
    Table {
        names: "threads",
        wraps_names: false,
        titles: run.cases.iter().map(|case| case.threads.to_string()).collect(),
        rows: run.contestants.iter().enumerate().map(row).collect(),
    }
}

/// Events of a pair of each contestant.
fn events(case: &MapCase) -> Table {
    let row = |(entry, measured): (&MapEntry, &MapMeasured)| {
        let PerPair { allocations, table_entries, hypercalls, invalidations, .. } = measured.per_pair;
        let cells = [allocations, table_entries, hypercalls, invalidations].map(per_io).to_vec();
        Row { name: plain(&entry.contestant), ink: None, cells }
    };
    let measured = case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)));
    let titles = ["addresses", "table entries", "hypercalls", "invalidations"];
    Table {
        names: "contestant",
        wraps_names: false,
        titles: titles.map(str::to_owned).to_vec(),
        rows: measured.map(row).collect(),
    }
}

/// Contestants that were not measured, with the reason, each once.
fn not_measured(run: &MapThreads) -> Vec<(String, String)> {
    let of = |entry: &MapEntry| Some((plain(&entry.contestant), plain(entry.absent.as_ref()?)));
    let mut absent: Vec<_> = run.cases.iter().flat_map(|case| case.entries.iter().filter_map(of)).collect();
    absent.sort_unstable();
    absent.dedup();
    absent
}
