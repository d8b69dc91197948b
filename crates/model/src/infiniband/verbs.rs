//! Micro-benchmarks of verbs: two processes, or one with itself, over a number of connections.

use super::hca::Setup;
use super::infiniband_model::{Actions, Application, Event, InfinibandModel, Nodes};
use super::message::{Buffer, MemoryKind, Verb, Work};
use super::outcome::{ContextUse, Outcome, RunError};
use crate::steady::{CacheUse, Level, MeasuredWindow, Measurement, Progress, Sample};
use des::{Heap, Misuse, Queue, RunningStats, Span, SpanHistogram, Stream, Time, Wheel};
use serde::Deserialize;

/// The load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Communication pattern.
    pub pattern: Pattern,
    /// Verb.
    pub verb: Verb,
    /// Bytes per message.
    pub message_bytes: u64,
    /// Number of connections, each with a queue pair at both ends.
    pub connections: u32,
    /// One process is both ends of every connection, on one adapter.
    pub is_loop: bool,
    /// Memory of the buffers.
    pub buffers: MemoryKind,
    /// Measured messages at least, after a warm-up that fills the cache.
    pub messages: u64,
}

/// Communication pattern.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// One message at a time, until its completion; connections in turn.
    Alone,
    /// Ping-pong, connections in turn. The latency is half of a round trip.
    PingPong,
    /// Scatter: a message on each connection at once. The time until all are done is measured.
    Scatter,
    /// A window of messages in flight, connections in turn.
    Stream {
        /// Messages in flight.
        window: u32,
        /// Percentage of messages that reuse one buffer; the others use a new one each.
        reuse_percent: u32,
        /// Both processes send.
        both_ways: bool,
    },
    /// A window of messages in flight, each on a random connection with its own CPU.
    Random {
        /// Messages in flight.
        window: u32,
    },
}

/// Results.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Mean latency of a message, or of a scatter.
    pub latency_mean: Span,
    /// 99th percentile.
    pub latency_p99: Span,
    /// Messages per second.
    pub messages_per_second: f64,
    /// Bytes of messages per second.
    pub bytes_per_second: f64,
    /// The messages that were measured, or scatters.
    pub window: MeasuredWindow<u64>,
    /// What the adapters did with contexts in that time.
    pub contexts: ContextUse,
    /// Messages of that time.
    pub messages: u64,
    /// All other results.
    pub outcome: Outcome,
}

/// Bytes of the region from which new buffers are taken.
const FRESH_BYTES: u64 = 64 << 20;
/// Length of the warm-up: measured messages divided by this, plus a number per connection.
const WARM_UP_PART: u64 = 4;
const WARM_UP_PER_CONNECTION: u64 = 3;
/// About as many events has a packet, with its acknowledgement.
const EVENTS_PER_PACKET: u64 = 8;

/// Messages of a load including the warm-up, at least.
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

/// The same on the reference calendar, a binary heap. It is slower and has the same outcome.
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
    let (processes, outcome) = InfinibandModel::new(nodes, processes).run::<Q>()?;
    processes.results(outcome)
}

/// The side of a queue pair: both ends of a connection have consecutive numbers.
fn side_of(qp: u32) -> usize {
    (qp % 2) as usize
}

/// State of both processes.
#[derive(Debug)]
struct Processes {
    load: Load,
    post: Span,
    poll: Span,
    connections: u64,
    regions: [u32; 2],
    /// Packets of a message.
    packets: u64,
    measurement: Measurement<u64>,
    /// Number of messages, or scatters, that are done when the next sample is to be taken.
    next_sample: u64,
    is_measuring: bool,
    is_over: bool,
    random: Stream,
    sides: [Side; 2],
    begun: u64,
    done: u64,
    /// Messages of the current scatter.
    left: u32,
    round_began: Time,
    measured_from: Time,
    measured_to: Time,
    /// What the adapters had done with contexts when the window began, and then what they did in it.
    contexts: ContextUse,
    latency: RunningStats,
    latencies: SpanHistogram,
}

/// State of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    /// When its CPU is free again.
    free_at: Time,
    /// Messages that it has started.
    begun: u64,
    /// Bytes of new buffers used so far.
    fresh: u64,
}

