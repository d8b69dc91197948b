//! The NIC model on our calendar, on the standard library's heap, and on engines of others.

use crate::{
    clock::cpu_seconds_of,
    median::median,
    nic::{Event, Nic, Parameters},
    peer::Peer,
};
use des::{Heap, Queue, RunningStats, Simulation, Wheel};
use std::path::Path;

/// Each with its own seed.
const ROUNDS: u64 = 7;
const FLOWS: [u32; 3] = [1, 16, 1_024];
/// So many frames of our own are measured; of slower ones, fewer.
const FRAMES: u64 = 400_000;
const FRAMES_PEER: u64 = 20_000;
/// Before any are measured, each flow has had some.
const WARM_UP_PER_FLOW: u64 = 4;
const WARM_UP_MIN: u64 = 1_000;
/// Two means that are further apart than this many standard errors are not of the same model.
const APART_MAX: f64 = 6.0;

/// What came of one run.
#[derive(Clone, Copy)]
struct Run {
    seconds: f64,
    frames: f64,
    events: f64,
    round_trips_ns: f64,
}

impl Run {
    /// Whether the same happened.
    fn is_same(&self, other: &Self) -> bool {
        (self.frames, self.events, self.round_trips_ns) == (other.frames, other.events, other.round_trips_ns)
    }
}

/// What all that take part are told in a round.
struct Task<'a> {
    path: &'a Path,
    parameters: &'a Parameters,
    flows: u32,
    seed: u64,
}

impl Task<'_> {
    fn warm_up(&self) -> u64 {
        (WARM_UP_PER_FLOW * u64::from(self.flows)).max(WARM_UP_MIN)
    }

    fn run<Q: Queue<Event>>(&self, frames: u64) -> Run {
        let mut simulation = Nic::new(self.parameters, self.flows, self.seed).unwrap().simulation::<Q>();
        run_frames(&mut simulation, self.warm_up());
        let (tally, handled) = (simulation.model.tally, simulation.handled());
        let seconds = cpu_seconds_of(|| run_frames(&mut simulation, frames));
        let after = simulation.model.tally;
        let void_timers = after.void_timers - tally.void_timers;
        Run {
            seconds,
            frames: (after.frames - tally.frames) as f64,
            events: (simulation.handled() - handled - void_timers) as f64,
            round_trips_ns: (after.round_trips_ps - tally.round_trips_ps) as f64 / 1e3,
        }
    }

    fn run_peer(&self, peer: &Peer) -> Run {
        let numbers = [u64::from(self.flows), self.warm_up(), FRAMES_PEER, self.seed];
        let arguments: Vec<String> = [self.path.display().to_string()]
            .into_iter()
            .chain(numbers.map(|number| number.to_string()))
            .collect();
        let [seconds, frames, events, round_trips_ns] = peer.run("nic", &arguments);
        Run { seconds, frames, events, round_trips_ns }
    }
}

fn run_frames<Q: Queue<Event>>(simulation: &mut Simulation<Nic, Q>, frames: u64) {
    let end = simulation.model.tally.frames + frames;
    while simulation.model.tally.frames < end && simulation.step() {}
}

/// All runs of one that takes part, by round.
struct Runs {
    name: String,
    runs: Vec<Run>,
    /// In so many of them the same happened, to the picosecond, as on our calendar.
    same: usize,
}

impl Runs {
    fn push(&mut self, run: Run, ours: &Run) {
        self.runs.push(run);
        self.same += usize::from(run.is_same(ours));
    }

    fn median(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(figure))
    }

    fn stats(&self, figure: impl Fn(&Run) -> f64) -> RunningStats {
        self.runs.iter().map(figure).collect()
    }

    /// The mean round trip in microseconds, each round a sample.
    fn round_trip_us(&self) -> (f64, f64) {
        let stats = self.stats(|run| run.round_trips_ns / run.frames / 1e3);
        (stats.mean().unwrap(), stats.standard_error().unwrap())
    }

    fn print(&self, flows: u32, first: &Self) {
        let events = self.median(|run| run.events / run.seconds) / 1e6;
        let frames = self.median(|run| run.frames / run.seconds) / 1e3;
        let events_per_frame = self.stats(|run| run.events / run.frames).mean().unwrap();
        let (round_trip, error) = self.round_trip_us();
        let by_round = first.runs.iter().zip(&self.runs);
        let mut ratios: Vec<f64> =
            by_round.map(|(first, run)| first.events / first.seconds / (run.events / run.seconds)).collect();
        ratios.sort_by(f64::total_cmp);
        let (lowest, highest) = (ratios[0], ratios[ratios.len() - 1]);
        println!(
            "| {flows} | {} | {events:.2} | {frames:.1} | {events_per_frame:.3} | {round_trip:.3} ± {error:.3} | {:.1} | {lowest:.1} to {highest:.1} | {} of {} |",
            self.name,
            median(ratios),
            self.same,
            self.runs.len()
        );
    }

    /// Whether its means may be those of the same model.
    fn check(&self, first: &Self) {
        let ((ours, our_error), (its, its_error)) = (first.round_trip_us(), self.round_trip_us());
        let apart = (ours - its).abs() / our_error.hypot(its_error).max(f64::MIN_POSITIVE);
        assert!(
            apart < APART_MAX,
            "{} has a round trip of {its} us, des one of {ours} us: {apart:.1} standard errors",
            self.name
        );
    }
}

fn race_with(path: &Path, parameters: &Parameters, flows: u32, peers: &[Peer]) {
    let names = ["des", "heap"].into_iter().chain(peers.iter().map(|peer| &*peer.name));
    let mut all: Vec<Runs> =
        names.map(|name| Runs { name: name.to_owned(), runs: Vec::new(), same: 0 }).collect();
    for seed in 1..=ROUNDS {
        let task = Task { path, parameters, flows, seed };
        let ours = task.run::<Wheel<Event>>(FRAMES);
        all[0].push(ours, &ours);
        all[1].push(task.run::<Heap<Event>>(FRAMES), &ours);
        let ours = task.run::<Wheel<Event>>(FRAMES_PEER);
        for (runs, peer) in all[2..].iter_mut().zip(peers) {
            runs.push(task.run_peer(peer), &ours);
        }
    }
    for runs in &all {
        runs.print(flows, &all[0]);
        runs.check(&all[0]);
    }
}

/// The table.
pub(crate) fn race(peers: &[Peer]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/nic.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let parameters: Parameters = toml::from_str(&text).unwrap();
    println!("A NIC:\n");
    println!(
        "| flows | engine | events, M/s | frames, k/s | events a frame | round trip, µs | des / it | lowest to highest | same run |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for flows in FLOWS {
        race_with(&path, &parameters, flows, peers);
    }
}
