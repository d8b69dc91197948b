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
    /// How far off a prediction may be, as a share of what was published; see also [`Curve::within`].
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
    /// How far off predictions may be, in the figures' own unit, where it is not the family's share that counts.
    pub within: Option<f64>,
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
    /// What was published; nothing where only the model speaks.
    pub published: Option<f64>,
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
    /// No figure was published that it could be held against.
    Modelled,
}

impl Role {
    /// The word used for it everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::Modelled => "not published",
        }
    }
}

impl Point {
    /// How far off ours is, as a share of what was published.
    pub fn error(&self) -> Option<f64> {
        self.published.map(|published| self.ours / published - 1.0)
    }
}

impl Curve {
    /// Whether there is a line to draw.
    pub fn is_line(&self) -> bool {
        self.points.len() > 1
    }

    /// Whether one of its figures is a prediction that is further off than it may be, by `bound` where the curve has none of its
    /// own.
    pub fn misses(&self, point: &Point, bound: f64) -> bool {
        // What is no number is off too.
        let is_within = match (self.within, point.published) {
            (Some(within), Some(published)) => (point.ours - published).abs() <= within,
            _ => point.error().is_some_and(|error| error.abs() <= bound),
        };
        point.role == Role::Predicted && !is_within
    }
}

impl Reproduction {
    /// Predicted figures, and those of them that are further off than they may be.
    pub fn predictions(&self) -> (usize, usize) {
        let points =
            || self.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let predicted = points().filter(|(_, point)| point.role == Role::Predicted).count();
        (predicted, points().filter(|(curve, point)| curve.misses(point, self.bound)).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_predictions_can_miss() {
        let point = |ours, role| Point { x: 1.0, published: Some(100.0), ours, role };
        let curve = |within| Curve {
            name: String::new(),
            x_title: String::new(),
            y_title: String::new(),
            source: String::new(),
            within,
            remark: None,
            points: Vec::new(),
        };
        let misses = |ours, role| curve(None).misses(&point(ours, role), 0.1);
        assert!(!misses(120.0, Role::Calibrated));
        assert!(!misses(109.0, Role::Predicted));
        assert!(misses(89.0, Role::Predicted) && misses(f64::NAN, Role::Predicted));
        assert!((point(89.0, Role::Predicted).error().unwrap() + 0.11).abs() < 1e-9);
        let modelled = Point { published: None, ..point(89.0, Role::Modelled) };
        assert!(modelled.error().is_none() && !curve(None).misses(&modelled, 0.1));
        let by_unit = |within| curve(Some(within)).misses(&point(97.5, Role::Predicted), 0.0);
        assert!(by_unit(2.0) && !by_unit(3.0));
    }
}
