//! The NIC model on `des`; docs/internals/des.md says what it is.

mod message;
mod parameters;
mod receive_ring;

pub(crate) use message::Message;
pub(crate) use parameters::Parameters;

use des::{Answer, Calendar, Misuse, Model, Queue, Resource, Simulation, Span, Stream, Time};
use receive_ring::{Landing, ReceiveRing};

/// What a flow, or else a ring, goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Its thread has thought.
    Thought {
        flow: u32,
    },
    /// Its CPU has done it.
    Worked {
        work: Work,
        flow: u32,
    },
    /// The line is free of it.
    Sent {
        message: Message,
        flow: u32,
    },
    Arrives {
        message: Message,
        flow: u32,
    },
    /// Memory has what was asked for.
    Read {
        request: Message,
        flow: u32,
    },
    /// The peer answers.
    Echoes {
        flow: u32,
    },
    /// Of moderation.
    TimerEnds {
        ring: u16,
        interrupts: u32,
    },
}

/// What a CPU does, for a flow; an interrupt, for a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Write,
    Interrupt,
    Poll,
}

struct Thread {
    ring: u16,
    stream: Stream,
    /// When it last began to write a frame.
    wrote: Time,
}

/// What happened since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// That came back to their thread.
    pub(crate) frames: u64,
    /// From thought to polled, all of them together.
    pub(crate) round_trips_ps: u128,
    /// Timers that ended after their interrupt.
    pub(crate) void_timers: u64,
}

pub(crate) struct Nic {
    parameters: Parameters,
    think: Span,
    /// By `Message`.
    spans: [Span; Message::ALL.len()],
    threads: Vec<Thread>,
    peer: Stream,
    /// By `Way`.
    pub(crate) lines: [Resource<(Message, u32)>; 4],
    /// One for each ring, as all that follows.
    pub(crate) cpus: Vec<Resource<(Work, u32)>>,
    /// What holds one is having its frame fetched.
    pub(crate) send_rings: Vec<Resource<u32>>,
    receive_rings: Vec<ReceiveRing>,
    pub(crate) tally: Tally,
}

impl Nic {
    pub(crate) fn new(parameters: &Parameters, flows: u32, seed: u64) -> Result<Self, Misuse> {
        let rings = parameters.rings;
        let thread = |flow: u32| Thread {
            ring: (flow % u32::from(rings)) as u16,
            stream: Stream::new(seed, u64::from(flow)),
            wrote: Time::ZERO,
        };
        Ok(Self {
            parameters: parameters.clone(),
            think: parameters.think(flows),
            spans: Message::ALL.map(|message| message.span(parameters)),
            threads: (0..flows).map(thread).collect(),
            peer: Stream::new(seed, u64::from(flows)),
            lines: [Resource::fifo(1)?, Resource::fifo(1)?, Resource::fifo(1)?, Resource::fifo(1)?],
            cpus: (0..rings).map(|_| Resource::fifo(1)).collect::<Result<_, _>>()?,
            send_rings: (0..rings).map(|_| Resource::fifo(1)).collect::<Result<_, _>>()?,
            receive_rings: (0..rings).map(|_| ReceiveRing::default()).collect(),
            tally: Tally::default(),
        })
    }

    /// All threads begin to think.
    pub(crate) fn simulation<Q: Queue<Event>>(self) -> Simulation<Self, Q> {
        let mut simulation = Simulation::with_queue(self);
        for flow in 0..simulation.model.threads.len() as u32 {
            simulation.model.think(flow, &mut simulation.calendar);
        }
        simulation
    }

    fn ring(&self, flow: u32) -> u16 {
        self.threads[flow as usize].ring
    }

    fn think(&mut self, flow: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let span = self.threads[flow as usize].stream.exponential(self.think);
        calendar.schedule_in(span, Event::Thought { flow });
    }

    fn work(
        &mut self,
        now: Time,
        ring: u16,
        task: (Work, u32),
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if self.cpus[usize::from(ring)].request(now, task) == Ok(Answer::Goes) {
            self.begin_work(task, calendar);
        }
    }

    fn begin_work(&self, (work, flow): (Work, u32), calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let cpu = &self.parameters.cpu;
        let span_ns = match work {
            Work::Write => cpu.write_ns,
            Work::Interrupt => cpu.interrupt_ns,
            Work::Poll => cpu.poll_ns,
        };
        calendar.schedule_in(Span::from_ns(span_ns), Event::Worked { work, flow });
    }

