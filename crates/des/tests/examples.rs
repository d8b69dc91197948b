//! The examples: that they run, and that what they simulate is what theory says.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../examples/md1.rs"]
mod md1;
#[path = "../examples/mm1.rs"]
mod mm1;
#[path = "../examples/network.rs"]
mod network;

use des::{Confidence, RunningStats};

/// Asserts that an interval has the theory in it, and is narrower than a share of it.
fn agrees(stats: &RunningStats, theory: f64, width_max: f64) {
    let interval = stats.interval(Confidence::PERCENT_99).unwrap();
    assert!(interval.contains(theory), "{interval}, in theory {theory}");
    assert!(interval.half_width < width_max * theory, "{interval} says too little of {theory}");
}

#[test]
fn md1_agrees_with_queueing_theory() {
    md1::main().unwrap();
}

#[test]
fn mm1_agrees_with_queueing_theory() {
    let runs: Vec<_> = (0..10).map(|seed| mm1::run(seed, 1_000, 5_000).unwrap()).collect();
    for (figure, theory) in mm1::THEORY.into_iter().enumerate() {
        let means: RunningStats = runs.iter().filter_map(|run| run[figure].mean()).collect();
        agrees(&means, theory, 0.1);
    }
}

#[test]
fn the_network_agrees_with_mean_value_analysis() {
    let runs: Vec<_> = (0..5).map(|seed| network::simulated(seed).unwrap()).collect();
    for (figure, theory) in network::theory().into_iter().enumerate() {
        agrees(&runs.iter().map(|run| run[figure]).collect(), theory, 0.03);
    }
}

#[test]
fn theory_is_that_of_textbooks() {
    // An M/M/1 queue of load 0.7, by Little's law: 2.333 customers are a wait and a service of 70 ns, at one in 100 ns.
    let [wait_ns, number] = mm1::THEORY;
    assert!((number - (wait_ns + 70.0) / 100.0).abs() < 1e-12);
    // All six jobs are somewhere, and no station is used more than fully: the tape takes 60 us of each job.
    let [per_ms, at_cpu, at_disk, at_tape] = network::theory();
    assert!((at_cpu + at_disk + at_tape - 6.0).abs() < 1e-12 && per_ms * 0.060 < 1.0);
}

#[test]
fn the_programs_run() {
    mm1::main().unwrap();
    network::main().unwrap();
}
