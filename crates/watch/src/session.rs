//! Watches this host for some time, in intervals.

use crate::completed::{Completed, completed};
use crate::duty::{self, Duty};
use crate::function::{Action, Function};
use crate::hardware_counters::{HardwareCount, HardwareCounters};
use crate::hook_cost::HookCost;
use crate::record::{Activity, INTERVALS_MAX, Interval, Mapping, PartTime, Record, UnwatchedFunction};
use crate::stacks::{Event, Sampler, Stacks};
use crate::summary::{self, AdapterSummary};
use crate::tally::Tally;
use crate::watcher::{Reading, Unwatched, WatchError, Watcher};
use pci::Bdf;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A window is looked at after this time, to foresee what it will cost.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// What a call is taken to cost where that is not known.
const UNKNOWN_CALL_NS: f64 = 1000.0;

/// Watching that goes on until [`Session::finish`].
#[derive(Debug)]
pub struct Session {
    watcher: Result<Watcher, WatchError>,
    sampler: Option<Result<Sampler, String>>,
    hardware_counters: HardwareCounters,
    /// Their counts up to the end of the last interval.
    hardware_counts: Vec<HardwareCount>,
    begun: Instant,
    /// At the begin of the interval under way.
    last: Snapshot,
    /// All intervals' sums.
    counted: Span,
    intervals: Vec<Interval>,
    /// Only these adapters, by their names in the kernel; all if there are none.
    chosen: Vec<String>,
    turns: Option<Turns>,
}

/// Where counting a part of the time is.
#[derive(Debug)]
struct Turns {
    duty: Duty,
    /// When the window under way must end; `None` until it was looked at.
    window_end: Option<Instant>,
    /// When the next window begins, while counting pauses or is about to.
    pause_end: Option<Instant>,
    is_detached: bool,
    has_paused: bool,
    /// CPU nanoseconds that were spent, from the start on up to the end of the last window.
    spent_ns: f64,
    /// CPU nanoseconds of this thread before the start.
    begun_ns: f64,
    /// The most that a window has cost so far, with attaching and detaching before it.
    window_ns_max: f64,
}

/// What was read at a moment.
#[derive(Debug, Clone)]
struct Snapshot {
    at: Instant,
    reading: Reading,
    completed: BTreeMap<String, Completed>,
}

/// What was counted in a span of time.
#[derive(Debug, Clone, Default)]
struct Span {
    seconds: f64,
    reading: Reading,
    completed: BTreeMap<String, Completed>,
}

impl Snapshot {
    /// What came since an earlier one.
    fn since(&self, earlier: &Self) -> Span {
        let since = |(adapter, now): (&String, &Completed)| {
            let before = earlier.completed.get(adapter).copied().unwrap_or_default();
            (adapter.clone(), now.since(&before))
        };
        Span {
            seconds: (self.at - earlier.at).as_secs_f64(),
            reading: self.reading.since(&earlier.reading),
            completed: self.completed.iter().map(since).collect(),
        }
    }
}

