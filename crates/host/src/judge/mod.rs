//! Turns facts into verdicts: the road of every adapter, and findings with their remedies.
//!
//! Rules look at facts only and open no file. One file per family of findings.

mod decide;
pub mod finding;
mod power_road;
mod predict;
mod prediction;
mod published;
mod rules;
mod verdict;

pub use finding::{Finding, Id, Severity};
pub use prediction::{Distance, Pays, Prediction};
pub use toll::Road;
pub use verdict::Verdict;

use crate::facts::{Adapter, Host};
use crate::{Citation, Digest};
use std::collections::HashSet;

/// A host with its roads and findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// The facts.
    pub host: Host,
    /// The road of each adapter, in the order of the host's adapters.
    pub roads: Vec<Verdict>,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
}

impl Inspection {
    /// Judges a host, with the toll sheets that the program carries.
    pub fn of(host: Host) -> Self {
        Self::judged(host, None)
    }

    /// Judges a host, with these toll sheets.
    pub fn with_tolls(host: Host, tolls: &Digest) -> Self {
        Self::judged(host, Some(tolls))
    }

    fn judged(host: Host, tolls: Option<&Digest>) -> Self {
        let roads: Vec<Verdict> =
            host.adapters.iter().map(|adapter| decide::decide(&host, adapter)).collect();
        let case = Case { host: &host, roads: &roads };
        let mut findings = rules::find(&case);
        predict::add(&mut findings, &case, tolls);
        findings.iter_mut().for_each(|finding| keep_first(&mut finding.evidence));
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.id, finding.address));
        Self { host, roads, findings }
    }

    /// Adapters with their roads.
    pub fn adapters(&self) -> impl Iterator<Item = (&Adapter, &Verdict)> {
        self.host.adapters.iter().zip(&self.roads)
    }
}

/// A line may serve a road and the finding about it: it is quoted once.
fn keep_first(lines: &mut Vec<Citation>) {
    let mut seen = HashSet::new();
    lines.retain(|line| seen.insert(line.clone()));
}

/// What the rules look at.
struct Case<'h> {
    host: &'h Host,
    roads: &'h [Verdict],
}

impl<'h> Case<'h> {
    /// Adapters with their roads.
    fn adapters(&self) -> impl Iterator<Item = (&'h Adapter, &'h Verdict)> + use<'h> {
        self.host.adapters.iter().zip(self.roads)
    }

    /// Adapters that the kernel does I/O with.
    fn working(&self) -> impl Iterator<Item = (&'h Adapter, &'h Verdict)> + use<'h> {
        self.adapters().filter(|(_, verdict)| !matches!(verdict.road, Road::Unbound | Road::User))
    }
}
