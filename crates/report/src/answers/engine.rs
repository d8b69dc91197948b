//! The answer for one DMA engine behind an IOMMU.

use super::words::{add_busy_shares, calculated_from, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time};
use model::Answer;

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Latency, throughput, IOTLB misses, what limits them, and how busy each part is.
pub fn model_answer(answer: &Answer, file: &str) -> Page {
    let mut page = Page::titled(&answer.what);
    let rate = format!(
        "{} Gb/s, {} transfers/s",
        figure(answer.gigabits_per_second),
        per_second(answer.transfers_per_second)
    );
    let facts = [
        ("latency", format!("{} on average", time(answer.latency_mean_ns))),
        ("throughput", rate),
        ("IOTLB", format!("{:.1} % of lookups miss", answer.miss_share * 100.0)),
        ("limited by", answer.limit.clone()),
        ("evidence", calculated_from(file)),
    ];
    page.facts(facts.iter().map(|(name, value)| Fact::known(name, value)), NAMES);
    add_busy_shares(&mut page, "How busy its parts are", &answer.parts);
    page
}
