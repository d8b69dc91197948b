//! What a controller and its queue pairs share.

use crate::registers::Registers;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A controller's registers, and how often it has forgotten its queues.
#[derive(Debug)]
pub(crate) struct Link {
    registers: Arc<dyn Registers>,
    generation: AtomicU32,
}

impl Link {
    pub(crate) fn new(registers: Arc<dyn Registers>) -> Self {
        Self { registers, generation: AtomicU32::new(0) }
    }

    #[inline]
    pub(crate) fn registers(&self) -> &dyn Registers {
        &*self.registers
    }

    /// Queues of another generation are unknown to the controller. A thread that looks just before a reset may still ring a doorbell
    /// behind it: the controller has no queue there, or an empty one, and fetches nothing (Base, 3.1.2.3: it is told as an
    /// asynchronous event at most).
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        // What the reset has changed comes to other threads by the lock under which they renew their queues.
        self.generation.load(Ordering::Relaxed)
    }

    /// The controller is about to forget all queues.
    pub(crate) fn forget(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }
}
