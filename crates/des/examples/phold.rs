//! Events per second under PHOLD: our calendar, the standard library's heap, and engines of others.
//!
//! ```text
//! cargo run --release -p des --example phold -- [NAME=COMMAND ...]
//! ```
//!
//! Each command is run as `COMMAND PENDING EVENTS` and prints the seconds that so many events took, how many they were, and
//! the bytes of memory that came with the pending ones; `bench/engines` and `bench/phold_simpy.py` are such commands.
//!
//! Seconds are CPU time, and all take turns for some rounds, of which the best counts: a busy machine disturbs them little,
//! and alike. The last column is what PHOLD takes without any calendar: random numbers and counting.

#![allow(clippy::unwrap_used, reason = "a measurement that fails is none")]

use des::{Calendar, Heap, Model, Phold, Queue, Simulation, Span, Stream, Time, Wheel};
use rustix::time::{ClockId, clock_gettime};
use std::{env, hint::black_box, process::Command};

const ROUNDS: usize = 3;
const PENDING: [u32; 4] = [64, 1_024, 16_384, 1_000_000];
const PROCESSES_MAX: u32 = 1_024;
/// So many events of our own are measured; of slower ones, fewer.
const EVENTS: u64 = 4_000_000;
const EVENTS_HEAP: u64 = 1_000_000;
const EVENTS_PEER: u64 = 200_000;
/// What a peer's memory says about fewer entries is the rest of its program.
const PEER_BYTES_FROM: u32 = 16_384;

/// How fast and how large: the best of the rounds.
#[derive(Clone, Copy, Default)]
struct Figure {
    per_second: f64,
    bytes_per_pending: f64,
}

impl Figure {
    fn best(&mut self, other: Self) {
        if other.per_second > self.per_second {
            *self = other;
        }
    }
}

struct Peer {
    name: String,
    command: Vec<String>,
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begun = cpu_seconds();
    work();
    cpu_seconds() - begun
}

/// After so many events that nothing is left of the beginning.
fn measure<M: Model, Q: Queue<M::Event>>(mut simulation: Simulation<M, Q>, events: u64) -> Figure {
    let pending = simulation.calendar.pending();
    simulation.run_events(3 * pending as u64 + events / 4);
    let seconds = seconds(|| _ = simulation.run_events(events));
    let bytes_per_pending = simulation.calendar.bytes() as f64 / pending as f64;
    Figure { per_second: events as f64 / seconds, bytes_per_pending }
}

fn phold(pending: u32) -> Phold {
    Phold::new(pending.min(PROCESSES_MAX), 1)
}

fn without_calendar(pending: u32) -> Figure {
    let mut phold = phold(pending);
    let seconds = seconds(|| {
        let mut process = 0;
        for _ in 0..EVENTS {
            let (delay, to) = black_box(phold.receive(process)).unwrap();
            black_box(delay);
            process = to;
        }
    });
    Figure { per_second: EVENTS as f64 / seconds, bytes_per_pending: 0.0 }
}

fn run_peer(peer: &Peer, pending: u32) -> Figure {
    let (program, arguments) = peer.command.split_first().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .args([u64::from(pending), EVENTS_PEER].map(|number| number.to_string()))
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [seconds, events, bytes] = numbers[..] else {
        panic!(
            "{} printed {text:?}, not three numbers: {}",
            peer.name,
            String::from_utf8_lossy(&output.stderr)
        )
    };
    let told = pending >= PEER_BYTES_FROM;
    let bytes_per_pending = if told { bytes / f64::from(pending) } else { f64::NAN };
    Figure { per_second: events / seconds, bytes_per_pending }
}

fn row(first: &str, names: &[&str], figures: &[Figure]) {
    print!("| {first} |");
    for figure in figures {
        print!(" {:.2} |", figure.per_second / 1e6);
    }
    for figure in &figures[1..names.len()] {
        print!(" {:.1} |", figures[0].per_second / figure.per_second);
    }
    for figure in &figures[..names.len()] {
        if figure.bytes_per_pending.is_nan() {
            print!(" |")
        } else {
            print!(" {:.0} |", figure.bytes_per_pending)
        }
    }
    println!();
}

fn head(first: &str, names: &[&str], last: Option<&str>) {
    let speeds = names.iter().copied().chain(last).map(|name| format!(" {name}, M/s |"));
    let ratios = names[1..].iter().map(|name| format!(" {} / {name} |", names[0]));
    let bytes = names.iter().map(|name| format!(" {name}, bytes |"));
    let columns: Vec<String> = speeds.chain(ratios).chain(bytes).collect();
    println!("| {first} |{}\n|---|{}", columns.concat(), "---|".repeat(columns.len()));
}

/// Each entity goes on after a delay between a nanosecond and a second, of which each magnitude is as likely.
struct Spread(Vec<Stream>);

impl Spread {
    fn simulation<Q: Queue<u32>>(pending: u32) -> Simulation<Self, Q> {
        let mut simulation =
            Simulation::on(Self((0..pending).map(|entity| Stream::new(1, u64::from(entity))).collect()));
        (0..pending).for_each(|entity| simulation.calendar.schedule_in(Span::ZERO, entity));
        simulation
    }
}

impl Model for Spread {
    type Event = u32;

    fn handle(&mut self, _: Time, entity: u32, calendar: &mut Calendar<u32, impl Queue<u32>>) {
        let bits = self.0[entity as usize].bits();
        // 2^10 ps to 2^40 ps.
        let magnitude = 1 << (10 + (bits >> 32) % 30);
        calendar.schedule_in(Span::from_ps(magnitude + bits % magnitude), entity);
    }
}

fn main() {
    let peer = |argument: String| {
        let (name, command) = argument.split_once('=').expect("arguments are NAME=COMMAND");
        Peer { name: name.to_owned(), command: command.split_whitespace().map(str::to_owned).collect() }
    };
    let peers: Vec<Peer> = env::args().skip(1).map(peer).collect();
    let names: Vec<&str> = ["des", "heap"].into_iter().chain(peers.iter().map(|peer| &*peer.name)).collect();
    head("pending", &names, Some("no calendar"));
    for pending in PENDING {
        let mut figures = vec![Figure::default(); names.len() + 1];
        for _ in 0..ROUNDS {
            figures[0].best(measure::<_, Wheel<u32>>(phold(pending).simulation(pending), EVENTS));
            figures[1].best(measure::<_, Heap<u32>>(phold(pending).simulation(pending), EVENTS_HEAP));
            peers
                .iter()
                .zip(&mut figures[2..])
                .for_each(|(peer, figure)| figure.best(run_peer(peer, pending)));
            figures[names.len()].best(without_calendar(pending));
        }
        row(&pending.to_string(), &names, &figures);
    }

    println!("\nDelays from a nanosecond to a second:\n");
    head("pending", &["des", "heap"], None);
    for pending in PENDING {
        let mut figures = [Figure::default(); 2];
        for _ in 0..ROUNDS {
            figures[0].best(measure::<_, Wheel<u32>>(Spread::simulation(pending), EVENTS));
            figures[1].best(measure::<_, Heap<u32>>(Spread::simulation(pending), EVENTS_HEAP));
        }
        row(&pending.to_string(), &["des", "heap"], &figures);
    }
}
