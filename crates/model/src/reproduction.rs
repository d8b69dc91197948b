//! Published figures beside ours: what the document `iotoll.reproduction/1` is made of.

use serde::{Deserialize, Serialize};
use toll::Evidence;

/// The version of these types' layout in documents. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const SCHEMA: &str = "iotoll.reproduction/1";

/// A family of published figures, each beside what a model of the same machine says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// The family's name: `iotlb`.
    pub family: String,
    /// What was asked.
    pub question: String,
    /// How the model answers it.
    pub method: String,
    /// What the model takes as given, each with its evidence.
    pub parameters: Vec<Parameter>,
    /// How far off a prediction may be, as a share of what was published.
    pub bound: f64,
    /// The figures.
    pub curves: Vec<Curve>,
}

/// A parameter of the model, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name, the unit last: `walk_ns`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Where that comes from.
    pub evidence: Evidence,
}

/// Figures of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// What they are of.
    pub name: String,
    /// What is varied, with its unit.
    pub x_title: String,
    /// What the figures are, with their unit.
    pub y_title: String,
    /// Where they were published.
    pub source: String,
    /// Why predictions are off, where they are.
    pub remark: Option<String>,
    /// The figures.
    pub points: Vec<Point>,
}

/// A published figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Where on the curve.
    pub x: f64,
    /// What was published.
    pub published: f64,
    /// What the model says.
    pub ours: f64,
    /// Whether the model has seen it.
    pub role: Role,
}

/// What a published figure is to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A parameter was chosen so that the model meets it: agreement proves nothing.
    Calibrated,
    /// No parameter was chosen with an eye on it.
    Predicted,
}

impl Role {
    /// The word used for it everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
        }
    }
}

impl Point {
    /// How far off ours is, as a share of what was published.
    pub fn error(&self) -> f64 {
        self.ours / self.published - 1.0
    }

    /// Whether it is a prediction that is further off than it may be.
    pub fn misses(&self, bound: f64) -> bool {
        let is_within = self.error().abs() <= bound;
        // What is no number is off too.
        self.role == Role::Predicted && !is_within
    }
}

impl Reproduction {
    /// Predicted figures, and those of them that are further off than they may be.
    pub fn predictions(&self) -> (usize, usize) {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let predicted = points().filter(|point| point.role == Role::Predicted).count();
        (predicted, points().filter(|point| point.misses(self.bound)).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_predictions_can_miss() {
        let point = |ours, role| Point { x: 1.0, published: 100.0, ours, role };
        let misses = |ours, role| point(ours, role).misses(0.1);
        assert!(!misses(120.0, Role::Calibrated));
        assert!(!misses(109.0, Role::Predicted));
        assert!(misses(89.0, Role::Predicted) && misses(f64::NAN, Role::Predicted));
        assert!((point(89.0, Role::Predicted).error() + 0.11).abs() < 1e-9);
    }
}
