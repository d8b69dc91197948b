//! A price list of the host itself: the built-in one, with prices of events that were timed on it in place of its own.

use super::place::iommu;
use super::releases;
use crate::Digest;
use crate::digest::{SheetDigest, TollDigest};
use crate::facts::Host;
use toll::{DmaPath, Event, Evidence, Given, PriceList, Priced};

/// Events that were timed on a host, without the functions that they call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimedEvents {
    /// Invalidations.
    pub invalidations: u64,
    /// CPU nanoseconds of all invalidations.
    pub invalidation_ns: u64,
    /// Hypercalls.
    pub hypercalls: u64,
    /// CPU nanoseconds of all hypercalls.
    pub hypercall_ns: u64,
}

/// Fewer events than these give no price: single interrupts would decide.
const EVENTS_MIN: u64 = 100;

/// The price list of a host. `how` says how the events were timed, and `on` where. `None` if no event was timed often enough, or there is no
/// built-in list of the architecture.
pub fn measured_prices(host: &Host, timed: TimedEvents, how: &str, on: &str) -> Option<PriceList> {
    let word = crate::sheet_word(host.platform.architecture.as_ref()?)?;
    let list = PriceList::builtin().iter().find(|list| list.arch == word)?;
    let instruction_ns = list.instruction_ns.value;
    let invalidation = mean(timed.invalidation_ns, timed.invalidations).map(|ns| {
        let counted = instructions_of_invalidation(host, Digest::builtin(), word);
        let less = counted.map(|counted| counted * instruction_ns);
        let words = match counted {
            Some(counted) => format!(
                "{how}: {ns:.0} ns, the mean of {}, less {counted:.0} instructions at {instruction_ns} ns, which toll sheets count \
                 by themselves",
                timed.invalidations
            ),
            None => format!("{how}: the mean of {}, their instructions included", timed.invalidations),
        };
        (Event::Invalidations, (ns - less.unwrap_or_default()).max(0.0), words)
    });
    let hypercall = mean(timed.hypercall_ns, timed.hypercalls)
        .map(|ns| (Event::Hypercalls, ns, format!("{how}: the mean of {}", timed.hypercalls)));
    if invalidation.is_none() && hypercall.is_none() {
        return None;
    }
    let price = |(event, value, how): (Event, f64, String)| {
        let evidence = Evidence::Measured { how, on: on.to_owned() };
        (Priced::Event(event), Given { value: (value * 10.0).round() / 10.0, evidence })
    };
    Some(list.with_measured(invalidation.into_iter().chain(hypercall).map(price), on))
}

fn mean(ns: u64, events: u64) -> Option<f64> {
    (events >= EVENTS_MIN).then(|| ns as f64 / events as f64)
}

/// Instructions of an invalidation, on the toll sheet of strict mode with the host's IOMMU whose kernel is nearest.
fn instructions_of_invalidation(host: &Host, digest: &Digest, arch: &str) -> Option<f64> {
    let iommu = iommu(host);
    let is_like = |sheet: &&SheetDigest| {
        sheet.arch == arch && sheet.iommu == iommu && sheet.dma_path == DmaPath::TranslatedStrict
    };
    let distance = |sheet: &&SheetDigest| {
        (releases::to_sheet(host.kernel(), sheet).unwrap_or(u32::MAX), sheet.preset.clone())
    };
    let sheet = digest.sheets.iter().filter(is_like).min_by_key(distance)?;
    sheet.tolls.iter().find_map(per_invalidation)
}

fn per_invalidation(toll: &TollDigest) -> Option<f64> {
    let instructions = toll.mean_per_io(|boot| Some(boot.invalidation))?;
    let events = toll.events_per_io(Event::Invalidations).filter(|events| *events > 0.0)?;
    Some(instructions / events)
}
