//! Watches this host for some time, in intervals.

use crate::completed::{Completed, completed, since};
use crate::duty::{self, Duty, PAUSE_MIN, Period};
use crate::function::{Action, Function};
use crate::hardware_counters::{HardwareCount, HardwareCounters};
use crate::hook_cost::HookCost;
use crate::periods::{Boundary, Counted, Periods};
use crate::record::{Activity, INTERVALS_MAX, Interval, Mapping, PartTime, Record, UnwatchedFunction};
use crate::stacks::{Event, Sampler, Stacks};
use crate::summary::{self, AdapterSummary};
use crate::sums::{Span, Sums};
use crate::tally::Tally;
use crate::watcher::{Reading, Unwatched, WatchError, Watcher};
use pci::Bdf;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A window is looked at after this time to foresee what it will cost, and then each time that as much again has passed.
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
    /// At the begin of the current interval.
    last: Snapshot,
    /// All intervals' sums.
    sums: Sums,
    intervals: Vec<Interval>,
    /// Only these adapters, by their names in the kernel; all if there are none.
    chosen: Vec<String>,
    turns: Option<Turns>,
}

/// Where counting a part of the time is.
#[derive(Debug)]
struct Turns {
    duty: Duty,
    /// That of the current window, or of the next one in a pause.
    period: Period,
    /// When the current window's cost is estimated again, and when the window must end.
    look: Instant,
    window_end: Instant,
    /// When the next window begins, while counting pauses or is about to.
    pause_end: Option<Instant>,
    periods: Periods,
    counted_s: f64,
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

impl Snapshot {
    /// What came since an earlier one.
    fn since(&self, earlier: &Self) -> Span {
        Span {
            seconds: (self.at - earlier.at).as_secs_f64(),
            reading: self.reading.since(&earlier.reading),
            completed: since(&self.completed, &earlier.completed),
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
            sums: Sums::default(),
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
        let begin = Boundary { at: Duration::ZERO, completed: session.last.completed.clone() };
        let turns = Turns {
            duty: Duty { max_cores },
            period: Period::without_pause(Duration::ZERO),
            look: session.last.at + LOOK_AFTER,
            window_end: session.last.at + Duty { max_cores }.window(0.0),
            pause_end: None,
            periods: Periods::begin(begin),
            counted_s: 0.0,
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

    /// Since when the current interval is counted; `None` while it pauses.
    pub fn counts_since(&self) -> Option<Instant> {
        let pauses = self.turns.as_ref().is_some_and(|turns| turns.pause_end.is_some());
        (!pauses).then_some(self.last.at)
    }

    /// Detaches programs for a pause, and attaches them for a window, which takes the kernel seconds. Returns whether the current
    /// interval must end now, because it costs as much as it may. If it counts all the time, this does nothing.
    ///
    /// # Errors
    /// [`WatchError::Read`] and [`WatchError::Attach`]
    pub fn step(&mut self) -> Result<bool, WatchError> {
        let (Some(turns), Ok(watcher)) = (&mut self.turns, &mut self.watcher) else { return Ok(false) };
        let now = Instant::now();
        let elapsed = now - self.begun;
        // Before anything is attached or detached, which takes time; a window is never before its period.
        if turns.periods.is_due(elapsed) {
            turns.periods.end_period(Boundary::read(elapsed));
        }
        match turns.pause_end {
            Some(_) if !turns.is_detached => {
                watcher.pause(&self.last.reading).map_err(WatchError::Read)?;
                (turns.is_detached, turns.has_paused) = (true, true);
            }
            Some(end) if now >= end => {
                watcher.resume().map_err(WatchError::Attach)?;
                (turns.is_detached, turns.pause_end) = (false, None);
                self.last = snapshot(&mut self.watcher)?;
                turns.begin_window(self.last.at);
            }
            None if turns.look <= now && now < turns.window_end => {
                let counted = now - self.last.at;
                let cores =
                    watching_ns(&watcher.read()?.since(&self.last.reading)) / counted.as_nanos() as f64;
                turns.look = now + counted;
                turns.window_end = self.last.at + turns.duty.window(cores);
            }
            None => return Ok(now >= turns.window_end),
            Some(_) => {}
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
        let (elapsed, span) = (now.at - self.begun, now.since(&self.last));
        let is_counted = self.watcher.is_ok();
        let adapters = self.adapters(&span.reading, &span.completed);
        let mut interval = Interval {
            end_s: elapsed.as_secs_f64(),
            seconds: span.seconds,
            stands_for_s: span.seconds,
            adapters: adapters.iter().map(|one| activity(one, is_counted)).collect(),
        };
        // Where nothing is counted there is nothing to pause.
        match self.turns.as_mut().filter(|_| is_counted) {
            Some(turns) => {
                let window = (span, interval.clone());
                let end = Boundary { at: elapsed, completed: now.completed.clone() };
                if let Some(before) = turns.end_window(end, &now.reading, window) {
                    self.add(before);
                }
            }
            None => {
                self.extend(&mut interval, &span);
                self.sums.add(span);
                self.keep(interval.clone());
            }
        }
        self.last = now;
        Ok(interval)
    }

    /// Adds a window for the period that it stands for.
    fn add(&mut self, window: Counted) {
        let Counted { span, mut interval, period } = window;
        self.extend(&mut interval, &period);
        self.sums.add_window(span, &period);
        self.keep(interval);
    }

    /// Says what an interval stands for: the time, and what adapters completed in it.
    fn extend(&self, interval: &mut Interval, period: &Span) {
        interval.stands_for_s = period.seconds;
        for one in &mut interval.adapters {
            one.completed_in_period = Some(period.completed.get(&one.adapter).copied().unwrap_or_default());
        }
        let is_in = |name: &str| interval.adapters.iter().any(|one| one.adapter == name);
        let outside = self.adapters(&Reading::default(), &period.completed).into_iter();
        let outside: Vec<Activity> = outside
            .filter(|one| !is_in(&one.adapter))
            .map(|one| Activity {
                completed: Completed::default(),
                completed_in_period: Some(one.completed),
                ..activity(&one, self.watcher.is_ok())
            })
            .collect();
        interval.adapters.extend(outside);
    }

    fn keep(&mut self, interval: Interval) {
        if self.intervals.len() < INTERVALS_MAX {
            self.intervals.push(interval);
        }
    }

    /// Ends watching. The record reaches to the end of the last interval, or until now where a part of the time is counted.
    pub fn finish(mut self) -> Record {
        let end = self.turns.is_some().then(|| Boundary::read(self.begun.elapsed()));
        let last = self.turns.as_mut().zip(end).and_then(|(turns, end)| turns.periods.finish(&end));
        if let Some(window) = last {
            self.add(window);
        }
        let stacks = self.sampler.take().map(|sampler| match sampler {
            Ok(sampler) => Stacks::of(sampler.finish(), self.completed()),
            Err(why) => Stacks::without_samples(why),
        });
        let reading = self.sums.reading();
        let mut adapters = self.adapters(&reading, &self.sums.completed);
        for adapter in &mut adapters {
            let counted = self.sums.completed_while_counted.get(&adapter.adapter);
            adapter.completed_while_counted = counted.copied().unwrap_or_default();
        }
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
        let calls = reading.calls();
        let mut hooks: Vec<HookCost> = Vec::new();
        for cost in reading.costs.values() {
            if !hooks.contains(cost) {
                hooks.push(*cost);
            }
        }
        Record {
            seconds: self.sums.seconds,
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
        let (max_cores, counted_s) = (turns.duty.max_cores, turns.counted_s);
        Some(PartTime { max_cores, cores: spent_ns / 1e9 / elapsed_s, elapsed_s, counted_s })
    }

    /// What all adapters completed, also those that were not chosen.
    fn completed(&self) -> Completed {
        let mut all = Completed::default();
        self.sums.completed.values().for_each(|one| all += *one);
        all
    }

    fn adapters(&self, reading: &Reading, completed: &BTreeMap<String, Completed>) -> Vec<AdapterSummary> {
        let mut adapters = summary::adapters(reading, completed);
        adapters.retain(|one| self.chosen.is_empty() || self.chosen.contains(&one.adapter));
        adapters
    }
}

impl Turns {
    /// A window begins to be counted.
    fn begin_window(&mut self, at: Instant) {
        self.look = at + LOOK_AFTER;
        self.window_end = at + self.duty.window(0.0);
    }

    /// Ends a window, and decides on the next, from all that was spent up to now. Returns the window before, whose period ended.
    fn end_window(
        &mut self,
        end: Boundary,
        reading: &Reading,
        (span, interval): (Span, Interval),
    ) -> Option<Counted> {
        let spent_ns = self.spent(reading);
        self.window_ns_max = self.window_ns_max.max(spent_ns - self.spent_ns);
        self.spent_ns = spent_ns;
        self.counted_s += span.seconds;
        let period_end = self.period.end.max(end.at);
        let next = self.duty.period(period_end, spent_ns, self.window_ns_max, duty::chance());
        self.period = next.unwrap_or(Period::without_pause(period_end));
        let pause = self.period.window.saturating_sub(end.at);
        let now = Instant::now();
        self.pause_end = now.checked_add(pause).filter(|_| pause >= PAUSE_MIN);
        self.begin_window(now);
        let before = self.periods.end_window(span, interval, period_end);
        // If the next window follows at once, its period does too.
        if self.pause_end.is_none() {
            self.periods.end_period(end);
        }
        before
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
        completed_in_period: None,
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

    /// An adapter whose I/O came in the pause alone did something in the period.
    #[test]
    fn an_interval_says_what_its_period_completed() {
        let session = Session::start(Vec::new()).unwrap();
        let completed = |block_requests| Completed { block_requests, ..Completed::default() };
        let one = |adapter: &str, requests| {
            let completed = BTreeMap::from([(adapter.to_owned(), completed(requests))]);
            activity(&summary::adapters(&Reading::default(), &completed)[0], true)
        };
        let adapters = vec![one("met", 5)];
        let mut interval = Interval { end_s: 2.0, seconds: 1.0, stands_for_s: 1.0, adapters };
        let all = [("met", 50), ("missed", 7), ("idle", 0)];
        let all = all.map(|(adapter, requests)| (adapter.to_owned(), completed(requests)));
        session.extend(&mut interval, &Span { seconds: 9.0, completed: all.into(), ..Span::default() });
        let told = interval.adapters.iter().map(|one| {
            let in_period = one.completed_in_period.unwrap().block_requests;
            (one.adapter.as_str(), one.completed.block_requests, in_period)
        });
        assert_eq!(told.collect::<Vec<_>>(), [("met", 5, 50), ("missed", 0, 7)]);
        assert_eq!(
            (interval.stands_for_s, interval.adapters[1].mapping.is_some()),
            (9.0, session.watcher.is_ok())
        );
    }
}
