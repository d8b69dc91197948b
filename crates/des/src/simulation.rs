//! A model and its time.

use crate::{Calendar, Queue, Time, Wheel};

/// What happens when an event does. A model keeps the state of its processes as it likes, best in flat arrays, and its events
/// say which of them goes on; nothing in the loop is allocated or called through a pointer.
pub trait Model {
    /// A small plain value.
    type Event: Copy;

    /// An event happens now. What it leads to goes into the calendar.
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
    /// Free to look at and to change between runs.
    pub model: M,
    /// What the model has to do; its first events are put here.
    pub calendar: Calendar<M::Event, Q>,
    handled: u64,
}

impl<M: Model> Simulation<M> {
    /// At the beginning of time, with nothing to do.
    pub fn new(model: M) -> Self {
        Self::on(model)
    }
}

impl<M: Model, Q: Queue<M::Event>> Simulation<M, Q> {
    /// The same on another queue.
    pub fn on(model: M) -> Self {
        Self { model, calendar: Calendar::new(), handled: 0 }
    }

    /// Lets everything happen. A model that always schedules more never comes back from here.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Lets everything happen up to a time, events of that time included, and goes on to it.
    pub fn run_until(&mut self, end: Time) {
        while let Some(entry) = self.calendar.pop_until(end) {
            self.handled += 1;
            self.model.handle(entry.time, entry.event, &mut self.calendar);
        }
    }

    /// Lets so many events happen, as far as there are any, and says how many did.
    pub fn run_events(&mut self, most: u64) -> u64 {
        (0..most).take_while(|_| self.step()).count() as u64
    }

    /// Lets one event happen, if there is one.
    #[inline]
    pub fn step(&mut self) -> bool {
        let Some(entry) = self.calendar.pop() else { return false };
        self.handled += 1;
        self.model.handle(entry.time, entry.event, &mut self.calendar);
        true
    }

    /// How many events happened since the beginning.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.calendar.now()
    }
}