    fn worked(
        &mut self,
        now: Time,
        work: Work,
        flow: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let ring = if work == Work::Interrupt { flow as u16 } else { self.ring(flow) };
        if let Ok(Some(next)) = self.cpus[usize::from(ring)].release(now) {
            self.begin_work(next, calendar);
        }
        match work {
            Work::Write => self.send(now, Message::Doorbell, flow, calendar),
            Work::Interrupt => self.poll(now, ring, calendar),
            Work::Poll => {
                self.tally.frames += 1;
                let round_trip = now.since(self.threads[flow as usize].wrote).unwrap_or_default();
                self.tally.round_trips_ps += u128::from(round_trip.as_ps());
                self.think(flow, calendar);
                self.poll(now, ring, calendar);
            }
        }
    }

    fn poll(&mut self, now: Time, ring: u16, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if let Some(flow) = self.receive_rings[usize::from(ring)].poll() {
            self.work(now, ring, (Work::Poll, flow), calendar);
        }
    }

    fn send(
        &mut self,
        now: Time,
        message: Message,
        flow: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if self.lines[message.way() as usize].request(now, (message, flow)) == Ok(Answer::Goes) {
            self.begin_send(message, flow, calendar);
        }
    }

    fn begin_send(&self, message: Message, flow: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        calendar.schedule_in(self.spans[message as usize], Event::Sent { message, flow });
    }

    fn sent(
        &mut self,
        now: Time,
        message: Message,
        flow: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let way = message.way();
        let latency = Span::from_ns(way.line(&self.parameters).latency_ns);
        calendar.schedule_in(latency, Event::Arrives { message, flow });
        if let Ok(Some((message, flow))) = self.lines[way as usize].release(now) {
            self.begin_send(message, flow, calendar);
        }
    }

    fn arrives(
        &mut self,
        now: Time,
        message: Message,
        flow: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let ring = usize::from(if message == Message::Interrupt { flow as u16 } else { self.ring(flow) });
        match message {
            Message::Doorbell => {
                if self.send_rings[ring].request(now, flow) == Ok(Answer::Goes) {
                    self.send(now, Message::DescriptorRequest, flow, calendar);
                }
            }
            Message::DescriptorRequest | Message::PayloadRequest => {
                let span = Span::from_ns(self.parameters.memory_read_ns);
                calendar.schedule_in(span, Event::Read { request: message, flow });
            }
            Message::Descriptor => self.send(now, Message::PayloadRequest, flow, calendar),
            Message::Payload => {
                self.send(now, Message::Frame, flow, calendar);
                if let Ok(Some(next)) = self.send_rings[ring].release(now) {
                    self.send(now, Message::DescriptorRequest, next, calendar);
                }
            }
            Message::Frame => {
                let span = self.peer.exponential(Span::from_ns(self.parameters.echo_ns));
                calendar.schedule_in(span, Event::Echoes { flow });
            }
            Message::Echo => self.send(now, Message::Delivery, flow, calendar),
            Message::Delivery => self.land(now, ring as u16, flow, calendar),
            Message::Interrupt => self.work(now, ring as u16, (Work::Interrupt, flow), calendar),
        }
    }

    fn land(&mut self, now: Time, ring: u16, flow: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let moderation = &self.parameters.moderation;
        match self.receive_rings[usize::from(ring)].land(flow, moderation.frames) {
            Landing::Nothing => {}
            Landing::Timer(interrupts) => {
                let wait = Span::from_ns(moderation.wait_ns);
                calendar.schedule_in(wait, Event::TimerEnds { ring, interrupts });
            }
            Landing::Interrupt => self.send(now, Message::Interrupt, u32::from(ring), calendar),
        }
    }
}

impl Model for Nic {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Thought { flow } => {
                self.threads[flow as usize].wrote = now;
                self.work(now, self.ring(flow), (Work::Write, flow), calendar);
            }
            Event::Worked { work, flow } => self.worked(now, work, flow, calendar),
            Event::Sent { message, flow } => self.sent(now, message, flow, calendar),
            Event::Arrives { message, flow } => self.arrives(now, message, flow, calendar),
            Event::Read { request: Message::DescriptorRequest, flow } => {
                self.send(now, Message::Descriptor, flow, calendar)
            }
            Event::Read { flow, .. } => self.send(now, Message::Payload, flow, calendar),
            Event::Echoes { flow } => self.send(now, Message::Echo, flow, calendar),
            Event::TimerEnds { ring, interrupts } => {
                if self.receive_rings[usize::from(ring)].timer_ends(interrupts) {
                    self.send(now, Message::Interrupt, u32::from(ring), calendar);
                } else {
                    self.tally.void_timers += 1;
                }
            }
        }
    }
}
