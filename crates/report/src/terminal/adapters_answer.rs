//! What a model says of InfiniBand adapters with and without memory, on a terminal.

use super::model_answer::calculated_from;
use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use escape::terminal::plain;
use model::infiniband::{AdaptersAnswer, PlacedAnswer};

/// Columns for the names of facts.
const NAMES: usize = 14;

/// What both placements of contexts come to, what the one costs over the other, and how busy each part is.
pub fn adapters_answer(answer: &AdaptersAnswer, file: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&answer.what));
    let memory = format!(
        "{} KiB for contexts of connections, without translations of buffers",
        quantity::grouped(answer.host_memory_bytes.div_ceil(1024))
    );
    for (name, value) in [
        ("memory-less", told(&answer.memory_less)),
        ("with memory", told(&answer.with_memory)),
        ("difference", format!("{:+.2} % without memory", answer.cost_share * 100.0)),
        ("host memory", memory),
        ("evidence", calculated_from(file)),
    ] {
        page.fact(&Fact::known(name, &value), NAMES);
    }
    page.warnings(&unreceived(answer.memory_less.unreceived));
    page.heading("How busy the parts of the first node are, without memory and with it");
    for (less, with) in answer.memory_less.parts.iter().zip(&answer.with_memory.parts) {
        let shares = [less, with].map(|part| format!("{:.1} %", part.busy_share * 100.0));
        page.item("- ", &format!("{}: {}", less.name, shares.join(", ")), 2);
    }
    page.done()
}

/// What is said of messages that nobody received.
fn unreceived(messages: u64) -> Vec<String> {
    let told = |messages| {
        format!("{} messages of all rounds were sent that nobody receives", quantity::grouped(messages))
    };
    (messages > 0).then(|| told(messages)).into_iter().collect()
}

fn told(placed: &PlacedAnswer) -> String {
    let tail = placed.latency_p99_ns.map(|p99| format!(" ({} for 99 of 100)", time(p99)));
    format!(
        "{} on average{}; {} messages/s, {} Gb/s; {:.1} % of look-ups miss, {} bytes fetched a message",
        time(placed.latency_mean_ns),
        tail.unwrap_or_default(),
        quantity::grouped(placed.messages_per_second.round() as u64),
        figure(placed.gigabits_per_second),
        placed.miss_share * 100.0,
        figure(placed.fetched_bytes_per_message)
    )
}
