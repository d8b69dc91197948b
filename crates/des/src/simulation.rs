//! The simulation: a model and its event loop.

use crate::{Calendar, Queue, Time, Wheel};

/// A model: its state and its reaction to events. Keep the state of processes in flat arrays, and let an event name the process that
/// continues; then the event loop allocates nothing and makes no indirect calls.
pub trait Model {
    /// An event, a small value.
    type Event: Copy;

    /// Handles an event at time `now`, and schedules further events in the calendar.
    fn handle(
        &mut self,
        now: Time,
        event: Self::Event,
        calendar: &mut Calendar<Self::Event, impl Queue<Self::Event>>,
    );
}

/// A model with its calendar.
#[derive(Debug, Clone)]
pub struct Simulation<M: Model, Q = Wheel<<M as Model>::Event>> {
    /// The model, which may be read and changed between runs.
    pub model: M,
    /// The pending events. The caller schedules the first ones.
    pub calendar: Calendar<M::Event, Q>,
    handled: u64,
}

impl<M: Model> Simulation<M> {
    /// A simulation at time 0, without events.
    pub fn new(model: M) -> Self {
        Self::with_queue(model)
    }
}

impl<M: Model, Q: Queue<M::Event>> Simulation<M, Q> {
    /// A simulation at time 0 with another event queue, without events.
    pub fn with_queue(model: M) -> Self {
        Self { model, calendar: Calendar::new(), handled: 0 }
    }

    /// Runs until no event is pending. Does not return if the model always schedules further events.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Runs all events up to and including time `end`, and advances the time to it.
    pub fn run_until(&mut self, end: Time) {
        while let Some(entry) = self.calendar.pop_until(end) {
            self.handled += 1;
            self.model.handle(entry.time, entry.event, &mut self.calendar);
        }
    }

    /// Runs up to `most` events. Returns the number that ran.
    pub fn run_events(&mut self, most: u64) -> u64 {
        (0..most).take_while(|_| self.step()).count() as u64
    }

    /// Runs one event. Returns `false` if none is pending.
    #[inline]
    pub fn step(&mut self) -> bool {
        let Some(entry) = self.calendar.pop() else { return false };
        self.handled += 1;
        self.model.handle(entry.time, entry.event, &mut self.calendar);
        true
    }

    /// The number of events handled so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.calendar.now()
    }
}
