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

/// A process's place, and those beside it.
struct MemoryKind {
    north: Option<u16>,
    south: Option<u16>,
    west: Option<u16>,
    east: Option<u16>,
    /// Points in both directions, and those of them that are computed.
    points: [u64; 2],
    inner: [u64; 2],
}

impl MemoryKind {
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

pub(super) fn iteration(process: u16, compute: Compute, ops: &mut Vec<Op>) {
    let place = MemoryKind::of(process);
    let planes = POINTS - 2;
    let front = compute.share(FRONTS_SHARE / (2 * planes) as f64);
    for _ in 0..planes {
        pass([place.north, place.west], [place.south, place.east], &place, front, ops);
    }
    for _ in 0..planes {
        pass([place.south, place.east], [place.north, place.west], &place, front, ops);
    }
    ops.push(compute.share((1.0 - FRONTS_SHARE) / 2.0));
    let [rows, columns] = place.points;
    faces([place.north, place.south], 2 * NUMBERS * columns * POINTS * DOUBLE, ops);
    faces([place.west, place.east], 2 * NUMBERS * rows * POINTS * DOUBLE, ops);
    ops.push(compute.share((1.0 - FRONTS_SHARE) / 2.0));
}

/// A front comes, is computed on, and goes on.
fn pass(from: [Option<u16>; 2], to: [Option<u16>; 2], place: &MemoryKind, front: Op, ops: &mut Vec<Op>) {
    ops.extend(from.into_iter().flatten().map(|from| Op::Receive { from }));
    ops.push(front);
    let [rows, columns] = place.inner;
    for (to, points) in to.into_iter().zip([columns, rows]) {
        ops.extend(to.map(|to| Op::Send { to, bytes: NUMBERS * points * DOUBLE }));
    }
}

/// Two points deep, one way and then the other.
fn faces([one, other]: [Option<u16>; 2], bytes: u64, ops: &mut Vec<Op>) {
    for (from, to) in [(one, other), (other, one)] {
        ops.extend(from.map(|from| Op::BeginReceive { from }));
        ops.extend(to.map(|to| Op::Send { to, bytes }));
        ops.push(Op::WaitAll);
    }
}
