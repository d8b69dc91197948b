//! Memory types at work: a CPU's cache and write-combining buffers, and a device that is coherent with them or not, with real
//! bytes in them.
//!
//! Which type memory has is `host`'s to say, by its registers, the page table and the kernel's rules ([`MappingSource`]); what it costs,
//! and which bytes are stale and why, a [`MemorySystem`] says; and [`Transfer`] is a test program of transfers on both.

mod cache;
mod combining;
mod experiment;
mod line;
mod mapping_source;
mod memory_system;
mod price;
mod ram;
mod stale;
mod transfer;

pub use experiment::{MemoryAnswer, MemoryExperiment, MemoryOutcome, Test, TestOutcome};
pub use line::LINE_BYTES;
pub use mapping_source::{Card, MappingSource, Memory, NoSnoop, Obtained};
pub use memory_system::{Cpu, MemorySystem, Snoop};
pub use price::Prices;
pub use stale::{Cause, OverwriteCause, Party, Stale, Write};
pub use transfer::{Comparison, Direction, Limit, StaleBytes, Throughput, Transfer};
