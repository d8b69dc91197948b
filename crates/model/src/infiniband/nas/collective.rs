//! Collective operations, made of messages.

use super::PROCESSES;
use crate::infiniband::mpi::Op;

/// Sends to a process what it also sends here.
pub(super) fn exchange(with: u16, bytes: u64, ops: &mut Vec<Op>) {
    ops.push(Op::BeginReceive { from: with });
    ops.push(Op::Send { to: with, bytes });
    ops.push(Op::WaitAll);
}

/// All get the sum of all: with partners twice as far at each step.
pub(super) fn sum_of_all(process: u16, bytes: u64, ops: &mut Vec<Op>) {
    for step in 0..PROCESSES.trailing_zeros() {
        exchange(process ^ (1 << step), bytes, ops);
    }
}

/// Each sends so many bytes to each other one, all at once.
pub(super) fn all_to_all(process: u16, bytes: u64, ops: &mut Vec<Op>) {
    // Each begins with another one.
    let others = || (1..PROCESSES).map(|far| (process + far) % PROCESSES);
    ops.extend(others().map(|from| Op::BeginReceive { from }));
    ops.extend(others().map(|to| Op::BeginSend { to, bytes }));
    ops.push(Op::WaitAll);
}
