//! Events per second and memory of our calendar, the standard library's heap, and engines of others, side by side.
//!
//! ```text
//! cargo run --release -p iotoll-des --example engines -- [phold] [nic] [NAME[:PENDING_MAX]=COMMAND ...]
//! ```
//!
//! Loads that are named alone are run alone. With a number, a name takes part in PHOLD only up to so many pending events.
//!
//! - Each command is run as `COMMAND phold PENDING EVENTS`. After a warm-up of twice as many events as are pending, it prints
//!   the seconds that EVENTS took, how many they were, the bytes of memory that came with the pending ones, and the
//!   picoseconds of simulated time that passed.
//! - It is also run as `COMMAND nic PARAMETERS FLOWS WARM_UP FRAMES SEED` with `bench/nic.toml`, and prints the seconds that so
//!   many frames took after so many others, how many frames and events they were, and the sum of their round trips in
//!   nanoseconds.
//!
//! `bench/engines` has such commands.
//!
//! Seconds are CPU time, and all take turns for some rounds: a busy machine disturbs them little, and alike.

#![allow(clippy::unwrap_used, reason = "a measurement that fails is none")]

mod clock;
mod median;
mod nic;
mod nic_race;
mod peer;
mod phold;

use peer::Peer;
use std::env;

/// Prints the tables of a load.
type Race = fn(&[Peer]);

const LOADS: [(&str, Race); 2] = [("phold", phold::race), ("nic", nic_race::race)];

fn main() {
    let (peers, loads): (Vec<String>, Vec<String>) = env::args().skip(1).partition(|word| word.contains('='));
    let peers: Vec<Peer> = peers.iter().filter_map(|argument| Peer::parse(argument)).collect();
    let unknown = loads.iter().find(|load| LOADS.iter().all(|(name, _)| load != name));
    assert!(unknown.is_none(), "{unknown:?} is neither a load nor NAME=COMMAND");
    for (name, race) in LOADS {
        if loads.is_empty() || loads.iter().any(|load| load == name) {
            race(&peers);
            println!();
        }
    }
}
