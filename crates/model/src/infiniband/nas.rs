//! What four NAS Parallel Benchmarks of class B send to each other on 8 processes: who, how much, in which order.
//!
//! From Bailey, Harris, Saphir, van der Wijngaart, Woo and Yarrow, "The NAS Parallel Benchmarks 2.0", 1995, and the sources of its MPI
//! programs; operations are those that the programs themselves count. How fast a process computes is a parameter.

mod cg;
mod collective;
mod is;
mod lu;
mod mg;

use super::mpi::{Op, Program};
use des::Span;
use serde::Deserialize;

/// Processes.
pub const PROCESSES: u16 = 8;

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Integer sort.
    Is,
    /// Multigrid.
    Mg,
    /// Lower and upper triangular solver.
    Lu,
    /// Conjugate gradient.
    Cg,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Is, Self::Mg, Self::Lu, Self::Cg];

    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Is => "IS",
            Self::Mg => "MG",
            Self::Lu => "LU",
            Self::Cg => "CG",
        }
    }

    /// Operations that all processes together do in one iteration: keys of IS, in floating point of the others.
    pub fn operations(self) -> f64 {
        match self {
            Self::Is => is::OPERATIONS,
            Self::Mg => mg::OPERATIONS,
            Self::Lu => lu::OPERATIONS,
            Self::Cg => cg::OPERATIONS,
        }
    }

    /// One iteration, to be done so often, of processes that do so many operations a second each.
    pub fn program(self, operations_per_second: f64, rounds: u32) -> Program {
        let seconds = self.operations() / f64::from(PROCESSES) / operations_per_second;
        let compute = Compute { iteration: Span::from_ps_f64(seconds * 1e12) };
        let ops = |process| {
            let mut ops = Vec::new();
            match self {
                Self::Is => is::iteration(process, compute, &mut ops),
                Self::Mg => mg::iteration(process, compute, &mut ops),
                Self::Lu => lu::iteration(process, compute, &mut ops),
                Self::Cg => cg::iteration(process, compute, &mut ops),
            }
            ops
        };
        Program { ops: (0..PROCESSES).map(ops).collect(), rounds }
    }
}

/// How long a process computes in an iteration.
#[derive(Debug, Clone, Copy)]
struct Compute {
    iteration: Span,
}

impl Compute {
    /// A share of it.
    fn share(self, share: f64) -> Op {
        Op::Compute(Span::from_ps_f64(self.iteration.as_ps_f64() * share))
    }
}

/// Bytes of a number in double precision.
const DOUBLE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Bytes that each process sends to each other, and messages.
    fn sent(kernel: Kernel) -> BTreeMap<(u16, u16), (u64, u64)> {
        let mut sent = BTreeMap::new();
        for (from, ops) in (0..).zip(&kernel.program(1e9, 1).ops) {
            for op in ops {
                if let Op::Send { to, bytes } | Op::BeginSend { to, bytes } = op {
                    let pair: &mut (u64, u64) = sent.entry((from, *to)).or_default();
                    *pair = (pair.0 + bytes, pair.1 + 1);
                }
            }
        }
        sent
    }

    #[test]
    fn every_message_is_received_and_every_second_computed() {
        for kernel in Kernel::ALL {
            let program = kernel.program(1e9, 1);
            let mut open: BTreeMap<(u16, u16), i64> = BTreeMap::new();
            for (process, ops) in (0..).zip(&program.ops) {
                let mut computed = 0.0;
                for op in ops {
                    match *op {
                        Op::Compute(span) => computed += span.as_ps_f64(),
                        Op::Send { to, .. } | Op::BeginSend { to, .. } => {
                            *open.entry((process, to)).or_default() += 1;
                        }
                        Op::Receive { from } | Op::BeginReceive { from } => {
                            *open.entry((from, process)).or_default() -= 1;
                        }
                        Op::WaitAll => {}
                    }
                }
                let expected = kernel.operations() / 8.0 * 1e3;
                assert!((computed / expected - 1.0).abs() < 1e-6, "{kernel:?} {computed} {expected}");
            }
            assert!(open.values().all(|open| *open == 0), "{kernel:?} {open:?}");
        }
    }

    #[test]
    fn volumes_are_those_of_the_problems() {
        // Each process keeps an eighth of its 2^22 keys; counts and bucket sizes are little beside them.
        let keys: u64 = sent(Kernel::Is).iter().filter(|(pair, _)| pair.0 == 0).map(|(_, sent)| sent.0).sum();
        assert!((keys as f64 / (7.0 / 8.0 * 4.0 * f64::from(1 << 22)) - 1.0).abs() < 0.002, "{keys}");
        // Faces of 128^2 numbers, three times at the finest level, twice each way, and a quarter as much at each coarser one.
        let faces = sent(Kernel::Mg)[&(0, 1)].0 as f64;
        assert!((faces / (128.0 * 128.0 * 8.0 * 6.0 * 4.0 / 3.0) - 1.0).abs() < 0.01, "{faces}");
        // 100 planes each way with 50 cells of 5 numbers, and faces of the right-hand side, 10 numbers for each of 51 x 102 cells.
        let south = sent(Kernel::Lu)[&(0, 1)];
        assert_eq!(south.1, 101);
        assert_eq!(south.0, 100 * 5 * 50 * 8 + 10 * 51 * 102 * 8);
        // 26 products of a matrix with a vector, of which a process sends a quarter of 75,000 numbers to two others.
        let row = sent(Kernel::Cg)[&(0, 2)];
        assert!(row.0 >= 26 * 150_000 && row.0 < 26 * 150_000 + 1_000, "{row:?}");
    }
}
