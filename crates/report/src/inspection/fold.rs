//! Findings that are the same on several adapters, folded into one.

use escape::terminal::plain;
use host::Bdf;
use host::diagnose::{Finding, Prediction};
use std::collections::HashMap;

/// Explains predictions, once below all findings.
pub(crate) const PREDICTIONS_EXPLAINED: &str = "Tolls are per I/O, in instructions and events counted on emulated machines. Times are \
                               those tolls at the prices of the platform named, which were not measured here: a CPU's \
                               time, without the adapter's.";

/// A finding and all addresses that it holds for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Folded<'i> {
    /// The finding of the first address; texts name that one.
    pub(crate) finding: &'i Finding,
    /// All addresses, in the order found; empty if it is the host's.
    pub(crate) addresses: Vec<Bdf>,
    /// What is predicted for any of the addresses, each text once. Adapters of other classes and drivers have other I/Os.
    pub(crate) predicted: Vec<&'i Prediction>,
    /// Whether the texts name the first address or its group, and the other addresses differ there.
    pub(crate) differs: bool,
}

/// A prediction with its source: the toll sheets, or the prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PredictionSource<'i> {
    pub(crate) what: &'i str,
    pub(crate) source: &'i str,
}

/// The lines of predictions, each followed by its source once for all predictions from it. The flag is true for a source.
pub(crate) fn lines_with_sources<'i>(predicted: &[PredictionSource<'i>]) -> Vec<(&'i str, bool)> {
    let by_source = predicted.chunk_by(|a, b| a.source == b.source);
    let lines = |some: &[PredictionSource<'i>]| {
        let mut lines: Vec<_> = some.iter().map(|one| (one.what, false)).collect();
        lines.extend(some.last().map(|one| (one.source, true)));
        lines
    };
    by_source.flat_map(lines).collect()
}

/// Folds findings that are the same but for the address, keeping their order.
pub(crate) fn fold<'i>(findings: impl IntoIterator<Item = &'i Finding>) -> Vec<Folded<'i>> {
    let mut folded: Vec<Folded<'i>> = Vec::new();
    let mut places = HashMap::new();
    for finding in findings {
        let text = |text: &str| blanked(text, finding.address);
        let key = (finding.id, finding.severity, text(&finding.what), text(&finding.fix.to_string()));
        let next = folded.len();
        let place = *places.entry(key).or_insert(next);
        match folded.get_mut(place) {
            Some(known) => known.add(finding),
            None => folded.push(Folded {
                finding,
                addresses: finding.address.into_iter().collect(),
                predicted: finding.predicted.iter().collect(),
                differs: false,
            }),
        }
    }
    folded
}

impl<'i> Folded<'i> {
    /// Adds a finding of another address that is otherwise the same.
    fn add(&mut self, other: &'i Finding) {
        self.addresses.extend(other.address);
        for prediction in &other.predicted {
            if !self.predicted.iter().any(|known| known.what == prediction.what) {
                self.predicted.push(prediction);
            }
        }
        self.differs |= self.finding.what != other.what || self.finding.fix != other.fix;
    }

    /// Predictions in instructions and events, with the toll sheets that they are from.
    pub(crate) fn tolls(&self) -> Vec<PredictionSource<'i>> {
        let toll = |one: &&'i Prediction| PredictionSource { what: &one.what, source: &one.sheets };
        self.predicted.iter().map(toll).collect()
    }

    /// Predictions in time, with the prices that they are at.
    pub(crate) fn times(&self) -> Vec<PredictionSource<'i>> {
        let times = self.predicted.iter().filter_map(|one| one.time.as_ref());
        times.map(|time| PredictionSource { what: &time.what, source: &time.prices }).collect()
    }

    /// The address that the texts name, as text; empty for a finding of the host.
    pub(crate) fn first_address(&self) -> String {
        self.addresses.first().map(Bdf::to_string).unwrap_or_default()
    }

    /// The first addresses, at most `shown_max` of them, and how many more there are.
    pub(crate) fn first_addresses(&self, shown_max: usize) -> String {
        let listed = |some: &[Bdf]| some.iter().map(Bdf::to_string).collect::<Vec<_>>().join(" ");
        match self.addresses.as_slice() {
            [] => "the host".to_owned(),
            all if all.len() <= shown_max.max(1) => listed(all),
            all => {
                let (shown, rest) = all.split_at(shown_max.max(1));
                format!("{} and {} more", listed(shown), crate::page::quantity::grouped(rest.len() as u64))
            }
        }
    }
}

