//! How many events of two hosts happen in a second, on the calendar and on a plain heap: `cargo run --release -p iotoll-model --example
//! network_events`.

use model::network::NetworkError;
use model::network::{HostsExperiment, Outcome, Setup, run, run_on_heap};
use std::error::Error;
use std::time::Instant;

const HOSTS: &str = include_str!("../../../experiments/two-hosts.toml");
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let setup = HostsExperiment::read(HOSTS, "two-hosts.toml")?.setup();
    // In turns, so that what else the machine does hits both.
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (rates, run) in rates.iter_mut().zip([run, run_on_heap]) {
            rates.push(rate(run, &setup)?);
        }
    }
    let [wheel, heap] = rates.map(median);
    println!(
        "calendar {wheel:.2} million events/s, heap {heap:.2}: {:.2} times, medians of {ROUNDS}",
        wheel / heap
    );
    Ok(())
}

/// Millions of events in a second.
fn rate(run: fn(&Setup) -> Result<Outcome, NetworkError>, setup: &Setup) -> Result<f64, NetworkError> {
    let began = Instant::now();
    let events = run(setup)?.events;
    Ok(events as f64 / began.elapsed().as_secs_f64() / 1e6)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
