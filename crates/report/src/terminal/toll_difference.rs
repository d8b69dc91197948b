//! What changed from one toll sheet to another.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::fact::Fact;
use crate::quantity;
use crate::style::{Ink, Style};
use escape::terminal::plain;
use toll::{Change, Changed, Count, Machine, Side, TollSheet};

/// Functions that are listed; of the others, the sum is told.
const FUNCTIONS_MAX: usize = 20;

/// What grew and what shrank from `a` to `b`: instructions and events, then the stages and the functions
/// that explain them, the largest change first. Workloads that grew come before the others.
pub fn toll_difference(
    a: &TollSheet,
    b: &TollSheet,
    changes: &[Change],
    width: usize,
    style: Style,
) -> String {
    let mut page = Page::new(width, style);
    let mut workloads: Vec<Workload> = workloads(changes);
    workloads.sort_by_key(|workload| !workload.grew());
    page.title(&headline(&workloads, shared(a, b)));
    for (side, sheet) in [("A", a), ("B", b)] {
        let words = format!("{} · {} · Linux {}", sheet.preset, sheet.dma_path, sheet.kernel.release);
        page.fact(&Fact::known(side, &words), 3);
    }
    for words in circumstances(a, b) {
        page.item("- ", &plain(&words), 2);
    }
    for workload in workloads.iter().filter(|workload| workload.only_in().is_none()) {
        page.heading(&workload.heading());
        remarks(&mut page, &workload.changes);
        counts(&mut page, &workload.changes);
    }
    alone(&mut page, &workloads);
    page.done()
}

/// A workload with all that changed in it.
struct Workload<'c> {
    name: &'c str,
    changes: Vec<&'c Changed>,
}

impl<'c> Workload<'c> {
    fn growths(&self) -> impl Iterator<Item = Moved<'c>> {
        self.changes.iter().filter_map(|change| Moved::of(change)).filter(|moved| moved.grew)
    }

    /// The sheet that alone has it.
    fn only_in(&self) -> Option<Side> {
        self.changes.iter().find_map(|change| match change {
            Changed::Workload { only_in } => Some(*only_in),
            _ => None,
        })
    }

    fn grew(&self) -> bool {
        self.growths().next().is_some()
    }

    /// Its name, and what grew: enough for a line that a log is searched for.
    fn heading(&self) -> String {
        let name = plain(self.name);
        let grown: Vec<Moved> = self.growths().collect();
        // A mean is news where the median stayed.
        let told = |one: &&Moved| match one.count.median() {
            Some(median) => grown.iter().all(|other| *other.count != median),
            None => true,
        };
        let words = |one: &Moved| format!("{} {}", plain(&one.count.to_string()), quantity::change(one.by()));
        let grown: Vec<String> = grown.iter().filter(told).map(words).collect();
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

/// Workloads that both sheets have.
fn shared(a: &TollSheet, b: &TollSheet) -> usize {
    a.tolls.iter().filter(|toll| b.toll(&toll.workload).is_some()).count()
}

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

/// What else is not the same in the two sheets and may be why counts are not.
fn circumstances(a: &TollSheet, b: &TollSheet) -> Vec<String> {
    let mut words = Vec::new();
    for (side, sheet, other) in [("A", a, b), ("B", b, a)] {
        let others: Vec<&str> = other.kernel.command_line.split_ascii_whitespace().collect();
        let own = sheet.kernel.command_line.split_ascii_whitespace().filter(|word| !others.contains(word));
        let own: Vec<&str> = own.collect();
        if !own.is_empty() {
            words.push(format!("only {side}'s kernel was told {}", own.join(" ")));
        }
    }
    let machine = |sheet: &TollSheet| {
        let machine = &sheet.machine;
        let Machine { arch, cpu, vcpus, memory_mib, qemu_version, .. } = machine;
        format!("{arch} {cpu}, {vcpus} CPU, {memory_mib} MiB, QEMU {qemu_version}")
    };
    let (of_a, of_b) = (machine(a), machine(b));
    if of_a != of_b {
        words.push(format!("A ran on {of_a}, B on {of_b}"));
    }
    words
}

/// Workloads that one sheet alone has.
fn alone(page: &mut Page, workloads: &[Workload]) {
    for side in [Side::A, Side::B] {
        let names = workloads.iter().filter(|workload| workload.only_in() == Some(side));
        let names: Vec<String> = names.map(|workload| plain(workload.name)).collect();
        if !names.is_empty() {
            page.heading(&format!("Only in {side}"));
            page.prose(&format!("{}: nothing to compare with", names.join(", ")), 2);
        }
    }
}

/// What is no count.
fn remarks(page: &mut Page, changes: &[&Changed]) {
    for change in changes {
        let words = match change {
            Changed::BytesPerIo { a, b } => {
                format!(
                    "an I/O moves {} in A, {} in B: their tolls are not of the same",
                    quantity::bytes(*a),
                    quantity::bytes(*b)
                )
            }
            Changed::Uncounted { event, only_in, mean_per_io } => {
                let mean = quantity::per_io(*mean_per_io);
                format!(
                    "{event} were counted in {only_in} alone, where there are {mean} per I/O: growth can't be told"
                )
            }
            Changed::Count { .. } | Changed::Workload { .. } => continue,
        };
        page.item("- ", &words, 2);
    }
}

/// A count that changed.
struct Moved<'c> {
    count: &'c Count,
    a: f64,
    b: f64,
    grew: bool,
}

