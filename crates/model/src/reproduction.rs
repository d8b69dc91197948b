//! Published figures beside ours: what the document `iotoll.reproduction/3` is made of.

use serde::{Deserialize, Serialize, Serializer};
use toll::Evidence;

/// The version of these types' layout in documents. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const SCHEMA: &str = "iotoll.reproduction/3";

/// A study of published figures, each beside what a model of the same machine says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproduction {
    /// The study's name: `iotlb`.
    pub study: String,
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
    /// What is known of figures that were drawn and not told.
    pub charts: Vec<Chart>,
}

/// A parameter of the model, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// What they are of.
    pub name: String,
    /// What is varied, with its unit.
    pub x_title: String,
    /// What the figures are, with their unit.
    pub y_title: String,
    /// Where they were published.
    pub source: String,
    /// How far off predictions may be, in the figures' own unit, where it is not the study's share that counts.
    pub within: Option<f64>,
    /// Why predictions are off, where they are.
    pub remark: Option<String>,
    /// The figures.
    pub points: Vec<Point>,
}

/// A published figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Our lines where no figures were published, but perhaps between what theirs lie: the ends of a drawing's axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chart {
    /// What they are of.
    pub name: String,
    /// What is varied, with its unit.
    pub x_title: String,
    /// What is drawn, with its unit.
    pub y_title: String,
    /// Where it was published.
    pub source: String,
    /// What there is to say of it.
    pub remark: Option<String>,
    /// Names of what is varied, where it has no numbers: at 1, 2, ... Then there are bars in place of lines.
    pub categories: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Of what.
    pub name: String,
    /// Between what the published one lies; `None` if there is none.
    pub bounds: Option<Bounds>,
    /// Where, and what the model says there.
    #[serde(serialize_with = "serialize_points")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<LinePoint>"))]
    pub points: Vec<(f64, f64)>,
}

/// A point of a line, as documents have it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LinePoint {
    /// Where on the line.
    x: f64,
    /// What the model says there.
    ours: f64,
}

/// Serializes points as objects with names.
fn serialize_points<S: Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().map(|&(x, ours)| LinePoint { x, ours }))
}

/// Between what a published line lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Nothing of it is below.
    pub low: f64,
    /// Nor above.
    pub high: f64,
    /// It ends here.
    pub x_max: f64,
}

impl Bounds {
    /// Whether they are within a hundredth of each other: what is held against them wants more digits.
    pub fn is_narrow(&self) -> bool {
        self.high - self.low < 0.01 * self.high.abs()
    }
}

/// What a published figure is to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        let is_within = match self.within {
            Some(within) => (point.ours - point.published).abs() <= within,
            None => point.error().abs() <= bound,
        };
        point.role == Role::Predicted && !is_within
    }
}

impl Line {
    /// Whether a point of ours lies where the published line does not; `None` if that one does not come so far.
    pub fn is_outside(&self, (x, ours): (f64, f64)) -> Option<bool> {
        let bounds = self.bounds.filter(|bounds| x <= bounds.x_max)?;
        Some(!(bounds.low..=bounds.high).contains(&ours))
    }
}

impl Reproduction {
    /// Points where there are published bounds, and those of them outside.
    pub fn bounded(&self) -> (usize, usize) {
        let lines = self.charts.iter().flat_map(|chart| &chart.lines);
        let checked: Vec<bool> =
            lines.flat_map(|line| line.points.iter().filter_map(|&point| line.is_outside(point))).collect();
        (checked.len(), checked.into_iter().filter(|&is_outside| is_outside).count())
    }

    /// Predictions that are further off than they may be, and points outside published bounds.
    pub fn misses(&self) -> usize {
        self.predictions().1 + self.bounded().1
    }

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
        let point = |ours, role| Point { x: 1.0, published: 100.0, ours, role };
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
        assert!((point(89.0, Role::Predicted).error() + 0.11).abs() < 1e-9);
        let by_unit = |within| curve(Some(within)).misses(&point(97.5, Role::Predicted), 0.0);
        assert!(by_unit(2.0) && !by_unit(3.0));
    }

    #[test]
    fn bounds_hold_as_far_as_the_published_line_goes() {
        let bounds = Some(Bounds { low: 1.0, high: 10.0, x_max: 8.0 });
        let points = vec![(1.0, 1.0), (8.0, 10.1), (16.0, 100.0)];
        let line = Line { name: String::new(), bounds, points };
        assert_eq!([0, 1, 2].map(|at| line.is_outside(line.points[at])), [Some(false), Some(true), None]);
        assert_eq!(line.is_outside((1.0, f64::NAN)), Some(true), "what is no number is outside");
        assert_eq!(Line { bounds: None, ..line }.is_outside((1.0, 1.0)), None);
    }
}
