//! Adapters, event by event.
//!
//! What an adapter does for a message is a chain of jobs. A job first looks up the contexts that it needs, one after the other, and
//! waits for those that are fetched; then it does its work: reads memory, sends a packet, writes memory.

mod completing;
mod contexts;
mod receiving;
mod sending;

use super::adapter::{DOORBELL_BYTES, Node, Qp, Setup};
use super::icm::Layout;
use super::message::{Message, NONE, Place, Verb, Work};
use super::outcome::{NodeUsage, Outcome, RunError, Totals};
use crate::serial_server::schedule_at;
use crate::slab::Slab;
use des::{Calendar, Misuse, Model, Queue, Simulation, Span, Time, TimeAverage};

/// 100 days, of the 213 that there is room for.
const TIME_MAX_PS: u64 = 100 * 24 * 3600 * 1_000_000_000_000;

/// What uses adapters. It adds what it wants done to `actions`.
pub(super) trait Application {
    /// A message's bytes are in the memory where they go; with [`Verb::Send`] its receiver has been told.
    fn delivered(&mut self, now: Time, work: &Work, actions: &mut Actions);
    /// Who asked for it has been told.
    fn completed(&mut self, now: Time, work: &Work, posted: Time, actions: &mut Actions);
    /// A time has come that it asked for.
    fn woken(&mut self, now: Time, token: u32, actions: &mut Actions);
}

/// What an application asks the machine to do next.
#[derive(Debug, Default)]
pub(super) struct Actions {
    posts: Vec<(Time, Work)>,
    wakes: Vec<(Time, u32)>,
}

impl Actions {
    /// The doorbell of some work is rung at a time.
    pub(super) fn post(&mut self, at: Time, work: Work) {
        self.posts.push((at, work));
    }

    /// The application is woken.
    pub(super) fn wake(&mut self, at: Time, token: u32) {
        self.wakes.push((at, token));
    }
}

/// What happens: to a message, a job, a fetch of contexts, or the application.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A message's doorbell is rung.
    Posted(u32),
    /// That is at the adapter.
    Doorbell(u32),
    /// An engine is done with a job.
    Worked(u32),
    /// Memory has what a job reads.
    Answered(u32),
    /// The adapter has it.
    Read(u32),
    /// A job's packet is on the wire.
    Sent(u32),
    /// It is at the other adapter.
    Arrived(u32),
    /// All of a message is in memory.
    Placed(u32),
    /// A receiver's completion is.
    Notified(u32),
    /// That of who asked is.
    Completed(u32),
    /// Memory has a context.
    FetchAnswered(u32),
    /// The adapter has it.
    Fetched(u32),
    /// The application is woken.
    Woken(u32),
}

/// What a job is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Work of a queue is begun.
    Begin,
    /// A request to read goes to the other side, and is served there.
    Request,
    /// A packet of data is read and sent.
    Packet,
    /// The first packet of a send finds out where it goes.
    Accept,
    /// A packet of data is written to memory.
    Place,
    /// A receiver is told.
    Notify,
    /// An acknowledgement goes back, and who asked is told.
    Complete,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    stage: Stage,
    message: u32,
    /// Where it is.
    node: u16,
    /// Contexts that it has.
    step: u32,
    /// It waits for a fetch that is its own.
    is_owner: bool,
    /// Who waits behind it for the same fetch.
    next: u32,
    /// Of its packet, in the message.
    offset: u64,
    bytes: u64,
}

/// A fetch of contexts.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    node: u16,
    address: u64,
    bytes: u64,
    /// Bytes of the lines that were not there.
    missing: u64,
    /// Who waits for it.
    first: u32,
    last: u32,
}

/// All nodes, and what uses them.
#[derive(Debug)]
pub(super) struct Machine<A> {
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

/// Nodes before anything happens.
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

    /// Segments of translations that are taken, of the node with the most.
    pub(super) fn segments_max(&self) -> u64 {
        self.nodes.iter().map(Node::segments).max().unwrap_or_default()
    }

    /// Connects two nodes, which may be one, by a queue pair each, with these completion queues: the first node's is returned, the
    /// other's comes right behind it.
    pub(super) fn connect(&mut self, nodes: [u16; 2], cqs: [u32; 2]) -> u32 {
        let first = self.qps.len() as u32;
        for (end, peer) in [(0, first + 1), (1, first)] {
            let qp = self.node(nodes[end]).queue_pair(nodes[end], cqs[end]);
            self.qps.push(Qp { peer, ..qp });
        }
        first
    }
}

impl<A: Application> Machine<A> {
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

    /// Lets it run until nothing is left to do, after the application was woken with token 0.
    ///
    /// # Errors
    /// [`RunError`]
    pub(super) fn run<Q: Queue<Event>>(self) -> Result<(A, Outcome), RunError> {
        let mut simulation = Simulation::<_, Q>::on(self);
        simulation.calendar.schedule_in(Span::ZERO, Event::Woken(0));
        simulation.run();
        let (now, events) = (simulation.now(), simulation.handled());
        // Times that have no room are at the end of all that has, and so is the last event then.
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
            totals,
            elapsed: since_begin(now),
            events,
        })
    }

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

    /// Begins what the application has asked for.
    fn begin_asked(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for at in 0..self.actions.posts.len() {
            let (posted, work) = self.actions.posts[at];
            let message =
                self.messages.put(Message { work, posted, begun: 0, placed: 0, next: NONE, is_known: false });
            // A message is in flight from when its doorbell is rung.
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

    /// A job begins at a node.
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

    /// The end that asked for a message, and the other one.
    fn ends(&self, message: u32) -> [Qp; 2] {
        let qp = self.qps[self.messages[message].work.qp as usize];
        [qp, self.qps[qp.peer as usize]]
    }

    /// The end that data comes from, and the one that it goes to.
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
        place: Place,
        address: u64,
        bytes: u64,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let node = &mut self.nodes[usize::from(self.jobs[job].node)];
        match place {
            Place::Host => {
                let requested = node.lanes.request(now, address, bytes);
                schedule_at(calendar, requested + self.setup.host.read, Event::Answered(job));
            }
            Place::Adapter => {
                let taken = self.setup.adapter.transfer(bytes);
                let read = node.memory.occupy(now, taken) + self.setup.adapter.memory;
                schedule_at(calendar, read, Event::Read(job));
            }
        }
    }

    /// Writes memory, and says when that is done.
    fn write_memory(&mut self, now: Time, node: u16, place: Place, address: u64, bytes: u64) -> Time {
        let node = &mut self.nodes[usize::from(node)];
        match place {
            Place::Host => node.lanes.write(now, address, bytes) + half(self.setup.host.read),
            Place::Adapter => {
                node.memory.occupy(now, self.setup.adapter.transfer(bytes)) + half(self.setup.adapter.memory)
            }
        }
    }
}

impl<A: Application> Model for Machine<A> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if let Event::Posted(_) = event {
            // Time never goes back, which is all that this could refuse.
            let _ = self.in_flight.set(now, self.in_flight.level() + 1);
        }
        self.handle_one(now, event, calendar);
        self.begin_asked(now, calendar);
    }
}

fn half(span: Span) -> Span {
    Span::from_ps(span.as_ps() / 2)
}

fn since_begin(now: Time) -> Span {
    now.since(Time::ZERO).unwrap_or_default()
}

#[cfg(test)]
mod tests;
