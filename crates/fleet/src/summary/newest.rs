//! Hosts, each by one capture.

use super::finding::{is_known, rank};
use super::{ByCapture, rows_of};
use crate::tables::{AdapterRow, FindingRow, HostRow};
use serde::Serialize;
use std::cmp::Reverse;

/// A host by its newest capture that tells paths and drivers of adapters, or else by its newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetHost {
    /// What it is called in all lists: its name, with its machine where several have the name; the input's path if it has none.
    pub host: String,
    /// The machine's model.
    pub machine: Option<String>,
    /// The path of the capture.
    pub input: String,
    /// When the capture's file was modified, in microseconds since 1970.
    pub modified_us: Option<i64>,
    /// Adapters that the capture tells of.
    pub adapters: usize,
    /// Critical findings; of a document, those of the kinds that this version of the program has.
    pub critical: usize,
    /// Warnings.
    pub warnings: usize,
    /// Notes.
    pub notes: usize,
}

/// All hosts, those with the worst findings first.
pub(super) fn all(
    newest: &[(&str, &HostRow)],
    adapters: &ByCapture<'_, AdapterRow>,
    findings: &ByCapture<'_, FindingRow>,
) -> Vec<FleetHost> {
    let host = |(host, row): &(&str, &HostRow)| {
        let mut by_rank = [0; 4];
        let known = rows_of(findings, row).iter().filter(|finding| !row.is_document || is_known(&finding.id));
        known.for_each(|finding| by_rank[rank(&finding.severity)] += 1);
        let [critical, warnings, notes, _] = by_rank;
        FleetHost {
            host: (*host).to_owned(),
            machine: row.machine.clone(),
            input: row.input.clone(),
            modified_us: row.modified_us,
            adapters: rows_of(adapters, row).len(),
            critical,
            warnings,
            notes,
        }
    };
    let mut all: Vec<FleetHost> = newest.iter().map(host).collect();
    all.sort_by_key(|one| Reverse((one.critical, one.warnings, one.notes)));
    all
}
