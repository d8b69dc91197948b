//! Parts that all studies share: the header of a study file, published points and collected results.

use super::model_value::ModelValue;
use crate::{Chart, Curve, EvidenceShare, FigureKind, Parameter, Point, Reproduction, Row};
use serde::Deserialize;

/// The `[about]` table of a study file: its question, its method and its error bound.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    question: String,
    method: String,
    bound: f64,
}

/// A published or measured value at `x`, and what meeting it would prove.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PointFile {
    pub(super) x: f64,
    #[serde(alias = "measured")]
    pub(super) published: f64,
    pub(super) kind: FigureKind,
    /// The row that it repeats.
    pub(super) of: Option<Row>,
}

impl PointFile {
    /// Pairs the value with the model's at the same `x`.
    pub(super) fn with_model_value(&self, ours: impl Into<ModelValue>) -> Point {
        let ModelValue { value, limit } = ours.into();
        Point {
            x: self.x,
            reference: self.published,
            ours: value,
            ours_low: value,
            ours_high: value,
            kind: self.kind,
            repeats: self.of.clone(),
            limit,
        }
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
        let evidence = EvidenceShare::of_parameters(&parameters);
        Reproduction {
            study: study.to_owned(),
            question,
            method,
            parameters,
            evidence,
            bound,
            curves,
            charts,
        }
    }
}