impl Span {
    fn add(&mut self, later: Self) {
        self.seconds += later.seconds;
        self.reading.add(later.reading);
        for (adapter, completed) in later.completed {
            *self.completed.entry(adapter).or_default() += completed;
        }
    }
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
        let last = snapshot(&mut watcher)?;
        Ok(Self {
            watcher,
            sampler,
            hardware_counters,
            hardware_counts: Vec::new(),
            begun: last.at,
            last,
            counted: Span::default(),
            intervals: Vec::new(),
            chosen,
            turns: None,
        })
    }

    /// Begins as [`Self::start`] does, but counts only part of the time, so that watching takes at most this share of a core. Then
    /// [`Self::step`] must be called several times a second, from this thread.
    ///
    /// # Errors
    /// As [`Self::start`], and [`WatchError::Attach`] if the kernel does not let programs be attached again
    pub fn start_part_time(chosen: Vec<Bdf>, max_cores: f64) -> Result<Self, WatchError> {
        let begun_ns = thread_ns();
        let mut session = Self::start(chosen)?;
        if let Ok(watcher) = &mut session.watcher {
            watcher.check_resume().map_err(WatchError::Attach)?;
        }
        let turns = Turns {
            duty: Duty { max_cores },
            window_end: None,
            pause_end: None,
            is_detached: false,
            has_paused: false,
            spent_ns: thread_ns() - begun_ns,
            begun_ns,
            window_ns_max: 0.0,
        };
        Ok(Self { turns: Some(turns), ..session })
    }

    /// Why nothing is counted or sampled, as far as that is known already.
    pub fn refusal(&self) -> Option<String> {
        match &self.sampler {
            Some(sampler) => sampler.as_ref().err().cloned(),
            None => self.watcher.as_ref().err().map(ToString::to_string),
        }
    }

    /// Since when the interval under way is counted; `None` while it pauses.
    pub fn counts_since(&self) -> Option<Instant> {
        let pauses = self.turns.as_ref().is_some_and(|turns| turns.pause_end.is_some());
        (!pauses).then_some(self.last.at)
    }

    /// Detaches programs for a pause, and attaches them for a window, which takes the kernel seconds. Returns whether the interval
    /// under way must end now, because it costs as much as it may. If it counts all the time, this does nothing.
    ///
    /// # Errors
    /// [`WatchError::Read`] and [`WatchError::Attach`]
    pub fn step(&mut self) -> Result<bool, WatchError> {
        let (Some(turns), Ok(watcher)) = (&mut self.turns, &mut self.watcher) else { return Ok(false) };
        let now = Instant::now();
        match (turns.pause_end, turns.window_end) {
            (Some(_), _) if !turns.is_detached => {
                watcher.pause().map_err(WatchError::Read)?;
                (turns.is_detached, turns.has_paused) = (true, true);
            }
            (Some(end), _) if now >= end => {
                watcher.resume().map_err(WatchError::Attach)?;
                turns.is_detached = false;
                (turns.pause_end, turns.window_end) = (None, None);
                self.last = snapshot(&mut self.watcher)?;
            }
            (None, None) if self.last.at + LOOK_AFTER <= now => {
                let cores = watching_ns(&watcher.read()?.since(&self.last.reading))
                    / (now - self.last.at).as_nanos() as f64;
                turns.window_end = self.last.at.checked_add(turns.duty.window(cores));
            }
            (None, Some(end)) => return Ok(now >= end),
            _ => {}
        }
        Ok(false)
    }

    /// Ends an interval, and returns it. In a pause there is none to end ([`Self::counts_since`]).
    ///
    /// # Errors
    /// [`WatchError::Read`]
    pub fn interval(&mut self) -> Result<Interval, WatchError> {
        let now = snapshot(&mut self.watcher)?;
        self.hardware_counts = self.hardware_counters.counts();
        // Where nothing is counted there is nothing to pause.
        if let Some(turns) = self.turns.as_mut().filter(|_| self.watcher.is_ok()) {
            turns.end_window(now.at - self.begun, &now.reading);
        }
        let span = now.since(&self.last);
        let is_counted = self.watcher.is_ok();
        let adapters = self.adapters(&span).iter().map(|one| activity(one, is_counted)).collect();
        let interval =
            Interval { end_s: (now.at - self.begun).as_secs_f64(), seconds: span.seconds, adapters };
        self.counted.add(span);
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
        let mut adapters = self.adapters(&self.counted);
        let part_time = self.part_time();
        let names = |functions: &[&Function]| functions.iter().map(|function| function.name).collect();
        let watcher = self.watcher.as_ref();
        let refused = |one: &Unwatched| {
            let why = one.why.as_ref()?.to_string();
            Some(UnwatchedFunction { function: one.function.name, why })
        };
        let has_paused = self.turns.as_ref().is_some_and(|turns| turns.has_paused);
        if has_paused || watcher.is_err() {
            adapters.iter_mut().for_each(|adapter| adapter.stays_mapped = None);
        }
        let reading = &self.counted.reading;
        let calls = reading.calls();
        let mut hooks: Vec<HookCost> = Vec::new();
        for cost in reading.costs.values() {
            if !hooks.contains(cost) {
                hooks.push(*cost);
            }
        }
        Record {
            seconds: self.counted.seconds,
            part_time,
            uncounted: watcher.err().map(ToString::to_string),
            assumes_parameters: watcher.is_ok_and(|watcher| !watcher.is_described),
            functions: watcher.map(|watcher| names(&watcher.watched)).unwrap_or_default(),
            probed: watcher.map(|watcher| names(&watcher.probed)).unwrap_or_default(),
            unwatched: watcher
                .map_or_else(|_| Vec::new(), |it| it.unwatched.iter().filter_map(refused).collect()),
            losses: reading.losses,
            program_ns: reading.watching_ns().map(|ns| ns / calls as f64).filter(|_| calls > 0),
            hooks,
            calls,
            adapters,
            hardware_counts: self.hardware_counts,
            stacks,
            intervals: self.intervals,
        }
    }

    /// What counting a part of the time took, up to now.
    fn part_time(&mut self) -> Option<PartTime> {
        let turns = self.turns.as_ref()?;
        // What the last pause began with was not read yet.
        let now = self.watcher.as_mut().ok().and_then(|watcher| watcher.read().ok());
        let spent_ns = now.map_or(turns.spent_ns, |reading| turns.spent(&reading));
        self.hardware_counts = self.hardware_counters.counts();
        let elapsed_s = self.begun.elapsed().as_secs_f64();
        Some(PartTime { max_cores: turns.duty.max_cores, cores: spent_ns / 1e9 / elapsed_s, elapsed_s })
    }

    /// What all adapters completed, also those that were not chosen.
    fn completed(&self) -> Completed {
        let mut all = Completed::default();
        self.counted.completed.values().for_each(|one| all += *one);
        all
    }

    fn adapters(&self, span: &Span) -> Vec<AdapterSummary> {
        let mut adapters = summary::adapters(&span.reading, &span.completed);
        adapters.retain(|one| self.chosen.is_empty() || self.chosen.contains(&one.adapter));
        adapters
    }
}

