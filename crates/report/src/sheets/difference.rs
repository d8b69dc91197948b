//! The page of the difference between two toll sheets.

use super::platform::{priced, prices_of};
use super::words::price_words;
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::quantity;
use crate::page::table::{Row, Table};
use escape::terminal::plain;
use std::collections::BTreeSet;
use toll::{Change, Changed, Count, EmulatedMachine, Event, PriceList, Side, TollSheet, toll_over};

/// Functions that are listed; the others are summed up in one line.
const FUNCTIONS_MAX: usize = 20;

/// What grew and what shrank from sheet `a` to sheet `b`. For each workload: instructions and events, then the stages and the
/// functions that explain them, the largest change first. Workloads in which a count grew come first. The difference is priced by the
/// list of the machine's architecture, if there is one and both have the same.
pub fn toll_difference(a: &TollSheet, b: &TollSheet, changes: &[Change], prices: &[PriceList]) -> Page {
    let mut workloads: Vec<Workload> = workloads(changes);
    workloads.sort_by_key(|workload| !workload.grew());
    let list = prices_of(a, prices).filter(|list| list.arch == b.machine.arch);
    let mut page = Page::titled(headline(&workloads, shared_workloads(a, b)));
    for (side, sheet) in [("A", a), ("B", b)] {
        let words = format!("{} · {} · Linux {}", sheet.preset, sheet.dma_path, sheet.kernel.release);
        page.facts([Fact::known(side, &words)], 3);
    }
    for words in other_differences(a, b) {
        page.bullet(words);
    }
    for workload in workloads.iter().filter(|workload| workload.only_in().is_none()) {
        page.heading(workload.heading());
        add_remarks(&mut page, &workload.changes);
        add_counts(&mut page, &workload.changes);
        if let (Some(of_a), Some(of_b), Some(list)) = (a.toll(workload.name), b.toll(workload.name), list) {
            page.prose(format!("B less A, priced: {}", priced(&toll_over(of_b, of_a), list)), 2);
        }
    }
    add_unshared(&mut page, &workloads);
    if [a, b].iter().any(|sheet| sheet.tolls.iter().any(|toll| toll.boots.len() > 1)) {
        page.remark(
            "instructions: the mean of the boots' medians; stages and functions: of the median window of all boots, so \
             that they need not add up to it"
                .to_owned(),
        );
    }
    if let Some(list) = list.filter(|_| workloads.iter().any(|workload| workload.only_in().is_none())) {
        let counted = a.tolls.iter().chain(&b.tolls).flat_map(|toll| toll.events.keys().copied());
        let events: Vec<Event> = counted.collect::<BTreeSet<_>>().into_iter().collect();
        page.remark(price_words("of B less A", list, &events));
    }
    page
}

/// A workload with its changes.
struct Workload<'c> {
    name: &'c str,
    changes: Vec<&'c Changed>,
}

impl<'c> Workload<'c> {
    /// Counts that grew beyond the limit.
    fn growths(&self) -> impl Iterator<Item = ChangedCount<'c>> {
        self.changes.iter().filter_map(|change| ChangedCount::of(change)).filter(|moved| moved.grew)
    }

    /// The only sheet that has the workload; `None` if both have it.
    fn only_in(&self) -> Option<Side> {
        self.changes.iter().find_map(|change| match change {
            Changed::Workload { only_in } => Some(*only_in),
            _ => None,
        })
    }

    /// Whether any count grew beyond the limit.
    fn grew(&self) -> bool {
        self.growths().next().is_some()
    }

    /// The name and the counts that grew, in one line that can be found in a log.
    fn heading(&self) -> String {
        let name = plain(self.name);
        let grown: Vec<ChangedCount> = self.growths().collect();
        // A mean is named only where its median did not grow.
        let is_named = |one: &&ChangedCount| match one.count.median() {
            Some(median) => grown.iter().all(|other| *other.count != median),
            None => true,
        };
        let words = |one: &ChangedCount| {
            format!("{} {}", plain(&one.count.to_string()), quantity::change(one.change()))
        };
        let grown: Vec<String> = grown.iter().filter(is_named).map(words).collect();
        if grown.is_empty() { name } else { format!("{name} grew: {}", grown.join(", ")) }
    }
}

