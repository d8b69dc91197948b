//! A document of `iotoll watch`, as far as it is compared.

use crate::document::{Checked, Flaw};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Debug;
use toll::Stage;
use watch::{Action, Completed, FUNCTIONS, HookCost, INTERVALS_MAX, Interval, Losses, StageSummary};

/// Devices that are compared at most, so that a made-up document does not take hours.
const ADAPTERS_MAX: usize = 4096;
/// Functions that are listed at most. The kernel's that are known are some forty.
const FUNCTIONS_MAX: usize = 256;
/// Seconds of a document or an interval at most, which are 30 years.
const SECONDS_MAX: f64 = 1e9;

/// What was watched, without the document's head.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Watched {
    pub(crate) seconds: f64,
    pub(crate) uncounted: Option<String>,
    pub(crate) functions: Vec<String>,
    pub(crate) unwatched: Vec<Unwatched>,
    pub(crate) losses: Losses,
    pub(crate) calls: u64,
    /// Absent in older documents, which do not know the whole cost of a call.
    #[serde(default)]
    pub(crate) hooks: Vec<HookCost>,
    pub(crate) adapters: Vec<Adapter>,
    pub(crate) intervals: Vec<Interval>,
}

/// A function that was not watched.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Unwatched {
    pub(crate) function: String,
}

/// A device and what was done for it in all the time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Adapter {
    pub(crate) adapter: String,
    pub(crate) completed: Completed,
    /// Absent in older documents.
    #[serde(default)]
    pub(crate) completed_while_counted: Option<Completed>,
    pub(crate) actions: Vec<ActionCount>,
    pub(crate) stages: Vec<StageSummary>,
}

/// Calls of an action, and the bytes that they were called for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ActionCount {
    pub(crate) action: Action,
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

impl Watched {
    /// Whether the whole cost of watching a call was measured, so that times without it are known.
    pub(crate) fn knows_watching(&self) -> bool {
        !self.hooks.is_empty() && self.hooks.iter().all(|cost| cost.is_measured)
    }

    /// The share of calls that were not counted.
    pub(crate) fn lost_share(&self) -> f64 {
        let lost = self.losses.total() as f64;
        if lost == 0.0 { 0.0 } else { lost / (lost + self.calls as f64) }
    }

    /// The functions that the kernel has, but did not let be watched, each once.
    pub(crate) fn unwatched_functions(&self) -> Vec<&'static watch::Function> {
        let mut functions: Vec<&'static watch::Function> = Vec::new();
        for one in &self.unwatched {
            let known = FUNCTIONS.iter().find(|known| known.name == one.function);
            functions.extend(known.filter(|known| functions.iter().all(|other| other.name != known.name)));
        }
        functions
    }
}

impl Adapter {
    pub(crate) fn count(&self, action: Action) -> Option<&ActionCount> {
        self.actions.iter().find(|one| one.action == action)
    }

    pub(crate) fn calls(&self, action: Action) -> u64 {
        self.count(action).map_or(0, |count| count.calls)
    }

    pub(crate) fn ns(&self) -> f64 {
        self.stages.iter().map(|stage| stage.ns as f64).sum()
    }

    /// Nanoseconds without those that watching added; `None` if that was not measured.
    pub(crate) fn net_ns(&self) -> Option<f64> {
        self.stages.iter().map(|stage| stage.net_ns().map(|ns| ns as f64)).sum()
    }
}

/// Nanoseconds of a stage without those that watching added; 0 if it is not there, `None` if that was not measured.
pub(crate) fn stage_net_ns(stages: &[StageSummary], stage: Stage) -> Option<u64> {
    stages.iter().find(|one| one.stage == stage).map_or(Some(0), StageSummary::net_ns)
}

/// Nanoseconds of a stage; 0 if it is not there.
pub(crate) fn stage_ns(stages: &[StageSummary], stage: Stage) -> u64 {
    stages.iter().find(|one| one.stage == stage).map_or(0, |one| one.ns)
}

impl Checked for Watched {
    fn check(&self) -> Result<(), Flaw> {
        check_number("adapters", self.adapters.len(), ADAPTERS_MAX)?;
        check_number("intervals", self.intervals.len(), INTERVALS_MAX)?;
        check_number("functions", self.functions.len(), FUNCTIONS_MAX)?;
        check_number("unwatched", self.unwatched.len(), FUNCTIONS_MAX)?;
        check_seconds("seconds", self.seconds)?;
        check_once("adapters", self.adapters.iter().map(|one| &one.adapter))?;
        for (index, adapter) in self.adapters.iter().enumerate() {
            check_once(&format!("adapters[{index}].actions"), adapter.actions.iter().map(|one| one.action))?;
            check_once(&format!("adapters[{index}].stages"), adapter.stages.iter().map(|one| one.stage))?;
        }
        self.intervals.iter().enumerate().try_for_each(|(index, interval)| check_interval(index, interval))
    }
}

fn check_interval(index: usize, interval: &Interval) -> Result<(), Flaw> {
    check_seconds(&format!("intervals[{index}].seconds"), interval.seconds)?;
    check_seconds(&format!("intervals[{index}].stands_for_s"), interval.stands_for_s)?;
    check_once(&format!("intervals[{index}].adapters"), interval.adapters.iter().map(|one| &one.adapter))?;
    for (place, activity) in interval.adapters.iter().enumerate() {
        let stages = activity.mapping.iter().flat_map(|mapping| &mapping.stages);
        check_once(
            &format!("intervals[{index}].adapters[{place}].mapping.stages"),
            stages.map(|one| one.stage),
        )?;
    }
    Ok(())
}

fn check_number(place: &str, number: usize, most: usize) -> Result<(), Flaw> {
    if number <= most {
        return Ok(());
    }
    Err(Flaw::new(place, format!("has {number} entries; expected at most {most}")))
}

fn check_seconds(place: &str, seconds: f64) -> Result<(), Flaw> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        return Ok(());
    }
    Err(Flaw::new(place, format!("is {seconds}; expected 0 to {SECONDS_MAX}")))
}

/// Fails if a name comes twice.
fn check_once<T: Ord + Debug>(place: &str, names: impl Iterator<Item = T>) -> Result<(), Flaw> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if seen.contains(&name) {
            return Err(Flaw::new(
                format!("{place}[{index}]"),
                format!("{name:?} again; expected each once"),
            ));
        }
        seen.insert(name);
    }
    Ok(())
}
