//! Platforms without sequences: there is no value of [`Area`], so nothing here is ever called.

use core::sync::atomic::AtomicU64;

/// No value: no platform's `struct rseq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {}

pub(crate) unsafe fn cpu_field<const FIELD: usize>(area: Area) -> usize {
    match area {}
}

pub(crate) unsafe fn pop<const SHIFT: u32>(
    area: Area,
    _stack: *mut AtomicU64,
    _cpus: usize,
    _more: u64,
    _limit: u64,
) -> u64 {
    match area {}
}

pub(crate) unsafe fn push<const SHIFT: u32>(
    area: Area,
    _stack: *mut AtomicU64,
    _cpus: usize,
    _capacity: u64,
    _value: u64,
) -> u64 {
    match area {}
}

pub(crate) unsafe fn close(area: Area, _cpu: usize, _count_at: *mut AtomicU64) -> u64 {
    match area {}
}

pub(crate) unsafe fn wait(area: Area, _begun: &AtomicU64, _end: &AtomicU64, _number: u64) -> u64 {
    match area {}
}