impl Processes {
    fn new(setup: &Setup, load: &Load, regions: [u32; 2]) -> Result<Self, Misuse> {
        let per_round = if load.pattern == Pattern::Scatter { u64::from(load.connections) } else { 1 };
        let measured = load.messages.div_ceil(per_round).max(1);
        let once = u64::from(load.connections) / per_round;
        let warm_up = match load.pattern {
            // Use each connection once, then fill the window.
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
            packets: load.message_bytes.div_ceil(setup.wire.mtu_bytes).max(1),
            measurement: Measurement::steady("time of the messages", warm_up, measured),
            next_sample: warm_up,
            is_measuring: false,
            is_over: false,
            random: Stream::new(setup.seed, 0),
            sides: Default::default(),
            begun: 0,
            done: 0,
            left: 0,
            round_began: Time::ZERO,
            measured_from: Time::ZERO,
            measured_to: Time::ZERO,
            contexts: ContextUse::default(),
            latency: RunningStats::default(),
            latencies: SpanHistogram::new(3)?,
        })
    }

    /// The results of the measured part.
    fn results(mut self, outcome: Outcome) -> Result<Measured, RunError> {
        let window = std::mem::take(&mut self.measurement).finish()?;
        let elapsed = self.measured_to.since(self.measured_from).unwrap_or_default().as_ps_f64();
        let per_round = match self.load.pattern {
            Pattern::Scatter => f64::from(self.load.connections),
            Pattern::PingPong => 2.0,
            Pattern::Alone | Pattern::Stream { .. } | Pattern::Random { .. } => 1.0,
        };
        let measured = self.latency.count() as f64 * per_round;
        // No time has passed, so there is no rate.
        let messages_per_second = if elapsed > 0.0 { measured * 1e12 / elapsed } else { 0.0 };
        Ok(Measured {
            latency_mean: Span::from_ps_f64(self.latency.mean().unwrap_or_default()),
            latency_p99: self.latencies.quantile(0.99).unwrap_or_default(),
            messages_per_second,
            bytes_per_second: messages_per_second * self.load.message_bytes as f64,
            window,
            contexts: self.contexts,
            messages: measured as u64,
            outcome,
        })
    }

    /// Posts the first messages.
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

    /// Posts a message on each connection.
    fn scatter(&mut self, now: Time, actions: &mut Actions) {
        self.left = self.load.connections;
        self.round_began = now;
        for _ in 0..self.load.connections {
            self.post_next(now, 0, actions);
        }
    }

    /// A process posts its next message when its CPU is free, until enough are measured.
    fn post_next(&mut self, now: Time, side: usize, actions: &mut Actions) {
        if self.is_over {
            return;
        }
        self.begun += 1;
        let connection = match self.load.pattern {
            // Use each connection once before choosing at random.
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
        let work = self.work_request(side, connection, now);
        actions.post(posted, work);
    }

    /// A process answers a ping.
    fn post_back(&mut self, now: Time, got: &Work, actions: &mut Actions) {
        let work = Work { tag: got.tag, ..self.work_request(1, u64::from(got.qp / 2), now) };
        actions.post(now + self.post, work);
    }

    /// A work request on a connection, from one side.
    fn work_request(&mut self, side: usize, connection: u64, began: Time) -> Work {
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

    /// Offset of a message's buffer: the reused one, or a new one.
    fn offset(&mut self, side: usize) -> u64 {
        let Pattern::Stream { reuse_percent, .. } = self.load.pattern else { return 0 };
        let number = self.sides[side].begun;
        // Spread the new buffers evenly over each hundred messages.
        let reused = |number: u64| number * u64::from(reuse_percent) / 100;
        if reused(number) > reused(number - 1) {
            return 0;
        }
        let bytes = self.load.message_bytes.max(1);
        self.sides[side].fresh += 1;
        let places = (FRESH_BYTES / bytes).max(1);
        self.sides[side].fresh % places * bytes
    }

    /// Records the latency of a message, a round trip or a scatter.
    fn record(&mut self, began: Time, now: Time, part: u64, contexts: ContextUse) {
        self.done += 1;
        if self.is_measuring {
            let took = Span::from_ps(now.since(began).unwrap_or_default().as_ps() / part);
            self.latency.add(took.as_ps_f64());
            self.latencies.record(took);
            self.measured_to = now;
        }
        while self.done >= self.next_sample && !self.is_over {
            self.sample(now, contexts);
        }
    }

    /// Begins, continues or ends the measurement.
    fn sample(&mut self, now: Time, contexts: ContextUse) {
        let ContextUse { filled, looked_up, missed, .. } = contexts;
        let cache = Level::cache("cached lines of contexts", CacheUse { filled, looked_up, missed });
        // Buffers that are new each time fill it without end; the region they come from only stands for new ones.
        let has_new_buffers =
            matches!(self.load.pattern, Pattern::Stream { reuse_percent, .. } if reuse_percent < 100);
        let levels = if has_new_buffers { Vec::new() } else { vec![cache] };
        let sample = Sample { done: now.as_ps() as f64, levels };
        match self.measurement.take(sample, self.begun.saturating_mul(self.packets * EVENTS_PER_PACKET)) {
            Progress::Begins(next) => {
                (self.is_measuring, self.measured_from, self.contexts) = (true, now, contexts);
                self.latency = RunningStats::default();
                self.latencies.clear();
                self.next_sample += next;
            }
            Progress::Continues(next) => self.next_sample += next,
            Progress::Ends => {
                (self.is_measuring, self.is_over) = (false, true);
                self.contexts = contexts.since(self.contexts);
            }
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
            self.record(Time::from_ps(work.tag), seen, 2, actions.contexts);
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
                    self.record(self.round_began, seen, 1, actions.contexts);
                    self.scatter(seen, actions);
                }
            }
            Pattern::Alone | Pattern::Stream { .. } | Pattern::Random { .. } => {
                self.record(Time::from_ps(work.tag), seen, 1, actions.contexts);
                self.post_next(seen, side_of(work.qp), actions);
            }
        }
    }

    fn woken(&mut self, now: Time, _token: u32, actions: &mut Actions) {
        self.begin(now, actions);
    }
}
