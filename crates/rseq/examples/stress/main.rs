//! Restartable sequences under load: threads that migrate, fences, an allocator, and CPUs that go offline.
//!
//!     cargo run --release -p iotoll-rseq --example stress                   # all but hotplug
//!     cargo run --release -p iotoll-rseq --example stress hotplug           # takes a CPU offline: as root, in a guest
//!
//! Prints a line for each part, with what was counted, and panics if something is wrong.

#![allow(clippy::unwrap_used, reason = "a panic is the report")]

pub mod allocator;
pub mod cpu;
pub mod fence;
pub mod hotplug;
pub mod stacks;
pub mod steps;

use rseq::{Rseq, Unsupported};

fn main() -> Result<(), Unsupported> {
    let rseq = Rseq::new()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parts = if words.is_empty() {
        vec!["steps", "fence", "allocator"]
    } else {
        words.iter().map(String::as_str).collect()
    };
    for part in parts {
        match part {
            "steps" => println!("steps: {:?}", steps::run(rseq, 5_000)),
            "fence" => println!("fence: {:?}", fence::run(rseq, 200)),
            "allocator" => println!("allocator: {:?}", allocator::run(rseq, 20, 2_000)),
            "hotplug" => println!("hotplug: {:?}", hotplug::run(rseq, 3)),
            _ => panic!("unknown part {part}; expected steps, fence, allocator or hotplug"),
        }
    }
    Ok(())
}
