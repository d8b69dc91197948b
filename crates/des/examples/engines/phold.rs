//! PHOLD on our calendar, on the standard library's heap, and on engines of others. The last column is what it takes without
//! any calendar: random numbers and counting.

use crate::{clock::cpu_seconds_of, peer::Peer};
use des::{Calendar, Heap, Model, Phold, Queue, Simulation, Span, Stream, Time, Wheel};
use std::{fs, hint::black_box};

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

/// After so many events that nothing is left of the beginning.
fn measure<M: Model, Q: Queue<M::Event>>(mut simulation: Simulation<M, Q>, events: u64) -> Figure {
    let pending = simulation.calendar.pending();
    simulation.run_events(3 * pending as u64 + events / 4);
    let seconds = cpu_seconds_of(|| _ = simulation.run_events(events));
    let bytes_per_pending = simulation.calendar.bytes() as f64 / pending as f64;
    Figure { per_second: events as f64 / seconds, bytes_per_pending }
}

fn phold(pending: u32) -> Phold {
    Phold::new(pending.min(PROCESSES_MAX), 1)
}

fn without_calendar(pending: u32) -> Figure {
    let mut phold = phold(pending);
    let seconds = cpu_seconds_of(|| {
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
    let [seconds, events, bytes] = peer.run("phold", &[pending.to_string(), EVENTS_PEER.to_string()]);
    let told = pending >= PEER_BYTES_FROM;
    let bytes_per_pending = if told { bytes / f64::from(pending) } else { f64::NAN };
    Figure { per_second: events / seconds, bytes_per_pending }
}

/// As peers measure it: what became resident with so many pending.
fn resident_per_pending(pending: u32) -> f64 {
    let before = resident_bytes();
    let mut simulation = phold(pending).simulation::<Wheel<u32>>(pending);
    simulation.run_events(2 * u64::from(pending));
    resident_bytes().saturating_sub(before) as f64 / f64::from(pending)
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
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
        let mut simulation = Simulation::with_queue(Self(
            (0..pending).map(|entity| Stream::new(1, u64::from(entity))).collect(),
        ));
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

/// The tables of both loads: PHOLD's own, and that of [`Spread`] for ours.
pub(crate) fn race(peers: &[Peer]) {
    let names: Vec<&str> = ["des", "heap"].into_iter().chain(peers.iter().map(|peer| &*peer.name)).collect();
    let many = PENDING[PENDING.len() - 1];
    // First of all: what has been freed once would be taken again, and not be seen.
    let resident = resident_per_pending(many);
    println!("PHOLD:\n");
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

    println!("\nResident with {many} pending: des {resident:.0} bytes each.");
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
