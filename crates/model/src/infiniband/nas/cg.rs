//! CG, class B: a matrix of 75,000 rows, 2 rows of 4 processes, 25 steps of the method in each of 75 iterations.

use super::collective::exchange;
use super::{Compute, DOUBLE};
use crate::infiniband::mpi::Op;

const ROWS: u64 = 75_000;
const COLUMNS_OF_PROCESSES: u16 = 4;
const ROWS_OF_PROCESSES: u16 = 2;
const STEPS: u64 = 25;
/// What the program counts, of one of its iterations: 13 non-zeros.
pub(super) const OPERATIONS: f64 = {
    let non_zeros = 13.0 * 14.0;
    2.0 * ROWS as f64 * (3.0 + non_zeros + 25.0 * (5.0 + non_zeros) + 3.0)
};

/// An iteration of CG: 25 products of matrix and vector with sums, and one for the residual.
pub(super) fn iteration(process: u16, compute: Compute, ops: &mut Vec<Op>) {
    // The last product is that of the residual.
    let part = compute.share(1.0 / (STEPS + 1) as f64);
    sum_of_row(process, DOUBLE, ops);
    for _ in 0..STEPS {
        ops.push(part);
        product(process, ops);
        sum_of_row(process, DOUBLE, ops);
        sum_of_row(process, DOUBLE, ops);
    }
    ops.push(part);
    product(process, ops);
    sum_of_row(process, DOUBLE, ops);
    sum_of_row(process, 2 * DOUBLE, ops);
}

/// A product of matrix and vector: parts are summed along the row, and each process sends its half of the result to the process at
/// the transposed position.
fn product(process: u16, ops: &mut Vec<Op>) {
    let half = ROWS / u64::from(ROWS_OF_PROCESSES) / 2 * DOUBLE;
    for with in partners(process).into_iter().rev() {
        exchange(with, half, ops);
    }
    let pair = process / 2;
    let transposed =
        2 * (pair % ROWS_OF_PROCESSES * ROWS_OF_PROCESSES + pair / ROWS_OF_PROCESSES) + process % 2;
    if transposed != process {
        exchange(transposed, half, ops);
    }
}

/// Sums numbers over the processes of a row.
fn sum_of_row(process: u16, bytes: u64, ops: &mut Vec<Op>) {
    for with in partners(process) {
        exchange(with, bytes, ops);
    }
}

/// The other processes of a row to sum with: the one two places away, and the one beside.
fn partners(process: u16) -> [u16; 2] {
    let (row, column) = (process / COLUMNS_OF_PROCESSES, process % COLUMNS_OF_PROCESSES);
    [column ^ 2, column ^ 1].map(|column| row * COLUMNS_OF_PROCESSES + column)
}
