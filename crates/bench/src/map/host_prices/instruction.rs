//! The time of an instruction of mapping code.

use super::super::dma_path::{self, ReadyPath};
use super::super::{MapError, work};
use super::{MeasuredPrice, rounded};
use crate::Summary;
use crate::bytes::Bytes;
use crate::instruction_counter::InstructionCounter;
use crate::threads::thread_cpu_ns;
use dma::DmaCounters;
use std::io;
use toll::figure;

/// The code is that of a translated mapping, because that is what prices of instructions are used for.
const DMA_PATH: &str = "translated-strict";
const MAPPED: Bytes = Bytes(4 << 10);
/// Pairs of a round, which takes some milliseconds.
const PAIRS: u64 = 20_000;

/// What a round executed, and the thread's CPU time.
#[derive(Debug, Clone, Copy)]
struct CountedRound {
    instructions: u64,
    cpu_ns: u64,
}

/// Measures the price, or says why this host has none.
pub(super) fn measure(rounds: usize) -> Result<Result<MeasuredPrice, String>, MapError> {
    let mut counter = match InstructionCounter::open() {
        Ok(counter) => counter,
        Err(error) => return Ok(Err(absent(&error))),
    };
    let path = dma_path::open_model(DMA_PATH)?;
    count_rounds(&path, rounds, &mut || counter.read())
}

/// Counts and times rounds of pairs, after one to warm up.
fn count_rounds(
    path: &ReadyPath,
    rounds: usize,
    count: &mut dyn FnMut() -> io::Result<u64>,
) -> Result<Result<MeasuredPrice, String>, MapError> {
    let mut counters = DmaCounters::default();
    work(path, MAPPED, PAIRS, &mut counters)?;
    let mut counted = Vec::new();
    for _ in 0..rounds {
        let before = (count(), thread_cpu_ns());
        work(path, MAPPED, PAIRS, &mut counters)?;
        let (cpu_ns, after) = (thread_cpu_ns() - before.1, count());
        match (before.0, after) {
            (Ok(before), Ok(after)) => {
                counted.push(CountedRound { instructions: after.saturating_sub(before), cpu_ns })
            }
            (Err(error), _) | (_, Err(error)) => return Ok(Err(absent(&error))),
        }
    }
    Ok(price(&counted))
}

fn absent(error: &io::Error) -> String {
    format!("no counter of instructions here (perf_event_open: {error})")
}

/// The price by these rounds.
fn price(rounds: &[CountedRound]) -> Result<MeasuredPrice, String> {
    if rounds.iter().any(|round| round.instructions < PAIRS) {
        return Err("the counter of instructions counts fewer than were executed".to_owned());
    }
    let each = |value: &dyn Fn(&CountedRound) -> f64| Summary::of(rounds.iter().map(value));
    let ns = each(&|round| round.cpu_ns as f64 / round.instructions as f64);
    let instructions = each(&|round| round.instructions as f64 / PAIRS as f64);
    let Some((ns, instructions)) = ns.zip(instructions) else { return Err("no rounds".to_owned()) };
    let how = format!(
        "iotoll bench map: instructions in user mode of a mapping and unmapping of {MAPPED} by {DMA_PATH}, {} of them, and the thread's CPU \
         time; the median of {} rounds, quartiles {:.3} and {:.3} ns; all in caches, which an I/O's code and data often are not",
        figure(instructions.median),
        rounds.len(),
        ns.lower_quartile,
        ns.upper_quartile
    );
    Ok(MeasuredPrice { ns: rounded(ns.median), how })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_is_the_median_of_time_over_instructions() {
        let round = |instructions, cpu_ns| CountedRound {
            instructions: PAIRS * instructions,
            cpu_ns: PAIRS * cpu_ns,
        };
        let measured = price(&[round(800, 160), round(800, 800), round(800, 168)]).unwrap();
        assert_eq!(measured.ns, 0.21);
        assert!(measured.how.contains("4 KiB by translated-strict, 800 of them"), "{}", measured.how);
        assert!(
            measured.how.contains("the median of 3 rounds, quartiles 0.205 and 0.605 ns"),
            "{}",
            measured.how
        );
        // A counter that stands still gives no price.
        assert!(price(&[round(0, 160)]).is_err());
        assert!(price(&[]).is_err());
    }

    #[test]
    fn a_counter_is_read_around_each_round() {
        let path = dma_path::open_model(DMA_PATH).unwrap();
        let mut reads = 0;
        let mut count = || {
            reads += 1;
            Ok(reads * PAIRS * 500)
        };
        let measured = count_rounds(&path, 3, &mut count).unwrap().unwrap();
        assert!(measured.how.contains(", 500 of them"), "{}", measured.how);
        assert_eq!(reads, 6);
        let gone = count_rounds(&path, 3, &mut || Err(io::Error::other("taken away"))).unwrap();
        assert_eq!(gone, Err("no counter of instructions here (perf_event_open: taken away)".to_owned()));
    }
}
