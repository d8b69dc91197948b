//! What a study is about.

use crate::{Chart, Curve, Parameter, Point, Reproduction, Role};
use serde::Deserialize;

/// The head of a study's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    question: String,
    method: String,
    bound: f64,
}

/// A published figure of a curve, and what it is for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PointFile {
    pub(super) x: f64,
    pub(super) published: f64,
    pub(super) role: Role,
}

impl PointFile {
    /// With what the model says.
    pub(super) fn beside(&self, ours: f64) -> Point {
        let Self { x, published, role } = *self;
        Point { x, published, ours, role }
    }
}

/// What models say.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) parameters: Vec<Parameter>,
    pub(super) curves: Vec<Curve>,
    pub(super) charts: Vec<Chart>,
}

impl About {
    pub(super) fn with(self, study: &str, told: Told) -> Reproduction {
        let Told { parameters, curves, charts } = told;
        let Self { question, method, bound } = self;
        Reproduction { study: study.to_owned(), question, method, parameters, bound, curves, charts }
    }
}

impl Told {
    /// What another model says, behind it.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.parameters.extend(other.parameters);
        self.curves.extend(other.curves);
        self.charts.extend(other.charts);
        self
    }
}