/// Workloads in the order in which they first appear.
fn workloads(changes: &[Change]) -> Vec<Workload<'_>> {
    let mut workloads: Vec<Workload> = Vec::new();
    for change in changes {
        match workloads.iter_mut().find(|workload| workload.name == change.workload) {
            Some(workload) => workload.changes.push(&change.what),
            None => workloads.push(Workload { name: &change.workload, changes: vec![&change.what] }),
        }
    }
    workloads
}

/// The number of workloads that both sheets have.
fn shared_workloads(a: &TollSheet, b: &TollSheet) -> usize {
    a.tolls.iter().filter(|toll| b.toll(&toll.workload).is_some()).count()
}

/// How many counts grew beyond the limit, and in how many workloads.
fn headline(changed: &[Workload], shared: usize) -> String {
    let compared = quantity::count(shared, "workload");
    let (mut counts, mut workloads) = (0, 0);
    for workload in changed.iter().filter(|workload| workload.grew()) {
        (counts, workloads) = (counts + workload.growths().count(), workloads + 1);
    }
    match counts {
        0 if changed.is_empty() => format!("No count differs in {compared}"),
        0 => format!("No count grew beyond the limit in {compared}"),
        _ => format!(
            "{} grew beyond the limit, in {workloads} of {compared}",
            quantity::count(counts, "count")
        ),
    }
}

/// Kernel options, machines and programs in the guest that differ between the sheets and may explain other counts.
fn other_differences(a: &TollSheet, b: &TollSheet) -> Vec<String> {
    let mut words = Vec::new();
    for (side, sheet, other) in [("A", a, b), ("B", b, a)] {
        let others: Vec<&str> = other.kernel.command_line.split_ascii_whitespace().collect();
        let own = sheet.kernel.command_line.split_ascii_whitespace().filter(|word| !others.contains(word));
        let own: Vec<&str> = own.collect();
        if !own.is_empty() {
            words.push(format!("only {side}'s kernel has the options {}", own.join(" ")));
        }
    }
    let machine = |sheet: &TollSheet| {
        let machine = &sheet.machine;
        let EmulatedMachine { arch, cpu, vcpus, memory_mib, qemu_version, .. } = machine;
        format!("{arch} {cpu}, {vcpus} CPU, {memory_mib} MiB, QEMU {qemu_version}")
    };
    let (of_a, of_b) = (machine(a), machine(b));
    if of_a != of_b {
        words.push(format!("A ran on {of_a}, B on {of_b}"));
    }
    for program in &a.programs {
        let other = b.programs.iter().find(|other| other.name == program.name);
        if other.is_some_and(|other| other != program) {
            words.push(format!("{}, a program in the guest, is another in B", plain(&program.name)));
        }
    }
    words
}

/// Adds the names of workloads that only one sheet has.
fn add_unshared(page: &mut Page, workloads: &[Workload]) {
    for side in [Side::A, Side::B] {
        let names = workloads.iter().filter(|workload| workload.only_in() == Some(side));
        let names: Vec<String> = names.map(|workload| plain(workload.name)).collect();
        if !names.is_empty() {
            page.heading(format!("Only in {side}"));
            page.prose(format!("{}: nothing to compare with", names.join(", ")), 2);
        }
    }
}

/// Adds changes that can't be shown as counts.
fn add_remarks(page: &mut Page, changes: &[&Changed]) {
    for change in changes {
        let words = match change {
            Changed::BytesPerIo { a, b } => {
                format!(
                    "an I/O moves {} in A, {} in B: their costs can't be compared",
                    quantity::bytes(*a),
                    quantity::bytes(*b)
                )
            }
            Changed::Uncounted { event, only_in, mean_per_io } => {
                let mean = quantity::per_io(*mean_per_io);
                format!(
                    "{event} were counted in {only_in} alone, where there are {mean} per I/O: growth can't be determined"
                )
            }
            Changed::Count { .. } | Changed::Workload { .. } => continue,
        };
        page.bullet(words);
    }
}

/// A count that changed, per I/O.
struct ChangedCount<'c> {
    count: &'c Count,
    a: f64,
    b: f64,
    grew: bool,
    may_be_chance: bool,
}

