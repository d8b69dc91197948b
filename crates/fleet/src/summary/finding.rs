//! Findings of a fleet, with their fixes and the hosts that have them.

use super::{ByCapture, rows_of};
use crate::tables::{FindingRow, Fix, HostRow};
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
    /// Its fixes, that of most hosts first. None of inspections that only a document tells: whoever wrote it may have written any command.
    pub fixes: Vec<FleetFix>,
}

/// What mends a finding, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetFix {
    /// The fix, in words.
    pub fix: String,
    /// The commands in `fix`, each as a shell command to run as root.
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
    hosts: BTreeSet<&'t str>,
    fixes: BTreeMap<&'t Fix, BTreeSet<&'t str>>,
}

/// All findings, worst and most frequent first.
pub(super) fn all<'t>(
    newest: &[(&'t str, &'t HostRow)],
    findings: &'t ByCapture<'t, FindingRow>,
) -> Vec<FleetFinding> {
    let mut kinds: BTreeMap<Kind<'_>, Found<'_>> = BTreeMap::new();
    for (host, row) in newest {
        for finding in rows_of(findings, row) {
            let found = kinds.entry((&finding.severity, &finding.id)).or_default();
            found.findings += 1;
            found.hosts.insert(host);
            if !row.is_document {
                found.fixes.entry(&finding.fix).or_default().insert(host);
            }
        }
    }
    let mut all: Vec<FleetFinding> = kinds.into_iter().map(|(kind, found)| found.named(kind)).collect();
    all.sort_by_key(|one| (rank(&one.severity), Reverse(one.hosts.len())));
    all
}

impl Found<'_> {
    fn named(self, (severity, id): Kind<'_>) -> FleetFinding {
        let mut fixes: Vec<FleetFix> = self.fixes.into_iter().map(|(fix, hosts)| fix.on(&hosts)).collect();
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

impl Fix {
    fn on(&self, hosts: &BTreeSet<&str>) -> FleetFix {
        let Self { fix, commands, risk } = self.clone();
        FleetFix { fix, commands, risk, hosts: owned(hosts) }
    }
}

fn owned(hosts: &BTreeSet<&str>) -> Vec<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

/// The place of a severity, worst first.
fn rank(severity: &str) -> usize {
    ["critical", "warning", "note"].iter().position(|known| *known == severity).unwrap_or(3)
}
