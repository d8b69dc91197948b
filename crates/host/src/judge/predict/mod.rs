//! What findings that lead to another road are predicted to give, from the toll sheets nearest to the host.

mod change;
mod nearest;
mod place;
mod releases;
mod words;

use super::prediction::Prediction;
use super::{Case, Finding};
use crate::Digest;
use crate::facts::{Adapter, Host};
use change::{Change, Working};
use place::{Place, Workload};
use std::collections::HashMap;

/// Predictions shown with one finding.
const PREDICTIONS_MAX: usize = 2;

/// Adds predictions to findings. Without `tolls` those that the program carries are used.
pub(super) fn add(findings: &mut [Finding], case: &Case<'_>, tolls: Option<&Digest>) {
    let working: Working<'_> = case.working().map(|it| (it.0.function.address, it)).collect();
    let mut known = Known::default();
    for finding in findings {
        for (adapter, change) in change::of(case.host, &working, finding) {
            let tolls = tolls.unwrap_or_else(|| Digest::builtin());
            for prediction in known.predictions(case.host, tolls, adapter, change) {
                let told = finding.predicted.iter().any(|other| other.what == prediction.what);
                if !told && finding.predicted.len() < PREDICTIONS_MAX {
                    finding.predicted.push(prediction.clone());
                }
            }
        }
    }
}

/// Predictions that were made: thousands of adapters ask the same few questions.
#[derive(Default)]
struct Known<'h>(HashMap<(Change, Option<&'h str>, Workload), Option<Prediction>>);

impl<'h> Known<'h> {
    fn predictions<'k>(
        &'k mut self,
        host: &'h Host,
        tolls: &Digest,
        adapter: &'h Adapter,
        change: Change,
    ) -> Vec<&'k Prediction> {
        let place = Place::of(host, adapter);
        let workloads = Workload::of(adapter);
        for workload in workloads {
            let make = || {
                let pair = nearest::pair(tolls, &place, change, *workload)?;
                Some(words::prediction(&pair, &place, change))
            };
            self.0.entry((change, place.driver, *workload)).or_insert_with(make);
        }
        let asked = workloads.iter().filter_map(|workload| self.0.get(&(change, place.driver, *workload)));
        asked.flatten().collect()
    }
}
