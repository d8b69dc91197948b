//! A discrete-event kernel.

#![forbid(unsafe_code)]

mod calendar;
mod entry;
mod heap;
mod histogram;
mod lock;
mod misuse;
mod moments;
mod phold;
mod queue;
mod random;
mod resource;
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
pub use moments::Moments;
pub use phold::Phold;
pub use queue::Queue;
pub use random::Stream;
pub use resource::{Answer, Resource, Usage};
pub use simulation::{Model, Simulation};
pub use time::{Span, Time};
pub use time_average::TimeAverage;
pub use weights::{BadWeights, Weights};
pub use wheel::Wheel;
