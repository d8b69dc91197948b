//! MG, class B: a V-cycle on a grid of 256^3, 2 processes in each direction.

use super::{Compute, DOUBLE};
use crate::infiniband::mpi::Op;

/// 256 = 2^8.
const FINEST: u32 = 8;
const COARSEST: u32 = 1;
/// 58 for each point of the finest grid.
pub(super) const OPERATIONS: f64 = 58.0 * 256.0 * 256.0 * 256.0;

/// A V-cycle of MG. A border is exchanged once on each level downwards, once on the coarsest one, twice on each level upwards, and
/// once at the end.
pub(super) fn iteration(process: u16, compute: Compute, ops: &mut Vec<Op>) {
    let down = (COARSEST..FINEST).rev();
    let up = (COARSEST + 1..=FINEST).flat_map(|level| [level, level]);
    let steps: Vec<u32> = down.chain([COARSEST]).chain(up).chain([FINEST]).collect();
    let points = |level: u32| 8.0_f64.powi(level as i32);
    let all: f64 = steps.iter().map(|level| points(*level)).sum();
    for level in steps {
        ops.push(compute.share(points(level) / all));
        border(process, level, ops);
    }
}

/// Adds the exchange of a grid's border. In each direction there is one other process, which gets both faces. Each direction's faces
/// include what the directions before brought.
fn border(process: u16, level: u32, ops: &mut Vec<Op>) {
    let inner = 1_u64 << (level - 1);
    let outer = inner + 2;
    for (direction, points) in (0..).zip([inner * inner, outer * inner, outer * outer]) {
        let other = process ^ (1 << direction);
        ops.extend([Op::BeginReceive { from: other }; 2]);
        ops.extend([Op::Send { to: other, bytes: points * DOUBLE }; 2]);
        ops.push(Op::WaitAll);
    }
}
