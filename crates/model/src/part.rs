//! A part of a machine and its busy share, which shows what limits.

use serde::Serialize;

/// A part of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Share of time in which it was busy.
    pub busy_share: f64,
}

/// Busier than this, a part is what limits.
const LIMITS_FROM: f64 = 0.95;

impl Part {
    pub(crate) fn new(name: impl Into<String>, busy_share: f64) -> Self {
        Self { name: name.into(), busy_share }
    }

    /// The name of the busiest part, if it has no more to give.
    pub(crate) fn limiting(parts: &[Self]) -> Option<String> {
        let busiest = parts.iter().max_by(|a, b| a.busy_share.total_cmp(&b.busy_share));
        busiest.filter(|part| part.busy_share >= LIMITS_FROM).map(|part| part.name.clone())
    }
}
