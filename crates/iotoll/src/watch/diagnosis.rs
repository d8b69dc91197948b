//! What was watched, put to use in the host's diagnosis: what its fixes would save, and its own prices.

use crate::prices;
use bench::Head;
use host::diagnose::{MeasuredGain, MeasuredMapping, TimedEvents, measured_prices};
use host::{Host, Inspection};
use toll::{PriceList, Stage};
use watch::{Action, ActionSummary, AdapterSummary, Record};

/// What the fixes of the host's findings would save of what was measured.
pub(super) fn gains(inspection: &Inspection, record: &Record) -> Vec<MeasuredGain> {
    let measured = |address: &str| {
        let adapter = record.adapters.iter().find(|adapter| adapter.adapter == address)?;
        measured_mapping(adapter, record.seconds)
    };
    let outlooks = inspection.outlooks.iter();
    outlooks.filter_map(|outlook| outlook.of_measured(&measured(&outlook.address.to_string())?)).collect()
}

/// An adapter's DMA mapping per I/O, without what watching added. `None` if it did no I/O while calls were counted, or that is not known.
fn measured_mapping(adapter: &AdapterSummary, seconds: f64) -> Option<MeasuredMapping> {
    let (ios, _) = adapter.io_of_costs()?;
    let per_io = |ns: u64| ns as f64 / ios as f64;
    let of_stage = |stage| match adapter.stages.iter().find(|one| one.stage == stage) {
        Some(stage) => stage.net_ns(),
        None => Some(0),
    };
    let hypercalls = adapter.actions.iter().find(|one| one.action == Action::CallHypervisor);
    let hypercall = hypercalls.map_or(Some(0), ActionSummary::net_ns)?;
    let (invalidation, bounce) = (of_stage(Stage::Invalidation)?, of_stage(Stage::Bounce)?);
    let all = adapter.net_ns()?;
    Some(MeasuredMapping {
        ios_per_second: ios as f64 / seconds,
        invalidation_ns: per_io(invalidation),
        hypercall_ns: per_io(hypercall),
        bounce_ns: per_io(bounce),
        other_ns: per_io(all.saturating_sub(invalidation + hypercall + bounce)),
    })
}

/// A price list with what was timed; `None` if too little was.
pub(super) fn price_list(host: &Host, record: &Record, head: &Head) -> Option<PriceList> {
    let sum = |action| {
        let summaries = record.adapters.iter().flat_map(|adapter| &adapter.actions);
        let ours = summaries.filter(|one| one.action == action);
        // Where it is not known what watching added, it stays in: the price is then too high, and not too low.
        ours.fold((0, 0), |(calls, ns), one| {
            (calls + one.tally.calls, ns + one.net_ns().unwrap_or(one.tally.ns))
        })
    };
    let (invalidations, invalidation_ns) = sum(Action::Invalidate);
    let (hypercalls, hypercall_ns) = sum(Action::CallHypervisor);
    let timed = TimedEvents { invalidations, invalidation_ns, hypercalls, hypercall_ns };
    let how = format!("iotoll watch for {:.1} s", record.seconds);
    measured_prices(host, timed, &how, &prices::measured_on(head))
}
