//! Sums of all the time, from what was counted in a part of it.
//!
//! Calls are counted in windows, each of which stands for its period; the kernel counts I/O all the time. So an adapter's calls are estimated by
//! a combined ratio estimator (Cochran, Sampling Techniques, 1977, chapter 6): calls per I/O in all windows, each by the time that it stands
//! for, times the I/O of all the time. Where I/O comes in bursts, few windows say little of how many there are, but what an I/O calls they
//! say well.

use crate::completed::Completed;
use crate::record::weight;
use crate::watcher::Reading;
use std::collections::BTreeMap;

/// What was counted in a span of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    pub(crate) seconds: f64,
    pub(crate) reading: Reading,
    pub(crate) completed: BTreeMap<String, Completed>,
}

/// Sums of spans, and of the periods that they stand for.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Of all periods.
    pub(crate) seconds: f64,
    /// What adapters completed in all periods.
    pub(crate) completed: BTreeMap<String, Completed>,
    /// What they completed while calls were counted.
    pub(crate) completed_while_counted: BTreeMap<String, Completed>,
    /// Calls, each as many times as its window's period is longer than the window.
    weighted: Reading,
    /// I/O of windows in the same way.
    weighted_completed: BTreeMap<String, Completed>,
}

impl Sums {
    /// Adds a span that was counted and stands for itself.
    pub(crate) fn add(&mut self, span: Span) {
        let period = Span { reading: Reading::default(), ..span.clone() };
        self.add_window(span, &period);
    }

    /// Adds a window for the period that it stands for.
    pub(crate) fn add_window(&mut self, window: Span, period: &Span) {
        let weight = weight(period.seconds, window.seconds);
        self.seconds += period.seconds;
        add(&mut self.completed, &period.completed, 1.0);
        add(&mut self.completed_while_counted, &window.completed, 1.0);
        add(&mut self.weighted_completed, &window.completed, weight);
        self.weighted.add(window.reading.scaled(|_| weight));
    }

    /// The calls of all the time: counted if each span stands for itself, otherwise estimated.
    pub(crate) fn reading(&self) -> Reading {
        self.weighted.clone().scaled(|device| self.ratio(device))
    }

    /// An adapter's I/O by what weighted windows say of it; 1 where they saw none, as for what works for no device.
    fn ratio(&self, device: &str) -> f64 {
        let (Some(all), Some(weighted)) = (self.completed.get(device), self.weighted_completed.get(device))
        else {
            return 1.0;
        };
        match (all.io_of_kind(all), weighted.io_of_kind(all)) {
            (0, _) | (_, 0) => 1.0,
            (all, weighted) => all as f64 / weighted as f64,
        }
    }
}

