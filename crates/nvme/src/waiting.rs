//! How a thread waits for completions.

use crate::chunk::Waiting;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::time::Duration;

/// Polls between two reads of the clock.
pub(crate) const POLLS: u32 = 64;

/// Polls a few times.
pub(crate) fn poll(is_done: impl Fn() -> bool) -> bool {
    for _ in 0..POLLS {
        if is_done() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

impl Waiting {
    /// The vector that the completion queue needs.
    pub(crate) fn vector(&self) -> Option<u16> {
        match self {
            Self::Polling => None,
            #[cfg(target_os = "linux")]
            Self::Interrupt { vector, .. } | Self::Adaptive { vector, .. } => Some(*vector),
        }
    }

    /// The interrupt that it waits for.
    #[cfg(target_os = "linux")]
    pub(crate) fn interrupt(&self) -> Option<&Arc<dma::vfio::Interrupt>> {
        match self {
            Self::Polling => None,
            Self::Interrupt { interrupt, .. } | Self::Adaptive { interrupt, .. } => Some(interrupt),
        }
    }

    /// Waits until `is_done`, or for about `limit`. It may return sooner.
    pub(crate) fn wait(&mut self, limit: Duration, is_done: impl Fn() -> bool) {
        match self {
            Self::Polling => {
                poll(is_done);
            }
            #[cfg(target_os = "linux")]
            Self::Interrupt { interrupt, .. } => {
                // If waiting fails, the caller polls.
                let _ = interrupt.wait(limit);
            }
            #[cfg(target_os = "linux")]
            Self::Adaptive { interrupt, adaptive, .. } => adaptive.wait(interrupt, limit, is_done),
        }
    }
}
