//! Mutated inputs for every target of this crate, in numbers, on stable Rust and without libFuzzer.
//!
//! ```text
//! cargo run --release --manifest-path fuzz/Cargo.toml --bin attack -- \
//!     [--seed N] [--count N] [--seconds N] [--first N] [--out DIR] [--show] [TARGET ...]
//! ```
//!
//! An input follows from the seed, its target and its number alone, so each can be made again: `--first N --count 1`, and
//! `--show` writes it to the folder without running it. Each target runs in a process of its own with bounded address
//! space, which notes the number of its input before it runs it. What a process does not survive is counted by the one that started it,
//! which goes on behind that input.
//!
//! | counted | when |
//! |---|---|
//! | panics | a target panics, or an assertion in it fails |
//! | slow | an input takes more than 2 s |
//! | greedy | an input of less than 1 MiB takes more than 256 MiB of memory beyond what was in use before |
//! | died | the process ends: stack overflow, no memory, an abort |
//! | hung | an input takes more than 20 s |
//!
//! libFuzzer, which follows coverage, finds more for each input; this runs everywhere, and each of its figures can be had again.

mod mutate;
mod seeds;
mod supervise;
mod tally;
mod worker;

use iotoll_fuzz::{TARGETS, Target};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// What is asked for.
#[derive(Debug, Clone)]
struct Attack {
    seed: u64,
    /// Inputs of each target, at most.
    count: u64,
    /// Seconds that each target runs, at most.
    seconds: u64,
    /// The number of the first input.
    first: u64,
    /// Where inputs that fail are saved.
    out: PathBuf,
    /// Write inputs and run none.
    show: bool,
    /// This process runs inputs itself.
    worker: bool,
    targets: Vec<Target>,
}

fn main() -> ExitCode {
    let attack = match Attack::parse(std::env::args().skip(1)) {
        Ok(attack) => attack,
        Err(words) => {
            eprintln!("attack: {words}");
            return ExitCode::from(2);
        }
    };
    let ended = match (attack.show, attack.worker) {
        (true, _) => worker::show(&attack),
        (false, true) => worker::run(&attack),
        (false, false) => supervise::run(&attack),
    };
    match ended {
        Ok(failed) => ExitCode::from(u8::from(failed)),
        Err(error) => {
            eprintln!("attack: {error}");
            ExitCode::from(2)
        }
    }
}

impl Attack {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let out = std::env::temp_dir().join("iotoll-attack");
        let (count, seconds) = (1_000_000, 60);
        let mut attack =
            Self { seed: 1, count, seconds, first: 0, out, show: false, worker: false, targets: Vec::new() };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} without a value"));
            let number = |text: String| text.parse().map_err(|_| format!("{text}: expected a number"));
            match word.as_str() {
                "--seed" => attack.seed = number(value()?)?,
                "--count" => attack.count = number(value()?)?,
                "--seconds" => attack.seconds = number(value()?)?,
                "--first" => attack.first = number(value()?)?,
                "--out" => attack.out = PathBuf::from(value()?),
                "--show" => attack.show = true,
                "--worker" => attack.worker = true,
                name => attack.targets.push(target(name)?),
            }
        }
        if attack.targets.is_empty() {
            attack.targets = TARGETS.to_vec();
        }
        Ok(attack)
    }
}

fn target(name: &str) -> Result<Target, String> {
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        format!("{name}: no such target; expected one of {}", names.join(", "))
    })
}
