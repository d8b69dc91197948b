//! What every document of a run begins with.

use crate::machine::Machine;
use serde::Serialize;
use toll::Evidence;

/// Who measures: what a document says of its origin.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The program and its version.
    pub made_by: String,
    /// The command line.
    pub command: Vec<String>,
    /// The day, YYYY-MM-DD.
    pub date: String,
}

/// What a run is, and what it was measured on.
#[derive(Debug, Clone, Serialize)]
pub struct Head {
    /// The version of the document's layout.
    pub schema: &'static str,
    /// The program and its version.
    pub made_by: String,
    /// The command line.
    pub command: Vec<String>,
    /// The day, YYYY-MM-DD.
    pub date: String,
    /// Where all figures come from.
    pub evidence: Evidence,
    /// What was measured on.
    pub machine: Machine,
    /// What casts doubt on the figures.
    pub warnings: Vec<String>,
}

impl Head {
    /// Without warnings yet.
    pub(crate) fn new(schema: &'static str, origin: Origin, machine: Machine) -> Self {
        let Origin { made_by, command, date } = origin;
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let on = format!("{}, Linux {}", known(&machine.cpu), known(&machine.kernel));
        let evidence = Evidence::Measured { how: command.join(" "), on };
        Self { schema, made_by, command, date, evidence, machine, warnings: Vec::new() }
    }
}
