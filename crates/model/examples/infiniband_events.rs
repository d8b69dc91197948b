//! Events a second of InfiniBand adapters: `cargo run --release -p iotoll-model --example infiniband_events`.

use model::infiniband::AdaptersExperiment;
use std::time::Instant;

const TEXT: &str = include_str!("../../../experiments/infiniband.toml");
/// Messages of 64 bytes on connections at random.
const CHANGES: [(&str, &str); 3] = [
    ("pattern = \"scatter\"", "pattern = \"random\"\nwindow = 64"),
    ("connections = 128", "connections = 1024"),
    ("messages = 2560", "messages = 500000"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = CHANGES.iter().fold(TEXT.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
    let experiment = AdaptersExperiment::read(&text, "experiments/infiniband.toml")?;
    for round in 0..3 {
        let began = Instant::now();
        let events = experiment.events()?;
        let seconds = began.elapsed().as_secs_f64();
        println!("round {round}: {:.2} million events a second", events as f64 / seconds / 1e6);
    }
    Ok(())
}
