//! What changed from one toll sheet to another.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::fact::Fact;
use crate::plain::plain;
use crate::quantity;
use crate::style::{Ink, Style};
use toll::{Change, Changed, Count, TollSheet};

/// Functions that are listed; of the others, the sum is told.
const FUNCTIONS_MAX: usize = 20;

/// What grew and what shrank from `a` to `b`: instructions and events, then the stages and the functions
/// that explain them, the largest change first.
pub fn toll_difference(
    a: &TollSheet,
    b: &TollSheet,
    changes: &[Change],
    width: usize,
    style: Style,
) -> String {
    let mut page = Page::new(width, style);
    page.title(&headline(changes));
    for (side, sheet) in [("A", a), ("B", b)] {
        let words = format!("{} · {} · Linux {}", sheet.preset, sheet.road, sheet.kernel.release);
        page.fact(&Fact::known(side, &words), 3);
    }
    for workload in workloads(changes) {
        page.heading(&plain(workload));
        let of: Vec<&Changed> =
            changes.iter().filter(|change| change.workload == workload).map(|change| &change.what).collect();
        remarks(&mut page, &of);
        counts(&mut page, &of);
    }
    page.done()
}

fn headline(changes: &[Change]) -> String {
    let grew = |change: &&Change| matches!(change.what, Changed::Count { grew: true, .. });
    match changes.iter().filter(grew).count() {
        0 if changes.is_empty() => "No count differs".to_owned(),
        0 => "No count grew beyond the limit".to_owned(),
        count => format!("{} grew beyond the limit", quantity::count(count, "count")),
    }
}

/// Workloads in the order in which they first appear.
fn workloads(changes: &[Change]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for change in changes {
        if !names.contains(&change.workload.as_str()) {
            names.push(&change.workload);
        }
    }
    names
}

/// What is no count.
fn remarks(page: &mut Page, changes: &[&Changed]) {
    for change in changes {
        let words = match change {
            Changed::Workload { only_in } => format!("only in {only_in}: nothing to compare it with"),
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
            Changed::Count { .. } => continue,
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
