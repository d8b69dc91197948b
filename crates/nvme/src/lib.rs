//! NVMe controllers driven by a process of its own: queues in memory that is mapped once, polled without a system call.
//!
//! ```text
//!   Controller   brings it up by its Registers, asks what it is (admin queue), maps memory with dma's Mapper
//!     | queue_pair()
//!     v
//!   QueuePair    of one thread: read, write, flush ... -> CommandId;   ring();   poll() -> Done
//!     | entries of 64 and 16 bytes in rings, a doorbell
//!     v
//!   a controller: a real one through VFIO, or one in this process (emulated)
//! ```
//!
//! [`spec`] is what hosts and controllers tell each other, as bytes; [`prp`] and [`sgl`] say where a command's data is, and [`walk`] is
//! how a controller finds it from there.

#[cfg(target_os = "linux")]
mod adapter;
mod blocks;
mod bring_up;
pub mod chunk;
mod controller;
pub mod emulated;
mod link;
pub mod prp;
mod queue_pair;
mod recovery;
mod registers;
mod ring;
pub mod sgl;
pub mod signature;
pub mod spec;
#[cfg(target_os = "linux")]
pub mod takeover;
pub mod walk;

#[cfg(target_os = "linux")]
pub use adapter::{Adapter, AdapterError};
pub use blocks::BlockError;
pub use controller::{Buffer, Controller, Namespace, NvmeError, PAGE_BYTES, QueueOptions};
pub use queue_pair::{CommandId, Done, QueueError, QueuePair};
pub use registers::Registers;
