//! Memory types at work: a CPU's cache and write-combining buffers, and a device that is coherent with them or not, with real
//! bytes in them.
//!
//! Which type memory has is `host`'s to say, by its registers, the page table and the kernel's rules ([`MappingSource`]); what it costs,
//! and which bytes are stale and why, a [`Machine`] says; and [`Transfer`] is a test program of transfers on both.

mod cache;
mod combining;
mod experiment;
mod line;
mod machine;
mod mapping_source;
mod price;
mod ram;
mod stale;
mod transfer;

pub use experiment::{MemoryAnswer, MemoryExperiment, MemoryOutcome, Test, TestOutcome};
pub use line::LINE_BYTES;
pub use machine::{Cpu, Machine, Snoop};
pub use mapping_source::{Card, MappingSource, Memory, NoSnoop, Obtained};
pub use price::Prices;
pub use stale::{Cause, Over, Party, Stale, Write};
pub use transfer::{Comparison, Direction, Explained, Limit, Throughput, Transfer};
