//! Documents compared, one or several of each side: the verdict first, then what else differs, then a table for each adapter or case.

use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::quantity::{bytes, count, figure, grouped, per_io, time};
use crate::page::shorten::shorten;
use crate::page::table::{Row as TableRow, Table};
use compare::{
    Cause, Comparison, Difference, Doubt, Explanation, Group, GroupKind, Quantity, RUNS_MIN, Ratio, Row,
    Sample, Side, Sign, Source, Unit,
};
use escape::terminal::plain;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Longer texts from documents are cut.
const TEXT_WIDTH_MAX: usize = 400;
/// More documents than this are counted, and not named.
const FILES_MAX: usize = 3;
/// Ratios with three decimals, since it is there that they decide.
const NEAR_1: Range<f64> = 0.9..1.1;
const TITLES: [&str; 4] = ["BEFORE", "AFTER", "ratio", "95 % interval"];

/// The page of a comparison of documents of `iotoll watch` or `iotoll bench`.
pub fn comparison(comparison: &Comparison) -> Page {
    let mut page = Page::titled(verdict(comparison));
    let doubts: Vec<String> = comparison.doubts.iter().map(doubt).collect();
    page.warnings(&doubts);
    for (side, sources) in [(Side::Before, &comparison.runs.before), (Side::After, &comparison.runs.after)] {
        let fact = |source| Fact::known(side.word(), &shorten(&source_words(source), TEXT_WIDTH_MAX));
        page.facts(sources.iter().map(fact), 8);
    }
    for difference in &comparison.differences {
        page.bullet(difference_words(difference));
    }
    let notes = Notes::of(comparison);
    for group in &comparison.groups {
        add_group(&mut page, group, &notes);
    }
    notes.common.iter().for_each(|note| page.bullet(note.clone()));
    page.remark(legend(comparison));
    page
}

/// A doubt, with the documents it is about.
fn doubt(doubt: &Doubt) -> String {
    let side = doubt.side.map_or("BEFORE and AFTER", Side::word);
    let files: Vec<String> = doubt.files.iter().map(|file| plain(file)).collect();
    let files = match files.len() {
        0 => String::new(),
        1..=FILES_MAX => format!(", {}", files.join(", ")),
        number => format!(", {number} documents"),
    };
    shorten(&format!("{side}{files}: {}", plain(&doubt.words)), TEXT_WIDTH_MAX)
}

/// Where a document comes from.
fn source_words(source: &Source) -> String {
    let Source { file, date, machine, seconds, intervals, .. } = source;
    let unknown = || "unknown".to_owned();
    let kernel = machine.kernel.clone().unwrap_or_else(unknown);
    let cpu = machine.cpu.clone().unwrap_or_else(unknown);
    let mut words = vec![file.clone(), date.clone(), format!("Linux {kernel}"), cpu];
    words.extend(seconds.map(|seconds| format!("{} s", figure(seconds))));
    words.extend(intervals.map(|number| count(number, "interval")));
    words.join(" · ")
}

fn difference_words(difference: &Difference) -> String {
    let Difference { what, before, after } = difference;
    let value = |value: &Option<String>| match value {
        Some(value) => shorten(&plain(value), TEXT_WIDTH_MAX),
        None => "none".to_owned(),
    };
    format!("{}: {} before, {} after", plain(what), value(before), value(after))
}

/// What the comparison found, in one line.
fn verdict(comparison: &Comparison) -> String {
    match comparison.groups.first() {
        None => "The documents have nothing in common that can be compared".to_owned(),
        Some(group) if group.kind == GroupKind::Case => verdict_of_cases(comparison),
        Some(group) => verdict_of_group(group),
    }
}

/// What all adapters, or the only one, cost.
fn verdict_of_group(group: &Group) -> String {
    let without = group.row(Quantity::CpuWithoutWatchingNs).filter(|row| row.interval().is_some());
    let cost = without.or_else(|| group.row(Quantity::CpuNs)).map(cost_words);
    let throughput = group.row(Quantity::Io).and_then(throughput_words);
    let both: Vec<String> = cost.into_iter().chain(throughput).collect();
    both.join("; ")
}

/// `DMA mapping costs 0.62 to 0.66 times as much CPU time per request`.
fn cost_words(row: &Row) -> String {
    let watching = if row.quantity == Quantity::CpuNs { ", with what watching added" } else { "" };
    let per = format!("CPU time per {}{watching}", row.unit.word());
    match (row.interval(), row.sign, row.ratio) {
        (Some(_), Some(_), _) => format!("DMA mapping costs {} times as much {per}", interval_words(row)),
        (Some(_), None, _) => {
            format!(
                "DMA mapping costs {} times as much {per}, which may be no difference",
                interval_words(row)
            )
        }
        (None, _, Some(ratio)) => {
            let reason = row.reason.as_deref().map(plain).unwrap_or_default();
            format!("DMA mapping costs {} times as much {per} ({reason})", ratio_words(ratio))
        }
        (None, _, None) if row.is_nothing() => "DMA mapping took no CPU time in any document".to_owned(),
        (None, _, None) if row.before.is_none() || row.after.is_none() => {
            "What DMA mapping costs can't be compared, since a document did not count it".to_owned()
        }
        (None, _, None) => {
            let reason = row.reason.as_deref().map(plain).unwrap_or_default();
            format!("What DMA mapping costs has no ratio ({reason})")
        }
    }
}

