//! The head of every benchmark document: its origin, machine and warnings.

use crate::host_summary::HostSummary;
use serde::Serialize;
use toll::Evidence;

/// The program, command and day that a document comes from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The program and its version.
    pub made_by: String,
    /// The command line.
    pub command: Vec<String>,
    /// The day, YYYY-MM-DD.
    pub date: String,
}

/// A document's schema, origin, machine and warnings.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Head {
    /// The document's schema, with its version.
    pub schema: &'static str,
    /// The program and its version.
    pub made_by: String,
    /// The command line.
    pub command: Vec<String>,
    /// The day, YYYY-MM-DD.
    pub date: String,
    /// How and on what all figures were measured.
    pub evidence: Evidence,
    /// The machine that was measured.
    pub machine: HostSummary,
    /// Reasons to doubt the figures.
    pub warnings: Vec<String>,
}

impl Head {
    /// A head without warnings.
    pub fn new(schema: &'static str, origin: Origin, machine: HostSummary) -> Self {
        let Origin { made_by, command, date } = origin;
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let on = format!("{}, Linux {}", known(&machine.cpu), known(&machine.kernel));
        let evidence = Evidence::Measured { how: command.join(" "), on };
        Self { schema, made_by, command, date, evidence, machine, warnings: Vec::new() }
    }
}
