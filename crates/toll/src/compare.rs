//! What changed from one toll sheet to another.

use crate::difference::unequal;
use crate::{Count, Event, Limit, Toll, TollSheet};
use serde::Serialize;
use std::fmt;

/// One of the two sheets that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The first, from which growth is told.
    A,
    /// The second.
    B,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

/// A change in what a workload pays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The workload.
    pub workload: String,
    /// What changed.
    #[serde(flatten)]
    pub what: Changed,
}

/// What may change.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Changed {
    /// The workload is in one of the sheets only.
    Workload {
        /// The sheet that has it.
        only_in: Side,
    },
    /// An I/O moves another amount: its counts are not of the same thing any more.
    BytesPerIo {
        /// Bytes in the first sheet.
        a: u64,
        /// Bytes in the second.
        b: u64,
    },
    /// Events of a kind were counted for one of the sheets only: there is nothing to compare them with.
    Uncounted {
        /// The kind.
        event: Event,
        /// The sheet that has them.
        only_in: Side,
        /// How often they happened there, per I/O.
        mean_per_io: f64,
    },
    /// A count.
    Count {
        /// Which.
        count: Count,
        /// Per I/O in the first sheet.
        a: f64,
        /// Per I/O in the second.
        b: f64,
        /// Whether it grew by more than was to be put up with. Told of instructions and of kinds of events:
        /// stages, functions and names divide these, and what one has more another may have less.
        grew: bool,
    },
}

/// All changes from `a` to `b`: workloads in the order of `a`, then those that only `b` has.
pub fn compare(a: &TollSheet, b: &TollSheet, limit: Limit) -> Vec<Change> {
    let mut changes = Vec::new();
    for toll in &a.tolls {
        match b.toll(&toll.workload) {
            Some(other) => changes.extend(of_workload(toll, other, limit)),
            None => changes.push(only_in(Side::A, toll)),
        }
    }
    let new = b.tolls.iter().filter(|toll| a.toll(&toll.workload).is_none());
    changes.extend(new.map(|toll| only_in(Side::B, toll)));
    changes
}

/// Whether any count grew beyond the limit that [`compare`] was given.
pub fn grew(changes: &[Change]) -> bool {
    changes.iter().any(|change| matches!(change.what, Changed::Count { grew: true, .. }))
}

fn only_in(side: Side, toll: &Toll) -> Change {
    Change { workload: toll.workload.clone(), what: Changed::Workload { only_in: side } }
}

fn of_workload(a: &Toll, b: &Toll, limit: Limit) -> Vec<Change> {
    let mut changed = Vec::new();
    if a.bytes_per_io != b.bytes_per_io {
        changed.push(Changed::BytesPerIo { a: a.bytes_per_io, b: b.bytes_per_io });
    }
    changed.extend(unequal(a, b).into_iter().map(|(count, a, b)| {
        let grew = limit.is_exceeded(&count, a, b);
        Changed::Count { count, a, b, grew }
    }));
    changed.extend(uncounted(a, b, Side::A));
    changed.extend(uncounted(b, a, Side::B));
    changed.into_iter().map(|what| Change { workload: a.workload.clone(), what }).collect()
}

fn uncounted(toll: &Toll, other: &Toll, only_in: Side) -> impl Iterator<Item = Changed> {
    let alone = toll.events.iter().filter(|(event, _)| !other.events.contains_key(event));
    alone.map(move |(event, tally)| Changed::Uncounted {
        event: *event,
        only_in,
        mean_per_io: toll.mean_per_io(tally.all.total),
    })
}
