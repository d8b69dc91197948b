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
use serde::{Deserialize, Serialize};
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

/// System calls in a row that are timed together.
const ROW: u32 = 500;
/// Rows with programs, and twice half as many without.
const ROWS: usize = 40;

/// Nanoseconds of a system call, before and after programs were attached, and meanwhile: medians of rows.
pub(crate) struct CallTimes {
    free: Vec<f64>,
    watched: Vec<f64>,
}

impl CallTimes {
    /// Times system calls that are not watched.
    pub(crate) fn begin() -> Self {
        Self { free: rows(ROWS / 2), watched: Vec::new() }
    }

    /// Times them while they are.
    pub(crate) fn watched(&mut self) {
        self.watched = rows(ROWS);
    }

    /// Times them once more without, and returns what a watched call takes more; `None` if it was not longer.
    pub(crate) fn end(mut self) -> Option<f64> {
        self.free.extend(rows(ROWS / 2));
        let more = median(&mut self.watched)? - median(&mut self.free)?;
        (more > 0.0).then_some(more)
    }
}

/// The cost by what a watched call takes more in all, and how long it lasts as its programs see it.
pub(crate) fn of_calls(hook: HookKind, more_ns: f64, seen_ns: f64) -> HookCost {
    let inside_ns = seen_ns.min(more_ns);
    HookCost { hook, inside_ns, outside_ns: more_ns - inside_ns, is_measured: true }
}

/// The cost by what the kernel measured of all programs whose whole cost is not known; `None` if none ran meanwhile.
pub(crate) fn of_programs(hook: HookKind, runs: Runs) -> Option<HookCost> {
    // Entries and ends run equally often.
    let outside_ns = 2.0 * runs.ns as f64 / runs.runs as f64;
    (runs.runs > 0).then_some(HookCost { hook, inside_ns: 0.0, outside_ns, is_measured: false })
}

/// The nanoseconds of a call in each of some rows.
fn rows(number: usize) -> Vec<f64> {
    let row = |_| {
        let begun = Instant::now();
        for _ in 0..ROW {
            // SAFETY: it takes a number, and returns one.
            std::hint::black_box(unsafe { libc::sched_get_priority_max(libc::SCHED_OTHER) });
        }
        begun.elapsed().as_nanos() as f64 / f64::from(ROW)
    };
    (0..number).map(row).collect()
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
