//! Message-passing (MPI) processes over adapters and shared memory.
//!
//! Short messages are copied through buffers that both sides have registered, and written by RDMA (eager). Long ones
//! are announced; once the receiver has posted a receive and is inside the library, the sender writes the data by
//! RDMA and notifies it (rendezvous; Liu, Wu and Panda, "High performance RDMA-based MPI implementation over
//! InfiniBand", 2003). Short messages without a free buffer are announced too. Processes of a node copy through
//! shared memory. Messages between two processes arrive in order.

use super::hca::Setup;
use super::icm::{PAGE_BYTES, PAGES_PER_SEGMENT};
use super::infiniband_model::{Actions, Application, Event, InfinibandModel, Nodes};
use super::message::{Buffer, MemoryKind, NONE, Verb, Work};
use super::outcome::{Outcome, RunError};
use crate::slab::Slab;
use des::{Heap, Queue, Span, Time, Wheel};
use std::collections::{BTreeMap, VecDeque};

/// An operation of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Computes.
    Compute(Span),
    /// Sends, and waits until the message's memory may be reused.
    Send {
        /// Destination.
        to: u16,
        /// Bytes.
        bytes: u64,
    },
    /// Receives the next message of a process.
    Receive {
        /// Source.
        from: u16,
    },
    /// Starts a send, without waiting.
    BeginSend {
        /// Destination.
        to: u16,
        /// Bytes.
        bytes: u64,
    },
    /// Posts a receive, without waiting.
    BeginReceive {
        /// Source.
        from: u16,
    },
    /// Waits for all operations started.
    WaitAll,
}

/// A program: the operations of each process, repeated.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// Operations, by process.
    pub ops: Vec<Vec<Op>>,
    /// Measured rounds, after one round of warm-up.
    pub rounds: u32,
}

/// Parameters of the library.
#[derive(Debug, Clone, PartialEq)]
pub struct Library {
    /// Processes per node, assigned in order.
    pub processes_per_node: u16,
    /// Messages longer than this are announced.
    pub eager_bytes_max: u64,
    /// Copy rate of a CPU.
    pub copy_ps_per_byte: f64,
    /// CPU time of a call, without copies.
    pub call: Span,
    /// Latency between two processes of a node, without copies.
    pub shared: Span,
}

/// Results.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramOutcome {
    /// Mean duration of a round.
    pub round: Span,
    /// Messages of a round.
    pub messages: u64,
    /// Bytes of a round's messages.
    pub bytes: u64,
    /// Messages that were sent but never received.
    pub unreceived: u64,
    /// All other results.
    pub outcome: Outcome,
}

/// Why a program can't be run to its end.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProgramError {
    /// A process waits for a message that is never sent, or for a receive that is never posted.
    #[error("process {process}, operation {operation}: it waits for a message or a receive that never comes")]
    Stuck {
        /// The process.
        process: u16,
        /// Its operation, from 1.
        operation: u64,
    },
    /// A process sends faster than messages are received.
    #[error("process {process}, operation {operation}: more than {IN_FLIGHT_MAX} messages in flight")]
    Full {
        /// The process.
        process: u16,
        /// Its operation, from 1.
        operation: u64,
    },
    /// The buffers need more translations than the tables have.
    #[error(
        "the buffers of a node's processes need {pages} translations; expected at most {pages_max}, the size of an adapter's table"
    )]
    Memory {
        /// Translation segments of all processes of a node.
        pages: u64,
        /// Translation segments in the adapter's tables.
        pages_max: u64,
    },
    /// The program is too long to simulate.
    #[error("the program's messages have {packets} packets; expected at most {PACKETS_MAX}")]
    TooMuch {
        /// Packets of all rounds.
        packets: u64,
    },
    /// The simulation did not end.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ProgramError {
    /// The process and its operation, from 1, if the error is about one.
    pub fn operation(&self) -> Option<(u16, u64)> {
        match self {
            Self::Stuck { process, operation } | Self::Full { process, operation } => {
                Some((*process, *operation))
            }
            Self::Memory { .. } | Self::TooMuch { .. } | Self::Run(_) => None,
        }
    }
}

