//! A CPU's cache of one size class in one zone: a stack and its lock.

use super::shape::CLASSES;
use super::stack::Stack;
use crate::lock::Lock;

/// Slots of a CPU. Each dimension is a power of two, so that the index is computed by shifts.
pub(crate) const PER_CPU: usize = 32;
const PER_ZONE: usize = 16;

const _: () = assert!(CLASSES <= PER_ZONE);

/// The index of a CPU's slot for a zone (0 or 1) and a class.
#[inline(always)]
pub(crate) fn index(cpu: usize, zone: usize, class: usize) -> usize {
    cpu * PER_CPU + zone * PER_ZONE + class
}

/// A stack of free ranges, and the lock for closing it, which per-CPU steps don't take.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct CpuStack {
    pub(crate) stack: Stack,
    /// Held while the stack is closed.
    pub(crate) closing: Lock<()>,
}

impl CpuStack {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { stack: Stack::new(capacity), closing: Lock::new(()) }
    }
}

/// The class of the slot with an index.
pub(crate) fn class(index: usize) -> usize {
    index % PER_ZONE
}