/// `1.10 to 1.14 times as many I/Os per second`, if the interval does not contain 1.
fn throughput_words(row: &Row) -> Option<String> {
    row.sign?;
    Some(format!("{} times as many I/Os per second", interval_words(row)))
}

/// In how many figures a benchmark changed.
fn verdict_of_cases(comparison: &Comparison) -> String {
    let rows = || comparison.groups.iter().flat_map(|group| &group.rows);
    let vary = match comparison.sample() {
        Sample::Runs => "runs",
        Sample::Rounds => "rounds",
    };
    let signs = |sign| rows().filter(|row| row.sign == Some(sign)).count();
    let all = count(rows().count(), "figure");
    let (more, less) = (signs(Sign::More), signs(Sign::Less));
    let is = |value: Option<f64>, is_zero: bool| value.is_some_and(|value| (value == 0.0) == is_zero);
    let fell = match rows().filter(|row| is(row.before, false) && is(row.after, true)).count() {
        0 => String::new(),
        number => format!("; {} fell to 0", count(number, "figure")),
    };
    match rows().any(|row| row.interval().is_some()) {
        true => format!(
            "{} of {all} differ by more than their {vary} vary: {} higher, {} lower{fell}",
            grouped((more + less) as u64),
            grouped(more as u64),
            grouped(less as u64)
        ),
        false => format!("{all} compared by medians, without confidence intervals{fell}"),
    }
}

/// A group's name, what the counts say why, and its table.
fn add_group(page: &mut Page, group: &Group, notes: &Notes) {
    page.heading(match (group.kind, group.name.as_str()) {
        (GroupKind::AllAdapters, _) => "All adapters".to_owned(),
        (GroupKind::Adapter, "") => "No device".to_owned(),
        (_, name) => shorten(&plain(name), TEXT_WIDTH_MAX),
    });
    for explanation in &group.explanations {
        page.bullet(explanation_words(explanation));
    }
    let shown: Vec<&Row> = shown(group).collect();
    if shown.is_empty() {
        page.prose("Nothing was counted in any document.", 2);
        return;
    }
    let names = match group.rows.last().map(|row| row.unit) {
        Some(Unit::Request) => "per request",
        Some(Unit::Packet) => "per packet",
        Some(Unit::Io) => "per I/O",
        Some(Unit::Second) => "per second",
        _ => "median",
    };
    let titles = TITLES.map(str::to_owned).to_vec();
    let counted = shown.iter().filter(|row| row.before.is_some() || row.after.is_some());
    let rows: Vec<TableRow> = counted.map(|row| table_row(row)).collect();
    if !rows.is_empty() {
        page.table(Table { names, wraps_names: false, titles, rows });
    }
    notes.add(page, &shown);
}

/// The rows that say something.
fn shown(group: &Group) -> impl Iterator<Item = &Row> {
    group.rows.iter().filter(|row| !row.is_nothing())
}

fn table_row(row: &Row) -> TableRow {
    let value =
        |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| value_words(row.quantity, value));
    // Counts that are the same in each round have an interval without width, which leaves nothing open.
    let is_open = |interval: Ratio| row.sign.is_none() && interval.low < interval.high;
    let interval = row.interval().map(|interval| {
        let doubt = if is_open(interval) { " ?" } else { "" };
        format!("{}{doubt}", interval_words(row))
    });
    TableRow {
        name: row_name(row),
        ink: row.sign.map(|_| Ink::Strong),
        cells: vec![
            value(row.before),
            value(row.after),
            row.ratio.map(ratio_words).unwrap_or_default(),
            interval.unwrap_or_default(),
        ],
    }
}

/// What is to be said of rows: why they have no ratio or no interval, and how many documents have them.
struct Notes {
    /// How many documents each side has.
    documents: [usize; 2],
    /// What is said of rows of several groups: once, below all tables.
    said_of_several: BTreeSet<String>,
    /// The same with the rows' names.
    common: Vec<String>,
}

