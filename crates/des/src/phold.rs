//! The standard load of calendars: PHOLD (Fujimoto, 1990).

use crate::{Calendar, Model, Queue, Simulation, Span, Stream, Time};

/// Processes that send each other messages: each message that arrives is sent on, to a process chosen uniformly, after an
/// exponential delay and a lookahead.
#[derive(Debug, Clone)]
pub struct Phold {
    processes: Vec<Process>,
}

#[derive(Debug, Clone)]
struct Process {
    stream: Stream,
    received: u64,
}

impl Phold {
    /// The mean of the exponential delays.
    pub const DELAY_MEAN: Span = Span::from_ms(1);
    /// What comes on top of each.
    pub const LOOKAHEAD: Span = Span::from_us(100);

    /// So many processes.
    pub fn new(processes: u32, seed: u64) -> Self {
        let process = |number| Process { stream: Stream::new(seed, u64::from(number)), received: 0 };
        Self { processes: (0..processes).map(process).collect() }
    }

    /// With this many messages in flight.
    pub fn simulation<Q: Queue<u32>>(mut self, pending: u32) -> Simulation<Self, Q> {
        let first = self.first(pending);
        let mut simulation = Simulation::on(self);
        for (delay, to) in first {
            simulation.calendar.schedule_in(delay, to);
        }
        simulation
    }

    /// The first messages, in equal parts from all processes.
    pub fn first(&mut self, pending: u32) -> Vec<(Span, u32)> {
        let senders = self.processes.len() as u32;
        (0..pending).filter_map(|message| self.send(message.checked_rem(senders)?)).collect()
    }

    /// A message arrived, and this one is sent.
    #[inline]
    pub fn receive(&mut self, process: u32) -> Option<(Span, u32)> {
        self.processes.get_mut(process as usize)?.received += 1;
        self.send(process)
    }

    #[inline]
    fn send(&mut self, from: u32) -> Option<(Span, u32)> {
        let count = self.processes.len() as u64;
        let stream = &mut self.processes.get_mut(from as usize)?.stream;
        let to = stream.below(count) as u32;
        Some((Self::LOOKAHEAD + stream.exponential(Self::DELAY_MEAN), to))
    }

    /// How many messages each process received.
    pub fn received(&self) -> impl Iterator<Item = u64> {
        self.processes.iter().map(|process| process.received)
    }
}

impl Model for Phold {
    /// A message arrives at this process.
    type Event = u32;

    fn handle(&mut self, _: Time, process: u32, calendar: &mut Calendar<u32, impl Queue<u32>>) {
        if let Some((delay, to)) = self.receive(process) {
            calendar.schedule_in(delay, to);
        }
    }
}
