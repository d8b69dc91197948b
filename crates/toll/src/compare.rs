//! Compares two toll sheets.

use crate::difference::differing_counts;
use crate::{Count, Estimate, Event, Limit, Toll, TollSheet};
use serde::Serialize;
use std::cmp::Ordering;
use std::fmt;

/// One of the two sheets that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The first, the one before.
    A,
    /// The second, the one after.
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

/// A change in the costs of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The workload.
    pub workload: String,
    /// What changed.
    pub what: Changed,
}

/// The kinds of change.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// The workload is in one of the sheets only.
    Workload {
        /// The sheet that has it.
        only_in: Side,
    },
    /// An I/O moves another number of bytes, so its counts are not comparable.
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
        /// The count's name.
        count: Count,
        /// Per I/O in the first sheet; instructions are the mean of the boots' medians.
        a: f64,
        /// Per I/O in the second.
        b: f64,
        /// Whether it grew beyond the limit, for certain if both sheets have several boots. Always false for stages,
        /// functions and named events, which are parts of other counts: if one grows, another may shrink.
        grew: bool,
        /// Whether it is less or, beyond the limit, more in the second sheet, but the boots leave open whether it shrank or grew.
        may_be_chance: bool,
    },
}

/// All changes from sheet `a` to sheet `b`, with growth judged by `limit`. Workloads are in the order of `a`, then those that only `b` has.
pub fn compare(a: &TollSheet, b: &TollSheet, limit: Limit) -> Vec<Change> {
    let mut changes = Vec::new();
    for toll in &a.tolls {
        match b.toll(&toll.workload) {
            Some(other) => changes.extend(workload_changes(toll, other, limit)),
            None => changes.push(workload_only_in(Side::A, toll)),
        }
    }
    let new = b.tolls.iter().filter(|toll| a.toll(&toll.workload).is_none());
    changes.extend(new.map(|toll| workload_only_in(Side::B, toll)));
    changes
}

/// Whether any count grew beyond the limit that [`compare`] was given.
pub fn grew(changes: &[Change]) -> bool {
    changes.iter().any(|change| matches!(change.what, Changed::Count { grew: true, .. }))
}

/// The change of a workload that only one sheet has.
fn workload_only_in(side: Side, toll: &Toll) -> Change {
    Change { workload: toll.workload.clone(), what: Changed::Workload { only_in: side } }
}

/// All changes of a workload that both sheets have.
fn workload_changes(a: &Toll, b: &Toll, limit: Limit) -> Vec<Change> {
    let mut changed = Vec::new();
    if a.bytes_per_io != b.bytes_per_io {
        changed.push(Changed::BytesPerIo { a: a.bytes_per_io, b: b.bytes_per_io });
    }
    changed.extend(counts(a, b).into_iter().map(|(count, of_a, of_b)| {
        let exceeds = limit.is_exceeded(&count, of_a, of_b);
        let may_be_chance = (exceeds || of_b < of_a) && may_be_chance(&count, a, b, of_b.total_cmp(&of_a));
        Changed::Count { count, a: of_a, b: of_b, grew: exceeds && !may_be_chance, may_be_chance }
    }));
    changed.extend(uncounted_events(a, b, Side::A));
    changed.extend(uncounted_events(b, a, Side::B));
    changed.into_iter().map(|what| Change { workload: a.workload.clone(), what }).collect()
}

/// Counts that differ, with instructions by the mean of the boots' medians: that of all windows together may be larger where each boot's
/// is smaller.
fn counts(a: &Toll, b: &Toll) -> Vec<(Count, f64, f64)> {
    let instructions = |toll: &Toll| {
        let of_boots = Estimate::of(&toll.medians_by_boot());
        of_boots.map_or(toll.per_io(toll.instructions.median), |of_boots| of_boots.mean)
    };
    let (of_a, of_b) = (instructions(a), instructions(b));
    let others = differing_counts(a, b).into_iter().filter(|(count, ..)| *count != Count::Instructions);
    let own = (of_a != of_b).then_some((Count::Instructions, of_a, of_b));
    own.into_iter().chain(others).collect()
}

/// Whether two tolls of several boots differ by chance in a sum: the interval of the difference contains zero, or lies on the other
/// side of it than `direction`. With a single boot there is no interval, and every difference counts.
fn may_be_chance(count: &Count, a: &Toll, b: &Toll, direction: Ordering) -> bool {
    if !count.is_whole() {
        return false;
    }
    let boots = |toll: &Toll| match count.event() {
        None => toll.medians_by_boot(),
        Some(event) => toll.events_by_boot(event),
    };
    let more = Estimate::difference(&boots(b), &boots(a)).filter(|more| more.low.is_some());
    more.is_some_and(|more| more.sign().is_none_or(|sign| sign == direction.reverse()))
}

/// A change for each kind of event that was counted in `toll`, but not in `other`.
fn uncounted_events(toll: &Toll, other: &Toll, only_in: Side) -> impl Iterator<Item = Changed> {
    let alone = toll.events.iter().filter(|(event, _)| !other.events.contains_key(event));
    alone.map(move |(event, tally)| Changed::Uncounted {
        event: *event,
        only_in,
        mean_per_io: toll.mean_per_io(tally.all.total),
    })
}
