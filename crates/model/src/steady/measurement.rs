//! The measured window of a simulation: begins after the warm-up, and is extended until it is steady.

use super::BATCHES;
use super::drift::drifts;
use super::sample::Sample;
use super::unsteady::{Drift, Unsteady};
use des::Span;
use std::fmt::Display;
use std::marker::PhantomData;

/// A window that was not steady is extended as long as the simulation took less than so many events since the given warm-up, of
/// which the next window takes as many again.
const EVENTS_MAX: u64 = 1 << 23;
/// Virtual time up to which windows are extended: a thousand seconds.
const TIME_MAX: Span = Span::from_ms(1_000_000);
/// Operations up to which windows are extended that are a number of them.
const OPERATIONS_MAX: u64 = 1 << 20;

/// A virtual time, or a number of operations where a model measures so many of them.
pub(crate) trait Length: Copy + Display {
    /// The length up to which windows are extended.
    const MAX: Self;
    /// Whether samples count time in place of work, since a batch is a number of operations.
    const COUNTS_TIME: bool;
    fn of(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Length for Span {
    const MAX: Self = TIME_MAX;
    const COUNTS_TIME: bool = false;

    fn of(number: u64) -> Self {
        Self::from_ps(number)
    }

    fn number(self) -> u64 {
        self.as_ps()
    }
}

impl Length for u64 {
    const MAX: Self = OPERATIONS_MAX;
    const COUNTS_TIME: bool = true;

    fn of(number: u64) -> Self {
        number
    }

    fn number(self) -> u64 {
        self
    }
}

/// What was measured, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredWindow<Length = Span> {
    /// What came before it: a virtual time, or a number of operations.
    pub warm_up: Length,
    /// Its length.
    pub measured: Length,
    /// Whether the given warm-up was too short, so that this window is another than the given one.
    pub is_extended: bool,
    /// Whether it was checked for steadiness.
    pub is_checked: bool,
    /// Whether it still fluctuated when it could not be extended any more. Then the interval over the seeds is wide.
    pub is_noisy: bool,
}

/// What follows after a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress<Length = Span> {
    /// A window begins: what was measured so far is dropped. Take the next sample after this.
    Begins(Length),
    /// The window goes on. Take the next sample after this.
    Continues(Length),
    /// The window ends. It is the one to report, unless [`Measurement::finish`] returns an error.
    Ends,
}

/// The state of a measurement. The simulation takes a [`Sample`] when this says so.
#[derive(Debug)]
pub(crate) struct Measurement<L = Span> {
    /// What is counted as work.
    unit: &'static str,
    is_checked: bool,
    is_extended: bool,
    is_noisy: bool,
    /// End of the warm-up, and length of the window that follows.
    warm_up: u64,
    measured: u64,
    /// Samples of the current window: at its beginning, and at the end of each batch.
    samples: Vec<Sample>,
    /// Events of the given warm-up, which the bound of extensions does not count.
    warm_up_events: Option<u64>,
    unsteady: Option<Unsteady>,
    length: PhantomData<L>,
}

impl<L: Length> Default for Measurement<L> {
    /// A measurement of nothing.
    fn default() -> Self {
        Self::fixed(L::of(0), L::of(0))
    }
}

impl<L: Length> Measurement<L> {
    /// A measurement whose window must be steady.
    pub(crate) fn steady(unit: &'static str, warm_up: L, measured: L) -> Self {
        Self {
            unit,
            is_checked: true,
            is_extended: false,
            is_noisy: false,
            warm_up: warm_up.number(),
            measured: measured.number(),
            samples: Vec::new(),
            warm_up_events: None,
            unsteady: None,
            length: PhantomData,
        }
    }

    /// A measurement of exactly this window, whatever happens in it.
    pub(crate) fn fixed(warm_up: L, measured: L) -> Self {
        Self { is_checked: false, ..Self::steady("", warm_up, measured) }
    }

    /// When the first sample is to be taken.
    pub(crate) fn first(&self) -> L {
        L::of(self.warm_up)
    }

    /// Takes a sample. `events` is the number of events that the simulation has scheduled so far.
    pub(crate) fn take(&mut self, sample: Sample, events: u64) -> Progress<L> {
        self.samples.push(sample);
        let given_warm_up = *self.warm_up_events.get_or_insert(events);
        let batches = self.samples.len() - 1;
        if batches < BATCHES {
            let [from, to] = [batches, batches + 1].map(|batch| self.batch_end(batch));
            let next = L::of(to - from);
            return if batches == 0 { Progress::Begins(next) } else { Progress::Continues(next) };
        }
        let drifts =
            if self.is_checked { drifts(&self.samples, self.unit, L::COUNTS_TIME) } else { Vec::new() };
        if drifts.is_empty() {
            return Progress::Ends;
        }
        if self.warm_up.saturating_add(self.measured) <= L::MAX.number()
            && events - given_warm_up <= EVENTS_MAX
        {
            return self.extend(events);
        }
        self.is_noisy = drifts.iter().all(Drift::is_small_noise);
        if !self.is_noisy {
            let [warm_up, measured] = [self.warm_up, self.measured].map(|number| L::of(number).to_string());
            self.unsteady = Some(Unsteady { warm_up, measured, drifts });
        }
        Progress::Ends
    }

