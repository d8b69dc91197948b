//! What watching adds to a call of a function, measured on this kernel.
//!
//! ```text
//!   jump to the entry's program, the program up to reading the clock     outside: added to the time of the caller
//!     | rest of that program, jump to the function                       inside
//!     |   the function
//!     | jump to the end's program, up to reading the clock               inside: added to the function's own time
//!   rest of that program, jump back                                      outside
//! ```
//!
//! The function is that of a system call which does next to nothing, called in a loop with programs and without. So code and tables are in
//! the CPU's caches, as they are not always elsewhere: what it costs there may be more.

#![allow(unsafe_code, reason = "rustix has no function for this system call")]

use crate::bpf::Runs;
use crate::function::{self, Function};
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Instant;
use toll::Stage;

/// How the programs of a function are made to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HookKind {
    /// By code that the kernel writes for the function.
    Trampoline,
    /// By probes at its entry and its return.
    Probe,
    /// By two of the kernel's tracepoints.
    Tracepoint,
}

/// Nanoseconds that watching adds to a call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookCost {
    /// How the function is watched.
    pub hook: HookKind,
    /// Added to the function's own time.
    pub inside_ns: f64,
    /// Added before its begin and after its end: to the time of its caller.
    pub outside_ns: f64,
    /// Whether a loop of system calls measured it. Otherwise it is the kernel's measurement of the programs alone, without the jumps to
    /// them, all of it outside.
    pub is_measured: bool,
}

impl HookCost {
    /// All that a call costs.
    pub fn ns(&self) -> f64 {
        self.inside_ns + self.outside_ns
    }
}

/// The function that the system call runs, by the names that architectures give it.
pub(crate) const CALLS: &[Function] = &[
    call("__x64_sys_sched_get_priority_max"),
    call("__arm64_sys_sched_get_priority_max"),
    call("sys_sched_get_priority_max"),
];

const fn call(name: &'static str) -> Function {
    function::plain(name, Stage::Other, None)
}

/// System calls in a row that are timed together: few, so that a row mostly ends before another program takes the CPU.
const ROW: u32 = 50;
/// Rows with programs. As many are without: half before, half after.
const ROWS: usize = 400;

/// Nanoseconds of a system call in each row: without programs, with them, and as these see it.
#[derive(Default)]
pub(crate) struct CallTimes {
    free: Vec<f64>,
    watched: Vec<f64>,
    seen: Vec<f64>,
}

impl CallTimes {
    /// Times system calls that are not watched: half of them before others are, half after.
    pub(crate) fn add_free(&mut self) {
        self.free.extend((0..ROWS / 2).map(|_| row()));
    }

    /// Times those that are. `tally` is what their programs counted so far.
    pub(crate) fn add_watched(&mut self, tally: impl Fn() -> io::Result<Tally>) -> io::Result<()> {
        let mut before = tally()?;
        for _ in 0..ROWS {
            self.watched.push(row());
            let now = tally()?;
            let calls = now.since(&before);
            if calls.calls > 0 {
                self.seen.push(calls.ns as f64 / calls.calls as f64);
            }
            before = now;
        }
        Ok(())
    }

    /// The cost of a call; `None` if one that is watched did not take longer.
    pub(crate) fn cost(mut self, hook: HookKind) -> Option<HookCost> {
        let more_ns = undisturbed(&mut self.watched)? - undisturbed(&mut self.free)?;
        let inside_ns = undisturbed(&mut self.seen)?.min(more_ns);
        (more_ns > 0.0).then_some(HookCost {
            hook,
            inside_ns,
            outside_ns: more_ns - inside_ns,
            is_measured: true,
        })
    }
}

/// The cost by what the kernel measured of all programs whose whole cost is not known; `None` if none ran meanwhile.
pub(crate) fn of_programs(hook: HookKind, runs: Runs) -> Option<HookCost> {
    // Entries and ends run equally often.
    let outside_ns = 2.0 * runs.ns as f64 / runs.runs as f64;
    (runs.runs > 0).then_some(HookCost { hook, inside_ns: 0.0, outside_ns, is_measured: false })
}

/// The nanoseconds of a call in a row.
fn row() -> f64 {
    let begun = Instant::now();
    for _ in 0..ROW {
        // SAFETY: it takes a number, and returns one.
        std::hint::black_box(unsafe { libc::sched_get_priority_max(libc::SCHED_OTHER) });
    }
    begun.elapsed().as_nanos() as f64 / f64::from(ROW)
}

/// The lowest tenth's last. Interrupts and other programs only lengthen rows, nearly all of them on a busy host; what watching adds is rather
/// thought too little than too much.
fn undisturbed(rows: &mut [f64]) -> Option<f64> {
    rows.sort_by(f64::total_cmp);
    rows.get(rows.len() / 10).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn times(free: &[f64], watched: &[f64], seen: &[f64]) -> CallTimes {
        CallTimes { free: free.to_vec(), watched: watched.to_vec(), seen: seen.to_vec() }
    }

    /// Two rows between eight during which another program ran.
    fn busy(first: f64, second: f64) -> Vec<f64> {
        [[9000.0; 4].as_slice(), &[first, second], &[8000.0; 4]].concat()
    }

    #[test]
    fn the_cost_is_that_of_undisturbed_rows() {
        let cost = times(&busy(100.0, 90.0), &busy(250.0, 260.0), &busy(60.0, 50.0));
        let cost = cost.cost(HookKind::Probe).unwrap();
        assert_eq!((cost.inside_ns, cost.outside_ns, cost.ns()), (60.0, 100.0, 160.0));
        assert!(cost.is_measured);
        // It can't be more inside than in all.
        let cost = times(&[100.0], &[130.0], &[50.0]).cost(HookKind::Probe).unwrap();
        assert_eq!((cost.inside_ns, cost.outside_ns), (30.0, 0.0));
    }

    #[test]
    fn a_difference_that_was_not_seen_is_no_cost() {
        assert_eq!(times(&[100.0], &[99.0], &[50.0]).cost(HookKind::Trampoline), None);
        assert_eq!(times(&[100.0], &[150.0], &[]).cost(HookKind::Trampoline), None, "no call was seen");
        assert_eq!(CallTimes::default().cost(HookKind::Trampoline), None);
    }

    #[test]
    fn the_kernel_s_own_measurement_is_of_pairs_of_programs() {
        let runs = Runs { runs: 10, ns: 600, misses: 0 };
        assert_eq!(of_programs(HookKind::Tracepoint, runs).unwrap().ns(), 120.0);
        assert_eq!(of_programs(HookKind::Tracepoint, Runs::default()), None);
    }
}