impl<'c> ChangedCount<'c> {
    /// The change of a count; `None` for other changes.
    fn of(change: &'c Changed) -> Option<Self> {
        match *change {
            Changed::Count { ref count, a, b, grew, may_be_chance } => {
                Some(Self { count, a, b, grew, may_be_chance })
            }
            _ => None,
        }
    }

    /// The change, positive if the count grew.
    fn change(&self) -> f64 {
        self.b - self.a
    }

    /// `grew` if it grew beyond the limit, `may be chance` if the boots leave open which way it changed, else `within limit` or
    /// `shrank`. Empty for stages and functions, which have no limit.
    fn verdict(&self) -> &'static str {
        match (self.grew, self.change() > 0.0) {
            (true, _) => "grew",
            _ if self.may_be_chance => "may be chance",
            _ if !self.count.is_whole() => "",
            (false, true) => "within limit",
            (false, false) => "shrank",
        }
    }

    /// The row of the count: both values and the change.
    fn row(&self) -> Row {
        Row {
            name: row_name(self.count),
            ink: self.grew.then_some(Ink::Strong),
            cells: vec![
                quantity::per_io(self.a),
                quantity::per_io(self.b),
                quantity::change(self.change()),
                quantity::percent(self.a, self.b),
            ],
        }
    }
}

/// The count's name; events that are part of another count are indented.
fn row_name(count: &Count) -> String {
    match count {
        Count::NamedEvent { .. } => format!("  {}", plain(&count.to_string())),
        _ => plain(&count.to_string()),
    }
}

/// Adds instructions and events, then stages, then functions.
fn add_counts(page: &mut Page, changes: &[&Changed]) {
    let of_kind = |wanted: fn(&Count) -> bool| -> Vec<ChangedCount> {
        changes
            .iter()
            .filter_map(|change| ChangedCount::of(change))
            .filter(|moved| wanted(moved.count))
            .collect()
    };
    let events = |count: &Count| matches!(count, Count::Instructions) || count.event().is_some();
    add_wholes(page, &of_kind(events));
    add_parts(page, "stage", of_kind(|count| matches!(count, Count::Stage { .. })), usize::MAX);
    add_parts(page, "function", of_kind(|count| matches!(count, Count::Function { .. })), FUNCTIONS_MAX);
}

const TITLES: [&str; 4] = ["A", "B", "change", "in percent"];

/// Adds instructions and events, each with a verdict.
fn add_wholes(page: &mut Page, moved: &[ChangedCount]) {
    if moved.is_empty() {
        return;
    }
    let titles = TITLES.into_iter().chain(["verdict"]).map(str::to_owned).collect();
    let row = |moved: &ChangedCount| {
        let mut row = moved.row();
        row.cells.push(moved.verdict().to_owned());
        row
    };
    let rows = moved.iter().filter(|one| !equals_its_median(one, moved)).map(row).collect();
    page.table(Table { names: "per I/O", wraps_names: false, titles, rows });
}

/// Whether a count is a mean with the same values as its median. It is then not shown a second time.
fn equals_its_median(one: &ChangedCount, all: &[ChangedCount]) -> bool {
    let Some(median) = one.count.median() else { return false };
    all.iter().any(|other| *other.count == median && (other.a, other.b) == (one.a, one.b))
}

/// Adds the largest changes among the stages or functions that the instructions are divided into.
fn add_parts(page: &mut Page, names: &'static str, mut moved: Vec<ChangedCount>, shown_max: usize) {
    if moved.is_empty() {
        return;
    }
    moved.sort_by(|one, other| other.change().abs().total_cmp(&one.change().abs()));
    let shown = moved.len().min(shown_max);
    page.blank();
    let titles = TITLES.map(str::to_owned).to_vec();
    let rows = moved[..shown].iter().map(ChangedCount::row).collect();
    page.table(Table { names, wraps_names: false, titles, rows });
    let rest: f64 = moved[shown..].iter().map(ChangedCount::change).sum();
    if shown < moved.len() {
        let more = quantity::count(moved.len() - shown, names);
        page.prose(format!("and {more} more, together {}; --json lists them", quantity::change(rest)), 2);
    }
}
