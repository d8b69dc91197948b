//! NeXosim under the loads of the example `engines` of `des`, which says what they are told and print.
//!
//! ```text
//! nexosim phold PENDING EVENTS
//! nexosim nic PARAMETERS FLOWS WARM_UP FRAMES SEED
//! ```

mod nic;
mod phold;

use rustix::time::{ClockId, clock_gettime};
use std::env;

/// Of the process.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is not such a number"))
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["phold", pending, events] => phold::run(number(pending), number(events)),
        ["nic", parameters, flows, warm_up, frames, seed] => {
            let task = nic::Task {
                flows: number(flows),
                warm_up: number(warm_up),
                frames: number(frames),
                seed: number(seed),
            };
            nic::run(parameters, &task);
        }
        _ => panic!("usage: nexosim phold PENDING EVENTS | nexosim nic PARAMETERS FLOWS WARM_UP FRAMES SEED"),
    }
}
