//! Watches this host for some time, in intervals.

use crate::completed::{Completed, completed};
use crate::function::{Action, Function};
use crate::hardware_counters::{HardwareCount, HardwareCounters};
use crate::record::{Activity, INTERVALS_MAX, Interval, Mapping, Record, UnwatchedFunction};
use crate::stacks::{Event, Sampler, Stacks};
use crate::summary::{self, AdapterSummary};
use crate::tally::Tally;
use crate::watcher::{Reading, Unwatched, WatchError, Watcher};
use pci::Bdf;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Watching that goes on until [`Session::finish`].
#[derive(Debug)]
pub struct Session {
    watcher: Result<Watcher, WatchError>,
    sampler: Option<Result<Sampler, String>>,
    hardware_counters: HardwareCounters,
    /// Their counts up to the end of the last interval.
    hardware_counts: Vec<HardwareCount>,
    first: Snapshot,
    last: Snapshot,
    intervals: Vec<Interval>,
    /// Only these adapters, by their names in the kernel; all if there are none.
    chosen: Vec<String>,
}

/// What was read at a moment.
#[derive(Debug, Clone)]
struct Snapshot {
    at: Instant,
    reading: Reading,
    completed: BTreeMap<String, Completed>,
}

impl Session {
    /// Begins, for these adapters, or all if there are none. If the kernel's functions can't be watched, it still reads what adapters
    /// complete, and says so.
    ///
    /// # Errors
    /// [`WatchError::NoAdapter`] and [`WatchError::Read`]
    pub fn start(chosen: Vec<Bdf>) -> Result<Self, WatchError> {
        Self::start_with(chosen, Watcher::start, None)
    }

    /// Begins as [`Self::start`], but samples call stacks instead of attaching programs to the kernel's functions. If they can't be sampled
    /// where interrupts are off, nothing is sampled, and [`Stacks::unknown`] says why.
    ///
    /// # Errors
    /// [`WatchError::NoAdapter`]
    pub fn start_sampling(chosen: Vec<Bdf>) -> Result<Self, WatchError> {
        Self::start_with(chosen, || Err(WatchError::Sampled), Some(Event::Cycles))
    }

    /// The same by the kernel's timer, which tests hold it against: it takes no samples where interrupts are off.
    #[doc(hidden)]
    pub fn start_sampling_by_timer(chosen: Vec<Bdf>) -> Result<Self, WatchError> {
        Self::start_with(chosen, || Err(WatchError::Sampled), Some(Event::Timer))
    }

    fn start_with(
        chosen: Vec<Bdf>,
        watcher: impl FnOnce() -> Result<Watcher, WatchError>,
        event: Option<Event>,
    ) -> Result<Self, WatchError> {
        let is_here = |adapter: &Bdf| Path::new("/sys/bus/pci/devices").join(adapter.to_string()).exists();
        if let Some(adapter) = chosen.iter().find(|adapter| !is_here(adapter)) {
            return Err(WatchError::NoAdapter(*adapter));
        }
        let chosen = chosen.iter().map(Bdf::to_string).collect();
        let mut watcher = watcher();
        let sampler = event.map(Sampler::start);
        let hardware_counters = HardwareCounters::start();
        let first = snapshot(&mut watcher)?;
        Ok(Self {
            watcher,
            sampler,
            hardware_counters,
            hardware_counts: Vec::new(),
            last: first.clone(),
            first,
            intervals: Vec::new(),
            chosen,
        })
    }

    /// Ends an interval, and returns it.
    ///
    /// # Errors
    /// [`WatchError::Read`]
    pub fn interval(&mut self) -> Result<Interval, WatchError> {
        let now = snapshot(&mut self.watcher)?;
        self.hardware_counts = self.hardware_counters.counts();
        let seconds = (now.at - self.last.at).as_secs_f64();
        let is_counted = self.watcher.is_ok();
        let adapters = self.between(&self.last, &now).iter().map(|one| activity(one, is_counted)).collect();
        let interval = Interval { end_s: (now.at - self.first.at).as_secs_f64(), seconds, adapters };
        self.last = now;
        if self.intervals.len() < INTERVALS_MAX {
            self.intervals.push(interval.clone());
        }
        Ok(interval)
    }

