//! How an answer was measured: its runs, their windows, and the width of their figures.

use crate::page::quantity::{count, grouped, time};
use model::{CountedRunsAnswer, RunsAnswer};

/// What `±` means in an answer.
const INTERVAL: &str = "± is half of the 95 % interval over them";
/// What a wide interval is due to.
const NOISY: &str = ". It still fluctuated when it could not be extended any more, so mind the intervals";

/// The runs of an answer that are measured over a virtual time.
pub(super) fn runs(runs: &RunsAnswer) -> String {
    let us = |us: f64| time(us * 1e3);
    let (measured, warm_up) = (us(runs.measured_us), us(runs.warm_up_us));
    let number = count(runs.seeds as usize, "seed");
    if !runs.is_steady {
        return format!(
            "{number}, measured over {measured} after {warm_up} of warm-up, which is no steady state: faults change \
             the machine in that time; {INTERVAL}"
        );
    }
    let given = us(runs.given_warm_up_us);
    let extended = if runs.is_warm_up_extended {
        format!(
            ". A warm-up of {given} with its window was too short: both were extended until the window was steady"
        )
    } else {
        String::new()
    };
    let noisy = if runs.is_noisy { NOISY } else { "" };
    format!("{number}, steady over {measured} after {warm_up} of warm-up; {INTERVAL}{extended}{noisy}")
}

/// The runs of an answer that are measured over a number of operations.
pub(super) fn counted_runs(runs: &CountedRunsAnswer, operation: &str) -> String {
    let number = match runs.is_random {
        true => format!("{}; {INTERVAL}", count(runs.seeds as usize, "seed")),
        false => "one, since nothing depends on the seed".to_owned(),
    };
    if !runs.is_steady {
        return number;
    }
    let (measured, warm_up) = (grouped(runs.measured_operations), grouped(runs.warm_up_operations));
    let extended = if runs.is_warm_up_extended { ", extended until they were steady" } else { "" };
    let noisy = if runs.is_noisy { NOISY } else { "" };
    format!("{number}. Steady over {measured} {operation} after {warm_up}{extended}{noisy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_warm_up_is_named() {
        let answer = RunsAnswer {
            seeds: 5,
            is_steady: true,
            is_warm_up_extended: true,
            is_noisy: true,
            given_warm_up_us: 1_000.0,
            warm_up_us: 7_000.0,
            measured_us: 12_000.0,
        };
        let told = runs(&answer);
        assert!(told.starts_with("5 seeds, steady over 12.0 ms after 7.00 ms of warm-up;"), "{told}");
        assert!(told.contains("A warm-up of 1.00 ms with its window was too short"), "{told}");
        let told = runs(&RunsAnswer { is_steady: false, is_warm_up_extended: false, ..answer });
        assert!(told.contains("no steady state: faults"), "{told}");
    }
}
