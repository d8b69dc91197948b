//! Counts of DMA mapping for one I/O of a toll sheet, split into the parts whose times scale differently.

use crate::digest::{BootDigest, TollDigest};
use toll::{Estimate, Event};

/// Counts of an I/O, by the mean over boots.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MappingCounts {
    /// Instructions, without those of bounce buffers and of invalidations, which mostly wait.
    pub instructions: f64,
    /// Instructions of bounce buffers.
    pub bounce_instructions: f64,
    /// Invalidations.
    pub invalidations: f64,
    /// Hypercalls.
    pub hypercalls: f64,
}

impl MappingCounts {
    pub(super) fn of(toll: &TollDigest) -> Self {
        let mean = |total: &dyn Fn(&BootDigest) -> u64| {
            Estimate::of(&toll.by_boot(|boot| Some(total(boot)))).map_or(0.0, |estimate| estimate.mean)
        };
        let events = |event| toll.events_per_io(event).unwrap_or_default();
        Self {
            instructions: mean(&|boot| {
                boot.dma.saturating_sub(boot.invalidation).saturating_sub(boot.bounce)
            }),
            bounce_instructions: mean(&|boot| boot.bounce),
            invalidations: events(Event::Invalidations),
            hypercalls: events(Event::Hypercalls),
        }
    }
}
