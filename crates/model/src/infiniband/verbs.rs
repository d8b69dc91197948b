//! Micro-benchmarks over verbs: two processes, or one that talks to itself, over some connections.

use super::adapter::Setup;
use super::machine::{Actions, Application, Event, Machine, Nodes};
use super::message::{Buffer, Place, Verb, Work};
use super::outcome::{Outcome, RunError};
use des::{Heap, Misuse, Queue, RunningStats, Span, SpanHistogram, Stream, Time, Wheel};
use serde::Deserialize;

/// What processes do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// In which order.
    pub pattern: Pattern,
    /// By which verb.
    pub verb: Verb,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Connections, a queue pair at each end.
    pub connections: u32,
    /// Both ends are of one process, at one adapter.
    pub is_loop: bool,
    /// Where messages come from and go to.
    pub buffers: Place,
    /// Messages that are measured; some come before them, so that the cache is as full as it gets.
    pub messages: u64,
}

/// Who sends when.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// One message at a time, until who asked knows that it is done; connections in turn.
    Alone,
    /// There and back, connections in turn; a message's time is half of both.
    PingPong,
    /// A message on each connection at once, until all are done, which is the time that is measured.
    Scatter,
    /// As many in flight as a window holds, on connections in turn.
    Stream {
        /// Messages in flight.
        window: u32,
        /// Of a hundred messages, so many are of one buffer, and the others of one that was not used before.
        reuse_percent: u32,
        /// Both processes send.
        both_ways: bool,
    },
    /// As many in flight as a window holds, each on any connection and with a CPU of its own.
    Random {
        /// Messages in flight.
        window: u32,
    },
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Mean time of a message, or of a scatter.
    pub latency_mean: Span,
    /// What 99 of 100 took at most.
    pub latency_p99: Span,
    /// Messages in a second.
    pub messages_per_second: f64,
    /// Bytes of messages in a second.
    pub bytes_per_second: f64,
    /// Everything else.
    pub outcome: Outcome,
}

/// Bytes of the region that buffers which were not used before are taken from.
const FRESH_BYTES: u64 = 64 << 20;
/// Messages before those that are measured: this part of them, and so many for each connection.
const WARM_UP_PART: u64 = 4;
const WARM_UP_PER_CONNECTION: u64 = 3;

/// Messages of a load, with those before the measured ones, or a few more.
pub(super) fn messages(measured: u64, connections: u32, window: u32) -> u64 {
    let once = u64::from(connections);
    measured + measured / WARM_UP_PART + (WARM_UP_PER_CONNECTION + 1) * once + u64::from(window)
}

/// Runs a load.
///
/// # Errors
/// [`RunError`]
pub fn run(setup: &Setup, load: &Load) -> Result<Measured, RunError> {
    run_on::<Wheel<Event>>(setup, load)
}

/// The same on the reference calendar, a plain heap: slower, with the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup, load: &Load) -> Result<Measured, RunError> {
    run_on::<Heap<Event>>(setup, load)
}

fn run_on<Q: Queue<Event>>(setup: &Setup, load: &Load) -> Result<Measured, RunError> {
    let far: u16 = if load.is_loop { 0 } else { 1 };
    let mut nodes = Nodes::new(setup, far + 1);
    let regions = [0, far].map(|node| nodes.node(node).register(FRESH_BYTES));
    let cqs = [0, far].map(|node| nodes.node(node).completion_queue());
    for _ in 0..load.connections {
        nodes.connect([0, far], cqs);
    }
    let processes = Processes::new(setup, load, regions)?;
    let (processes, outcome) = Machine::new(nodes, processes).run::<Q>()?;
    Ok(processes.measured(outcome))
}

/// Whose end a queue pair is: both ends of a connection are made one after the other.
fn side_of(qp: u32) -> usize {
    (qp % 2) as usize
}

/// Both processes.
#[derive(Debug)]
struct Processes {
    load: Load,
    post: Span,
    poll: Span,
    connections: u64,
    regions: [u32; 2],
    /// Messages, or scatters, that are not measured, and all of them.
    warm_up: u64,
    all: u64,
    random: Stream,
    sides: [Side; 2],
    begun: u64,
    done: u64,
    /// Of a scatter.
    left: u32,
    round_began: Time,
    measured_from: Time,
    measured_to: Time,
    latency: RunningStats,
    latencies: SpanHistogram,
}

/// A process.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    /// When its CPU is free again.
    free_at: Time,
    /// Messages that it began.
    begun: u64,
    /// Bytes of buffers that were not used before.
    fresh: u64,
}

impl Processes {
    fn new(setup: &Setup, load: &Load, regions: [u32; 2]) -> Result<Self, Misuse> {
        let per_round = if load.pattern == Pattern::Scatter { u64::from(load.connections) } else { 1 };
        let measured = load.messages.div_ceil(per_round).max(1);
        let once = u64::from(load.connections) / per_round;
        let warm_up = match load.pattern {
            // Each connection once, and then as many as can be in flight.
            Pattern::Random { window } => once + u64::from(window),
            _ => once * WARM_UP_PER_CONNECTION,
        };
        let warm_up = warm_up.max(measured / WARM_UP_PART);
        Ok(Self {
            load: *load,
            post: setup.host.post,
            poll: setup.host.poll,
            connections: load.connections.into(),
            regions,
            warm_up,
            all: warm_up + measured,
            random: Stream::new(setup.seed, 0),
            sides: Default::default(),
            begun: 0,
            done: 0,
            left: 0,
            round_began: Time::ZERO,
            measured_from: Time::ZERO,
            measured_to: Time::ZERO,
            latency: RunningStats::default(),
            latencies: SpanHistogram::new(3)?,
        })
    }

