//! `iotoll.bench.iova`: measures allocators of I/O virtual addresses on this machine.

use crate::{MADE_BY, failure, interruptible};
use bench::{Contestant, Origin, RunError, Scenario, Settings, built_in_contestants, select};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What is asked for. What is absent has the default of `iotoll bench iova`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    quick: bool,
    scenarios: Option<Vec<String>>,
    threads: Option<Vec<usize>>,
    contestants: Option<Vec<String>>,
    baseline: Option<String>,
    rounds: Option<usize>,
    round_ms: Option<u64>,
    pairs: Option<u64>,
    held: Option<u64>,
    burst: Option<u64>,
    bits: Option<u32>,
    pin: bool,
    seed: u64,
}

/// Measures, and returns the document as JSON. `command` and `date` say where it comes from.
#[pyfunction]
pub(crate) fn measure_iova(
    py: Python<'_>,
    asked: Asked,
    command: Vec<String>,
    date: String,
) -> PyResult<String> {
    let settings = asked.settings()?;
    let contestants = asked.contestants()?;
    let origin = Origin { made_by: MADE_BY.to_owned(), command, date };
    let benchmark = interruptible::run(py, move |interrupt| {
        let mut progress = |_: bench::Progress<'_>| interrupt.end_thread_if_set();
        let benchmark = bench::run(&contestants, asked.baseline.as_deref(), settings, origin, &mut progress)?;
        Ok(serde_json::to_string(&benchmark))
    })?;
    benchmark
        .map_err(|error: RunError| failure::of_measurement(&error))?
        .map_err(|error| failure::of_program(&error))
}

impl Asked {
    fn settings(&self) -> PyResult<Settings> {
        let usual = Settings::of_this_machine(self.quick);
        let scenarios = self.scenarios.as_ref().map(|names| names.iter().map(|name| name.parse()).collect());
        let scenarios: Option<Result<Vec<Scenario>, _>> = scenarios;
        let scenarios = scenarios.transpose().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let settings = Settings {
            scenarios: scenarios.unwrap_or(usual.scenarios),
            threads: self.threads.clone().unwrap_or(usual.threads),
            rounds: self.rounds.unwrap_or(usual.rounds),
            round_ms: self.round_ms.unwrap_or(usual.round_ms),
            pairs: self.pairs,
            held: self.held.unwrap_or(usual.held),
            burst: self.burst.unwrap_or(usual.burst),
            pin: self.pin,
            seed: self.seed,
            ..usual
        };
        Ok(self.bits.map_or(settings.clone(), |bits| settings.with_bits(bits)))
    }

    fn contestants(&self) -> PyResult<Vec<Contestant>> {
        let names = self.contestants.clone().unwrap_or_default();
        let chosen = select(&built_in_contestants(), &names);
        chosen.map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