/// Most messages in flight, of all processes.
const IN_FLIGHT_MAX: u32 = 1 << 18;
/// Most packets of a run, which takes some minutes.
pub(super) const PACKETS_MAX: u64 = 1 << 26;

/// Bytes of a control message: announcement, answer, end.
const CONTROL_BYTES: u64 = 64;
/// Eager buffers of a process for each other process.
const BUFFERS_PER_PEER: u64 = 32;
/// Least bytes of a process's own memory for messages with each other process.
const OWN_BYTES_PER_PEER: u64 = 4 << 20;

/// Runs a program.
///
/// # Errors
/// [`ProgramError`]
pub fn run_program(
    setup: &Setup,
    library: &Library,
    program: &Program,
) -> Result<ProgramOutcome, ProgramError> {
    run_on::<Wheel<Event>>(setup, library, program)
}

/// The same on the reference calendar, a binary heap.
///
/// # Errors
/// As [`run_program`].
pub fn run_program_on_heap(
    setup: &Setup,
    library: &Library,
    program: &Program,
) -> Result<ProgramOutcome, ProgramError> {
    run_on::<Heap<Event>>(setup, library, program)
}

fn run_on<Q: Queue<Event>>(
    setup: &Setup,
    library: &Library,
    program: &Program,
) -> Result<ProgramOutcome, ProgramError> {
    let packets = packets(program, setup.wire.mtu_bytes);
    if packets > PACKETS_MAX {
        return Err(ProgramError::TooMuch { packets });
    }
    let mut world = MpiApplication::new(setup, library, program);
    let nodes = world.connect(setup);
    let [pages, pages_max] =
        [nodes.segments_max(), setup.adapter.profile.segments].map(|segments| segments * PAGES_PER_SEGMENT);
    if pages > pages_max {
        return Err(ProgramError::Memory { pages, pages_max });
    }
    let (world, outcome) = InfinibandModel::new(nodes, world).run::<Q>()?;
    world.results(outcome)
}

/// Bytes of each message of a round.
fn messages(program: &Program) -> impl Iterator<Item = u64> {
    program.ops.iter().flatten().filter_map(|op| match op {
        Op::Send { bytes, .. } | Op::BeginSend { bytes, .. } => Some(*bytes),
        Op::Compute(_) | Op::Receive { .. } | Op::BeginReceive { .. } | Op::WaitAll => None,
    })
}

/// Number of packets of all rounds.
fn packets(program: &Program, mtu_bytes: u64) -> u64 {
    let in_round = messages(program).map(|bytes| bytes.div_ceil(mtu_bytes.max(1)).max(1));
    let in_round = in_round.fold(0, u64::saturating_add);
    in_round.saturating_mul(u64::from(program.rounds) + 1)
}

/// State of a process.
#[derive(Debug, Clone, Copy)]
struct Process {
    node: u16,
    at: usize,
    round: u32,
    waits: Option<Wait>,
    is_done: bool,
    /// Until when its CPU is busy.
    free_at: Time,
    /// Announced messages that it sends and that are not complete.
    open: u32,
    /// Bytes in eager buffers that are to be copied.
    uncopied: u64,
    /// Its eager buffers, and its own memory.
    regions: [u32; 2],
}

/// What a process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The memory of a message that it sends.
    Sent(u32),
    /// Nothing.
    Nothing,
    /// Messages from a process.
    From(u16),
    /// All operations started.
    All,
}

/// State of the messages from one process to another.
#[derive(Debug, Clone, Default)]
struct Pair {
    sent: u32,
    /// Posted receives.
    asked: u32,
    /// Messages that have arrived in order, without a gap.
    come: u32,
    /// Which later ones have arrived.
    ahead: VecDeque<bool>,
    /// Announced messages without a posted receive, by number.
    announced: BTreeMap<u32, u32>,
}