impl<'c> Moved<'c> {
    fn of(change: &'c Changed) -> Option<Self> {
        match *change {
            Changed::Count { ref count, a, b, grew } => Some(Self { count, a, b, grew }),
            _ => None,
        }
    }

    fn by(&self) -> f64 {
        self.b - self.a
    }

    fn verdict(&self) -> &'static str {
        match (self.grew, self.by() > 0.0) {
            (true, _) => "grew",
            _ if !self.count.is_whole() => "",
            (false, true) => "within limit",
            (false, false) => "shrank",
        }
    }

    fn row(&self) -> Row {
        Row {
            name: name(self.count),
            ink: self.grew.then_some(Ink::Strong),
            cells: vec![
                quantity::per_io(self.a),
                quantity::per_io(self.b),
                quantity::change(self.by()),
                quantity::percent(self.a, self.b),
            ],
        }
    }
}

fn name(count: &Count) -> String {
    match count {
        Count::NamedEvent { .. } => format!("  {}", plain(&count.to_string())),
        _ => plain(&count.to_string()),
    }
}

fn counts(page: &mut Page, changes: &[&Changed]) {
    let kind = |wanted: fn(&Count) -> bool| -> Vec<Moved> {
        changes.iter().filter_map(|change| Moved::of(change)).filter(|moved| wanted(moved.count)).collect()
    };
    let events = |count: &Count| matches!(count, Count::Instructions) || count.event().is_some();
    whole(page, &kind(events));
    explained(page, "stage", kind(|count| matches!(count, Count::Stage { .. })), usize::MAX);
    explained(page, "function", kind(|count| matches!(count, Count::Function { .. })), FUNCTIONS_MAX);
}

const TITLES: [&str; 4] = ["A", "B", "change", "in percent"];

fn whole(page: &mut Page, moved: &[Moved]) {
    if moved.is_empty() {
        return;
    }
    let titles = TITLES.into_iter().chain(["verdict"]).map(str::to_owned).collect();
    let row = |moved: &Moved| {
        let mut row = moved.row();
        row.cells.push(moved.verdict().to_owned());
        row
    };
    let rows = moved.iter().filter(|one| !repeats(one, moved)).map(row).collect();
    Grid { names: "per I/O", titles, rows }.show(page);
}

/// Whether it is a mean that says the same as its median.
fn repeats(one: &Moved, all: &[Moved]) -> bool {
    let Some(median) = one.count.median() else { return false };
    all.iter().any(|other| *other.count == median && (other.a, other.b) == (one.a, one.b))
}

/// A division of the instructions, the largest change first.
fn explained(page: &mut Page, names: &'static str, mut moved: Vec<Moved>, shown_max: usize) {
    if moved.is_empty() {
        return;
    }
    moved.sort_by(|one, other| other.by().abs().total_cmp(&one.by().abs()));
    let shown = moved.len().min(shown_max);
    page.blank();
    let titles = TITLES.map(str::to_owned).to_vec();
    Grid { names, titles, rows: moved[..shown].iter().map(Moved::row).collect() }.show(page);
    let rest: f64 = moved[shown..].iter().map(Moved::by).sum();
    if shown < moved.len() {
        let more = quantity::count(moved.len() - shown, names);
        page.prose(&format!("and {more} more, together {}; --json lists them", quantity::change(rest)), 2);
    }
}
