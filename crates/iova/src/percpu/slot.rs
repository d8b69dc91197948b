//! What a CPU keeps for a size class.

use super::shape::CLASSES;
use super::stack::Stack;
use crate::lock::Lock;

/// Slots of a CPU: a power of two for each dimension, so that finding one takes shifts alone.
pub(crate) const PER_CPU: usize = 32;
const PER_ZONE: usize = 16;

const _: () = assert!(CLASSES <= PER_ZONE);

/// Where the slot of a CPU is for a zone (0 or 1) and a class.
#[inline(always)]
pub(crate) fn place(cpu: usize, zone: usize, class: usize) -> usize {
    cpu * PER_CPU + zone * PER_ZONE + class
}

/// A stack of free ranges, and the lock that its CPU's steps don't take.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) stack: Stack,
    /// Held while the stack is closed.
    pub(crate) closing: Lock<()>,
}

impl Slot {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { stack: Stack::new(capacity), closing: Lock::new(()) }
    }
}

/// The class of the slot at a place.
pub(crate) fn class(place: usize) -> usize {
    place % PER_ZONE
}