    /// Ends watching. The record reaches to the end of the last interval.
    pub fn finish(mut self) -> Record {
        let stacks = self.sampler.take().map(|sampler| match sampler {
            Ok(sampler) => Stacks::of(sampler.finish(), self.completed()),
            Err(why) => Stacks::without_samples(why),
        });
        let adapters = self.between(&self.first, &self.last);
        let names = |functions: &[&Function]| functions.iter().map(|function| function.name).collect();
        let watcher = self.watcher.as_ref();
        let refused = |one: &Unwatched| {
            let why = one.why.as_ref()?.to_string();
            Some(UnwatchedFunction { function: one.function.name, why })
        };
        Record {
            seconds: (self.last.at - self.first.at).as_secs_f64(),
            uncounted: watcher.err().map(ToString::to_string),
            assumes_parameters: watcher.is_ok_and(|watcher| !watcher.is_described),
            functions: watcher.map(|watcher| names(&watcher.watched)).unwrap_or_default(),
            probed: watcher.map(|watcher| names(&watcher.probed)).unwrap_or_default(),
            unwatched: watcher
                .map_or_else(|_| Vec::new(), |it| it.unwatched.iter().filter_map(refused).collect()),
            losses: self.last.reading.losses.since(&self.first.reading.losses),
            program_ns: self.last.reading.program_ns,
            calls: self.last.reading.calls().saturating_sub(self.first.reading.calls()),
            adapters,
            hardware_counts: self.hardware_counts,
            stacks,
            intervals: self.intervals,
        }
    }

    /// What all adapters completed, also those that were not chosen.
    fn completed(&self) -> Completed {
        let mut all = Completed::default();
        for (adapter, now) in &self.last.completed {
            all += now.since(&self.first.completed.get(adapter).copied().unwrap_or_default());
        }
        all
    }

    fn between(&self, earlier: &Snapshot, later: &Snapshot) -> Vec<AdapterSummary> {
        let completed = |adapter: &str| {
            let before = earlier.completed.get(adapter).copied().unwrap_or_default();
            later.completed.get(adapter).map(|now| now.since(&before)).unwrap_or_default()
        };
        let names = later.completed.keys().cloned();
        let mut adapters = summary::adapters(&earlier.reading, &later.reading, completed, names);
        adapters.retain(|one| self.chosen.is_empty() || self.chosen.contains(&one.adapter));
        adapters
    }
}

/// Reads all counters.
fn snapshot(watcher: &mut Result<Watcher, WatchError>) -> Result<Snapshot, WatchError> {
    let at = Instant::now();
    let reading = watcher.as_mut().map_or_else(|_| Ok(Reading::default()), Watcher::read)?;
    Ok(Snapshot { at, reading, completed: completed(Path::new("/")) })
}

fn activity(adapter: &AdapterSummary, is_counted: bool) -> Activity {
    let mapping = || Mapping {
        maps: adapter.calls(Action::Map),
        mapped_bytes: adapter.tally(Action::Map).map_or(Some(0), Tally::bytes_if_known),
        unmaps: adapter.calls(Action::Unmap),
        iovas: adapter.calls(Action::AllocateIova),
        table_writes: adapter.calls(Action::WriteTable),
        invalidations: adapter.calls(Action::Invalidate),
        bounced_bytes: adapter.tally(Action::TakeBounce).map_or(0, |tally| tally.bytes),
        ns: adapter.ns(),
        stages: adapter.stages.clone(),
    };
    Activity {
        adapter: adapter.adapter.clone(),
        completed: adapter.completed,
        mapping: is_counted.then(mapping),
    }
}