impl Notes {
    fn of(comparison: &Comparison) -> Self {
        let documents = [comparison.runs.before.len(), comparison.runs.after.len()];
        let groups: Vec<Vec<&Row>> = comparison.groups.iter().map(|group| shown(group).collect()).collect();
        let by_group: Vec<_> = groups.iter().map(|rows| names_by_note(documents, rows)).collect();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        by_group.iter().flatten().for_each(|(note, _)| *numbers.entry(note).or_default() += 1);
        let several = numbers.into_iter().filter(|(_, number)| *number > 1);
        let said_of_several: BTreeSet<String> = several.map(|(note, _)| note.to_owned()).collect();
        let all: Vec<&Row> = groups.concat();
        let names = names_by_note(documents, &all).into_iter();
        let common = names.filter(|(note, _)| said_of_several.contains(note));
        let common = common.map(|(note, names)| note_words(&note, &names, all.len())).collect();
        Self { documents, said_of_several, common }
    }

    /// Adds what is said of rows of this group alone.
    fn add(&self, page: &mut Page, rows: &[&Row]) {
        for (note, names) in names_by_note(self.documents, rows) {
            if !self.said_of_several.contains(&note) {
                page.bullet(note_words(&note, &names, 0));
            }
        }
    }
}

/// Each note with the names of the rows it is about, which come once for each row.
fn names_by_note(documents: [usize; 2], rows: &[&Row]) -> Vec<(String, Vec<String>)> {
    let mut notes: Vec<(String, Vec<String>)> = Vec::new();
    let mut places = BTreeMap::new();
    for row in rows {
        for note in row.reason.clone().into_iter().chain(documents_words(documents, row)) {
            let place = *places.entry(note.clone()).or_insert_with(|| {
                notes.push((note, Vec::new()));
                notes.len() - 1
            });
            notes[place].1.push(row_name(row).trim().to_owned());
        }
    }
    notes
}

/// `CPU time, maps: REASON`. Where the note is about all figures of the page, it names none.
fn note_words(note: &str, names: &[String], all: usize) -> String {
    let mut seen = BTreeSet::new();
    let once: Vec<&str> = names.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect();
    let names = if names.len() == all { "all figures".to_owned() } else { once.join(", ") };
    format!("{names}: {}", shorten(&plain(note), TEXT_WIDTH_MAX))
}

/// `BEFORE 3 of 4 documents have it`, where a side has documents without the figure.
fn documents_words(documents: [usize; 2], row: &Row) -> Option<String> {
    let sides = [(Side::Before, row.runs_before, documents[0]), (Side::After, row.runs_after, documents[1])];
    // Without any, the row's reason says why.
    let is_part = |(_, have, all): &(Side, usize, usize)| (1..*all).contains(have);
    let words = |(side, have, all): (Side, usize, usize)| {
        let have_it = if have == 1 { "has it" } else { "have it" };
        format!("{have} of {all} documents {} {have_it}", side.word())
    };
    let words: Vec<String> = sides.into_iter().filter(is_part).map(words).collect();
    (!words.is_empty()).then(|| format!("{}, and the figure is of these", words.join(", ")))
}

/// What a row is called.
fn row_name(row: &Row) -> String {
    if let Some(stage) = row.stage {
        return format!("  {}", stage.word());
    }
    let contestant = row.contestant.as_deref().map(plain).unwrap_or_default();
    let quantity = match row.quantity {
        Quantity::Io => "I/O per second",
        Quantity::CpuNs => "CPU time with watching",
        Quantity::CpuWithoutWatchingNs => "CPU time without watching",
        Quantity::Maps => "maps",
        Quantity::Unmaps => "unmaps",
        Quantity::Iovas => "IOVAs",
        Quantity::TableWrites => "table writes",
        Quantity::Invalidations => "invalidations",
        Quantity::BouncedBytes => "bounced bytes",
        Quantity::NsPerPair => "elapsed",
        Quantity::CpuNsPerPair => "CPU time",
        Quantity::NsPerAccess => "access",
        Quantity::ReadsPerSecond => "reads per second",
        Quantity::ReadsPerCpuSecond => "reads per CPU second",
        Quantity::WritesPerSecond => "writes per second",
        Quantity::WritesPerCpuSecond => "writes per CPU second",
        Quantity::TransactionsPerSecond => "transactions per second",
        Quantity::StreamBytesPerSecond | Quantity::TransferBytesPerSecond => "throughput",
        Quantity::RoundTripNs => "round trip",
        Quantity::ProcessCpuNs => &format!("CPU time of iotoll per {}", row.unit.word()),
        Quantity::HostCpuNs => &format!("CPU time of the whole host per {}", row.unit.word()),
        Quantity::InterruptsCpuNs => "of which interrupts",
    };
    if contestant.is_empty() { quantity.to_owned() } else { format!("{contestant}, {quantity}") }
}

