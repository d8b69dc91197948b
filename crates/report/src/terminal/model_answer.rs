//! What a model says of a machine, on a terminal.

use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use escape::terminal::plain;
use model::Answer;

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Latency, throughput, how busy each part is, and which one limits.
pub fn model_answer(answer: &Answer, file: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&answer.what));
    let rate = format!(
        "{} Gb/s, {} transfers/s",
        figure(answer.gigabits_per_second),
        quantity::grouped(answer.transfers_per_second.round() as u64)
    );
    for (name, value) in [
        ("latency", format!("{} on average", time(answer.latency_mean_ns))),
        ("throughput", rate),
        ("IOTLB", format!("{:.1} % of lookups miss", answer.miss_share * 100.0)),
        ("limited by", answer.limit.clone()),
        ("evidence", calculated_from(file)),
    ] {
        page.fact(&Fact::known(name, &value), NAMES);
    }
    page.parts("How busy its parts are", &answer.parts);
    page.done()
}

/// The evidence of what follows from a user's file.
pub(super) fn calculated_from(file: &str) -> String {
    format!("calculated from {}, whose values are its author's", plain(file))
}
