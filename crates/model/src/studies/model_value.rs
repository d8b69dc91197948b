//! What the model says for a figure.

use crate::part::Part;

/// A value of the model, and the busiest part of the run that it is from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelValue {
    pub(super) value: f64,
    /// `None` if the value is not that of a single run.
    pub(super) limit: Option<Part>,
}

impl ModelValue {
    /// The value of a run with these parts.
    pub(super) fn of_run(value: f64, parts: Vec<Part>) -> Self {
        Self { value, limit: parts.into_iter().max_by(|a, b| a.busy_share.total_cmp(&b.busy_share)) }
    }
}

impl From<f64> for ModelValue {
    fn from(value: f64) -> Self {
        Self { value, limit: None }
    }
}
