//! Turns facts into verdicts: the DMA path of every adapter, and findings with their remedies.
//!
//! Rules look at facts only and open no file. One file per family of findings.

mod advice;
mod basis;
mod decide;
pub mod finding;
mod forecast;
mod mapping_counts;
mod measured;
mod outlook;
mod power_dma_path;
mod predict;
mod prediction;
mod published;
mod rules;
mod verdict;

pub use advice::{Advice, OTHERWISE, Part};
pub use basis::Basis;
pub use finding::{Explanation, Finding, Id, Severity};
pub use forecast::{AreaForecast, Rest};
pub use mapping_counts::MappingCounts;
pub use measured::{MeasuredGain, MeasuredMapping};
pub use outlook::{Outlook, PathCost};
pub use predict::{TimedEvents, measured_prices};
pub use prediction::{Distance, IoCost, LOAD_PER_SECOND, Prediction, Saved, TimeGain};
pub use toll::DmaPath;
pub use verdict::Verdict;

use crate::Citation;
use crate::facts::{Adapter, Host, LogProblem};
use std::collections::HashSet;

/// What each kind of finding means, sorted by its name.
pub fn explanations() -> Vec<&'static Explanation> {
    let mut explanations: Vec<_> = rules::RULES.iter().flat_map(|rule| rule.explains).collect();
    explanations.sort_by_key(|explanation| explanation.id.word());
    explanations
}

/// A host with its DMA paths and findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// The facts.
    pub host: Host,
    /// The DMA path of each adapter, in the order of the host's adapters.
    pub dma_paths: Vec<Verdict>,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    /// Messages of the log that tell of something wrong and that no finding cites.
    pub unjudged: Vec<LogProblem>,
    /// What an I/O takes today and after the fixes, by address, where that can be predicted and a DMA path changes.
    pub outlooks: Vec<Outlook>,
}

impl Inspection {
    /// Diagnoses a host, with the built-in toll sheets and prices.
    pub fn of(host: Host) -> Self {
        Self::with_basis(host, Basis::default())
    }

    /// Diagnoses a host; predictions are made with these toll sheets, prices and forecasts.
    pub fn with_basis(host: Host, basis: Basis<'_>) -> Self {
        let dma_paths: Vec<Verdict> =
            host.adapters.iter().map(|adapter| decide::decide(&host, adapter)).collect();
        let case = Case { host: &host, dma_paths: &dma_paths, basis };
        let mut findings = rules::find_all(&case);
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.id, finding.address));
        let outlooks = predict::add(&mut findings, &case);
        findings.iter_mut().for_each(|finding| remove_repeated(&mut finding.evidence));
        let unjudged = unjudged(&host, &findings);
        Self { host, dma_paths, findings, unjudged, outlooks }
    }

    /// Adapters with their DMA paths.
    pub fn adapters(&self) -> impl Iterator<Item = (&Adapter, &Verdict)> {
        self.host.adapters.iter().zip(&self.dma_paths)
    }
}

/// Problems in the log of which no finding cites a line. Where an option keeps the pool of bounce buffers away, its missing is no
/// problem: the kernel prints the line of a pool that found no memory (kernel/dma/swiotlb.c, `swiotlb_print_info`).
fn unjudged(host: &Host, findings: &[Finding]) -> Vec<LogProblem> {
    let kept_away = host.log.swiotlb_failed.iter().filter(|_| host.bounce.never.is_some());
    let judged: Vec<&Citation> =
        findings.iter().flat_map(|finding| &finding.evidence).chain(kept_away).collect();
    let is_judged = |problem: &&LogProblem| problem.is_cited_by(judged.iter().copied());
    host.log.problems.iter().filter(|problem| !is_judged(problem)).cloned().collect()
}

/// Removes repeated citations. A line may be evidence of a DMA path and of the finding about it.
fn remove_repeated(lines: &mut Vec<Citation>) {
    let mut seen = HashSet::new();
    lines.retain(|line| seen.insert(line.clone()));
}

/// What the rules look at.
struct Case<'h> {
    host: &'h Host,
    dma_paths: &'h [Verdict],
    /// What predictions are made with.
    basis: Basis<'h>,
}

impl<'h> Case<'h> {
    /// Adapters with their DMA paths.
    fn adapters(&self) -> impl Iterator<Item = (&'h Adapter, &'h Verdict)> + use<'h> {
        self.host.adapters.iter().zip(self.dma_paths)
    }

    /// Adapters that the kernel does I/O with.
    fn working(&self) -> impl Iterator<Item = (&'h Adapter, &'h Verdict)> + use<'h> {
        self.adapters().filter(|(_, verdict)| !matches!(verdict.dma_path, DmaPath::Unbound | DmaPath::User))
    }

    /// Whether the path of any of them shows that no IOMMU is in use.
    fn shows_no_iommu(&self) -> bool {
        self.working().any(|(_, verdict)| matches!(verdict.dma_path, DmaPath::NoIommu | DmaPath::Bounce))
    }
}
