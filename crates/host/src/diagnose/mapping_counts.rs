//! Counts of DMA mapping for one I/O of a toll sheet, split into the parts whose times scale differently.

use crate::digest::{BootDigest, TollDigest};
use toll::Event;

/// Counts of an I/O, by the mean over boots.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MappingCounts {
    /// Instructions, without those of bounce buffers and of invalidations, which mostly wait.
    pub instructions: f64,
    /// Instructions of bounce buffers.
    pub bounce_instructions: f64,
    /// Invalidations; `None` if they were not counted.
    pub invalidations: Option<f64>,
    /// Hypercalls; `None` if they were not counted.
    pub hypercalls: Option<f64>,
}

impl MappingCounts {
    pub(super) fn of(toll: &TollDigest) -> Self {
        let mean = |total: &dyn Fn(&BootDigest) -> u64| {
            toll.mean_per_io(|boot| Some(total(boot))).unwrap_or_default()
        };
        Self {
            instructions: mean(&|boot| {
                boot.dma.saturating_sub(boot.invalidation).saturating_sub(boot.bounce)
            }),
            bounce_instructions: mean(&|boot| boot.bounce),
            invalidations: toll.events_per_io(Event::Invalidations),
            hypercalls: toll.events_per_io(Event::Hypercalls),
        }
    }
}
