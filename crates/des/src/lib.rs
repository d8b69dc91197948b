//! A discrete-event simulation kernel: virtual time, event calendar, resources, seeded random streams, statistics.
//!
//! ```text
//!   Model::handle(now, event, calendar)  --schedule-->  Calendar  (Wheel, or Heap as the reference)
//!     ^      |  request, release                            |
//!     |      v                                              |
//!     |   Resource, Lock: who is served next                | earliest event; of equal times the one scheduled first
//!     +-----------------------  Simulation::run  <----------+
//! ```
//!
//! The kernel knows no hardware, reads no clock, and has no other source of randomness than the seed, so a simulation gives the
//! same numbers on every platform. A model keeps its state in its own arrays; an event is a small `Copy` value that says what
//! to continue. [`Resource`] and [`Lock`] schedule nothing: they decide who is served next, and the model schedules the event.
//!
//! An M/M/1 queue: customers arrive every 100 ns on average, and service takes 70 ns on average.
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
//! // Queueing theory: rho^2 / (1 - rho) customers wait on average.
//! assert!((usage.queue_mean - 1.63).abs() < 0.2);
//! assert_eq!(usage.queue_ps, usage.waited_ps);
//! println!("half stay {:.1} at most", simulation.model.stays.quantile(0.5).unwrap_or_default());
//! # Ok::<(), des::Misuse>(())
//! ```
//!
//! One run gives one number. [`RunningStats::interval`] tells how far the mean of independent replications may be from the
//! true mean, and [`BatchMeans`] how far that of one long run may be. The example `mm1` has both beside theory. The example
//! `network` is a closed network of queues: there all customers request a server at time 0, and the end of the first service
//! is scheduled.
//!
//! # Pitfalls
//!
//! - [`Calendar::schedule`] refuses times before now. [`Calendar::schedule_in`] saturates at [`Time::MAX`].
//! - Pass the current time to every call of a resource or statistic; an earlier time than before is a [`Misuse`].
//! - Values of one run depend on each other: [`RunningStats::interval`] of single waits is far too narrow.
//! - [`Time`] and [`Span`] are displayed with four significant digits. `{:?}` shows every picosecond.
//! - Give each entity its own [`Stream`]. Then a change in what one entity draws leaves the others' numbers as they were.
//! - The calendar's queue is a type parameter, [`Wheel`] by default. Run a new model on [`Heap`] too and compare: the outcome
//!   must be the same.

#![forbid(unsafe_code)]

mod batch_means;
mod calendar;
mod entry;
mod heap;
mod histogram;
mod interval;
mod lock;
mod misuse;
mod phold;
mod queue;
mod random;
mod readable;
mod resource;
mod running_stats;
mod simulation;
mod time;
mod time_average;
mod weights;
mod wheel;
mod ziggurat;

pub use batch_means::BatchMeans;
pub use calendar::{Calendar, InThePast};
pub use entry::Entry;
pub use heap::Heap;
pub use histogram::SpanHistogram;
pub use interval::{Confidence, ConfidenceInterval};
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

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
