//! Processes that pass messages, as MPI's do, over adapters and shared memory.
//!
//! Short messages are copied to buffers that both sides have registered before, and written into the receiver's by RDMA. Longer ones
//! are announced; once the receiver, inside the library, has a place for one, the sender writes it there and tells so (Liu, Wu and
//! Panda, "High performance RDMA-based MPI implementation over InfiniBand", 2003). So are short ones for which no buffer is free.
//! Processes of a node copy through shared memory. Messages from one process to another are received in the order in which they are
//! sent.

use super::adapter::Setup;
use super::icm::{PAGE_BYTES, PAGES_PER_SEGMENT};
use super::machine::{Actions, Application, Event, Machine, Nodes};
use super::message::{Buffer, NONE, Place, Verb, Work};
use super::outcome::{Outcome, RunError};
use crate::slab::Slab;
use des::{Heap, Queue, Span, Time, Wheel};
use std::collections::{BTreeMap, VecDeque};

/// What a process does next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// It computes.
    Compute(Span),
    /// It sends, and goes on once the message's memory is its own again.
    Send {
        /// To whom.
        to: u16,
        /// How much.
        bytes: u64,
    },
    /// It waits for the next message of a process.
    Receive {
        /// Of whom.
        from: u16,
    },
    /// It begins to send, and goes on.
    BeginSend {
        /// To whom.
        to: u16,
        /// How much.
        bytes: u64,
    },
    /// It has a place for another message of a process, and goes on.
    BeginReceive {
        /// Of whom.
        from: u16,
    },
    /// It waits for all that it has begun.
    WaitAll,
}

/// What processes do, over and over.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// By process.
    pub ops: Vec<Vec<Op>>,
    /// How often, after once that is not measured.
    pub rounds: u32,
}

/// What the library takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Library {
    /// Processes on a node, the first ones on the first.
    pub processes_per_node: u16,
    /// Longer messages are announced.
    pub eager_bytes_max: u64,
    /// What a CPU takes to copy.
    pub copy_ps_per_byte: f64,
    /// What a call takes besides.
    pub call: Span,
    /// From a process to another of its node, besides copying.
    pub shared: Span,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// How long a round took, on average.
    pub round: Span,
    /// Messages of a round, and their bytes.
    pub messages: u64,
    /// See there.
    pub bytes: u64,
    /// Messages that were sent and that nobody has received, or has a place for.
    pub unreceived: u64,
    /// Everything else.
    pub outcome: Outcome,
}

/// Why a program has no end.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProgramError {
    /// It waits for what nobody sends, or takes.
    #[error("process {process} waits for ever in its operation {operation}")]
    Stuck {
        /// Which process.
        process: u16,
        /// Counted from 1.
        operation: u64,
    },
    /// It sends faster than anybody receives.
    #[error(
        "process {process} sends with its operation {operation} what is one of more than {UNDER_WAY_MAX} messages in flight"
    )]
    Full {
        /// Which process.
        process: u16,
        /// Counted from 1.
        operation: u64,
    },
    /// Its buffers have more pages than there are translations of.
    #[error(
        "the buffers of a node's processes have {pages} pages; an adapter has translations of {pages_max}"
    )]
    Memory {
        /// Of all its processes.
        pages: u64,
        /// In the adapter's tables.
        pages_max: u64,
    },
    /// Nobody would see its end.
    #[error("its messages have {packets} packets; at most {PACKETS_MAX} are carried out")]
    TooMuch {
        /// Of all rounds.
        packets: u64,
    },
    /// See there.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ProgramError {
    /// The process that it is about, and which of its operations, counted from 1.
    pub fn operation(&self) -> Option<(u16, u64)> {
        match self {
            Self::Stuck { process, operation } | Self::Full { process, operation } => {
                Some((*process, *operation))
            }
            Self::Memory { .. } | Self::TooMuch { .. } | Self::Run(_) => None,
        }
    }
}

/// Messages in flight, of all processes together.
const UNDER_WAY_MAX: u32 = 1 << 18;
/// Packets that a run carries out at most, which take some minutes.
pub(super) const PACKETS_MAX: u64 = 1 << 26;

/// Bytes of what only says something: an announcement, its answer, the end.
const CONTROL_BYTES: u64 = 64;
/// Buffers that each process has for each other one's short messages.
const BUFFERS_PER_PEER: u64 = 32;
/// Bytes of a process's own memory that messages with each other one come from and go to, at least.
const OWN_BYTES_PER_PEER: u64 = 4 << 20;

/// Runs a program.
///
/// # Errors
/// [`ProgramError`]
pub fn run_program(setup: &Setup, library: &Library, program: &Program) -> Result<Ran, ProgramError> {
    run_on::<Wheel<Event>>(setup, library, program)
}

/// The same on the reference calendar, a plain heap.
///
/// # Errors
/// As [`run_program`].
pub fn run_program_on_heap(setup: &Setup, library: &Library, program: &Program) -> Result<Ran, ProgramError> {
    run_on::<Heap<Event>>(setup, library, program)
}

