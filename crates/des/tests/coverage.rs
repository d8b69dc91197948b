//! Whether 95 % intervals contain the true mean in about 95 % of experiments: an M/M/1 queue, whose means are known.
//!
//! Seeds are fixed, so a count of hits is too. Of 200 experiments, 190 hits are expected, with a standard deviation of 3.1;
//! the bounds are three of these away.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../examples/mm1.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod mm1;

use des::{BatchMeans, Confidence, ConfidenceInterval, RunningStats};

const EXPERIMENTS: u64 = 200;
const HITS: std::ops::RangeInclusive<u64> = 181..=199;

/// Experiments whose intervals contain the mean wait and the mean number of customers.
fn hits(experiment: impl Fn(u64) -> [ConfidenceInterval; 2]) -> [u64; 2] {
    let mut hits = [0; 2];
    for number in 0..EXPERIMENTS {
        let intervals = experiment(number);
        (0..2).for_each(|figure| hits[figure] += u64::from(intervals[figure].contains(mm1::THEORY[figure])));
    }
    hits
}

#[test]
fn intervals_of_replications_contain_the_mean_as_often_as_they_say() {
    let hits = hits(|experiment| {
        let runs: Vec<[BatchMeans; 2]> =
            (0..10).map(|run| mm1::run(1_000 * experiment + run, 50, 448).unwrap()).collect();
        [0, 1].map(|figure| {
            let means: RunningStats = runs.iter().map(|run| run[figure].mean().unwrap()).collect();
            means.interval(Confidence::PERCENT_95).unwrap()
        })
    });
    assert!(hits.iter().all(|hits| HITS.contains(hits)), "{hits:?}");
}

#[test]
fn intervals_of_batch_means_contain_the_mean_as_often_as_they_say() {
    let hits = hits(|experiment| {
        let run = mm1::run(1_000_000 + experiment, 50, 4_096).unwrap();
        run.map(|means| means.interval(Confidence::PERCENT_95).unwrap())
    });
    assert!(hits.iter().all(|hits| HITS.contains(hits)), "{hits:?}");
}

/// Values of one run depend on each other: taken as independent, they give intervals that are far too narrow.
#[test]
fn intervals_of_single_values_would_be_too_narrow() {
    let hits = hits(|experiment| {
        // So few slices that each is a batch of its own.
        let run = mm1::run(2_000_000 + experiment, 50, 63).unwrap();
        run.map(|means| means.interval(Confidence::PERCENT_95).unwrap())
    });
    assert!(hits[1] < 140, "{hits:?}");
}
