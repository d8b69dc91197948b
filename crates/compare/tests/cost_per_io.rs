//! What DMA mapping costs per I/O in a document of watch.

use compare::costs_per_io;
use toll::Stage;
use watch::{Activity, AdapterSummary, Completed, Interval, Losses, Mapping, Record, StageSummary};

const DISK: &str = "0000:3b:00.0";

fn completed(requests: u64) -> Completed {
    Completed { block_requests: requests, packets: 7, ..Completed::default() }
}

fn stage(ns: u64, programs_ns: Option<u64>) -> StageSummary {
    StageSummary { stage: Stage::Invalidation, ns, programs_ns }
}

/// Intervals of a second with so many requests and nanoseconds, of which watching added a tenth if that is known.
fn record(intervals: &[(u64, u64)], is_known: bool) -> Record {
    let added = |ns: u64| is_known.then_some(ns / 10);
    let interval = |(place, &(requests, ns)): (usize, &(u64, u64))| {
        let mapping = Mapping {
            maps: requests,
            mapped_bytes: Some(0),
            unmaps: requests,
            iovas: 0,
            table_writes: 0,
            invalidations: 0,
            bounced_bytes: 0,
            ns,
            stages: vec![stage(ns, added(ns))],
        };
        let activity = Activity {
            adapter: DISK.to_owned(),
            completed: completed(requests),
            completed_in_period: Some(completed(requests)),
            mapping: Some(mapping),
        };
        Interval { end_s: place as f64 + 1.0, seconds: 1.0, stands_for_s: 1.0, adapters: vec![activity] }
    };
    let sum = |of: fn(&(u64, u64)) -> u64| intervals.iter().map(of).sum::<u64>();
    let ns = sum(|one| one.1);
    let adapter = AdapterSummary {
        adapter: DISK.to_owned(),
        completed: completed(sum(|one| one.0)),
        completed_while_counted: completed(sum(|one| one.0)),
        actions: Vec::new(),
        stays_mapped: None,
        stages: vec![stage(ns, added(ns))],
        paths: Vec::new(),
    };
    Record {
        seconds: intervals.len() as f64,
        part_time: None,
        uncounted: None,
        assumes_parameters: false,
        functions: Vec::new(),
        probed: Vec::new(),
        unwatched: Vec::new(),
        losses: Losses::default(),
        program_ns: None,
        hooks: Vec::new(),
        calls: 0,
        adapters: vec![adapter],
        hardware_counts: Vec::new(),
        stacks: None,
        intervals: intervals.iter().enumerate().map(interval).collect(),
    }
}

/// Ten pairs of x and y of Cochran's ratio estimator, by hand: 1,000 by 100; the residuals are +-10 in turn, so the variance is 10/9 * 1,000 / 100^2.
const TEN: [(u64, u64); 10] =
    [(10, 110), (10, 90), (10, 110), (10, 90), (10, 110), (10, 90), (10, 110), (10, 90), (10, 110), (10, 90)];

#[test]
fn the_interval_is_from_how_much_intervals_of_time_differ() {
    let cost = &costs_per_io(&record(&TEN, false))[0];
    assert_eq!((cost.adapter.as_str(), cost.io, cost.ns, cost.is_net), (DISK, "request", 10.0, false));
    // Student's 2.262157 for 9 degrees of freedom, times the root of 0.1111.
    let [low, high] = cost.interval_ns.unwrap_or_default();
    assert!((low - 9.245948).abs() < 1e-5 && (high - 10.754052).abs() < 1e-5, "{low} {high}");
}

#[test]
fn what_watching_added_is_taken_off_where_it_is_known() {
    let cost = &costs_per_io(&record(&TEN, true))[0];
    assert_eq!((cost.ns, cost.is_net), (9.0, true));
}

#[test]
fn without_all_intervals_there_is_a_cost_but_no_interval() {
    let mut long = record(&TEN, false);
    long.intervals.truncate(9);
    let cost = &costs_per_io(&long)[0];
    assert_eq!((cost.ns, cost.interval_ns), (10.0, None));
    let few = &costs_per_io(&record(&TEN[..4], false))[0];
    assert_eq!((few.ns, few.interval_ns), (10.0, None));
}

/// A busy window of half the cost per request stands for three times as long as another. In that time there was more I/O than three times the
/// window's, which does not change what one cost.
#[test]
fn windows_count_as_often_as_they_stand_for() {
    let mut part = record(&[(100, 500), (10, 100), (10, 100), (10, 100), (10, 100)], false);
    part.intervals[0].stands_for_s = 3.0;
    part.intervals[0].adapters[0].completed_in_period = Some(completed(640));
    let adapter = &mut part.adapters[0];
    adapter.completed = completed(680);
    adapter.stages = vec![stage(3800, None)];
    let cost = &costs_per_io(&part)[0];
    assert!((cost.ns - 1900.0 / 340.0).abs() < 1e-9, "{cost:?}");
    let [low, high] = cost.interval_ns.unwrap_or_default();
    assert!(low < cost.ns && cost.ns < high && (low + high - 2.0 * cost.ns).abs() < 1e-6, "{cost:?}");
    // Intervals that do not hold all I/O may not hold all calls either.
    part.adapters[0].completed = completed(700);
    assert_eq!(costs_per_io(&part)[0].interval_ns, None);
}

#[test]
fn where_no_window_met_i_o_its_cost_is_unknown() {
    let mut part = record(&[(0, 100); 5], false);
    part.intervals[0].adapters[0].completed_in_period = Some(completed(400));
    part.adapters[0].completed = completed(400);
    assert_eq!(costs_per_io(&part), []);
}
