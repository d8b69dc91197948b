//! Parts that several answers share.

use crate::evidence_share::evidence_share;
use crate::page::Page;
use crate::page::quantity::{grouped, time, with_interval};
use escape::terminal::plain;
use model::host::CpusAnswer;
use model::{FileEvidence, Part, TakenPrice};

/// The evidence of an answer: the file that it was calculated from, and where the values of that file come from.
pub(super) fn calculated_from(file: &str, evidence: &FileEvidence) -> String {
    let study = evidence.study.as_ref().zip(evidence.study_parameters);
    let study = study.map(|(study, share)| format!(". In the study {study}, {}", evidence_share(share)));
    let values = evidence_share(evidence.values);
    let prices = prices_taken(&evidence.prices);
    format!("calculated from {}: {values}{prices}{}", plain(file), study.unwrap_or_default())
}

/// `. Measured prices: cpus.instruction_ns 0.21, mapping.invalidation_ns 650.5`, or nothing.
fn prices_taken(prices: &[TakenPrice]) -> String {
    let each: Vec<String> = prices.iter().map(|price| format!("{} {}", price.key, price.value)).collect();
    if each.is_empty() { String::new() } else { format!(". Measured prices: {}", each.join(", ")) }
}

/// Adds the share of time that each part of the machine is busy.
pub(super) fn add_busy_shares(page: &mut Page, title: &str, parts: &[Part]) {
    page.heading(title);
    for part in parts {
        page.bullet(format!("{}: {:.1} %", part.name, part.busy_share * 100.0));
    }
}

/// `123,457` for 123,456.7 a second.
pub(super) fn per_second(rate: f64) -> String {
    grouped(rate.round() as u64)
}

/// What a host's CPUs and its IOMMU do: busy hardware threads by stage, then hypercalls, invalidations and lookups.
pub(super) fn cpus(host: &CpusAnswer) -> String {
    let stages = host.stages.iter().filter(|stage| stage.busy_cpus > 0.0);
    let stages: Vec<String> = stages.map(|stage| format!("{} {:.2}", stage.name, stage.busy_cpus)).collect();
    let busy = with_interval(&host.busy_cpus, |cpus| format!("{cpus:.2}"));
    let mut words = format!("{busy} hardware threads busy ({})", stages.join(", "));
    for (rate, what) in
        [(host.hypercalls_per_second, "hypercalls"), (host.invalidations_per_second, "invalidations")]
    {
        if rate.mean > 0.0 {
            let (rate, wait) =
                (with_interval(&rate, per_second), with_interval(&host.lock_wait_mean_ns, time));
            words.push_str(&format!("; {rate} {what}/s; {wait} wait for a lock"));
        }
    }
    if let Some(iommu) = host.iommu {
        let (lookups, missed) = (per_second(iommu.lookups_per_second), iommu.miss_share * 100.0);
        words.push_str(&format!("; {lookups} lookups/s in the IOTLB, {missed:.1} % not found"));
        if iommu.stale_uses > 0 {
            words.push_str(&format!("; {} by stale entries", grouped(iommu.stale_uses)));
        }
    }
    if host.mappings_refused > 0 {
        let refused = grouped(host.mappings_refused);
        words.push_str(&format!("; {refused} mappings refused: the window is full"));
    }
    words
}