impl Turns {
    /// Decides how long to pause after a window, from all that was spent up to now.
    fn end_window(&mut self, elapsed: Duration, reading: &Reading) {
        let spent_ns = self.spent(reading);
        self.window_ns_max = self.window_ns_max.max(spent_ns - self.spent_ns);
        self.spent_ns = spent_ns;
        let pause = self.duty.pause(elapsed, spent_ns, self.window_ns_max, duty::chance());
        self.window_end = None;
        self.pause_end = Instant::now().checked_add(pause).filter(|_| !pause.is_zero());
    }

    /// CPU nanoseconds that were spent since the start, up to a reading that was just made.
    fn spent(&self, reading: &Reading) -> f64 {
        thread_ns() - self.begun_ns + watching_ns(reading)
    }
}

/// Nanoseconds that watching took.
fn watching_ns(reading: &Reading) -> f64 {
    reading.watching_ns().unwrap_or_else(|| reading.calls() as f64 * UNKNOWN_CALL_NS)
}

/// CPU nanoseconds of this thread.
fn thread_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    /// Where nothing could be counted, it goes on reading what adapters complete. (Where it can be, one interval has cost too much.)
    #[test]
    fn a_session_that_counts_nothing_never_pauses() {
        let mut session = Session::start_part_time(Vec::new(), 1e-6).unwrap();
        assert!(session.counts_since().is_some());
        session.interval().unwrap();
        assert_eq!(session.counts_since().is_some(), session.watcher.is_err());
        let record = session.finish();
        assert_eq!((record.intervals.len(), record.part_time.unwrap().max_cores), (1, 1e-6));
    }
}
