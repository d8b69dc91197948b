//! IS, class B: 2^25 keys, which lie in 1,024 buckets by their value, go to the processes that the buckets are of.

use super::collective::{all_to_all, sum_of_all};
use super::{Compute, PROCESSES};
use crate::infiniband::mpi::Op;

const KEYS: u64 = 1 << 25;
const KEY_BYTES: u64 = 4;
const BUCKETS: u64 = 1 << 10;
/// Keys whose ranks are checked go along with the buckets' sizes.
const CHECKED: u64 = 5;
/// It counts each key once.
pub(super) const OPERATIONS: f64 = KEYS as f64;

/// An iteration of IS: bucket sizes are summed over all processes, then counts and keys are exchanged. Each process gets about as
/// many keys.
pub(super) fn iteration(process: u16, compute: Compute, ops: &mut Vec<Op>) {
    ops.push(compute.share(0.5));
    sum_of_all(process, (BUCKETS + CHECKED) * KEY_BYTES, ops);
    all_to_all(process, KEY_BYTES, ops);
    all_to_all(process, KEYS / u64::from(PROCESSES).pow(2) * KEY_BYTES, ops);
    ops.push(compute.share(0.5));
}