    /// End of a batch of the current window, since the window's beginning.
    fn batch_end(&self, batch: usize) -> u64 {
        (u128::from(self.measured) * batch as u128 / BATCHES as u128) as u64
    }

    /// The window becomes warm-up. Its last sample is the first of the next window.
    fn extend(&mut self, events: u64) -> Progress<L> {
        self.is_extended = true;
        self.warm_up += self.measured;
        self.measured *= 2;
        let last = self.samples.pop();
        self.samples.clear();
        last.map_or(Progress::Ends, |sample| self.take(sample, events))
    }

    /// The window that was measured.
    ///
    /// # Errors
    /// [`Unsteady`]: no window was steady.
    pub(crate) fn finish(self) -> Result<MeasuredWindow<L>, Unsteady> {
        match self.unsteady {
            Some(unsteady) => Err(unsteady),
            None => Ok(MeasuredWindow {
                warm_up: L::of(self.warm_up),
                measured: L::of(self.measured),
                is_extended: self.is_extended,
                is_checked: self.is_checked,
                is_noisy: self.is_noisy,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a measurement of a machine with this rate at each time, in work per nanosecond. Returns the times of
    /// samples and the result.
    fn measure(mut measurement: Measurement, rate: impl Fn(u64) -> f64) -> Result<MeasuredWindow, Unsteady> {
        let (mut now, mut done) = (0, 0.0);
        let mut next = measurement.first();
        loop {
            let until = now + next.as_ps() / 1_000;
            done += (now..until).map(&rate).sum::<f64>();
            now = until;
            next = match measurement.take(Sample { done, levels: Vec::new() }, 0) {
                Progress::Begins(next) | Progress::Continues(next) => next,
                Progress::Ends => return measurement.finish(),
            };
        }
    }

    fn ns(ns: u64) -> Span {
        Span::from_ns(ns)
    }

    #[test]
    fn a_steady_window_is_the_given_one() {
        let window = measure(Measurement::steady("bytes", ns(10), ns(99)), |_| 1.0).unwrap();
        let expected = MeasuredWindow {
            warm_up: ns(10),
            measured: ns(99),
            is_extended: false,
            is_checked: true,
            is_noisy: false,
        };
        assert_eq!(window, expected);
    }

    #[test]
    fn a_transient_becomes_warm_up() {
        let starts_at = |from: u64| move |now: u64| f64::from(u8::from(now >= from));
        let window = measure(Measurement::steady("bytes", ns(10), ns(100)), starts_at(60)).unwrap();
        assert_eq!((window.warm_up, window.measured, window.is_extended), (ns(110), ns(200), true));
        let window = measure(Measurement::steady("bytes", ns(10), ns(100)), starts_at(1_000)).unwrap();
        assert_eq!((window.warm_up, window.measured), (ns(10 + 100 + 200 + 400 + 800), ns(1_600)));
    }

    #[test]
    fn what_never_settles_is_refused() {
        // The given warm-up may take more events than any extension.
        let take = |measurement: &mut Measurement, events| {
            let sample = || Sample { done: 0.0, levels: Vec::new() };
            measurement.take(sample(), 2 * EVENTS_MAX);
            (0..BATCHES).map(|_| measurement.take(sample(), 2 * EVENTS_MAX + events)).last()
        };
        let mut busy = Measurement::steady("bytes", ns(10), ns(20));
        assert_eq!(take(&mut busy, EVENTS_MAX + 1), Some(Progress::Ends));
        let unsteady = busy.finish().unwrap_err();
        assert_eq!((&*unsteady.warm_up, &*unsteady.measured), (&*ns(10).to_string(), &*ns(20).to_string()));
        assert!(unsteady.to_string().contains("no bytes in the window"), "{unsteady}");
        let mut idle = Measurement::steady("bytes", ns(10), TIME_MAX);
        assert_eq!(take(&mut idle, 1), Some(Progress::Ends));
        assert!(idle.finish().is_err());
    }

    #[test]
    fn what_fluctuates_to_the_end_is_measured_and_says_so() {
        let measured = |spread: f64| {
            let mut noisy = Measurement::steady("bytes", ns(10), TIME_MAX);
            // Three percent more in the second half, which may be chance.
            let more = |batch: usize| 3.0 * batch.saturating_sub(BATCHES / 2) as f64;
            let done = |batch: usize| 100.0 * batch as f64 + more(batch) + spread * (batch % 2) as f64;
            let sample = |batch| Sample { done: done(batch), levels: Vec::new() };
            let last = (0..=BATCHES).map(|batch| noisy.take(sample(batch), 0)).last();
            assert_eq!(last, Some(Progress::Ends));
            noisy.finish().map(|window| window.is_noisy)
        };
        assert_eq!(measured(10.0), Ok(true));
        assert!(measured(30.0).unwrap_err().to_string().contains("too few to compare"));
    }

    #[test]
    fn a_fixed_window_is_measured_whatever_happens() {
        let window = measure(Measurement::fixed(ns(10), ns(20)), |now| now as f64).unwrap();
        assert_eq!((window.warm_up, window.measured, window.is_checked), (ns(10), ns(20), false));
    }
}
