//! Findings of a fleet, with their fixes and the hosts that have them.

use super::{ByCapture, rows_of};
use crate::document::SEVERITIES;
use crate::tables::{FindingRow, Fix, HostRow};
use host::diagnose::Id;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Something that was found on hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetFinding {
    /// The kind of finding.
    pub id: String,
    /// Its severity.
    pub severity: String,
    /// How often, in all hosts: once for each adapter that has it.
    pub findings: usize,
    /// Hosts that have it.
    pub hosts: Vec<String>,
    /// Its fixes, that of most hosts first. Only those that this version of the program has for a capture: whoever wrote a document may have written
    /// any command, and older versions knew less.
    pub fixes: Vec<FleetFix>,
}

/// What mends a finding, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetFix {
    /// What was found on `what_of`, the first of the hosts; others may have other addresses and sizes.
    pub what: String,
    /// A host that has it.
    pub what_of: String,
    /// How often it is for something, in all hosts.
    pub findings: usize,
    /// Addresses of adapters that it is for, on any of the hosts; none if it is for hosts.
    pub addresses: Vec<String>,
    /// The fix, in words.
    pub fix: String,
    /// The commands in `fix`, in its order, each as a shell command to run as root. `fix` says when: one may only complete what stands before
    /// it there, or be for those who can't do that.
    pub commands: Vec<String>,
    /// Its risk.
    pub risk: String,
    /// Hosts that it is for, as it stands here.
    pub hosts: Vec<String>,
}

/// A finding's severity and kind.
type Kind<'t> = (&'t str, &'t str);

/// What hosts have of one kind.
#[derive(Default)]
struct Found<'t> {
    findings: usize,
    /// Whether an inspection of a capture found it, and not documents alone.
    is_inspected: bool,
    hosts: BTreeSet<&'t str>,
    fixes: BTreeMap<&'t Fix, Places<'t>>,
}

/// Where a fix is for.
#[derive(Default)]
struct Places<'t> {
    hosts: BTreeSet<&'t str>,
    addresses: BTreeSet<&'t str>,
    findings: usize,
    what: &'t str,
    what_of: &'t str,
}

/// All findings, worst and most frequent first.
pub(super) fn all<'t>(
    newest: &[(&'t str, &'t HostRow)],
    findings: &'t ByCapture<'t, FindingRow>,
    made_by: &str,
) -> Vec<FleetFinding> {
    let mut kinds: BTreeMap<Kind<'_>, Found<'_>> = BTreeMap::new();
    for (host, row) in newest {
        for finding in rows_of(findings, row) {
            let found = kinds.entry((&finding.severity, &finding.id)).or_default();
            found.findings += 1;
            found.is_inspected |= !row.is_document;
            found.hosts.insert(host);
            if row.rules == made_by && !row.is_document {
                found.fixes.entry(&finding.fix).or_default().add(host, finding);
            }
        }
    }
    // A kind that documents alone have may be their author's.
    let is_trusted = |found: &Found<'_>, (_, id): &Kind<'_>| found.is_inspected || is_known(id);
    let mut all: Vec<(bool, FleetFinding)> =
        kinds.into_iter().map(|(kind, found)| (is_trusted(&found, &kind), found.named(kind))).collect();
    all.sort_by_key(|(is_trusted, one)| (!is_trusted, rank(&one.severity), Reverse(one.hosts.len())));
    all.into_iter().map(|(_, one)| one).collect()
}

impl Found<'_> {
    fn named(self, (severity, id): Kind<'_>) -> FleetFinding {
        let mut fixes: Vec<FleetFix> = self.fixes.into_iter().map(|(fix, places)| places.with(fix)).collect();
        fixes.sort_by_key(|fix| Reverse(fix.hosts.len()));
        FleetFinding {
            id: id.to_owned(),
            severity: severity.to_owned(),
            findings: self.findings,
            hosts: owned(&self.hosts),
            fixes,
        }
    }
}

impl<'t> Places<'t> {
    fn add(&mut self, host: &'t str, finding: &'t FindingRow) {
        if self.hosts.is_empty() {
            (self.what, self.what_of) = (&finding.what, host);
        }
        self.findings += 1;
        self.hosts.insert(host);
        self.addresses.extend(finding.address.as_deref());
    }

    fn with(&self, fix: &Fix) -> FleetFix {
        let Fix { fix, commands, risk } = fix.clone();
        let [what, what_of] = [self.what, self.what_of].map(ToOwned::to_owned);
        let (addresses, hosts) = (owned(&self.addresses), owned(&self.hosts));
        FleetFix { what, what_of, findings: self.findings, fix, commands, risk, addresses, hosts }
    }
}

fn owned(texts: &BTreeSet<&str>) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Whether this version of the program has findings of this kind.
pub(super) fn is_known(id: &str) -> bool {
    Id::ALL.iter().any(|known| known.word() == id)
}

/// The place of a severity, worst first.
pub(super) fn rank(severity: &str) -> usize {
    SEVERITIES.iter().position(|known| *known == severity).unwrap_or(SEVERITIES.len())
}