fn run_on<Q: Queue<Event>>(setup: &Setup, library: &Library, program: &Program) -> Result<Ran, ProgramError> {
    let packets = packets(program, setup.wire.mtu_bytes);
    if packets > PACKETS_MAX {
        return Err(ProgramError::TooMuch { packets });
    }
    let mut world = World::new(setup, library, program);
    let nodes = world.connect(setup);
    let [pages, pages_max] =
        [nodes.segments_max(), setup.adapter.profile.segments].map(|segments| segments * PAGES_PER_SEGMENT);
    if pages > pages_max {
        return Err(ProgramError::Memory { pages, pages_max });
    }
    let (world, outcome) = Machine::new(nodes, world).run::<Q>()?;
    world.ran(outcome)
}

/// Bytes of each message of a round.
fn messages(program: &Program) -> impl Iterator<Item = u64> {
    program.ops.iter().flatten().filter_map(|op| match op {
        Op::Send { bytes, .. } | Op::BeginSend { bytes, .. } => Some(*bytes),
        Op::Compute(_) | Op::Receive { .. } | Op::BeginReceive { .. } | Op::WaitAll => None,
    })
}

/// Packets of all rounds.
fn packets(program: &Program, mtu_bytes: u64) -> u64 {
    let in_round = messages(program).map(|bytes| bytes.div_ceil(mtu_bytes.max(1)).max(1));
    let in_round = in_round.fold(0, u64::saturating_add);
    in_round.saturating_mul(u64::from(program.rounds) + 1)
}

/// A process.
#[derive(Debug, Clone, Copy)]
struct Process {
    node: u16,
    at: usize,
    round: u32,
    waits: Option<Wait>,
    is_done: bool,
    /// Up to when it is busy.
    free_at: Time,
    /// Long messages that it sends and that are not done.
    open: u32,
    /// Bytes that have come into buffers, to be copied.
    uncopied: u64,
    /// Registered buffers, and its own memory.
    regions: [u32; 2],
}

/// What a process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Its memory, which a message comes from.
    Sent(u32),
    /// Nothing any more.
    Nothing,
    /// What it has asked of a process.
    From(u16),
    /// Everything.
    All,
}

/// Messages from one process to another.
#[derive(Debug, Clone, Default)]
struct Pair {
    sent: u32,
    /// Places for them.
    asked: u32,
    /// Those that have come, without a gap.
    come: u32,
    /// Of those behind, which have.
    ahead: VecDeque<bool>,
    /// Announced ones for which there is no place, by their number.
    announced: BTreeMap<u32, u32>,
}

impl Pair {
    /// Whether there is a buffer for another short message: others have been received, as if that were known at once.
    fn has_buffer(&self) -> bool {
        u64::from(self.sent - self.come.min(self.asked).min(self.sent)) < BUFFERS_PER_PEER
    }

    /// A message has come.
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
    /// Short enough for a buffer, and copied out of it.
    is_copied: bool,
    /// What is still to come of it: its bytes; the word that all is there, of an announced one; and that its memory is free again.
    open: u8,
    /// The same at the end that receives.
    left: u8,
}

/// What a message between adapters is.
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

    fn tag(self, sending: u32) -> u64 {
        u64::from(sending) << 3 | self as u64
    }

    fn of(tag: u64) -> (Self, u32) {
        (Self::ALL[(tag & 7) as usize % Self::ALL.len()], (tag >> 3) as u32)
    }
}

#[derive(Debug)]
struct World<'a> {
    library: &'a Library,
    program: &'a Program,
    post: Span,
    poll: Span,
    /// Of a process's own memory, for each other one.
    own_bytes: u64,
    processes: Vec<Process>,
    pairs: Vec<Pair>,
    /// From each process to each other.
    qps: Vec<u32>,
    sendings: Slab<Sending>,
    in_flight: u32,
    /// What a process does about messages once it is inside the library, by process: it answers announcements for which it has a
    /// place, and sends what was answered.
    unseen: Vec<Vec<(Kind, u32)>>,
    /// Nothing goes on after that.
    fault: Option<ProgramError>,
    /// When all had done a round.
    first_round: Time,
    last_round: Time,
}

impl<'a> World<'a> {
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

    /// Registers memory, and connects all processes that are not of one node.
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

