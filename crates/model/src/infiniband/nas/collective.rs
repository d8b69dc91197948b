//! Collective operations, made of messages.

use super::PROCESSES;
use crate::infiniband::mpi::Op;

/// Adds a message to a process, and one of the same length from it.
pub(super) fn exchange(with: u16, bytes: u64, ops: &mut Vec<Op>) {
    ops.push(Op::BeginReceive { from: with });
    ops.push(Op::Send { to: with, bytes });
    ops.push(Op::WaitAll);
}

/// Adds a sum over all processes that each of them gets, by recursive doubling.
pub(super) fn sum_of_all(process: u16, bytes: u64, ops: &mut Vec<Op>) {
    for step in 0..PROCESSES.trailing_zeros() {
        exchange(process ^ (1 << step), bytes, ops);
    }
}

/// Adds messages of these bytes from each process to each other one, all at once.
pub(super) fn all_to_all(process: u16, bytes: u64, ops: &mut Vec<Op>) {
    // Each begins with another one.
    let others = || (1..PROCESSES).map(|far| (process + far) % PROCESSES);
    ops.extend(others().map(|from| Op::BeginReceive { from }));
    ops.extend(others().map(|to| Op::BeginSend { to, bytes }));
    ops.push(Op::WaitAll);
}
