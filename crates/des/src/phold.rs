//! PHOLD, the standard benchmark of event calendars (Fujimoto, 1990).

use crate::{Calendar, Model, Queue, Simulation, Span, Stream, Time};

/// Processes that pass messages on: each message received is sent to a random process, after an exponential delay
/// plus a lookahead.
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
    /// Mean of the exponential delays.
    pub const DELAY_MEAN: Span = Span::from_ms(1);
    /// Constant addition to each delay.
    pub const LOOKAHEAD: Span = Span::from_us(100);

    /// `processes` processes.
    pub fn new(processes: u32, seed: u64) -> Self {
        let process = |number| Process { stream: Stream::new(seed, u64::from(number)), received: 0 };
        Self { processes: (0..processes).map(process).collect() }
    }

    /// A simulation with `pending` messages in flight.
    pub fn simulation<Q: Queue<u32>>(mut self, pending: u32) -> Simulation<Self, Q> {
        let first = self.first(pending);
        let mut simulation = Simulation::with_queue(self);
        for (delay, to) in first {
            simulation.calendar.schedule_in(delay, to);
        }
        simulation
    }

    /// The first messages, divided evenly among the processes.
    pub fn first(&mut self, pending: u32) -> Vec<(Span, u32)> {
        let senders = self.processes.len() as u32;
        (0..pending).filter_map(|message| self.send(message.checked_rem(senders)?)).collect()
    }

    /// Handles a message: returns the next one, with its delay.
    #[inline(always)]
    pub fn receive(&mut self, process: u32) -> Option<(Span, u32)> {
        self.processes.get_mut(process as usize)?.received += 1;
        self.send(process)
    }

    /// The next message of a process: its delay and its receiver.
    #[inline(always)]
    fn send(&mut self, from: u32) -> Option<(Span, u32)> {
        let count = self.processes.len() as u64;
        let stream = &mut self.processes.get_mut(from as usize)?.stream;
        let to = stream.below(count) as u32;
        Some((Self::LOOKAHEAD + stream.exponential(Self::DELAY_MEAN), to))
    }

    /// Messages received by each process.
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
