//! The answer for memory that a driver shares with a card, by its memory type.

use super::words::calculated_from;
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{grouped, time};
use model::FileEvidence;
use model::memory_type::{
    Comparison, Limit, Memory, MemoryAnswer, MemoryOutcome, Party, Snoop, StaleBytes, Throughput, Write,
};

/// Columns for the names of facts.
const NAMES: usize = 12;

/// For each memory: the type of the driver's mapping, the throughput of transfers, and whether their data are right.
pub fn memory_answer(answer: &MemoryAnswer, file: &str, evidence: &FileEvidence) -> Page {
    let mut page = Page::titled(&answer.what);
    let facts = [
        ("kernel", answer.kernel.clone()),
        ("link", format!("{:.2} Gb/s after its line code", answer.link_gigabits_per_second)),
        ("evidence", calculated_from(file, evidence)),
    ];
    page.facts(facts.iter().map(|(name, value)| Fact::known(name, value)), NAMES);
    for outcome in &answer.memories {
        add_memory(&mut page, outcome);
    }
    page
}

/// Adds one memory: its type, whether the card snoops, and how the test went.
fn add_memory(page: &mut Page, outcome: &MemoryOutcome) {
    let name = match outcome.obtained.memory {
        Memory::Static => "Memory set aside by memmap=",
        Memory::DmaApi => "Memory of the DMA API",
    };
    page.heading(format!("{name}, {}", outcome.range));
    let snoop = match outcome.snoop {
        Snoop::Snooped => "the card's accesses snoop the CPU's cache",
        Snoop::Unsnooped => "the card's accesses do not snoop the CPU's cache",
    };
    let kinds = match outcome.obtained.parts.is_empty() {
        true => Fact::absent("type", "the driver gets no mapping"),
        false => Fact::known("type", &outcome.obtained.kinds()),
    };
    page.facts([kinds, Fact::known("snoop", snoop)], NAMES);
    if let Some(test) = &outcome.test {
        let facts = [
            ("to the card", throughput(&test.to_card)),
            ("from it", throughput(&test.from_card)),
            ("data", comparison_words(&test.comparison)),
        ];
        page.facts(facts.iter().map(|(name, value)| Fact::known(name, value)), NAMES);
        for read in &test.comparison.stale {
            page.bullet(stale_read(read));
        }
    }
    for reason in &outcome.obtained.reasons {
        page.bullet(reason);
    }
}

/// A rate as a share of the link, and what limits it.
fn throughput(one: &Throughput) -> String {
    let limit = match one.limit {
        Limit::Cpu => "limited by the CPU's accesses",
        Limit::Link => "limited by the link",
    };
    let rate = grouped((one.bytes_per_second / 1e6).round() as u64);
    format!("{:.2} % of the link, {rate} MB/s: {limit}", one.of_link * 100.0)
}

/// How many words of the test's data the reader found wrong.
fn comparison_words(one: &Comparison) -> String {
    let [wrong, words] = [one.miscompares, one.words].map(grouped);
    match one.miscompares {
        0 => format!("right: none of {words} words miscompares"),
        _ => format!("CORRUPT: {wrong} of {words} words miscompare"),
    }
}

/// How many stale bytes one side read, why they were stale, and the first of them.
fn stale_read(one: &StaleBytes) -> String {
    let reader = party_name(Some(one.reader));
    let first = &one.first;
    format!(
        "{} bytes that {reader} read were stale: {}; first at {:#x}, {} after {}",
        grouped(one.bytes),
        one.why,
        first.address,
        time(first.age_ns()),
        write_words(first.missed)
    )
}

/// Who wrote last, and at which access of the test: `the CPU wrote it (access 1,024)`.
fn write_words(one: Write) -> String {
    format!("{} wrote it (access {})", party_name(one.by), grouped(one.access))
}

/// The side that accessed memory; `nobody` for `None`.
fn party_name(party: Option<Party>) -> &'static str {
    match party {
        Some(Party::Cpu) => "the CPU",
        Some(Party::Device) => "the device",
        None => "nobody",
    }
}
