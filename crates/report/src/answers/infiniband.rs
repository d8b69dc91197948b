//! The answer for InfiniBand adapters with and without memory of their own.

use super::runs::counted_runs;
use super::words::{calculated_from, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, grouped, time, with_interval};
use model::FileEvidence;
use model::infiniband::{AdaptersAnswer, PlacedAnswer};

/// Columns for the names of facts.
const NAMES: usize = 14;

/// Latency and rates with the contexts in host memory and in adapter memory, their difference, and how busy each part is.
pub fn adapters_answer(answer: &AdaptersAnswer, file: &str, evidence: &FileEvidence) -> Page {
    let mut page = Page::titled(&answer.what);
    let memory = format!(
        "{} KiB for contexts of connections, without translations of buffers",
        grouped(answer.host_memory_bytes.div_ceil(1024))
    );
    let sign = if answer.cost_share.mean < 0.0 { "" } else { "+" };
    let facts = [
        ("memory-less", placement_words(&answer.memory_less)),
        ("with memory", placement_words(&answer.with_memory)),
        ("difference", format!("{sign}{} without memory", with_interval(&answer.cost_share, percent))),
        ("host memory", memory),
        ("runs", counted_runs(&answer.runs, "messages or scatters")),
        ("evidence", calculated_from(file, evidence)),
    ];
    page.facts(facts.iter().map(|(name, value)| Fact::known(name, value)), NAMES);
    let unreceived = answer.memory_less.unreceived;
    if unreceived > 0 {
        let messages = grouped(unreceived);
        page.warnings(&[format!("{messages} messages of all rounds were sent without a matching receive")]);
    }
    page.heading("How busy the parts of the first node are, without memory and with it");
    for (less, with) in answer.memory_less.parts.iter().zip(&answer.with_memory.parts) {
        let shares = [less, with].map(|part| format!("{:.1} %", part.busy_share * 100.0));
        page.bullet(format!("{}: {}", less.name, shares.join(", ")));
    }
    page
}

/// Latency, rates and misses of messages with the contexts in host memory or in adapter memory.
fn placement_words(placed: &PlacedAnswer) -> String {
    let tail = placed.latency_p99_ns.map(|p99| format!(" ({} for 99 of 100)", with_interval(&p99, time)));
    format!(
        "{} on average{}; {} messages/s, {} Gb/s; {:.1} % of look-ups miss, {} bytes fetched a message",
        with_interval(&placed.latency_mean_ns, time),
        tail.unwrap_or_default(),
        with_interval(&placed.messages_per_second, per_second),
        with_interval(&placed.gigabits_per_second, figure),
        placed.miss_share * 100.0,
        figure(placed.fetched_bytes_per_message)
    )
}

/// A share in percent with two decimals.
fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
