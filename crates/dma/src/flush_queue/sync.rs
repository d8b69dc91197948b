//! Atomics and locks of the flush queue: the standard ones, or those of loom, which tries all orders of threads.

#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering, fence},
};