impl Pair {
    /// Whether an eager buffer is free. Assumes that the sender learns of receptions at once.
    fn has_buffer(&self) -> bool {
        u64::from(self.sent - self.come.min(self.asked).min(self.sent)) < BUFFERS_PER_PEER
    }

    /// A message has arrived.
    fn arrived(&mut self, number: u32) {
        let ahead = (number - self.come) as usize;
        if self.ahead.len() <= ahead {
            self.ahead.resize(ahead + 1, false);
        }
        self.ahead[ahead] = true;
        while self.ahead.front() == Some(&true) {
            self.ahead.pop_front();
            self.come += 1;
        }
    }
}

/// A message in flight.
#[derive(Debug, Clone, Copy)]
struct Sending {
    from: u16,
    to: u16,
    bytes: u64,
    number: u32,
    /// It went through an eager buffer.
    is_copied: bool,
    /// Remaining parts: the data; for announced ones also the notification and the release of its memory.
    open: u8,
    /// Remaining parts at the receiver.
    left: u8,
}

/// Kind of a message between adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Eager,
    Announce,
    Answer,
    Data,
    End,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Eager, Self::Announce, Self::Answer, Self::Data, Self::End];

    /// A tag for this kind of packet of a message.
    fn tag(self, sending: u32) -> u64 {
        u64::from(sending) << 3 | self as u64
    }

    /// The kind of packet and the message that a tag stands for.
    fn of_tag(tag: u64) -> (Self, u32) {
        (Self::ALL[(tag & 7) as usize % Self::ALL.len()], (tag >> 3) as u32)
    }
}

#[derive(Debug)]
struct MpiApplication<'a> {
    library: &'a Library,
    program: &'a Program,
    post: Span,
    poll: Span,
    /// Own memory of each process, per other process.
    own_bytes: u64,
    processes: Vec<Process>,
    pairs: Vec<Pair>,
    /// Channels from each process to each other.
    qps: Vec<u32>,
    sendings: Slab<Sending>,
    in_flight: u32,
    /// Work that a process does once it is inside the library: answering announcements with a posted receive, and
    /// sending announced messages that were answered.
    unseen: Vec<Vec<(Kind, u32)>>,
    /// The simulation has ended.
    fault: Option<ProgramError>,
    /// When all processes had finished each round.
    first_round: Time,
    last_round: Time,
}

impl<'a> MpiApplication<'a> {
    fn new(setup: &Setup, library: &'a Library, program: &'a Program) -> Self {
        let number = program.ops.len();
        let process = |at: usize| Process {
            node: at as u16 / library.processes_per_node.max(1),
            at: 0,
            round: 0,
            waits: None,
            is_done: false,
            free_at: Time::ZERO,
            open: 0,
            uncopied: 0,
            regions: [0; 2],
        };
        Self {
            library,
            program,
            post: setup.host.post,
            poll: setup.host.poll,
            own_bytes: messages(program)
                .max()
                .unwrap_or(0)
                .next_multiple_of(PAGE_BYTES)
                .max(OWN_BYTES_PER_PEER),
            processes: (0..number).map(process).collect(),
            pairs: vec![Pair::default(); number * number],
            qps: vec![NONE; number * number],
            sendings: Slab::default(),
            in_flight: 0,
            fault: None,
            unseen: vec![Vec::new(); number],
            first_round: Time::ZERO,
            last_round: Time::ZERO,
        }
    }

    /// Registers memory and connects all processes on different nodes.
    fn connect(&mut self, setup: &Setup) -> Nodes {
        let number = self.processes.len();
        let last = self.processes.last().map_or(0, |process| process.node);
        let mut nodes = Nodes::new(setup, last + 1);
        let buffers = 2 * number as u64 * BUFFERS_PER_PEER * self.buffer_bytes();
        let mut cqs = Vec::new();
        for process in &mut self.processes {
            let node = nodes.node(process.node);
            process.regions = [node.register(buffers), node.register(number as u64 * self.own_bytes)];
            cqs.push(node.completion_queue());
        }
        for one in 0..number {
            for other in one + 1..number {
                let ends = [self.processes[one].node, self.processes[other].node];
                if ends[0] != ends[1] {
                    let first = nodes.connect(ends, [cqs[one], cqs[other]]);
                    self.qps[one * number + other] = first;
                    self.qps[other * number + one] = first + 1;
                }
            }
        }
        nodes
    }

