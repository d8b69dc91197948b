//! What was watched, put to use in the host's diagnosis: what its fixes would save, and its own prices.

use crate::prices;
use bench::Head;
use host::diagnose::{MeasuredGain, MeasuredMapping, TimedEvents, measured_prices};
use host::{Host, Inspection};
use toll::{PriceList, Stage};
use watch::{Action, AdapterSummary, Record};

/// What the fixes of the host's findings would save of what was measured.
pub(super) fn gains(inspection: &Inspection, record: &Record) -> Vec<MeasuredGain> {
    let measured = |address: &str| {
        let adapter = record.adapters.iter().find(|adapter| adapter.adapter == address)?;
        measured_mapping(adapter, record.seconds)
    };
    let outlooks = inspection.outlooks.iter();
    outlooks.filter_map(|outlook| outlook.of_measured(&measured(&outlook.address.to_string())?)).collect()
}

/// An adapter's DMA mapping per I/O, without the time of programs that watched it. `None` if it did no I/O or that time is not known.
fn measured_mapping(adapter: &AdapterSummary, seconds: f64) -> Option<MeasuredMapping> {
    let (ios, _) = adapter.completed.io()?;
    let per_io = |ns: u64| ns as f64 / ios as f64;
    let of_action = |action| adapter.tally(action).map_or(0, |tally| tally.ns);
    let bounce = adapter.stages.iter().find(|one| one.stage == Stage::Bounce);
    let bounce = bounce.map_or(Some(0), |one| Some(one.ns.saturating_sub(one.programs_ns?)))?;
    let (invalidation, hypercall) = (of_action(Action::Invalidate), of_action(Action::CallHypervisor));
    let all = adapter.ns().saturating_sub(adapter.programs_ns()?);
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
        let tallies = record.adapters.iter().filter_map(|adapter| adapter.tally(action));
        tallies.fold((0, 0), |(calls, ns), tally| (calls + tally.calls, ns + tally.ns))
    };
    let (invalidations, invalidation_ns) = sum(Action::Invalidate);
    let (hypercalls, hypercall_ns) = sum(Action::CallHypervisor);
    let timed = TimedEvents { invalidations, invalidation_ns, hypercalls, hypercall_ns };
    let how = format!("iotoll watch for {:.1} s", record.seconds);
    measured_prices(host, timed, &how, &prices::measured_on(head))
}
