//! The host: threads, CPUs, memory, and the rings where frames land.

use super::{EVENTS, FRAMES, Message, Parameters, ROUND_TRIPS_PS, Task, Transfer, delay};
use des::{Span, Stream};
use nexosim::{
    model::{Context, Model, schedulable},
    ports::Output,
    simulation::EventKey,
    time::MonotonicTime,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Serialize, Deserialize)]
pub struct Host {
    pub down: Output<Transfer>,
    pub interrupts: Output<Transfer>,
    parameters: Parameters,
    /// Of the mean, the picoseconds.
    think_ps: u64,
    #[serde(skip)]
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    rings: Vec<ReceiveRing>,
}

struct Thread {
    stream: Stream,
    wrote: MonotonicTime,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Cpu {
    is_busy: bool,
    waiting: VecDeque<Work>,
}

/// What a CPU does, for a flow; an interrupt, for a ring.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Work {
    Write(u32),
    Interrupt(u32),
    Poll(u32),
}

/// Interrupts are moderated by count and by time, and are off from one until the ring was found empty.
#[derive(Default, Serialize, Deserialize)]
struct ReceiveRing {
    frames: VecDeque<u32>,
    is_served: bool,
    timer: Option<EventKey>,
}

#[Model]
impl Host {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        (0..self.threads.len() as u32).for_each(|flow| self.think(flow, cx));
    }

    fn think(&mut self, flow: u32, cx: &Context<Self>) {
        let span = self.threads[flow as usize].stream.exponential(Span::from_ps(self.think_ps));
        cx.schedule_event(delay(span), schedulable!(Self::write), flow).expect("it is to come");
    }

    #[nexosim(schedulable)]
    fn write(&mut self, flow: u32, cx: &Context<Self>) {
        EVENTS.add(1);
        self.threads[flow as usize].wrote = cx.time();
        self.work(Work::Write(flow), cx);
    }

    /// From the adapter.
    pub async fn receive(&mut self, Transfer { message, flow }: Transfer, cx: &Context<Self>) {
        match message {
            Message::DescriptorRequest => self.read(Message::Descriptor, flow, cx),
            Message::PayloadRequest => self.read(Message::Payload, flow, cx),
            Message::Delivery => self.land(flow, cx).await,
            Message::Interrupt => self.work(Work::Interrupt(flow), cx),
            _ => {}
        }
    }

    fn read(&mut self, message: Message, flow: u32, cx: &Context<Self>) {
        let span = delay(Span::from_ns(self.parameters.memory_read_ns));
        cx.schedule_event(span, schedulable!(Self::answer), Transfer { message, flow })
            .expect("it is to come");
    }

    #[nexosim(schedulable)]
    async fn answer(&mut self, transfer: Transfer) {
        EVENTS.add(1);
        self.down.send(transfer).await;
    }

    fn work(&mut self, work: Work, cx: &Context<Self>) {
        let cpu = &mut self.cpus[work.ring(self.parameters.rings)];
        if cpu.is_busy {
            cpu.waiting.push_back(work);
        } else {
            cpu.is_busy = true;
            self.begin(work, cx);
        }
    }

    fn begin(&self, work: Work, cx: &Context<Self>) {
        let cost = &self.parameters.cpu;
        let span_ns = match work {
            Work::Write(_) => cost.write_ns,
            Work::Interrupt(_) => cost.interrupt_ns,
            Work::Poll(_) => cost.poll_ns,
        };
        cx.schedule_event(delay(Span::from_ns(span_ns)), schedulable!(Self::worked), work)
            .expect("it is to come");
    }

    #[nexosim(schedulable)]
    async fn worked(&mut self, work: Work, cx: &Context<Self>) {
        EVENTS.add(1);
        let ring = work.ring(self.parameters.rings);
        match self.cpus[ring].waiting.pop_front() {
            Some(next) => self.begin(next, cx),
            None => self.cpus[ring].is_busy = false,
        }
        match work {
            Work::Write(flow) => self.down.send(Transfer { message: Message::Doorbell, flow }).await,
            Work::Interrupt(_) => self.poll(ring, cx),
            Work::Poll(flow) => {
                FRAMES.add(1);
                let round_trip = cx.time().duration_since(self.threads[flow as usize].wrote);
                ROUND_TRIPS_PS.add(round_trip.as_nanos() as u64);
                self.think(flow, cx);
                self.poll(ring, cx);
            }
        }
    }

    fn poll(&mut self, ring: usize, cx: &Context<Self>) {
        match self.rings[ring].frames.pop_front() {
            Some(flow) => self.work(Work::Poll(flow), cx),
            None => self.rings[ring].is_served = false,
        }
    }

    async fn land(&mut self, flow: u32, cx: &Context<Self>) {
        let number = flow as usize % self.rings.len();
        let ring = &mut self.rings[number];
        ring.frames.push_back(flow);
        if ring.is_served {
            return;
        }
        if ring.frames.len() >= self.parameters.moderation.frames {
            self.interrupt(number).await;
        } else if ring.frames.len() == 1 {
            let wait = delay(Span::from_ns(self.parameters.moderation.wait_ns));
            let timer = cx.schedule_keyed_event(wait, schedulable!(Self::time_out), number);
            ring.timer = Some(timer.expect("it is to come"));
        }
    }

    #[nexosim(schedulable)]
    async fn time_out(&mut self, ring: usize) {
        EVENTS.add(1);
        self.rings[ring].timer = None;
        self.interrupt(ring).await;
    }

    async fn interrupt(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        ring.is_served = true;
        if let Some(timer) = ring.timer.take() {
            timer.cancel();
        }
        self.interrupts.send(Transfer { message: Message::Interrupt, flow: number as u32 }).await;
    }
}

impl Work {
    fn ring(self, rings: u16) -> usize {
        match self {
            Self::Write(flow) | Self::Poll(flow) => flow as usize % usize::from(rings),
            Self::Interrupt(ring) => ring as usize,
        }
    }
}

impl Host {
    pub fn new(parameters: &Parameters, task: &Task) -> Self {
        let thread =
            |flow| Thread { stream: Stream::new(task.seed, u64::from(flow)), wrote: MonotonicTime::EPOCH };
        let rings = usize::from(parameters.rings);
        Self {
            down: Output::default(),
            interrupts: Output::default(),
            parameters: parameters.clone(),
            think_ps: parameters.think(task.flows).as_ps(),
            threads: (0..task.flows).map(thread).collect(),
            cpus: vec![Cpu::default(); rings],
            rings: (0..rings).map(|_| ReceiveRing::default()).collect(),
        }
    }
}
