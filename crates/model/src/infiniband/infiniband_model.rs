//! The simulated machine: all nodes and adapters, event by event.
//!
//! An adapter processes a message as a chain of jobs. A job first looks up its contexts one by one, and waits for
//! those that miss. Then it does its work: it reads memory, sends a packet, or writes memory.

mod completing;
mod contexts;
mod receiving;
mod sending;

use super::hca::{DOORBELL_BYTES, Node, Qp, Setup};
use super::icm::Layout;
use super::message::{MemoryKind, Message, NONE, Verb, Work};
use super::outcome::{ContextUse, NodeUsage, Outcome, RunError, Totals};
use crate::serial_server::schedule_at;
use crate::slab::Slab;
use des::{Calendar, Misuse, Model, Queue, Simulation, Span, Time, TimeAverage};

/// 100 days, of the 213 that there is room for.
const TIME_MAX_PS: u64 = 100 * 24 * 3600 * 1_000_000_000_000;

/// An application on the adapters. It appends its requests to `actions`.
pub(super) trait Application {
    /// A message's data is in memory. With [`Verb::Send`] the receiver has its completion.
    fn delivered(&mut self, now: Time, work: &Work, actions: &mut Actions);
    /// The requester has its completion.
    fn completed(&mut self, now: Time, work: &Work, posted: Time, actions: &mut Actions);
    /// A requested wake-up.
    fn woken(&mut self, now: Time, token: u32, actions: &mut Actions);
}

/// Requests of an application.
#[derive(Debug, Default)]
pub(super) struct Actions {
    posts: Vec<(Time, Work)>,
    wakes: Vec<(Time, u32)>,
    /// What the adapters did with contexts so far.
    pub(super) contexts: ContextUse,
}

impl Actions {
    /// Rings the doorbell for some work at a time.
    pub(super) fn post(&mut self, at: Time, work: Work) {
        self.posts.push((at, work));
    }

    /// Wakes the application at a time.
    pub(super) fn wake(&mut self, at: Time, token: u32) {
        self.wakes.push((at, token));
    }
}

/// Events of messages, jobs, context fetches, and the application.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A doorbell is rung.
    Posted(u32),
    /// The doorbell write arrives at the adapter.
    Doorbell(u32),
    /// An engine has processed a job.
    Worked(u32),
    /// Memory answers a job's read.
    Answered(u32),
    /// The data has arrived at the adapter.
    Read(u32),
    /// A job's packet has been sent.
    Sent(u32),
    /// It arrives at the other adapter.
    Arrived(u32),
    /// All data of a message is in memory.
    Placed(u32),
    /// The receiver's completion is in memory.
    Notified(u32),
    /// The requester's completion is in memory.
    Completed(u32),
    /// Memory answers a context fetch.
    FetchAnswered(u32),
    /// The context has arrived.
    Fetched(u32),
    /// The application is woken.
    Woken(u32),
}

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Start of a work request.
    Begin,
    /// An RDMA read request, served at the other side.
    Request,
    /// A data packet to be read from memory and sent.
    Packet,
    /// Lookup of the receive queue by the first packet of a send.
    Accept,
    /// A data packet to be written to memory.
    WritePacket,
    /// The receiver's completion.
    Notify,
    /// An acknowledgement, and the requester's completion.
    Complete,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    stage: Stage,
    message: u32,
    /// Its node.
    node: u16,
    /// Number of contexts that it has.
    step: u32,
    /// It waits for its own fetch.
    is_owner: bool,
    /// The next job that waits for the same fetch.
    next: u32,
    /// Offset of its packet in the message.
    offset: u64,
    bytes: u64,
}

/// A context fetch.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    node: u16,
    address: u64,
    bytes: u64,
    /// Bytes of the missing lines.
    missing: u64,
    /// First of the jobs that wait for it.
    first: u32,
    last: u32,
}

/// All nodes, and the application.
#[derive(Debug)]
pub(super) struct InfinibandModel<A> {
    setup: Setup,
    layout: Layout,
    nodes: Vec<Node>,
    qps: Vec<Qp>,
    messages: Slab<Message>,
    jobs: Slab<Job>,
    fetches: Slab<Fetch>,
    pub(super) application: A,
    actions: Actions,
    totals: Totals,
    in_flight: TimeAverage,
    stayed: u128,
}