    fn measured(self, outcome: Outcome) -> Measured {
        let elapsed = self.measured_to.since(self.measured_from).unwrap_or_default().as_ps_f64();
        let per_round = match self.load.pattern {
            Pattern::Scatter => f64::from(self.load.connections),
            Pattern::PingPong => 2.0,
            Pattern::Alone | Pattern::Stream { .. } | Pattern::Random { .. } => 1.0,
        };
        let measured = self.latency.count() as f64 * per_round;
        // An instant has no rate.
        let messages_per_second = if elapsed > 0.0 { measured * 1e12 / elapsed } else { 0.0 };
        Measured {
            latency_mean: Span::from_ps_f64(self.latency.mean().unwrap_or_default()),
            latency_p99: self.latencies.quantile(0.99).unwrap_or_default(),
            messages_per_second,
            bytes_per_second: messages_per_second * self.load.message_bytes as f64,
            outcome,
        }
    }

    fn begin(&mut self, now: Time, actions: &mut Actions) {
        match self.load.pattern {
            Pattern::Alone | Pattern::PingPong => self.post_next(now, 0, actions),
            Pattern::Scatter => self.scatter(now, actions),
            Pattern::Stream { window, both_ways, .. } => {
                for _ in 0..window {
                    self.post_next(now, 0, actions);
                    if both_ways {
                        self.post_next(now, 1, actions);
                    }
                }
            }
            Pattern::Random { window } => (0..window).for_each(|_| self.post_next(now, 0, actions)),
        }
    }

    fn scatter(&mut self, now: Time, actions: &mut Actions) {
        self.left = self.load.connections;
        self.round_began = now;
        for _ in 0..self.load.connections {
            self.post_next(now, 0, actions);
        }
    }

    /// A process puts its next message into a queue, as soon as its CPU has the time, unless all are begun.
    fn post_next(&mut self, now: Time, side: usize, actions: &mut Actions) {
        let per_round =
            if self.load.pattern == Pattern::Scatter { u64::from(self.load.connections) } else { 1 };
        if self.begun == self.all * per_round {
            return;
        }
        self.begun += 1;
        let connection = match self.load.pattern {
            // Each has been used once before any comes by chance.
            Pattern::Random { .. } if self.begun > self.connections => self.random.below(self.connections),
            _ => self.sides[side].begun % self.connections,
        };
        self.sides[side].begun += 1;
        let from = match self.load.pattern {
            Pattern::Random { .. } => now,
            _ => self.sides[side].free_at.max(now),
        };
        let posted = from + self.post;
        self.sides[side].free_at = posted;
        let work = self.work(side, connection, now);
        actions.post(posted, work);
    }

    /// A process sends back what it got.
    fn post_back(&mut self, now: Time, got: &Work, actions: &mut Actions) {
        let work = Work { tag: got.tag, ..self.work(1, u64::from(got.qp / 2), now) };
        actions.post(now + self.post, work);
    }

    fn work(&mut self, side: usize, connection: u64, began: Time) -> Work {
        let offset = self.offset(side);
        let buffer = |side: usize| Buffer { region: self.regions[side], offset, place: self.load.buffers };
        Work {
            verb: self.load.verb,
            qp: connection as u32 * 2 + side as u32,
            bytes: self.load.message_bytes,
            local: buffer(side),
            remote: buffer(1 - side),
            tag: began.as_ps(),
        }
    }

    /// Where a message's buffer begins: at the region's beginning, or behind all that was used.
    fn offset(&mut self, side: usize) -> u64 {
        let Pattern::Stream { reuse_percent, .. } = self.load.pattern else { return 0 };
        let number = self.sides[side].begun;
        // Spread evenly: so many of each hundred.
        let reused = |number: u64| number * u64::from(reuse_percent) / 100;
        if reused(number) > reused(number - 1) {
            return 0;
        }
        let bytes = self.load.message_bytes.max(1);
        self.sides[side].fresh += 1;
        let places = (FRESH_BYTES / bytes).max(1);
        self.sides[side].fresh % places * bytes
    }

    /// A message, or what else is measured, began and is done.
    fn record(&mut self, began: Time, now: Time, part: u64) {
        self.done += 1;
        if self.done <= self.warm_up {
            self.measured_from = now;
        } else if self.done <= self.all {
            let took = Span::from_ps(now.since(began).unwrap_or_default().as_ps() / part);
            self.latency.add(took.as_ps_f64());
            self.latencies.record(took);
            self.measured_to = now;
        }
    }
}

impl Application for Processes {
    fn delivered(&mut self, now: Time, work: &Work, actions: &mut Actions) {
        if self.load.pattern != Pattern::PingPong {
            return;
        }
        let seen = now + self.poll;
        if side_of(work.qp) == 0 {
            self.post_back(seen, work, actions);
        } else {
            self.record(Time::from_ps(work.tag), seen, 2);
            self.post_next(seen, 0, actions);
        }
    }

    fn completed(&mut self, now: Time, work: &Work, _posted: Time, actions: &mut Actions) {
        let seen = now + self.poll;
        match self.load.pattern {
            Pattern::PingPong => {}
            Pattern::Scatter => {
                self.left -= 1;
                if self.left == 0 {
                    self.record(self.round_began, seen, 1);
                    self.scatter(seen, actions);
                }
            }
            Pattern::Alone | Pattern::Stream { .. } | Pattern::Random { .. } => {
                self.record(Time::from_ps(work.tag), seen, 1);
                self.post_next(seen, side_of(work.qp), actions);
            }
        }
    }

    fn woken(&mut self, now: Time, _token: u32, actions: &mut Actions) {
        self.begin(now, actions);
    }
}
