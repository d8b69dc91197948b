//! What differs in the heads of documents, and may be why their figures do: between the sides a difference, within a side a doubt.

use crate::both::Both;
use crate::comparison::{Difference, Doubt, Side};
use crate::head::ReadHead;
use bench::HostSummary;
use std::collections::{BTreeMap, BTreeSet};

/// Different values of a side that a doubt names at most.
const VALUES_MAX: usize = 5;

/// What the documents of both sides say of one thing, such as the kernel. Of those that say nothing of it there is no value.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) what: String,
    /// Values of the documents of each side; `None` is a value: unknown.
    pub(crate) values: Both<Vec<Option<String>>>,
}

impl Statement {
    /// How the sides differ: by the values that their documents have, however many have one.
    fn difference(&self) -> Option<Difference> {
        let Both { before, after } =
            self.values.as_ref().map(|values| values.iter().collect::<BTreeSet<_>>());
        (before != after).then(|| Difference {
            what: self.what.clone(),
            before: all_of(&before),
            after: all_of(&after),
        })
    }

    /// That documents of a side differ.
    fn doubts(&self) -> impl Iterator<Item = DraftDoubt> {
        let of_side = |(side, values): (Side, &Vec<Option<String>>)| {
            let mut numbers: BTreeMap<&Option<String>, usize> = BTreeMap::new();
            values.iter().for_each(|value| *numbers.entry(value).or_default() += 1);
            let words = |(value, number): (&&Option<String>, &usize)| format!("{} ({number})", known(value));
            let mut named: Vec<String> = numbers.iter().take(VALUES_MAX).map(words).collect();
            if numbers.len() > VALUES_MAX {
                named.push(format!("and {} more", numbers.len() - VALUES_MAX));
            }
            let words = format!("the documents of this side differ in {}: {}", self.what, named.join(", "));
            (numbers.len() > 1).then(|| DraftDoubt::of_side(side, words))
        };
        self.values.as_ref().with_sides().into_iter().filter_map(of_side)
    }
}

/// The only value, or all of them in words.
fn all_of(values: &BTreeSet<&Option<String>>) -> Option<String> {
    match values.len() {
        0 | 1 => values.first().copied().cloned().flatten(),
        _ => Some(values.iter().map(|value| known(value)).collect::<Vec<_>>().join(", ")),
    }
}

fn known(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("unknown")
}

/// All differences between the sides.
pub(crate) fn differences(statements: &[Statement]) -> Vec<Difference> {
    statements.iter().filter_map(Statement::difference).collect()
}

/// A doubt for all that differs within a side.
pub(crate) fn doubts_within_sides(statements: &[Statement]) -> Vec<DraftDoubt> {
    statements.iter().flat_map(Statement::doubts).collect()
}

/// What heads say of programs, command lines and machines. What one does not know differs from what the other does. Of the load nothing is
/// said: it is never the same.
pub(crate) fn head_statements(heads: Both<&[ReadHead]>) -> Vec<Statement> {
    let mut told = heads.map(|heads| heads.iter().map(told).collect::<Vec<_>>());
    HEAD_NAMES
        .iter()
        .enumerate()
        .map(|(place, what)| {
            let values = |told: &mut Vec<[Option<String>; 8]>| -> Vec<Option<String>> {
                told.iter_mut().map(|one| one[place].take()).collect()
            };
            let values = Both { before: values(&mut told.before), after: values(&mut told.after) };
            Statement { what: (*what).to_owned(), values }
        })
        .collect()
}

/// What [`told`] has the values of.
const HEAD_NAMES: [&str; 8] = [
    "kernel",
    "CPU",
    "number of CPUs",
    "architecture",
    "frequency governor",
    "virtual machine",
    "command line",
    "program",
];