/// Nodes in their initial state.
#[derive(Debug)]
pub(super) struct Nodes {
    setup: Setup,
    nodes: Vec<Node>,
    qps: Vec<Qp>,
}

impl Nodes {
    pub(super) fn new(setup: &Setup, nodes: u16) -> Self {
        let all = (0..nodes).map(|node| Node::new(setup, node)).collect();
        Self { setup: setup.clone(), nodes: all, qps: Vec::new() }
    }

    pub(super) fn node(&mut self, node: u16) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    /// Most translation segments in use on any node.
    pub(super) fn segments_max(&self) -> u64 {
        self.nodes.iter().map(Node::segments).max().unwrap_or_default()
    }

    /// Connects two nodes, which may be the same, by a queue pair each with these completion queues. Returns the
    /// first node's queue pair; the other one has the next number.
    pub(super) fn connect(&mut self, nodes: [u16; 2], cqs: [u32; 2]) -> u32 {
        let first = self.qps.len() as u32;
        for (end, peer) in [(0, first + 1), (1, first)] {
            let qp = self.node(nodes[end]).queue_pair(nodes[end], cqs[end]);
            self.qps.push(Qp { peer, ..qp });
        }
        first
    }
}

impl<A: Application> InfinibandModel<A> {
    pub(super) fn new(nodes: Nodes, application: A) -> Self {
        let Nodes { setup, nodes, qps } = nodes;
        Self {
            layout: Layout::new(setup.adapter.profile),
            setup,
            nodes,
            qps,
            messages: Slab::default(),
            jobs: Slab::default(),
            fetches: Slab::default(),
            application,
            actions: Actions::default(),
            totals: Totals::default(),
            in_flight: TimeAverage::default(),
            stayed: 0,
        }
    }

    /// Wakes the application with token 0, and runs until no event is left.
    ///
    /// # Errors
    /// [`RunError`]
    pub(super) fn run<Q: Queue<Event>>(self) -> Result<(A, Outcome), RunError> {
        let mut simulation = Simulation::<_, Q>::with_queue(self);
        simulation.calendar.schedule_in(Span::ZERO, Event::Woken(0));
        simulation.run();
        let (now, events) = (simulation.now(), simulation.handled());
        // A time beyond the last one is set to the last one, so the last event tells.
        if now.as_ps() > TIME_MAX_PS {
            return Err(RunError::TooLong);
        }
        let outcome = simulation.model.outcome(now, events)?;
        Ok((simulation.model.application, outcome))
    }

    fn outcome(&self, now: Time, events: u64) -> Result<Outcome, Misuse> {
        let share = |span: Span| span.as_ps_f64() / now.as_ps().max(1) as f64;
        let node = |node: &Node| {
            let [up, down] = node.lanes.busy(now);
            NodeUsage {
                looked_up: node.cache.looked_up,
                missed: node.cache.missed,
                fetched_bytes: node.fetched_bytes,
                written_back_bytes: node.written_back_bytes,
                up_busy_share: share(up),
                down_busy_share: share(down),
                port_busy_share: share(node.port.busy(now)),
                egress_busy_share: share(node.egress.busy(now)),
                memory_busy_share: share(node.memory.busy(now)),
                send_busy_share: share(node.send.busy(now)),
                receive_busy_share: share(node.receive.busy(now)),
            }
        };
        let totals = Totals {
            in_flight_ps: self.in_flight.integral_ps(now)?,
            stayed_ps: self.stayed,
            left: self.in_flight.level(),
            ..self.totals
        };
        Ok(Outcome {
            nodes: self.nodes.iter().map(node).collect(),
            contexts: self.actions.contexts,
            totals,
            elapsed: since_begin(now),
            events,
        })
    }

