//! A discrete-event kernel: virtual time, an exact calendar, resources, seeded randomness, statistics. It knows no hardware,
//! reads no clock, and draws on no entropy but the seed: a simulation gives the same numbers on every platform.
//!
//! A model's processes are state machines in whatever arrays it likes; events are small plain values that say which of them
//! goes on. [`Simulation`] hands each to [`Model::handle`] in the order of their times, those of the same time in the order
//! in which they were scheduled. [`Resource`] and [`Lock`] are passive: they say who may go on, the model schedules.
//!
//! A queue with one server: customers come every 100 ns on average, and are served for 70 ns on average.
//!
//! ```
//! use des::{Answer, Calendar, Model, Queue, Resource, Simulation, Span, SpanHistogram, Stream, Time};
//!
//! #[derive(Clone, Copy)]
//! enum Event {
//!     Arrives,
//!     Done { arrived: Time },
//! }
//!
//! struct Desk {
//!     clerk: Resource<Time>,
//!     gaps: Stream,
//!     services: Stream,
//!     stays: SpanHistogram,
//! }
//!
//! impl Desk {
//!     fn serve(&mut self, arrived: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
//!         let service = self.services.exponential(Span::from_ns(70));
//!         calendar.schedule_in(service, Event::Done { arrived });
//!     }
//! }
//!
//! impl Model for Desk {
//!     type Event = Event;
//!
//!     fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
//!         match event {
//!             Event::Arrives => {
//!                 calendar.schedule_in(self.gaps.exponential(Span::from_ns(100)), Event::Arrives);
//!                 if self.clerk.request(now, now) == Ok(Answer::Goes) {
//!                     self.serve(now, calendar);
//!                 }
//!             }
//!             Event::Done { arrived } => {
//!                 self.stays.record(now.since(arrived).unwrap_or_default());
//!                 if let Ok(Some(next)) = self.clerk.release(now) {
//!                     self.serve(next, calendar);
//!                 }
//!             }
//!         }
//!     }
//! }
//!
//! let desk = Desk {
//!     clerk: Resource::fifo(1)?,
//!     gaps: Stream::new(1, 0),
//!     services: Stream::new(1, 1),
//!     stays: SpanHistogram::new(3)?,
//! };
//! let mut simulation = Simulation::new(desk);
//! simulation.calendar.schedule_in(Span::ZERO, Event::Arrives);
//! simulation.run_until(Time::ZERO + Span::from_ms(10));
//!
//! let usage = simulation.model.clerk.usage(simulation.now())?;
//! assert!((usage.utilisation - 0.7).abs() < 0.02);
//! // In theory, 0.7 * 0.7 / (1 - 0.7) wait on average.
//! assert!((usage.queue_mean - 1.63).abs() < 0.2);
//! assert_eq!(usage.queue_ps, usage.waited_ps);
//! println!("half stay {} at most", simulation.model.stays.quantile(0.5).unwrap_or_default());
//! # Ok::<(), des::Misuse>(())
//! ```
//!
//! The calendar's queue is a type parameter: [`Wheel`] where nothing is said, [`Heap`] to check what a model does on it.

#![forbid(unsafe_code)]

mod calendar;
mod entry;
mod heap;
mod histogram;
mod lock;
mod misuse;
mod phold;
mod queue;
mod random;
mod resource;
mod running_stats;
mod simulation;
mod time;
mod time_average;
mod weights;
mod wheel;
mod ziggurat;

pub use calendar::{Calendar, InThePast};
pub use entry::Entry;
pub use heap::Heap;
pub use histogram::SpanHistogram;
pub use lock::{Cpu, Grant, Lock, TransferCost, Transfers};
pub use misuse::Misuse;
pub use phold::Phold;
pub use queue::Queue;
pub use random::Stream;
pub use resource::{Answer, Resource, Usage};
pub use running_stats::RunningStats;
pub use simulation::{Model, Simulation};
pub use time::{Span, Time};
pub use time_average::TimeAverage;
pub use weights::{BadWeights, Weights};
pub use wheel::Wheel;
