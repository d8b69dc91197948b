//! What findings that lead to another DMA path are predicted to give, from the toll sheets nearest to the host and the
//! prices of its architecture.

mod change;
mod measured_prices;
mod nearest;
mod number_text;
mod place;
mod releases;
mod time;
mod words;

pub use measured_prices::{TimedEvents, measured_prices};

use super::outlook::{Outlook, PathCost};
use super::prediction::Prediction;
use super::{Basis, Case, Finding, Id};
use crate::Bdf;
use crate::facts::{Adapter, Host};
use change::{Change, Working};
use place::{Environment, Workload};
use std::collections::{BTreeMap, HashMap};

/// Predictions shown with one finding.
const PREDICTIONS_MAX: usize = 2;

/// Adds predictions to findings, and says what they come to for each adapter.
pub(super) fn add(findings: &mut [Finding], case: &Case<'_>) -> Vec<Outlook> {
    let working: Working<'_> = case.working().map(|it| (it.0.function.address, it)).collect();
    let mut known = Known::default();
    let mut outlooks: BTreeMap<Bdf, Vec<Outlook>> = BTreeMap::new();
    for finding in findings {
        for (adapter, change) in change::of(case.host, &working, finding) {
            let predictions = known.predictions(case.host, case.basis, adapter, change);
            for (_, prediction) in &predictions {
                let told = finding.predicted.iter().any(|other| other.what == prediction.what);
                if !told && finding.predicted.len() < PREDICTIONS_MAX {
                    finding.predicted.push((*prediction).clone());
                }
            }
            // Of two findings that lead an adapter elsewhere, the worse decides where.
            let address = adapter.function.address;
            let ours: Vec<_> = predictions
                .iter()
                .filter_map(|(io, one)| outlook(address, finding.id, *io, change, one))
                .collect();
            if !ours.is_empty() {
                outlooks.entry(address).or_insert(ours);
            }
        }
    }
    outlooks.into_values().flatten().collect()
}

/// What a prediction says of one adapter; nothing if it has no prices.
fn outlook(
    address: Bdf,
    finding: Id,
    io: Workload,
    change: Change,
    prediction: &Prediction,
) -> Option<Outlook> {
    let time = prediction.time.as_ref()?;
    Some(Outlook {
        address,
        finding,
        io: io.words(),
        only: change.only,
        today: PathCost { dma_path: change.from, ns: time.now_ns, mapping: prediction.now.mapping },
        after: PathCost { dma_path: change.to, ns: time.then_ns, mapping: prediction.then.mapping },
        half_width_ns: time.half_width_ns,
        cpu_saved: time.cpu_saved,
        platform: time.platform.clone(),
        unpriced: time.saved.unpriced.keys().copied().collect(),
    })
}

/// Predictions that were made: thousands of adapters ask the same few questions.
#[derive(Default)]
struct Known<'h>(HashMap<(Change, Option<&'h str>, Workload), Option<Prediction>>);

impl<'h> Known<'h> {
    fn predictions<'k>(
        &'k mut self,
        host: &'h Host,
        basis: Basis<'_>,
        adapter: &'h Adapter,
        change: Change,
    ) -> Vec<(Workload, &'k Prediction)> {
        let place = Environment::of(host, adapter);
        let workloads = Workload::of(adapter);
        for workload in workloads {
            let make = || {
                let pair = nearest::pair(basis.tolls(), &place, change, *workload)?;
                Some(words::prediction(&pair, &place, change, basis.prices(&pair.now.sheet.arch)))
            };
            self.0.entry((change, place.driver, *workload)).or_insert_with(make);
        }
        let asked = |workload: &Workload| {
            Some((*workload, self.0.get(&(change, place.driver, *workload))?.as_ref()?))
        };
        workloads.iter().filter_map(asked).collect()
    }
}
