//! Predicts how much of the measured time of DMA mapping a fix would save.
//!
//! Each part of the time is scaled by its count on the toll sheet after the fix, divided by that on the sheet before it: time of invalidations by
//! invalidations, of hypercalls by hypercalls, of bounce buffers and all else by their instructions. No price list is used.

use super::finding::Id;
use super::outlook::Outlook;
use crate::Bdf;
use serde::Serialize;
use toll::DmaPath;

/// CPU nanoseconds per I/O of an adapter's DMA mapping, as measured, by what they depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeasuredMapping {
    /// I/Os that the adapter completed per second.
    pub ios_per_second: f64,
    /// Of invalidations: mostly waiting for the IOMMU.
    pub invalidation_ns: f64,
    /// Of hypercalls.
    pub hypercall_ns: f64,
    /// Of bounce buffers.
    pub bounce_ns: f64,
    /// Of everything else: IOVAs, table writes, the DMA API itself.
    pub other_ns: f64,
}

/// What the fix of a finding would save of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredGain {
    /// The adapter.
    pub address: Bdf,
    /// The finding.
    pub finding: Id,
    /// The DMA path during the measurement.
    pub dma_path_now: DmaPath,
    /// The DMA path after the fix.
    pub dma_path_then: DmaPath,
    /// The I/O that was counted on both DMA paths, in a few words.
    pub counted_io: &'static str,
    /// CPU nanoseconds of DMA mapping per I/O, measured, without those of the programs that measured.
    pub now_ns: f64,
    /// The same after the fix: predicted.
    pub then_ns: f64,
    /// Their difference as a share of a core, at the I/Os per second that were measured; negative if the fix costs time.
    pub cores_saved: f64,
}

impl MeasuredMapping {
    /// The sum of all parts.
    pub fn ns(&self) -> f64 {
        self.invalidation_ns + self.hypercall_ns + self.bounce_ns + self.other_ns
    }
}

impl Outlook {
    /// What the fix would save of the measured time. `None` if that can't be said: only some of the I/Os change, or time was measured that
    /// the toll sheet of today's DMA path has no cause for, or none for what comes with the fix.
    pub fn of_measured(&self, measured: &MeasuredMapping) -> Option<MeasuredGain> {
        if self.only.is_some() {
            return None;
        }
        let (now, then) = (&self.today.mapping, &self.after.mapping);
        let parts = [
            (measured.invalidation_ns, now.invalidations, then.invalidations),
            (measured.hypercall_ns, now.hypercalls, then.hypercalls),
            (measured.bounce_ns, Some(now.bounce_instructions), Some(then.bounce_instructions)),
            (measured.other_ns, Some(now.instructions), Some(then.instructions)),
        ];
        let then_ns =
            parts.into_iter().map(|(ns, now, then)| part_after(ns, now, then)).sum::<Option<f64>>()?;
        let now_ns = measured.ns();
        Some(MeasuredGain {
            address: self.address,
            finding: self.finding,
            dma_path_now: self.today.dma_path,
            dma_path_then: self.after.dma_path,
            counted_io: self.io,
            now_ns,
            then_ns,
            cores_saved: (now_ns - then_ns) * measured.ios_per_second / 1e9,
        })
    }
}

/// A part of the time if what it depends on changes from `now` to `then`, `None` being uncounted.
fn part_after(ns: f64, now: Option<f64>, then: Option<f64>) -> Option<f64> {
    match (ns > 0.0, now, then) {
        (true, Some(now), Some(then)) if now > 0.0 => Some(ns * then / now),
        // A part that neither the host nor the sheets have, as hypercalls on a PC.
        (false, None | Some(0.0), None | Some(0.0)) => Some(0.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::{MappingCounts, PathCost};

    /// Debian's 6.12 with VT-d, a read of 4 KiB (`data/tolls/x86-6.12-vtd-strict.json` and `-lazy.json`).
    const STRICT: MappingCounts = MappingCounts {
        instructions: 1793.0,
        bounce_instructions: 0.0,
        invalidations: Some(1.0),
        hypercalls: None,
    };
    const LAZY: MappingCounts = MappingCounts { instructions: 1875.9, invalidations: Some(0.004), ..STRICT };
    const BOUNCE: MappingCounts = MappingCounts {
        instructions: 119.0,
        bounce_instructions: 2493.0,
        invalidations: Some(0.0),
        hypercalls: None,
    };

    fn outlook(today: MappingCounts, after: MappingCounts) -> Outlook {
        let cost = |mapping| PathCost { dma_path: DmaPath::TranslatedStrict, ns: 1.0, mapping };
        Outlook {
            address: Bdf { domain: 0, bus: 1, device: 0, function: 0 },
            finding: Id::StrictOnFastAdapter,
            io: "4 KiB read",
            only: None,
            today: cost(today),
            after: cost(after),
            half_width_ns: 0.0,
            cpu_saved: 0.0,
            platform: String::new(),
            unpriced: Vec::new(),
        }
    }

    #[test]
    fn waiting_follows_invalidations_and_the_rest_follows_instructions() {
        let measured = MeasuredMapping {
            ios_per_second: 1e6,
            invalidation_ns: 2000.0,
            other_ns: 1793.0,
            ..Default::default()
        };
        let gain = outlook(STRICT, LAZY).of_measured(&measured).unwrap();
        assert_eq!((gain.now_ns, gain.then_ns.round()), (3793.0, 1884.0));
        assert!((gain.cores_saved - 1.909).abs() < 0.001, "{gain:?}");
        let measured = MeasuredMapping { bounce_ns: 900.0, other_ns: 119.0, ..Default::default() };
        let unbounced = MappingCounts { bounce_instructions: 0.0, instructions: 112.0, ..BOUNCE };
        let gain = outlook(BOUNCE, unbounced).of_measured(&measured).unwrap();
        assert_eq!((gain.now_ns, gain.then_ns.round()), (1019.0, 112.0));
    }

    #[test]
    fn nothing_is_said_of_what_the_sheets_did_not_count() {
        let strict = MeasuredMapping { invalidation_ns: 2000.0, other_ns: 1793.0, ..Default::default() };
        // No invalidation was measured, although the sheet of today's DMA path has one: the host is not on it.
        let lazy = MeasuredMapping { invalidation_ns: 0.0, ..strict };
        assert_eq!(outlook(STRICT, LAZY).of_measured(&lazy), None);
        let bounced = MeasuredMapping { bounce_ns: 5.0, ..strict };
        assert_eq!(outlook(STRICT, LAZY).of_measured(&bounced), None);
        let some =
            Outlook { only: Some("of which the buffer lies beyond the mask"), ..outlook(STRICT, LAZY) };
        assert_eq!(some.of_measured(&strict), None);
        // Uncounted is not zero: the sheet does not say that the fix saves the invalidations.
        let uncounted = MappingCounts { invalidations: None, ..LAZY };
        assert_eq!(outlook(STRICT, uncounted).of_measured(&strict), None);
        // What comes with the fix was not measured.
        assert_eq!(outlook(LAZY, BOUNCE).of_measured(&strict), None);
    }
}
