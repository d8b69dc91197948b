//! What DMA mapping cost per I/O in one document of watch, and how certain that is.

use crate::rate::{Rate, Round};
use serde::Serialize;
use watch::{Activity, Interval, Mapping, Record};

/// CPU time of an adapter's DMA mapping per I/O.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostPerIo {
    /// As in [`AdapterSummary::adapter`](watch::AdapterSummary::adapter).
    pub adapter: String,
    /// What costs are divided by: `request` of a block device or `packet`.
    pub io: &'static str,
    /// Nanoseconds per I/O.
    pub ns: f64,
    /// Their 95 % interval, from how much the intervals of time differ; `None` with too few of them, or more than the record holds. What
    /// differs from run to run is not in it.
    pub interval_ns: Option<[f64; 2]>,
    /// Whether these are without what watching added; otherwise that is not known, and is in them.
    pub is_net: bool,
}

/// What sums may differ from the record's: each weighted window is rounded.
const ROUNDING: f64 = 0.01;

/// For each adapter that completed I/O, in the record's order.
pub fn costs_per_io<'r>(record: &'r Record) -> Vec<CostPerIo> {
    let of_adapter = |adapter: &watch::AdapterSummary| {
        let (ios, io) = adapter.completed.io()?;
        let is_net = adapter.net_ns().is_some();
        let all_ns = adapter.net_ns().unwrap_or(adapter.ns());
        let round = |(weight, activity): (f64, &Activity)| {
            let ns = |mapping: &Mapping| if is_net { mapping.net_ns() } else { Some(mapping.ns) };
            let completed = activity.completed;
            let ios = if io == "request" { completed.block_requests } else { completed.packets };
            let amount = weight * activity.mapping.as_ref().and_then(ns)? as f64;
            Some(Round { amount, units: weight * ios as f64 })
        };
        let weighted = |interval: &'r Interval| {
            let weight = interval.weight();
            interval.adapters.iter().map(move |activity| (weight, activity))
        };
        let activities = record.intervals.iter().flat_map(weighted);
        let ours = activities.filter(|(_, activity)| activity.adapter == adapter.adapter);
        let rounds = ours.map(round).collect::<Option<Vec<_>>>().unwrap_or_default();
        let units: f64 = rounds.iter().map(|round| round.units).sum();
        let holds_all = (units - ios as f64).abs() <= ios as f64 * ROUNDING;
        let rate = Rate::of(&rounds).filter(|_| holds_all);
        Some(CostPerIo {
            adapter: adapter.adapter.clone(),
            io,
            ns: all_ns as f64 / ios as f64,
            interval_ns: rate.and_then(|rate| rate.interval()),
            is_net,
        })
    };
    record.adapters.iter().filter_map(of_adapter).collect()
}
