//! PHOLD on our calendar, on the standard library's heap, and on engines of others. "No calendar" is what it takes without
//! any: random numbers and counting.

use crate::{clock::cpu_seconds_of, median::median, peer::Peer};
use des::{Calendar, Heap, Model, Phold, Queue, Simulation, Span, Stream, Time, Wheel};
use std::{fs, hint::black_box};

const ROUNDS: usize = 5;
const PENDING: [u32; 4] = [64, 1_024, 16_384, 1_000_000];
const PROCESSES_MAX: u32 = 1_024;
/// So many events of our own are measured; of slower ones, fewer.
const EVENTS: u64 = 4_000_000;
const EVENTS_HEAP: u64 = 1_000_000;
const EVENTS_PEER: u64 = 200_000;
/// What a peer's memory says about fewer entries is the rest of its program.
const PEER_BYTES_FROM: u32 = 16_384;
/// Two simulated times that are further apart than this many standard errors are not of the same model.
const APART_MAX: f64 = 6.0;

/// One run: how fast, and how large.
#[derive(Clone, Copy)]
struct Run {
    per_second: f64,
    bytes_per_pending: f64,
}

/// All runs of one that takes part, by round.
struct Runs {
    name: String,
    runs: Vec<Run>,
    /// Of a peer: whether it had the same model.
    agreement: Option<Agreement>,
}

impl Runs {
    fn of(name: &str) -> Self {
        Self { name: name.to_owned(), runs: Vec::new(), agreement: None }
    }

    fn push_peer(&mut self, (run, agreement): (Run, Agreement)) {
        self.runs.push(run);
        self.agreement = Some(self.agreement.map_or(agreement, |others| others.min(agreement)));
    }

    fn print(&self, pending: u32, first: &Self) {
        let speed = median(self.runs.iter().map(|run| run.per_second)) / 1e6;
        let by_round = first.runs.iter().zip(&self.runs);
        let mut ratios: Vec<f64> = by_round.map(|(first, run)| first.per_second / run.per_second).collect();
        ratios.sort_by(f64::total_cmp);
        let (lowest, highest) = (ratios[0], ratios[ratios.len() - 1]);
        let bytes = median(self.runs.iter().map(|run| run.bytes_per_pending));
        let bytes = if bytes.is_nan() { String::new() } else { format!("{bytes:.0}") };
        let same = match self.agreement {
            Some(Agreement::Picosecond) => "to the picosecond",
            Some(Agreement::Mean) => "by its mean",
            None => "",
        };
        println!(
            "| {pending} | {} | {speed:.2} | {:.1} | {lowest:.1} to {highest:.1} | {bytes} | {same} |",
            self.name,
            median(ratios)
        );
    }
}

fn print_head() {
    println!(
        "| pending | engine | events, M/s | des / it | lowest to highest | bytes a pending event | same run |"
    );
    println!("|---|---|---|---|---|---|---|");
}

/// After so many events that nothing is left of the beginning.
fn measure<M: Model, Q: Queue<M::Event>>(mut simulation: Simulation<M, Q>, events: u64) -> Run {
    let pending = simulation.calendar.pending();
    simulation.run_events(3 * pending as u64 + events / 4);
    let seconds = cpu_seconds_of(|| _ = simulation.run_events(events));
    let bytes_per_pending = simulation.calendar.bytes() as f64 / pending as f64;
    Run { per_second: events as f64 / seconds, bytes_per_pending }
}

fn phold(pending: u32) -> Phold {
    Phold::new(pending.min(PROCESSES_MAX), 1)
}

fn without_calendar(pending: u32) -> Run {
    let mut phold = phold(pending);
    let seconds = cpu_seconds_of(|| {
        let mut process = 0;
        for _ in 0..EVENTS {
            let (delay, to) = black_box(phold.receive(process)).unwrap();
            black_box(delay);
            process = to;
        }
    });
    Run { per_second: EVENTS as f64 / seconds, bytes_per_pending: f64::NAN }
}

