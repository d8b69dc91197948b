//! The answer for one DMA engine behind an IOMMU.

use super::runs::counted_runs;
use super::words::{add_busy_shares, calculated_from, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time, with_interval};
use model::{EngineAnswer, FileEvidence};

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Latency, throughput, IOTLB misses, what limits them, and how busy each part is.
pub fn model_answer(answer: &EngineAnswer, file: &str, evidence: &FileEvidence) -> Page {
    let mut page = Page::titled(&answer.what);
    let rate = format!(
        "{} Gb/s, {} transfers/s",
        with_interval(&answer.gigabits_per_second, figure),
        with_interval(&answer.transfers_per_second, per_second)
    );
    let facts = [
        ("latency", format!("{} on average", with_interval(&answer.latency_mean_ns, time))),
        ("throughput", rate),
        ("IOTLB", format!("{} of lookups miss", with_interval(&answer.miss_share, percent))),
        ("limited by", answer.limit.clone()),
        ("runs", counted_runs(&answer.runs, "transfers")),
        ("evidence", calculated_from(file, evidence)),
    ];
    page.facts(facts.iter().map(|(name, value)| Fact::known(name, value)), NAMES);
    add_busy_shares(&mut page, "How busy its parts are", &answer.parts);
    page
}

/// A share in percent with a decimal.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
