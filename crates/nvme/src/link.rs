//! State shared by a controller and its queue pairs.

use crate::registers::Registers;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// A controller's registers, and a count of its resets.
#[derive(Debug)]
pub(crate) struct Link {
    /// Not an `Arc`, whose pointer to the registers is computed from their alignment at each access.
    registers: Box<dyn Registers>,
    generation: AtomicU32,
}

impl Link {
    /// A link to a controller that was never reset.
    pub(crate) fn new(registers: Box<dyn Registers>) -> Self {
        Self { registers, generation: AtomicU32::new(0) }
    }

    /// The controller's registers.
    #[inline]
    pub(crate) fn registers(&self) -> &dyn Registers {
        &*self.registers
    }

    /// The reset count. A queue pair of an older generation no longer exists on the controller.
    ///
    /// A thread that checks just before a reset may still write a doorbell after it. That is harmless: the queue does
    /// not exist or is empty, so the controller fetches nothing (Base, 3.1.2.3).
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        // Relaxed is enough: the lock under which a thread renews its queue orders everything else (test `loom`).
        self.generation.load(Ordering::Relaxed)
    }

    /// Call this before a reset: it marks all queue pairs as stale.
    pub(crate) fn start_generation(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }
}
