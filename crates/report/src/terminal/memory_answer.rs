//! What a model says of memory that a driver shares with a card, on a terminal.

use super::model_answer::calculated_from;
use super::page::Page;
use crate::bench_text::time;
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use escape::terminal::plain;
use model::memory_type::{
    Comparison, Explained, Limit, Memory, MemoryAnswer, MemoryOutcome, Party, Snoop, Throughput, Write,
};

/// Columns for the names of facts.
const NAMES: usize = 12;

/// What the driver gets, how fast transfers are with it, and whether they are right.
pub fn memory_answer(answer: &MemoryAnswer, file: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&answer.what));
    for (name, value) in [
        ("kernel", answer.kernel.clone()),
        ("link", format!("{:.2} Gb/s after its line code", answer.link_gigabits_per_second)),
        ("evidence", calculated_from(file)),
    ] {
        page.fact(&Fact::known(name, &value), NAMES);
    }
    for outcome in &answer.memories {
        memory(&mut page, outcome);
    }
    page.done()
}

fn memory(page: &mut Page, outcome: &MemoryOutcome) {
    let name = match outcome.obtained.memory {
        Memory::Static => "Memory set aside by memmap=",
        Memory::DmaApi => "Memory of the DMA API",
    };
    page.heading(&format!("{name}, {}", outcome.range));
    let snoop = match outcome.snoop {
        Snoop::Snooped => "the card's accesses snoop the CPU's cache",
        Snoop::Unsnooped => "the card's accesses do not snoop the CPU's cache",
    };
    let kinds = match outcome.obtained.parts.is_empty() {
        true => Fact::absent("type", "the driver gets no mapping"),
        false => Fact::known("type", &outcome.obtained.kinds()),
    };
    page.fact(&kinds, NAMES);
    page.fact(&Fact::known("snoop", snoop), NAMES);
    if let Some(test) = &outcome.test {
        page.fact(&Fact::known("to the card", &throughput(&test.to_card)), NAMES);
        page.fact(&Fact::known("from it", &throughput(&test.from_card)), NAMES);
        page.fact(&Fact::known("data", &compared(&test.comparison)), NAMES);
        for one in &test.comparison.stale {
            page.item("- ", &explained(one), 2);
        }
    }
    for reason in &outcome.obtained.reasons {
        page.item("- ", &plain(reason), 2);
    }
}

fn throughput(one: &Throughput) -> String {
    let limit = match one.limit {
        Limit::Cpu => "the CPU's accesses rule",
        Limit::Link => "the link rules",
    };
    let rate = quantity::grouped((one.bytes_per_second / 1e6).round() as u64);
    format!("{:.2} % of the link, {rate} MB/s: {limit}", one.of_link * 100.0)
}

fn compared(one: &Comparison) -> String {
    let [wrong, words] = [one.miscompares, one.words].map(quantity::grouped);
    match one.miscompares {
        0 => format!("right: none of {words} words miscompares"),
        _ => format!("CORRUPT: {wrong} of {words} words miscompare"),
    }
}

fn explained(one: &Explained) -> String {
    let reader = party(Some(one.reader));
    let first = &one.first;
    format!(
        "{} bytes that {reader} read were stale: {}; first at {:#x}, {} after {}",
        quantity::grouped(one.bytes),
        one.why,
        first.address,
        time(first.age_ns()),
        write(first.missed)
    )
}

fn write(one: Write) -> String {
    format!("{} wrote it (access {})", party(one.by), quantity::grouped(one.access))
}

fn party(party: Option<Party>) -> &'static str {
    match party {
        Some(Party::Cpu) => "the CPU",
        Some(Party::Device) => "the device",
        None => "nobody",
    }
}