    /// Bytes of an eager buffer.
    fn buffer_bytes(&self) -> u64 {
        (self.library.eager_bytes_max + CONTROL_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// The results, or why the program did not end.
    fn results(self, outcome: Outcome) -> Result<ProgramOutcome, ProgramError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if let Some(process) = self.processes.iter().position(|process| !process.is_done) {
            let operation = self.processes[process].at as u64;
            return Err(ProgramError::Stuck { process: process as u16, operation });
        }
        let measured = self.last_round.since(self.first_round).unwrap_or_default();
        let round = Span::from_ps(measured.as_ps() / u64::from(self.program.rounds.max(1)));
        let unreceived = self.pairs.iter().map(|pair| u64::from(pair.sent.saturating_sub(pair.asked))).sum();
        let count = messages(self.program).count() as u64;
        Ok(ProgramOutcome {
            round,
            messages: count,
            bytes: messages(self.program).sum(),
            unreceived,
            outcome,
        })
    }

    /// The state of messages from one process to another.
    fn pair(&mut self, from: u16, to: u16) -> &mut Pair {
        let number = self.processes.len();
        &mut self.pairs[usize::from(from) * number + usize::from(to)]
    }

    /// Runs a process until it has to wait or to compute.
    fn run_next_step(&mut self, now: Time, process: u16, actions: &mut Actions) {
        let at = usize::from(process);
        let mut time = self.processes[at].free_at.max(now);
        while self.fault.is_none() {
            let Some(op) = self.program.ops[at].get(self.processes[at].at).copied() else {
                if !self.next_round(time, at) {
                    return;
                }
                continue;
            };
            self.processes[at].at += 1;
            if let Op::Compute(span) = op {
                self.processes[at].free_at = time + span;
                return actions.wake(time + span, 1 + u32::from(process));
            }
            time = self.make_progress(time + self.library.call, process, actions);
            let waits = match op {
                Op::Compute(_) => None,
                Op::BeginReceive { from } => {
                    time = self.post_receive(time, process, from, actions);
                    None
                }
                Op::BeginSend { to, bytes } => {
                    time = self.send(time, process, to, bytes, actions).0;
                    None
                }
                Op::Send { to, bytes } => {
                    let (posted, waits) = self.send(time, process, to, bytes, actions);
                    time = posted;
                    waits
                }
                Op::Receive { from } => {
                    time = self.post_receive(time, process, from, actions);
                    Some(Wait::From(from))
                }
                Op::WaitAll => Some(Wait::All),
            };
            self.processes[at].free_at = time;
            if let Some(wait) = waits.filter(|wait| !self.is_over(process, *wait)) {
                self.processes[at].waits = Some(wait);
                return;
            }
            time = self.copy(time, at);
            if time > now {
                // What others do meanwhile counts for its next call.
                return actions.wake(time, 1 + u32::from(process));
            }
        }
    }

    /// Posts a receive.
    fn post_receive(&mut self, now: Time, process: u16, from: u16, actions: &mut Actions) -> Time {
        let pair = self.pair(from, process);
        pair.asked += 1;
        let answered = pair.announced.remove(&(pair.asked - 1));
        self.unseen[usize::from(process)].extend(answered.map(|sending| (Kind::Announce, sending)));
        self.make_progress(now, process, actions)
    }

    /// Starts the next round, unless all are done.
    fn next_round(&mut self, now: Time, at: usize) -> bool {
        let process = &mut self.processes[at];
        process.at = 0;
        process.round += 1;
        if process.round == 1 {
            self.first_round = self.first_round.max(now);
        }
        let is_over = process.round > self.program.rounds || self.program.ops[at].is_empty();
        if is_over {
            process.is_done = true;
            self.last_round = self.last_round.max(now);
        }
        !is_over
    }

    /// Copies data out of eager buffers.
    fn copy(&mut self, now: Time, at: usize) -> Time {
        let bytes = std::mem::take(&mut self.processes[at].uncopied);
        let done = now + self.copy_time(bytes);
        self.processes[at].free_at = done;
        done
    }

    /// Time to copy these bytes.
    fn copy_time(&self, bytes: u64) -> Span {
        Span::from_ps_f64(bytes as f64 * self.library.copy_ps_per_byte)
    }

    /// Whether what a process waits for has happened.
    fn is_over(&self, process: u16, wait: Wait) -> bool {
        let number = self.processes.len();
        let has_come = |from: usize| {
            let pair = &self.pairs[from * number + usize::from(process)];
            pair.come >= pair.asked
        };
        let is_sent = self.processes[usize::from(process)].open == 0;
        match wait {
            Wait::Sent(_) => false,
            Wait::Nothing => true,
            Wait::From(from) => has_come(usize::from(from)),
            Wait::All => is_sent && (0..number).all(has_come),
        }
    }

    /// Something has arrived for a process: it continues if that is what it waits for.
    fn continue_if_ready(&mut self, now: Time, process: u16, actions: &mut Actions) {
        let at = usize::from(process);
        let Some(wait) = self.processes[at].waits.filter(|_| self.fault.is_none()) else { return };
        let time = self.make_progress((now + self.poll).max(self.processes[at].free_at), process, actions);
        self.processes[at].free_at = time;
        if self.is_over(process, wait) {
            self.processes[at].waits = None;
            let time = self.copy(time, at);
            self.run_next_step(time, process, actions);
        }
    }

    /// The library makes progress: it answers announcements that have a posted receive, and sends messages that were answered.
    fn make_progress(&mut self, now: Time, process: u16, actions: &mut Actions) -> Time {
        let mut time = now;
        for (kind, sending) in std::mem::take(&mut self.unseen[usize::from(process)]) {
            let Sending { from, to, bytes, .. } = self.sendings[sending];
            if kind == Kind::Announce {
                time = self.post(time, Kind::Answer, sending, [to, from], CONTROL_BYTES, actions);
            } else {
                time = self.post(time, Kind::Data, sending, [from, to], bytes, actions);
                time = self.post(time, Kind::End, sending, [from, to], CONTROL_BYTES, actions);
            }
        }
        time
    }

    /// Starts a message. Returns when the process is free again, and what it has to wait for before it may reuse the message's memory.
    fn send(
        &mut self,
        now: Time,
        from: u16,
        to: u16,
        bytes: u64,
        actions: &mut Actions,
    ) -> (Time, Option<Wait>) {
        if self.in_flight == IN_FLIGHT_MAX {
            let operation = self.processes[usize::from(from)].at as u64;
            self.fault = Some(ProgramError::Full { process: from, operation });
            return (now, None);
        }
        self.in_flight += 1;
        let eager_bytes_max = self.library.eager_bytes_max;
        let is_near = self.processes[usize::from(from)].node == self.processes[usize::from(to)].node;
        let pair = self.pair(from, to);
        let is_copied = is_near || bytes <= eager_bytes_max && pair.has_buffer();
        let number = pair.sent;
        let [open, left] = if is_copied { [1, 1] } else { [3, 2] };
        pair.sent += 1;
        let sending = self.sendings.put(Sending { from, to, bytes, number, is_copied, open, left });
        if is_near {
            let copied = now + self.copy_time(bytes);
            actions.wake(copied + self.library.shared, 1 + self.processes.len() as u32 + sending);
            (copied, None)
        } else if is_copied {
            let copied = now + self.copy_time(bytes);
            (self.post(copied, Kind::Eager, sending, [from, to], bytes + CONTROL_BYTES, actions), None)
        } else {
            self.processes[usize::from(from)].open += 1;
            let posted = self.post(now, Kind::Announce, sending, [from, to], CONTROL_BYTES, actions);
            (posted, Some(Wait::Sent(sending)))
        }
    }

    /// Counts a part of a message as arrived, and frees the message after its last part.
    fn finish_part(&mut self, sending: u32) {
        let known = &mut self.sendings[sending];
        known.open -= 1;
        if known.open == 0 {
            self.sendings.free(sending);
            self.in_flight -= 1;
        }
    }

    /// Posts a packet of a message to the adapter. Returns when the process is free again.
    fn post(
        &mut self,
        now: Time,
        kind: Kind,
        sending: u32,
        [from, to]: [u16; 2],
        bytes: u64,
        actions: &mut Actions,
    ) -> Time {
        let number = self.processes.len();
        let qp = self.qps[usize::from(from) * number + usize::from(to)];
        let slot = u64::from(self.sendings[sending].number) % BUFFERS_PER_PEER;
        let buffer = |side: u16, peer: u16, half: u64| {
            let regions = self.processes[usize::from(side)].regions;
            let place = u64::from(peer);
            match kind {
                Kind::Data => {
                    Buffer { region: regions[1], offset: place * self.own_bytes, place: MemoryKind::Host }
                }
                _ => {
                    let at = (half * number as u64 + place) * BUFFERS_PER_PEER + slot;
                    Buffer { region: regions[0], offset: at * self.buffer_bytes(), place: MemoryKind::Host }
                }
            }
        };
        let (local, remote) = (buffer(from, to, 0), buffer(to, from, 1));
        let tag = kind.tag(sending);
        let posted = now + self.post;
        actions.post(posted, Work { verb: Verb::Write, qp, bytes, local, remote, tag });
        posted
    }

    /// A part of a message has arrived. Once all parts have, the message is in its place, or in a buffer from which it is copied. An
    /// announced message has two parts, its data and its end, in any order.
    fn arrived(&mut self, now: Time, sending: u32, actions: &mut Actions) {
        self.sendings[sending].left -= 1;
        let Sending { from, to, bytes, number, is_copied, left, .. } = self.sendings[sending];
        self.finish_part(sending);
        if left > 0 {
            return;
        }
        if is_copied {
            self.processes[usize::from(to)].uncopied += bytes;
        }
        self.pair(from, to).arrived(number);
        self.continue_if_ready(now, to, actions);
    }
}

impl Application for MpiApplication<'_> {
    fn delivered(&mut self, now: Time, work: &Work, actions: &mut Actions) {
        let (kind, sending) = Kind::of_tag(work.tag);
        let Sending { from, to, number, .. } = self.sendings[sending];
        match kind {
            Kind::Eager | Kind::Data | Kind::End => self.arrived(now, sending, actions),
            Kind::Announce => {
                let pair = self.pair(from, to);
                if pair.asked > number {
                    self.unseen[usize::from(to)].push((kind, sending));
                } else {
                    pair.announced.insert(number, sending);
                }
                self.continue_if_ready(now, to, actions);
            }
            Kind::Answer => {
                self.unseen[usize::from(from)].push((kind, sending));
                self.continue_if_ready(now, from, actions);
            }
        }
    }

    fn completed(&mut self, now: Time, work: &Work, _posted: Time, actions: &mut Actions) {
        let (kind, sending) = Kind::of_tag(work.tag);
        if kind == Kind::Data {
            let from = self.sendings[sending].from;
            let process = &mut self.processes[usize::from(from)];
            process.open -= 1;
            if process.waits == Some(Wait::Sent(sending)) {
                process.waits = Some(Wait::Nothing);
            }
            self.finish_part(sending);
            self.continue_if_ready(now, from, actions);
        }
    }

    fn woken(&mut self, now: Time, token: u32, actions: &mut Actions) {
        let number = self.processes.len() as u32;
        match token {
            0 => (0..number as u16).for_each(|process| self.run_next_step(now, process, actions)),
            token if token <= number => self.run_next_step(now, (token - 1) as u16, actions),
            token => self.arrived(now, token - 1 - number, actions),
        }
    }
}