/// Whether a peer had the same model: its events took as much simulated time as ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Agreement {
    /// Within what chance explains.
    Mean,
    /// To the picosecond: the same random numbers gave the same run.
    Picosecond,
}

fn run_peer(peer: &Peer, pending: u32) -> (Run, Agreement) {
    let numbers = peer.run("phold", &[pending.to_string(), EVENTS_PEER.to_string()]);
    let [seconds, events, bytes, elapsed_ps] = numbers;
    assert!(events == EVENTS_PEER as f64, "{}: {events} events, expected {EVENTS_PEER}", peer.name);
    let told = pending >= PEER_BYTES_FROM;
    let bytes_per_pending = if told { bytes / f64::from(pending) } else { f64::NAN };
    (Run { per_second: events / seconds, bytes_per_pending }, agreement(peer, pending, elapsed_ps))
}

fn agreement(peer: &Peer, pending: u32, its_ps: f64) -> Agreement {
    let ours_ps = elapsed_ps(pending).as_ps_f64();
    // Of a sum of delays with an exponential and a fixed part; both have that error.
    let delay = Phold::DELAY_MEAN + Phold::LOOKAHEAD;
    let variation = Phold::DELAY_MEAN.as_ps_f64() / delay.as_ps_f64();
    let error = variation * (2.0 / EVENTS_PEER as f64).sqrt();
    let apart = (its_ps / ours_ps - 1.0).abs() / error;
    assert!(apart < APART_MAX, "{}: {its_ps} ps, ours {ours_ps} ps: not the same model", peer.name);
    if its_ps == ours_ps { Agreement::Picosecond } else { Agreement::Mean }
}

/// Simulated time of the events that peers measure, from the last one before.
fn elapsed_ps(pending: u32) -> Span {
    let mut simulation = phold(pending).simulation::<Wheel<u32>>(pending);
    simulation.run_events(2 * u64::from(pending));
    let begun = simulation.now();
    simulation.run_events(EVENTS_PEER);
    simulation.now().since(begun).unwrap()
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
    let many = PENDING[PENDING.len() - 1];
    // First of all: what has been freed once would be taken again, and not be seen.
    let resident = resident_per_pending(many);
    println!("PHOLD:\n");
    print_head();
    for pending in PENDING {
        race_with(pending, peers);
    }
    println!("\nResident with {many} pending: des {resident:.0} bytes each.");
    println!("\nDelays from a nanosecond to a second:\n");
    print_head();
    for pending in PENDING {
        let mut all = ["des", "heap"].map(Runs::of);
        for _ in 0..ROUNDS {
            all[0].runs.push(measure::<_, Wheel<u32>>(Spread::simulation(pending), EVENTS));
            all[1].runs.push(measure::<_, Heap<u32>>(Spread::simulation(pending), EVENTS_HEAP));
        }
        all.iter().for_each(|runs| runs.print(pending, &all[0]));
    }
}

fn race_with(pending: u32, peers: &[Peer]) {
    let mut ours = ["des", "heap", "no calendar"].map(Runs::of);
    let peers: Vec<&Peer> = peers.iter().filter(|peer| pending <= peer.pending_max).collect();
    let mut theirs: Vec<Runs> = peers.iter().map(|peer| Runs::of(&peer.name)).collect();
    for _ in 0..ROUNDS {
        ours[0].runs.push(measure::<_, Wheel<u32>>(phold(pending).simulation(pending), EVENTS));
        ours[1].runs.push(measure::<_, Heap<u32>>(phold(pending).simulation(pending), EVENTS_HEAP));
        ours[2].runs.push(without_calendar(pending));
        theirs.iter_mut().zip(&peers).for_each(|(runs, peer)| runs.push_peer(run_peer(peer, pending)));
    }
    ours.iter().chain(&theirs).for_each(|runs| runs.print(pending, &ours[0]));
}
