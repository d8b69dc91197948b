//! What an I/O takes of a CPU today and after the fixes.

use host::Bdf;
use host::diagnose::{DmaPath, Outlook};
use serde::Serialize;
use std::collections::BTreeMap;
use toll::Event;

/// What an I/O of an adapter takes of a CPU today, and on the DMA path that the fixes lead to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The adapter.
    pub address: Bdf,
    /// The I/O, in a few words.
    pub io: String,
    /// Which of these I/Os, where not all change.
    pub only: Option<String>,
    /// Today.
    pub today: TimeOnPath,
    /// After the fixes.
    pub after: TimeOnPath,
    /// Share of one CPU's time that is saved at 100,000 of these I/Os a second; negative if the fixes cost time.
    pub cpu_saved: f64,
    /// The machine that the prices are of.
    pub platform: String,
    /// Events that differ and have no price: what they take is in neither time.
    pub unpriced: Vec<Event>,
}

/// A DMA path, and what an I/O takes of a CPU on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimeOnPath {
    /// The DMA path.
    pub dma_path: DmaPath,
    /// The time.
    pub ns: f64,
}

/// How often events of a kind happen in an I/O.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventCount {
    /// The kind.
    pub event: Event,
    /// How often, by the mean.
    pub count: f64,
}

impl EventCount {
    pub(crate) fn all(events: &BTreeMap<Event, f64>) -> Vec<Self> {
        events.iter().map(|(event, count)| Self { event: *event, count: *count }).collect()
    }
}

impl Estimate {
    pub(crate) fn new(outlook: &Outlook) -> Self {
        let time = |leg: &host::diagnose::Leg| TimeOnPath { dma_path: leg.dma_path, ns: leg.ns };
        Self {
            address: outlook.address,
            io: outlook.io.to_owned(),
            only: outlook.only.map(str::to_owned),
            today: time(&outlook.today),
            after: time(&outlook.after),
            cpu_saved: outlook.cpu_saved,
            platform: outlook.platform.clone(),
            unpriced: outlook.unpriced.clone(),
        }
    }
}