    fn buffer_bytes(&self) -> u64 {
        (self.library.eager_bytes_max + CONTROL_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn ran(self, outcome: Outcome) -> Result<Ran, ProgramError> {
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
        Ok(Ran { round, messages: count, bytes: messages(self.program).sum(), unreceived, outcome })
    }

    fn pair(&mut self, from: u16, to: u16) -> &mut Pair {
        let number = self.processes.len();
        &mut self.pairs[usize::from(from) * number + usize::from(to)]
    }

    /// A process goes on from a time, until it has to wait or to compute.
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
            time = self.see(time + self.library.call, process, actions);
            let waits = match op {
                Op::Compute(_) => None,
                Op::BeginReceive { from } => {
                    time = self.ask(time, process, from, actions);
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
                    time = self.ask(time, process, from, actions);
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

    /// A process has a place for another message of one.
    fn ask(&mut self, now: Time, process: u16, from: u16, actions: &mut Actions) -> Time {
        let pair = self.pair(from, process);
        pair.asked += 1;
        let answered = pair.announced.remove(&(pair.asked - 1));
        self.unseen[usize::from(process)].extend(answered.map(|sending| (Kind::Announce, sending)));
        self.see(now, process, actions)
    }

    /// The program begins anew; not once it was done often enough.
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

    /// What has come into buffers is copied to where it belongs.
    fn copy(&mut self, now: Time, at: usize) -> Time {
        let bytes = std::mem::take(&mut self.processes[at].uncopied);
        let done = now + self.copying(bytes);
        self.processes[at].free_at = done;
        done
    }

    fn copying(&self, bytes: u64) -> Span {
        Span::from_ps_f64(bytes as f64 * self.library.copy_ps_per_byte)
    }

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

    /// Something came: a process that waits looks whether that was it.
    fn came(&mut self, now: Time, process: u16, actions: &mut Actions) {
        let at = usize::from(process);
        let Some(wait) = self.processes[at].waits.filter(|_| self.fault.is_none()) else { return };
        let time = self.see((now + self.poll).max(self.processes[at].free_at), process, actions);
        self.processes[at].free_at = time;
        if self.is_over(process, wait) {
            self.processes[at].waits = None;
            let time = self.copy(time, at);
            self.run_next_step(time, process, actions);
        }
    }

    /// Inside the library, a process answers what was announced and has a place, and sends what was answered.
    fn see(&mut self, now: Time, process: u16, actions: &mut Actions) -> Time {
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

    /// Begins a message, and says when the process is free again, and what it waits for if it wants its memory.
    fn send(
        &mut self,
        now: Time,
        from: u16,
        to: u16,
        bytes: u64,
        actions: &mut Actions,
    ) -> (Time, Option<Wait>) {
        if self.in_flight == UNDER_WAY_MAX {
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
            let copied = now + self.copying(bytes);
            actions.wake(copied + self.library.shared, 1 + self.processes.len() as u32 + sending);
            (copied, None)
        } else if is_copied {
            let copied = now + self.copying(bytes);
            (self.post(copied, Kind::Eager, sending, [from, to], bytes + CONTROL_BYTES, actions), None)
        } else {
            self.processes[usize::from(from)].open += 1;
            let posted = self.post(now, Kind::Announce, sending, [from, to], CONTROL_BYTES, actions);
            (posted, Some(Wait::Sent(sending)))
        }
    }

    /// Something that was to come of a message has come.
    fn close(&mut self, sending: u32) {
        let known = &mut self.sendings[sending];
        known.open -= 1;
        if known.open == 0 {
            self.sendings.free(sending);
            self.in_flight -= 1;
        }
    }

    /// Puts a message for the adapter into its queue.
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
                    Buffer { region: regions[1], offset: place * self.own_bytes, place: Place::Host }
                }
                _ => {
                    let at = (half * number as u64 + place) * BUFFERS_PER_PEER + slot;
                    Buffer { region: regions[0], offset: at * self.buffer_bytes(), place: Place::Host }
                }
            }
        };
        let (local, remote) = (buffer(from, to, 0), buffer(to, from, 1));
        let tag = kind.tag(sending);
        let posted = now + self.post;
        actions.post(posted, Work { verb: Verb::Write, qp, bytes, local, remote, tag });
        posted
    }

    /// A message is where it belongs, or in a buffer that it has to be copied from; of an announced one both its bytes and the word
    /// that they are there, whichever comes first.
    fn arrived(&mut self, now: Time, sending: u32, actions: &mut Actions) {
        self.sendings[sending].left -= 1;
        let Sending { from, to, bytes, number, is_copied, left, .. } = self.sendings[sending];
        self.close(sending);
        if left > 0 {
            return;
        }
        if is_copied {
            self.processes[usize::from(to)].uncopied += bytes;
        }
        self.pair(from, to).arrived(number);
        self.came(now, to, actions);
    }
}

impl Application for World<'_> {
    fn delivered(&mut self, now: Time, work: &Work, actions: &mut Actions) {
        let (kind, sending) = Kind::of(work.tag);
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
                self.came(now, to, actions);
            }
            Kind::Answer => {
                self.unseen[usize::from(from)].push((kind, sending));
                self.came(now, from, actions);
            }
        }
    }

    fn completed(&mut self, now: Time, work: &Work, _posted: Time, actions: &mut Actions) {
        let (kind, sending) = Kind::of(work.tag);
        if kind == Kind::Data {
            let from = self.sendings[sending].from;
            let process = &mut self.processes[usize::from(from)];
            process.open -= 1;
            if process.waits == Some(Wait::Sent(sending)) {
                process.waits = Some(Wait::Nothing);
            }
            self.close(sending);
            self.came(now, from, actions);
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
