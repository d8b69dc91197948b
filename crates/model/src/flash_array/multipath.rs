//! Multipathing: selects a path for each command, and tracks failed paths.

use super::path::PathId;
use des::{Span, Time};
use std::ops::Range;

/// Parameters of multipathing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multipath {
    /// How a path is selected.
    pub policy: Policy,
    /// Interval at which a failed path is checked.
    pub health_check: Span,
}

/// How a path is selected among the usable ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The first usable path.
    FailOver,
    /// Each path in turn.
    RoundRobin,
    /// The path with the fewest commands in flight; among equals in turn.
    ShortestQueue,
}

/// An entry of the error log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// When it was noticed.
    pub at: Time,
    /// The path.
    pub path: PathId,
    /// Failed or recovered.
    pub what: PathChange,
    /// Requests affected.
    pub ios: u64,
}

/// A change of a path's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChange {
    /// Commands failed, and the path is no longer used. Counts the requests that were resubmitted or wait for a path.
    Failed,
    /// The path works again. Counts the requests that had waited for it.
    Recovered,
}

/// The kernel's view of the paths.
#[derive(Debug)]
pub(super) struct Paths {
    policy: Policy,
    known: Vec<Known>,
    /// The path at which the next round-robin selection starts.
    turn: u32,
    log: Vec<LogEntry>,
    /// Requests waiting for a path.
    waiting: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    in_flight: u32,
    is_failed: bool,
    /// Its latest failure.
    failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    /// Index of its log entry.
    entry: usize,
    /// The latest link that was lost. Commands it carried may fail late, after the path recovered, and then do not
    /// count as a new failure.
    link: u32,
}

impl Paths {
    pub(super) fn new(policy: Policy, paths: u32) -> Self {
        Self {
            policy,
            known: vec![Known::default(); paths as usize],
            turn: 0,
            log: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Selects a path for a command from this range; `None` if none is usable.
    pub(super) fn choose(&mut self, of: Range<u32>) -> Option<PathId> {
        let count = of.end - of.start;
        let first = match self.policy {
            Policy::FailOver => 0,
            Policy::RoundRobin | Policy::ShortestQueue => self.turn % count,
        };
        let in_turn = (0..count).map(|step| of.start + (first + step) % count);
        let mut usable = in_turn.filter(|path| !self.known[*path as usize].is_failed);
        let chosen = match self.policy {
            Policy::FailOver | Policy::RoundRobin => usable.next(),
            Policy::ShortestQueue => usable.min_by_key(|path| self.known[*path as usize].in_flight),
        }?;
        self.turn = self.turn.wrapping_add(1);
        self.known[chosen as usize].in_flight += 1;
        Some(PathId(chosen))
    }

    /// Whether a path of this range is usable.
    pub(super) fn is_any_usable(&self, of: Range<u32>) -> bool {
        self.known[of.start as usize..of.end as usize].iter().any(|known| !known.is_failed)
    }

    /// A command on this path has completed or failed.
    pub(super) fn returned(&mut self, path: PathId) {
        self.known[path.0 as usize].in_flight -= 1;
    }

    /// A command sent over `link` has failed. Returns whether the path was usable until now.
    pub(super) fn failed(&mut self, at: Time, path: PathId, link: u32) -> bool {
        let known = &mut self.known[path.0 as usize];
        if let Some(failure) =
            known.failure.as_mut().filter(|failure| known.is_failed || link <= failure.link)
        {
            failure.link = failure.link.max(link);
            self.log[failure.entry].ios += 1;
            return false;
        }
        known.is_failed = true;
        known.failure = Some(Failure { entry: self.log.len(), link });
        self.log.push(LogEntry { at, path, what: PathChange::Failed, ios: 1 });
        true
    }

    /// Lets a request wait for a path.
    pub(super) fn wait(&mut self, request: u32) {
        self.waiting.push(request);
    }

    /// Marks a path as usable. Returns the requests that waited for one.
    pub(super) fn recovered(&mut self, at: Time, path: PathId) -> Vec<u32> {
        self.known[path.0 as usize].is_failed = false;
        let waited = std::mem::take(&mut self.waiting);
        self.log.push(LogEntry { at, path, what: PathChange::Recovered, ios: waited.len() as u64 });
        waited
    }

    /// Number of requests waiting for a path.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Number of waiting requests that satisfy a condition.
    pub(super) fn waiting_where(&self, holds: impl Fn(u32) -> bool) -> u32 {
        self.waiting.iter().filter(|request| holds(**request)).count() as u32
    }

    pub(super) fn into_log(self) -> Vec<LogEntry> {
        self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(paths: &mut Paths, times: usize) -> Vec<u32> {
        (0..times).map(|_| paths.choose(0..4).unwrap().0).collect()
    }

    #[test]
    fn policies_choose_among_those_that_may_be_used() {
        let of = |policy| Paths::new(policy, 4);
        assert_eq!(chosen(&mut of(Policy::FailOver), 3), [0, 0, 0]);
        assert_eq!(chosen(&mut of(Policy::RoundRobin), 6), [0, 1, 2, 3, 0, 1]);
        let mut shortest = of(Policy::ShortestQueue);
        assert_eq!(chosen(&mut shortest, 4), [0, 1, 2, 3]);
        shortest.returned(PathId(2));
        assert_eq!(chosen(&mut shortest, 1), [2]);
        for policy in [Policy::FailOver, Policy::RoundRobin, Policy::ShortestQueue] {
            let mut paths = of(policy);
            assert!(paths.failed(Time::ZERO, PathId(0), 0) && !paths.failed(Time::ZERO, PathId(0), 0));
            assert!(!chosen(&mut paths, 9).contains(&0), "{policy:?}");
            paths.wait(7);
            assert_eq!(paths.recovered(Time::ZERO, PathId(0)), [7]);
            assert!(!paths.failed(Time::ZERO, PathId(0), 0), "of the link that is known to be lost");
            assert!(chosen(&mut paths, 9).contains(&0), "{policy:?}");
            let log: Vec<_> = paths.into_log().iter().map(|entry| (entry.what, entry.ios)).collect();
            assert_eq!(log, [(PathChange::Failed, 3), (PathChange::Recovered, 1)]);
        }
    }

    #[test]
    fn no_path_is_chosen_if_none_is_usable() {
        let mut paths = Paths::new(Policy::ShortestQueue, 2);
        for path in [0, 1] {
            paths.failed(Time::ZERO, PathId(path), 0);
        }
        assert_eq!(paths.choose(0..2), None);
    }
}
