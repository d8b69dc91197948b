//! Published figures beside ours: the document `iotoll.reproduction/1`.

use serde::{Deserialize, Serialize};
use toll::Evidence;

/// The version of the document's layout. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const SCHEMA: &str = "iotoll.reproduction/1";

/// A family of published figures, each beside what a model of the same machine says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The family's name: `iotlb`.
    pub family: String,
    /// What was asked.
    pub question: String,
    /// What the model takes as given, each with its evidence.
    pub parameters: Vec<Parameter>,
    /// The figures.
    pub figures: Vec<Figure>,
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

/// What a published figure is to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A parameter was chosen so that the model meets it: agreement proves nothing.
    Calibrated,
    /// No parameter was chosen with an eye on it.
    Predicted,
}

/// A published figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What it is of: `IVB, window 1 MiB`.
    pub name: String,
    /// Its unit: `Gb/s`.
    pub unit: String,
    /// What was published.
    pub published: f64,
    /// What the model says.
    pub ours: f64,
    /// Whether the model has seen it.
    pub role: Role,
    /// How far off it may be, as a share of what was published.
    pub bound: f64,
    /// Where it was published.
    pub source: String,
    /// Why it is off, where it is.
    pub remark: Option<String>,
}

impl Figure {
    /// How far off ours is, as a share of what was published.
    pub fn error(&self) -> f64 {
        self.ours / self.published - 1.0
    }

    /// Whether it is as near as it is to be.
    pub fn is_within(&self) -> bool {
        self.error().abs() <= self.bound
    }
}

impl Reproduction {
    /// Predicted figures that are further off than they may be.
    pub fn misses(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.role == Role::Predicted && !figure.is_within())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_predictions_can_miss() {
        let figure = |ours, role| Figure {
            name: "a".to_owned(),
            unit: "ns".to_owned(),
            published: 100.0,
            ours,
            role,
            bound: 0.1,
            source: "nobody".to_owned(),
            remark: None,
        };
        let figures = vec![
            figure(120.0, Role::Calibrated),
            figure(109.0, Role::Predicted),
            figure(89.0, Role::Predicted),
        ];
        let of = |figures| Reproduction {
            schema: SCHEMA,
            family: "made up".to_owned(),
            question: String::new(),
            parameters: Vec::new(),
            figures,
        };
        let missed: Vec<f64> = of(figures).misses().map(|figure| figure.ours).collect();
        assert_eq!(missed, [89.0]);
        assert!((figure(89.0, Role::Predicted).error() + 0.11).abs() < 1e-9);
    }
}
