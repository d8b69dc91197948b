//! What DMA mapping cost per I/O in one document of watch, and how certain that is.

use crate::rate::{Rate, Round};
use serde::Serialize;
use std::collections::BTreeMap;
use watch::{Activity, AdapterSummary, Interval, Mapping, Record};

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

/// What sums may differ from the record's: documents of old estimated them from windows, and rounded each.
const ROUNDING: f64 = 0.01;

/// For each adapter that completed I/O while calls were counted, in the record's order.
pub fn costs_per_io(record: &Record) -> Vec<CostPerIo> {
    let mut parts: BTreeMap<&str, Vec<(&Interval, &Activity)>> = BTreeMap::new();
    for interval in &record.intervals {
        for activity in &interval.adapters {
            parts.entry(&activity.adapter).or_default().push((interval, activity));
        }
    }
    let parts_of =
        |adapter: &AdapterSummary| parts.get(adapter.adapter.as_str()).map_or(&[][..], Vec::as_slice);
    record.adapters.iter().filter_map(|adapter| cost(adapter, parts_of(adapter))).collect()
}

/// What an adapter's mapping cost, by what it did in intervals.
fn cost(adapter: &AdapterSummary, parts: &[(&Interval, &Activity)]) -> Option<CostPerIo> {
    let (ios, io) = adapter.io_of_costs()?;
    let net_ns = adapter.net_ns();
    let is_net = net_ns.is_some();
    let ns_of = |mapping: &Mapping| if is_net { mapping.net_ns() } else { Some(mapping.ns) };
    let round = |&(interval, activity): &(&Interval, &Activity)| {
        let weight = interval.weight();
        let amount = weight * activity.mapping.as_ref().and_then(ns_of)? as f64;
        Some(Round { amount, units: weight * activity.completed.io_of_kind(&adapter.completed) as f64 })
    };
    // If one interval's cost is not known, their spread is not either.
    let rounds: Option<Vec<Round>> = parts.iter().map(round).collect();
    let in_periods =
        parts.iter().map(|(interval, activity)| interval.io_of_period(activity, &adapter.completed));
    let holds_all = (in_periods.sum::<f64>() - ios as f64).abs() <= ios as f64 * ROUNDING;
    let rate = rounds.filter(|_| holds_all).and_then(|rounds| Rate::of(&rounds));
    Some(CostPerIo {
        adapter: adapter.adapter.clone(),
        io,
        ns: net_ns.unwrap_or(adapter.ns()) as f64 / ios as f64,
        interval_ns: rate.and_then(|rate| rate.interval()),
        is_net,
    })
}