/// The lines that a finding is concluded from, each once.
pub(crate) fn evidence_lines(finding: &Finding) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for at in &finding.evidence {
        let line = plain(&at.to_string());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The text without the adapter's own address and without the number of its group, which differ for each adapter. Other addresses
/// stay: findings whose fixes change different ports are not the same.
fn blanked(text: &str, own: Option<Bdf>) -> String {
    let text = match own {
        Some(address) => text.replace(&address.to_string(), BLANK),
        None => text.to_owned(),
    };
    let mut parts = text.split(GROUPS);
    let mut blanked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        blanked.push_str(GROUPS);
        blanked.push_str(BLANK);
        blanked.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    blanked
}

const BLANK: &str = "…";
const GROUPS: &str = "iommu_groups/";

#[cfg(test)]
mod tests {
    use super::*;
    use host::diagnose::{Id, Severity};

    fn finding(address: &str, fix: &str) -> Finding {
        Finding {
            id: Id::StrictOnFastAdapter,
            severity: Severity::Warning,
            address: address.parse().ok(),
            what: "every unmap waits".to_owned(),
            evidence: Vec::new(),
            fix: fix.to_owned().into(),
            risk: String::new(),
            verify: "".into(),
            gain: None,
            predicted: Vec::new(),
            forecast: None,
        }
    }

    fn prediction(what: &str) -> Prediction {
        let pays = || host::diagnose::IoCost {
            mapping: host::diagnose::MappingCounts::default(),
            preset: String::new(),
            dma_path: toll::DmaPath::TceWindow,
            instructions: 1.0,
            events: Default::default(),
        };
        Prediction {
            what: what.to_owned(),
            sheets: String::new(),
            workload: String::new(),
            driver: String::new(),
            now: pays(),
            then: pays(),
            saved: Default::default(),
            distance: host::diagnose::Distance {
                other_iommu: false,
                other_tce_calls: false,
                other_driver: false,
                kernel_releases: None,
            },
            evidence: toll::Evidence::Assumed { why: "made up".to_owned() },
            time: None,
        }
    }

    #[test]
    fn adapters_of_all_classes_are_predicted_for_once() {
        let mut found = ["01:00.0", "02:00.0", "03:00.0"].map(|address| finding(address, "iommu.strict=0"));
        for (finding, what) in found.iter_mut().zip(["a read", "a request", "a read"]) {
            finding.predicted.push(prediction(what));
        }
        let folded = fold(&found);
        let predicted: Vec<&str> = folded[0].predicted.iter().map(|one| one.what.as_str()).collect();
        assert_eq!((folded.len(), predicted), (1, vec!["a read", "a request"]));
    }

    #[test]
    fn addresses_and_groups_make_no_difference() {
        let own = "0000:3b:00.0".parse().ok();
        let text = "echo 0000:3b:00.0 > /sys/kernel/iommu_groups/12/type below 0000:3a:00.0";
        assert_eq!(blanked(text, own), "echo … > /sys/kernel/iommu_groups/…/type below 0000:3a:00.0");
        let found = [
            finding("01:00.0", "echo DMA-FQ > /sys/kernel/iommu_groups/1/type"),
            finding("02:00.0", "echo DMA-FQ > /sys/kernel/iommu_groups/2/type"),
            finding("03:00.0", "iommu.strict=0"),
        ];
        let folded = fold(&found);
        assert_eq!(folded.len(), 2);
        assert!(folded[0].differs && !folded[1].differs);
        assert_eq!(folded[0].first_addresses(4), "0000:01:00.0 0000:02:00.0");
        assert_eq!(folded[0].first_addresses(1), "0000:01:00.0 and 1 more");
    }
}