    /// Handles an event, without what the application then does.
    fn handle_one(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Posted(message) => {
                let node = self.qps[self.messages[message].work.qp as usize].node;
                let rung = self.nodes[usize::from(node)].lanes.doorbell(now, DOORBELL_BYTES);
                schedule_at(calendar, rung + half(self.setup.host.read), Event::Doorbell(message));
            }
            Event::Doorbell(message) => {
                let number = self.qps[self.messages[message].work.qp as usize].node;
                let node = &mut self.nodes[usize::from(number)];
                node.doorbells.push_back(message);
                self.begin_works(now, number, calendar);
            }
            Event::Worked(job) => self.worked(now, job, calendar),
            Event::Answered(job) => self.answered(now, job, calendar),
            Event::Read(job) => self.read(now, job, calendar),
            Event::Sent(job) => self.sent(now, job, calendar),
            Event::Arrived(job) => self.arrived(now, job, calendar),
            Event::Placed(message) => self.placed(now, message, calendar),
            Event::Notified(message) => self.delivered(now, message),
            Event::Completed(message) => self.completed(now, message),
            Event::FetchAnswered(fetch) => self.fetch_answered(now, fetch, calendar),
            Event::Fetched(fetch) => self.fetched(now, fetch, calendar),
            Event::Woken(token) => self.application.woken(now, token, &mut self.actions),
        }
    }

    /// Executes an application's requests.
    fn begin_asked(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for at in 0..self.actions.posts.len() {
            let (posted, work) = self.actions.posts[at];
            let message =
                self.messages.put(Message { work, posted, begun: 0, placed: 0, next: NONE, is_known: false });
            // A message is in flight from its doorbell on.
            self.totals.posted += 1;
            schedule_at(calendar, posted.max(now), Event::Posted(message));
        }
        self.actions.posts.clear();
        for at in 0..self.actions.wakes.len() {
            let (woken, token) = self.actions.wakes[at];
            schedule_at(calendar, woken.max(now), Event::Woken(token));
        }
        self.actions.wakes.clear();
    }

    /// Starts a job on a node.
    fn start(
        &mut self,
        now: Time,
        stage: Stage,
        message: u32,
        node: u16,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let job = Job { stage, message, node, step: 0, is_owner: false, next: NONE, offset: 0, bytes: 0 };
        let job = self.jobs.put(job);
        self.advance(now, job, calendar);
    }

    /// The requester's end and the responder's end.
    fn ends(&self, message: u32) -> [Qp; 2] {
        let qp = self.qps[self.messages[message].work.qp as usize];
        [qp, self.qps[qp.peer as usize]]
    }

    /// The end that sends the data and the end that receives it.
    fn data_ends(&self, message: u32) -> [Qp; 2] {
        let [asking, other] = self.ends(message);
        match self.messages[message].work.verb {
            Verb::Send | Verb::Write => [asking, other],
            Verb::Read => [other, asking],
        }
    }

    /// Reads memory for a job.
    fn read_memory(
        &mut self,
        now: Time,
        job: u32,
        place: MemoryKind,
        address: u64,
        bytes: u64,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let node = &mut self.nodes[usize::from(self.jobs[job].node)];
        match place {
            MemoryKind::Host => {
                let requested = node.lanes.request(now, address, bytes);
                schedule_at(calendar, requested + self.setup.host.read, Event::Answered(job));
            }
            MemoryKind::Adapter => {
                let taken = self.setup.adapter.transfer(bytes);
                let read = node.memory.occupy(now, taken) + self.setup.adapter.memory;
                schedule_at(calendar, read, Event::Read(job));
            }
        }
    }

    /// Writes memory for a job. Returns when that is done.
    fn write_memory(&mut self, now: Time, node: u16, place: MemoryKind, address: u64, bytes: u64) -> Time {
        let node = &mut self.nodes[usize::from(node)];
        match place {
            MemoryKind::Host => node.lanes.write(now, address, bytes) + half(self.setup.host.read),
            MemoryKind::Adapter => {
                node.memory.occupy(now, self.setup.adapter.transfer(bytes)) + half(self.setup.adapter.memory)
            }
        }
    }
}

impl<A: Application> Model for InfinibandModel<A> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if let Event::Posted(_) = event {
            // Can't fail: simulated time never goes back.
            let _ = self.in_flight.set(now, self.in_flight.level() + 1);
        }
        self.handle_one(now, event, calendar);
        self.begin_asked(now, calendar);
    }
}

fn half(span: Span) -> Span {
    Span::from_ps(span.as_ps() / 2)
}

/// The time since the simulation began.
fn since_begin(now: Time) -> Span {
    now.since(Time::ZERO).unwrap_or_default()
}

#[cfg(test)]
mod tests;
