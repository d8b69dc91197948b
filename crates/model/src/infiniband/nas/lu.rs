//! LU, class B: 102^3 points of 5 numbers, 4 by 2 processes, fronts that run through all planes and back.

use super::{Compute, DOUBLE};
use crate::infiniband::mpi::Op;

const POINTS: u64 = 102;
const NUMBERS: u64 = 5;
const ROWS: u16 = 4;
/// What the program counts, of one of its 250 steps.
pub(super) const OPERATIONS: f64 = {
    let n = POINTS as f64;
    1984.77 * n * n * n - 10_923.3 * n * n + 27_770.9 * n - 144_010.0
};
/// Of the operations, those of the fronts; the others are of the right-hand side.
const FRONTS_SHARE: f64 = 0.6;

/// The neighbours of a process in the grid of processes, and its part of the grid of points.
struct Neighbours {
    north: Option<u16>,
    south: Option<u16>,
    west: Option<u16>,
    east: Option<u16>,
    /// Points in both directions, and those of them that are computed.
    points: [u64; 2],
    inner: [u64; 2],
}

impl Neighbours {
    /// The neighbours of a process, and its part of the grid.
    fn of(process: u16) -> Self {
        let (row, column) = (process % ROWS, process / ROWS);
        // 26, 26, 25, 25, and 51 twice; the outermost points are given.
        let points = [if row < 2 { 26 } else { 25 }, 51];
        let at_edge = row == 0 || row == ROWS - 1;
        Self {
            north: (row > 0).then(|| process - 1),
            south: (row < ROWS - 1).then(|| process + 1),
            west: (column > 0).then(|| process - ROWS),
            east: (column == 0).then(|| process + ROWS),
            points,
            inner: [points[0] - u64::from(at_edge), points[1] - 1],
        }
    }
}

/// An iteration of LU: wavefronts from the north-west and back, then borders with all neighbours.
pub(super) fn iteration(process: u16, compute: Compute, ops: &mut Vec<Op>) {
    let neighbours = Neighbours::of(process);
    let planes = POINTS - 2;
    let front = compute.share(FRONTS_SHARE / (2 * planes) as f64);
    for _ in 0..planes {
        pass(
            [neighbours.north, neighbours.west],
            [neighbours.south, neighbours.east],
            &neighbours,
            front,
            ops,
        );
    }
    for _ in 0..planes {
        pass(
            [neighbours.south, neighbours.east],
            [neighbours.north, neighbours.west],
            &neighbours,
            front,
            ops,
        );
    }
    ops.push(compute.share((1.0 - FRONTS_SHARE) / 2.0));
    let [rows, columns] = neighbours.points;
    faces([neighbours.north, neighbours.south], 2 * NUMBERS * columns * POINTS * DOUBLE, ops);
    faces([neighbours.west, neighbours.east], 2 * NUMBERS * rows * POINTS * DOUBLE, ops);
    ops.push(compute.share((1.0 - FRONTS_SHARE) / 2.0));
}

/// A wavefront arrives from two neighbours, is computed, and is sent to the two others.
fn pass(from: [Option<u16>; 2], to: [Option<u16>; 2], neighbours: &Neighbours, front: Op, ops: &mut Vec<Op>) {
    ops.extend(from.into_iter().flatten().map(|from| Op::Receive { from }));
    ops.push(front);
    let [rows, columns] = neighbours.inner;
    for (to, points) in to.into_iter().zip([columns, rows]) {
        ops.extend(to.map(|to| Op::Send { to, bytes: NUMBERS * points * DOUBLE }));
    }
}

/// Adds the exchange of borders two points deep with two opposite neighbours.
fn faces([one, other]: [Option<u16>; 2], bytes: u64, ops: &mut Vec<Op>) {
    for (from, to) in [(one, other), (other, one)] {
        ops.extend(from.map(|from| Op::BeginReceive { from }));
        ops.extend(to.map(|to| Op::Send { to, bytes }));
        ops.push(Op::WaitAll);
    }
}