/// What a head says, as [`HEAD_NAMES`] has it.
fn told(head: &ReadHead) -> [Option<String>; 8] {
    let ReadHead { made_by, command, machine, .. } = head;
    let HostSummary { cpu, cpus, architecture, kernel, governor, is_virtual, load_average: _ } = machine;
    let is_virtual = is_virtual.map(|is| if is { "yes" } else { "no" }.to_owned());
    [
        kernel.clone(),
        cpu.clone(),
        Some(cpus.to_string()),
        Some(architecture.clone()),
        governor.clone(),
        is_virtual,
        Some(command.join(" ")),
        Some(made_by.clone()),
    ]
}

/// A doubt before those of the same words are joined.
#[derive(Debug)]
pub(crate) struct DraftDoubt {
    /// The side it is about; `None` if about both.
    side: Option<Side>,
    /// The document of that side, by its place; `None` if about all.
    document: Option<usize>,
    words: String,
}

impl DraftDoubt {
    pub(crate) fn of_both(words: String) -> Self {
        Self { side: None, document: None, words }
    }

    pub(crate) fn of_side(side: Side, words: String) -> Self {
        Self { side: Some(side), document: None, words }
    }

    pub(crate) fn of_document(side: Side, document: usize, words: String) -> Self {
        Self { side: Some(side), document: Some(document), words }
    }
}

/// Warnings of all documents, and one if their CPUs differ.
pub(crate) fn doubts_of_machines(heads: &Both<Vec<ReadHead>>) -> Vec<DraftDoubt> {
    let cpu = |head: &ReadHead| {
        let HostSummary { cpu, cpus, architecture, .. } = &head.machine;
        (cpu.clone(), *cpus, architecture.clone())
    };
    let cpus: BTreeSet<_> = heads.places().map(|(.., head)| cpu(head)).collect();
    let words = "the CPUs differ, so times differ by them, too".to_owned();
    let of_cpus = (cpus.len() > 1).then(|| DraftDoubt::of_both(words));
    let of_head = |(side, place, head): (Side, usize, &ReadHead)| -> Vec<DraftDoubt> {
        head.warnings.iter().map(|words| DraftDoubt::of_document(side, place, words.clone())).collect()
    };
    of_cpus.into_iter().chain(heads.places().flat_map(of_head)).collect()
}

/// Where something is that the other side lacks, if the side has so many documents.
pub(crate) fn on_one_side(documents: usize) -> &'static str {
    if documents == 1 { "in this document alone" } else { "in documents of this side alone" }
}

/// Each doubt once: what is said of several documents becomes one doubt about them. `files` are the documents of each side.
pub(crate) fn joined(drafts: Vec<DraftDoubt>, files: Both<&[&str]>) -> Vec<Doubt> {
    let all = |side| match side {
        Side::Before => files.before,
        Side::After => files.after,
    };
    let both = [Side::Before, Side::After];
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut about: Vec<(String, BTreeSet<(Side, usize)>)> = Vec::new();
    for DraftDoubt { side, document, words } in drafts {
        let place = *places.entry(words.clone()).or_insert_with(|| {
            about.push((words, BTreeSet::new()));
            about.len() - 1
        });
        let sides = both.into_iter().filter(|one| side.is_none_or(|side| side == *one));
        let documents = sides.flat_map(|side| (0..all(side).len()).map(move |place| (side, place)));
        about[place].1.extend(documents.filter(|(_, place)| document.is_none_or(|one| one == *place)));
    }
    let doubt = |(words, documents): (String, BTreeSet<(Side, usize)>)| {
        let sides: BTreeSet<Side> = documents.iter().map(|(side, _)| *side).collect();
        let is_all = documents.len() == sides.iter().map(|side| all(*side).len()).sum::<usize>();
        let names = documents.iter().filter_map(|(side, place)| all(*side).get(*place));
        Doubt {
            side: sides.first().copied().filter(|_| sides.len() == 1),
            files: if is_all { Vec::new() } else { names.map(|name| (*name).to_owned()).collect() },
            words,
        }
    };
    about.into_iter().map(doubt).collect()
}
