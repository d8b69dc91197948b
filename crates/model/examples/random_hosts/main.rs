//! Draws random hosts, says how many are steady, extended or refused, and holds long runs of some against the short ones:
//! `cargo run --release -p iotoll-model --example random_hosts -- --hosts 1000 --long 20`.
//!
//! Each host runs with five seeds, as a user's file does. Long runs check two things:
//!
//! - The same seeds over ten times the time: a window that was not steady would now give another figure.
//! - Fifty other seeds: the mean of so many is close to the true one, which 95 % of intervals hold.

mod block;
mod draw;
mod flash_array;
mod network;
mod table;

use draw::Draw;
use model::Unsteady;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use table::Table;
use toll::Estimate;

/// Seeds of a short run, as many as those of a user's file.
const SEEDS: u64 = 5;
/// A long run has so many times as much simulated time, or so many times as many seeds.
const TIMES: u64 = 10;

/// A random machine.
pub(crate) enum Machine {
    Network(Box<model::network::Setup>),
    Block(Box<model::block::Setup>),
    FlashArray(Box<model::flash_array::Setup>),
}

/// What a run came to.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Operations or bytes a second.
    rate: f64,
    /// Mean latency of an operation, if the machine has operations that end.
    latency: Option<des::Span>,
    window: model::MeasuredWindow,
}

/// Seeds and length of a run.
#[derive(Clone, Copy)]
pub(crate) struct Length {
    seed: u64,
    /// The window to measure in place of that of the setup.
    window: Option<model::MeasuredWindow>,
}

impl Machine {
    /// The kinds in turn.
    fn draw(number: usize) -> Self {
        let draw = &mut Draw::new(number as u64);
        match number % 3 {
            0 => Self::Network(Box::new(network::setup(draw))),
            1 => Self::Block(Box::new(block::setup(draw))),
            _ => Self::FlashArray(Box::new(flash_array::setup(draw))),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Network(_) => "network",
            Self::Block(_) => "block",
            Self::FlashArray(_) => "flash array",
        }
    }

    fn run(&self, length: Length) -> Result<Run, Unsteady> {
        match self {
            Self::Network(setup) => network::run(setup, length),
            Self::Block(setup) => block::run(setup, length),
            Self::FlashArray(setup) => flash_array::run(setup, length),
        }
    }

    fn runs(&self, lengths: impl Iterator<Item = Length>) -> Result<Vec<Run>, Unsteady> {
        lengths.map(|length| self.run(length)).collect()
    }
}

/// A figure of all runs; `None` if none has it.
fn estimate(runs: &[Run], of: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
    Estimate::of(&runs.iter().filter_map(of).collect::<Vec<_>>())
}

/// A host that is steady, and its figures.
struct Steady {
    number: usize,
    kind: &'static str,
    short: Vec<Run>,
}

/// What became of a host.
enum Outcome {
    Steady(Steady),
    Refused(&'static str, Unsteady),
}

fn outcome(number: usize) -> Outcome {
    let machine = Machine::draw(number);
    let kind = machine.kind();
    match machine.runs((1..=SEEDS).map(|seed| Length { seed, window: None })) {
        Ok(short) => Outcome::Steady(Steady { number, kind, short }),
        Err(unsteady) => Outcome::Refused(kind, unsteady),
    }
}

/// A figure of a host's short run and of its long ones.
struct Held {
    short: Estimate,
    /// The same seeds over more time.
    longer: f64,
    /// More seeds.
    more: f64,
}

/// A host that also had long runs.
struct HeldHost {
    number: usize,
    kind: &'static str,
    rate: Option<Held>,
    latency: Option<Held>,
}

fn hold(steady: &Steady) -> Result<HeldHost, Unsteady> {
    let machine = Machine::draw(steady.number);
    let longer = (1..).zip(&steady.short).map(|(seed, run)| {
        let measured = des::Span::from_ps(run.window.measured.as_ps() * TIMES);
        Length { seed, window: Some(model::MeasuredWindow { measured, ..run.window }) }
    });
    let more = (SEEDS + 1..).take((SEEDS * TIMES) as usize).map(|seed| Length { seed, window: None });
    let (longer, more) = (machine.runs(longer)?, machine.runs(more)?);
    let held = |of: fn(&Run) -> Option<f64>| {
        let [short, longer, more] = [&steady.short, &longer, &more].map(|runs| estimate(runs, of));
        Some(Held { short: short?, longer: longer?.mean, more: more?.mean })
    };
    let (rate, latency) = (held(|run| Some(run.rate)), held(|run| Some(run.latency?.as_ns_f64() / 1e3)));
    Ok(HeldHost { number: steady.number, kind: steady.kind, rate, latency })
}

/// Applies a function to all items on all CPUs, and keeps their order.
fn in_parallel<Item: Sync, Done: Send>(items: &[Item], of: impl Fn(&Item) -> Done + Sync) -> Vec<Done> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Done>> = Mutex::default();
    let work = || {
        while let Some(item) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            items.get(place).map(|item| (place, item))
        } {
            let result = of(item.1);
            if let Ok(mut done) = done.lock() {
                done.insert(item.0, result);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    done.into_inner().map(|done| done.into_values().collect()).unwrap_or_default()
}

/// The value of an option.
fn option(name: &str, default: usize) -> Result<usize, Box<dyn Error>> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match (arguments.next(), arguments.next()) {
        (None, _) => Ok(default),
        (Some(_), Some(value)) => Ok(value.parse()?),
        (Some(_), None) => Err(format!("{name} without a number").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (hosts, long) = (option("--hosts", 1000)?, option("--long", 20)?);
    let numbers: Vec<usize> = (0..hosts).collect();
    let outcomes = in_parallel(&numbers, |number| outcome(*number));
    let mut table = Table::default();
    let mut reasons = BTreeMap::new();
    let mut steady = Vec::new();
    for one in outcomes {
        match one {
            Outcome::Steady(one) => {
                let is_extended = one.short.iter().any(|run| run.window.is_extended);
                table.count(one.kind, if is_extended { "extended" } else { "steady" });
                steady.push(one);
            }
            Outcome::Refused(kind, unsteady) => {
                eprintln!("{kind}: {unsteady}");
                table.count(kind, "refused");
                *reasons.entry(table::reason(&unsteady)).or_insert(0) += 1;
            }
        }
    }
    table.print();
    table::print_reasons(&reasons);
    let step = (steady.len() / long.max(1)).max(1);
    let chosen: Vec<&Steady> = steady.iter().step_by(step).take(long).collect();
    let held = in_parallel(&chosen, |steady| hold(steady));
    let held = held.into_iter().collect::<Result<Vec<_>, _>>()?;
    table::print_held("rate, Gb/s of pairs of hosts and requests a second of others", &held, |host| {
        host.rate.as_ref()
    });
    table::print_held("mean latency, us", &held, |host| host.latency.as_ref());
    Ok(())
}