fn add(sums: &mut BTreeMap<String, Completed>, more: &BTreeMap<String, Completed>, times: f64) {
    for (adapter, completed) in more {
        *sums.entry(adapter.clone()).or_default() += completed.scaled(times);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::duty::{Duty, Period};
    use crate::function::{FUNCTIONS, Function};
    use crate::periods::{Boundary, Counted, Periods};
    use crate::record::Interval;
    use crate::tally::Tally;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};
    use std::time::Duration;

    const DISK: &str = "0000:3b:00.0";
    const IDLE: &str = "0000:00:04.0";

    fn span(seconds: f64, requests: &[(&str, u64)], maps: &[(&str, u64)]) -> Span {
        let path: Vec<&'static Function> =
            FUNCTIONS.iter().filter(|one| one.name == "dma_map_page_attrs").collect();
        let tally = |calls| Tally { calls, ns: 100 * calls, ..Tally::default() };
        let tallies = maps.iter().map(|&(device, calls)| ((device.to_owned(), path.clone()), tally(calls)));
        let completed = |&(adapter, block_requests): &(&str, u64)| {
            (adapter.to_owned(), Completed { block_requests, ..Completed::default() })
        };
        Span {
            seconds,
            reading: Reading { tallies: tallies.collect(), ..Reading::default() },
            completed: requests.iter().map(completed).collect(),
        }
    }

    /// The maps of a device.
    fn maps(sums: &Sums, of: &str) -> u64 {
        let reading = sums.reading();
        reading.tallies.iter().filter(|((device, _), _)| device == of).map(|(_, tally)| tally.calls).sum()
    }

    #[test]
    fn calls_are_those_of_all_the_i_o() {
        let mut sums = Sums::default();
        sums.add_window(span(1.0, &[(DISK, 10)], &[(DISK, 20), ("", 3)]), &span(10.0, &[(DISK, 600)], &[]));
        sums.add_window(span(1.0, &[(DISK, 10)], &[(DISK, 10)]), &span(30.0, &[(DISK, 100)], &[]));
        // (10 * 20 + 30 * 10) / (10 * 10 + 30 * 10) maps per request, and 700 requests.
        assert_eq!((maps(&sums, DISK), maps(&sums, "")), (875, 30));
        assert_eq!(
            (
                sums.seconds,
                sums.completed[DISK].block_requests,
                sums.completed_while_counted[DISK].block_requests
            ),
            (40.0, 700, 20)
        );
    }

    #[test]
    fn where_no_window_met_i_o_calls_count_by_the_time() {
        let mut sums = Sums::default();
        sums.add_window(span(1.0, &[(DISK, 0)], &[(DISK, 2)]), &span(10.0, &[(DISK, 300), (IDLE, 7)], &[]));
        assert_eq!((maps(&sums, DISK), sums.completed[DISK].block_requests), (20, 300));
        assert_eq!((sums.completed[IDLE].block_requests, sums.completed_while_counted.get(IDLE)), (7, None));
        sums.add(span(1.0, &[(DISK, 5)], &[(DISK, 5)]));
        assert_eq!((maps(&sums, DISK), sums.seconds), (25 * 305 / 5, 11.0));
    }

    /// Of each 30 seconds one is busy, and each has another number of maps per request.
    const BURSTS_S: u64 = 30;
    const BUSY_RATE: f64 = 12_000.0;
    const TWO_PERCENT: Duty = Duty { max_cores: 0.02 };

    /// Requests and maps from the begin up to a time.
    fn done(at: Duration) -> (f64, f64) {
        let at_s = at.as_secs_f64();
        (0..=at.as_secs() / BURSTS_S).fold((0.0, 0.0), |(requests, maps), burst| {
            let of_burst = BUSY_RATE * (at_s - (burst * BURSTS_S) as f64).clamp(0.0, 1.0);
            (requests + of_burst, maps + of_burst * [1.0, 1.2, 1.5][burst as usize % 3])
        })
    }

    fn between(begin: Duration, end: Duration) -> Span {
        let (before, after) = (done(begin), done(end));
        let requests = after.0.floor() as u64 - before.0.floor() as u64;
        let maps = after.1.floor() as u64 - before.1.floor() as u64;
        span((end - begin).as_secs_f64(), &[(DISK, requests)], &[(DISK, maps)])
    }

    fn boundary(at: Duration) -> Boundary {
        Boundary { at, completed: between(Duration::ZERO, at).completed }
    }

    /// Watches such a load for so long by windows at places of chance. Returns sums and windows.
    fn watched(end: Duration, random: &mut Pcg64Mcg) -> (Sums, Vec<Counted>) {
        let mut period = Period::without_pause(Duration::ZERO);
        let mut periods = Periods::begin(boundary(Duration::ZERO));
        let (mut spent_ns, mut windows) = (0.0, Vec::new());
        while period.window < end {
            let window_end = (period.window + Duration::from_secs(1)).min(end);
            let span = between(period.window, window_end);
            spent_ns += 0.05e9 + 2000.0 * span.reading.calls() as f64;
            let interval = Interval { end_s: 0.0, seconds: 1.0, stands_for_s: 0.0, adapters: Vec::new() };
            let due = period.end.max(window_end);
            windows.extend(periods.end_window(span, interval, due));
            if due < end {
                assert!(!periods.is_due(due - Duration::from_nanos(1)) && periods.is_due(due));
                periods.end_period(boundary(due));
            }
            let chance = random.next_u64() as f64 / u64::MAX as f64;
            period = TWO_PERCENT.period(due, spent_ns, 0.05e9, chance).unwrap_or(Period::without_pause(due));
        }
        windows.extend(periods.finish(&boundary(end)));
        let mut sums = Sums::default();
        windows.iter().for_each(|one| sums.add_window(one.span.clone(), &one.period));
        (sums, windows)
    }

    /// How far off maps per request may be: two standard errors of a ratio estimator (Cochran, chapter 6).
    fn reach(windows: &[Counted], ratio: f64) -> f64 {
        let weighted = |one: &Counted, number: u64| number as f64 * one.period.seconds / one.span.seconds;
        let of = |one: &Counted| {
            let requests = weighted(one, one.span.completed[DISK].block_requests);
            (requests, weighted(one, one.span.reading.calls()))
        };
        let requests: f64 = windows.iter().map(|one| of(one).0).sum();
        let squares: f64 = windows.iter().map(|one| (of(one).1 - ratio * of(one).0).powi(2)).sum();
        2.0 * squares.sqrt() / requests
    }

    /// Windows meet few bursts, but the kernel counts all I/O: that is true to the last request, and calls are as far off as a ratio estimator is.
    #[test]
    fn of_a_load_in_bursts_all_i_o_is_known() {
        const SECONDS: u64 = 3600;
        const SEEDS: u64 = 100;
        let end = Duration::from_secs(SECONDS);
        let (true_requests, true_maps) = done(end);
        let (mut within, mut squares, mut squares_of_time) = (0, 0.0, 0.0);
        for seed in 0..SEEDS {
            let (sums, windows) = watched(end, &mut Pcg64Mcg::seed_from_u64(seed));
            assert!((sums.seconds - SECONDS as f64).abs() < 1e-6);
            assert_eq!(sums.completed[DISK].block_requests, true_requests as u64);
            let told = maps(&sums, DISK) as f64;
            let ratio = told / true_requests;
            within += u64::from((told - true_maps).abs() <= reach(&windows, ratio) * true_requests);
            squares += (told / true_maps - 1.0).powi(2);
            squares_of_time += (sums.weighted.calls() as f64 / true_maps - 1.0).powi(2);
        }
        let [by_io, by_time] = [squares, squares_of_time].map(|sum| (sum / SEEDS as f64).sqrt());
        println!(
            "{within} of {SEEDS} within two standard errors; off by {by_io} by I/O, {by_time} by time alone"
        );
        assert!(within * 10 >= SEEDS * 9, "{within}");
        assert!(by_io < by_time / 4.0, "{by_io} {by_time}");
    }
}
