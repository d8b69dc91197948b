//! Parts that all studies share: the header of a study file, published points and collected results.

use crate::{Chart, Curve, Parameter, Point, Reproduction, Role};
use serde::Deserialize;

/// The `[about]` table of a study file: its question, its method and its error bound.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    question: String,
    method: String,
    bound: f64,
}

/// A published value at `x`, and its role: calibrated or predicted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PointFile {
    pub(super) x: f64,
    pub(super) published: f64,
    pub(super) role: Role,
}

impl PointFile {
    /// Pairs the published value with the model's value `ours` at the same `x`.
    pub(super) fn with_model_value(&self, ours: f64) -> Point {
        let Self { x, published, role } = *self;
        Point { x, published, ours, role }
    }
}

/// What a study computed: the parameters that it used, the curves and the charts.
#[derive(Debug, Default)]
pub(super) struct StudyResults {
    pub(super) parameters: Vec<Parameter>,
    pub(super) curves: Vec<Curve>,
    pub(super) charts: Vec<Chart>,
}

impl About {
    /// Joins the header of the study file with the results into the study's report.
    pub(super) fn into_reproduction(self, study: &str, results: StudyResults) -> Reproduction {
        let StudyResults { parameters, curves, charts } = results;
        let Self { question, method, bound } = self;
        Reproduction { study: study.to_owned(), question, method, parameters, bound, curves, charts }
    }
}

impl StudyResults {
    /// Appends the results of another model.
    pub(super) fn append(mut self, other: Self) -> Self {
        self.parameters.extend(other.parameters);
        self.curves.extend(other.curves);
        self.charts.extend(other.charts);
        self
    }
}