fn value_words(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::CpuNs
        | Quantity::CpuWithoutWatchingNs
        | Quantity::NsPerPair
        | Quantity::CpuNsPerPair
        | Quantity::NsPerAccess
        | Quantity::RoundTripNs
        | Quantity::ProcessCpuNs
        | Quantity::HostCpuNs
        | Quantity::InterruptsCpuNs => time(value),
        Quantity::BouncedBytes => bytes(value as u64),
        Quantity::TransferBytesPerSecond => format!("{} MB/s", figure(value / 1e6)),
        Quantity::StreamBytesPerSecond => format!("{} Gbit/s", figure(value * 8.0 / 1e9)),
        Quantity::Io
        | Quantity::ReadsPerSecond
        | Quantity::ReadsPerCpuSecond
        | Quantity::WritesPerSecond
        | Quantity::WritesPerCpuSecond
        | Quantity::TransactionsPerSecond => grouped(value.round() as u64),
        _ => per_io(value),
    }
}

/// A ratio; near 1 with three decimals.
fn ratio_words(ratio: f64) -> String {
    match ratio {
        _ if NEAR_1.contains(&ratio) => format!("{ratio:.3}"),
        0.0..0.1 => per_io(ratio),
        _ => figure(ratio),
    }
}

/// `0.62 to 0.66`, or `0.64` where both ends are the same when rounded. Empty without an interval.
fn interval_words(row: &Row) -> String {
    let Some(interval) = row.interval() else { return String::new() };
    let ends = [interval.low, interval.high];
    let is_near_1 = ends.iter().any(|end| NEAR_1.contains(end));
    let [low, high] = ends.map(|end| if is_near_1 { format!("{end:.3}") } else { ratio_words(end) });
    if low == high { low } else { format!("{low} to {high}") }
}

/// What the counts say why.
fn explanation_words(explanation: &Explanation) -> String {
    let Explanation { cause, before, after } = *explanation;
    let (what, meaning) = match cause {
        Cause::InvalidationsBatched => (
            "Invalidations per unmap",
            "the IOTLB is flushed for many unmaps at once, not at each (as in the IOMMU's lazy mode)",
        ),
        Cause::InvalidationsEach => (
            "Invalidations per unmap",
            "the IOTLB is flushed at each unmap, not for many at once (as in the IOMMU's strict mode)",
        ),
        Cause::BouncingEnded => {
            ("Bounced bytes per map", "no data is copied through bounce buffers any more")
        }
        Cause::BouncingBegan => ("Bounced bytes per map", "data is copied through bounce buffers"),
        Cause::TranslationEnded => (
            "Table writes per map",
            "mappings are no longer entered in the IOMMU's table: DMA is not translated any more",
        ),
        Cause::TranslationBegan => {
            ("Table writes per map", "mappings are entered in the IOMMU's table: DMA is translated")
        }
    };
    format!("{what} went from {} to {}: {meaning}.", per_io(before), per_io(after))
}

/// How ratios and intervals were made, and what is in no interval.
fn legend(comparison: &Comparison) -> String {
    let is_bench = comparison.groups.first().is_some_and(|group| group.kind == GroupKind::Case);
    let several = comparison.has_several_runs();
    let how = match comparison.sample() {
        Sample::Runs => how_of_runs(comparison, is_bench),
        Sample::Rounds if is_bench => {
            let of_all = if several { " of all documents of a side" } else { "" };
            format!(
                "BEFORE and AFTER are medians over rounds{of_all}. The ratio is the median of the ratios of all rounds, with the interval of \
                 the Mann-Whitney test; without rounds in the documents it is that of the medians."
            )
        }
        Sample::Rounds => {
            let of_all = if several { "a side's documents" } else { "each document" };
            format!(
                "A ratio is AFTER divided by BEFORE, of the sums over all intervals. Its interval is Fieller's, from how much the intervals of \
                 {of_all} differ."
            )
        }
    };
    let without = match comparison.sample() {
        Sample::Runs => {
            "What did not differ between these runs, such as the boot if all are of one, or the day, is in no interval.".to_owned()
        }
        Sample::Rounds => format!(
            "What differs from run to run, from boot to boot or from day to day is {} no interval: for that, compare {RUNS_MIN} documents of \
             each side or more (--before, --after).",
            if several { "accounted for in" } else { "in" }
        ),
    };
    format!(
        "{how} ? marks an interval that contains 1, so that there may be no change; of figures that did not change, one in twenty has no ? by \
         chance. {without}"
    )
}

/// How ratios and intervals were made of several runs.
fn how_of_runs(comparison: &Comparison, is_bench: bool) -> String {
    let [before, after] =
        [&comparison.runs.before, &comparison.runs.after].map(|runs| grouped(runs.len() as u64));
    let figure = if is_bench { "median" } else { "figure" };
    format!(
        "BEFORE is the mean of {before} runs, and AFTER of {after}: of each run its {figure}. A ratio is AFTER divided by BEFORE. Its interval is \
         Fieller's, from how much the runs of each side differ, so what differs from run to run is in it; rounds within a run are not."
    )
}
