//! A controller's interrupts, for queues that are opened and closed while it is driven.

use crate::adaptive::Adaptive;
use crate::chunk::Waiting;
use dma::vfio::Interrupt;
use std::sync::{Arc, Mutex, PoisonError};

/// The interrupts of a controller's I/O queues. Each queue takes one, which is free again when the queue is dropped.
#[derive(Debug)]
pub struct Interrupts(Mutex<Vec<Arc<Interrupt>>>);

impl Interrupts {
    /// The interrupts of vectors 1, 2 and so on. Vector 0 is the admin queue's.
    pub fn new(interrupts: impl IntoIterator<Item = Interrupt>) -> Self {
        Self(Mutex::new(interrupts.into_iter().map(Arc::new).collect()))
    }

    /// How a new queue waits: adaptively with a free interrupt, or by polling where all are taken.
    pub fn waiting(&self) -> Waiting {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A queue has the other reference. None is made but here, under the lock.
        let free = all.iter().zip(1..).find(|(interrupt, _)| Arc::strong_count(interrupt) == 1);
        free.map_or(Waiting::Polling, |(interrupt, vector)| Waiting::Adaptive {
            vector,
            interrupt: Arc::clone(interrupt),
            adaptive: Adaptive::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn each_queue_has_an_interrupt_of_its_own_until_it_is_dropped() {
        let interrupts = Interrupts::new([(); 2].map(|()| Interrupt::new().unwrap()));
        let (one, two, three) = (interrupts.waiting(), interrupts.waiting(), interrupts.waiting());
        assert_eq!([&one, &two, &three].map(Waiting::vector), [Some(1), Some(2), None]);
        drop(one);
        let again = [interrupts.waiting(), interrupts.waiting()];
        assert_eq!([&again[0], &again[1]].map(Waiting::vector), [Some(1), None]);
    }
}
