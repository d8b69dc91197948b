//! A discrete-event kernel.

#![forbid(unsafe_code)]

mod calendar;
mod entry;
mod heap;
mod phold;
mod queue;
mod random;
mod simulation;
mod time;
mod wheel;
mod ziggurat;

pub use calendar::{Calendar, InThePast};
pub use entry::Entry;
pub use heap::Heap;
pub use phold::Phold;
pub use queue::Queue;
pub use random::Stream;
pub use simulation::{Model, Simulation};
pub use time::{Span, Time};
pub use wheel::Wheel;
