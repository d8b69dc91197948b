//! The CPU time of an I/O today and after the fixes.

use host::Bdf;
use host::diagnose::{DmaPath, Outlook};
use serde::Serialize;
use std::collections::BTreeMap;
use toll::Event;

/// The CPU time of an adapter's I/O today and after the fixes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The adapter.
    pub address: Bdf,
    /// The I/O, in a few words.
    pub io: String,
    /// Which of these I/Os change, if not all do.
    pub only: Option<String>,
    /// The cost today.
    pub today: TimeOnPath,
    /// The cost after the fixes.
    pub after: TimeOnPath,
    /// Half of the interval that chance between boots leaves for the difference; 0 with a single boot.
    pub saved_half_width_ns: f64,
    /// Share of one CPU's time that is saved at 100,000 of these I/Os a second; negative if the fixes cost time.
    pub cpu_saved: f64,
    /// The machine that the prices are of.
    pub platform: String,
    /// Events that differ and have no price. Their time is not included.
    pub unpriced: Vec<Event>,
}

/// A DMA path and the CPU time of an I/O on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeOnPath {
    /// The DMA path.
    pub dma_path: DmaPath,
    /// The CPU time.
    pub ns: f64,
}

/// The number of events of a kind per I/O.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCount {
    /// The kind.
    pub event: Event,
    /// The mean number per I/O.
    pub count: f64,
}

impl EventCount {
    /// The events of a map as rows.
    pub(crate) fn all(events: &BTreeMap<Event, f64>) -> Vec<Self> {
        events.iter().map(|(event, count)| Self { event: *event, count: *count }).collect()
    }
}

impl Estimate {
    /// Converts an outlook of `host`.
    pub(crate) fn new(outlook: &Outlook) -> Self {
        let time = |leg: &host::diagnose::PathCost| TimeOnPath { dma_path: leg.dma_path, ns: leg.ns };
        Self {
            address: outlook.address,
            io: outlook.io.to_owned(),
            only: outlook.only.map(str::to_owned),
            today: time(&outlook.today),
            after: time(&outlook.after),
            saved_half_width_ns: outlook.half_width_ns,
            cpu_saved: outlook.cpu_saved,
            platform: outlook.platform.clone(),
            unpriced: outlook.unpriced.clone(),
        }
    }
}
