//! Allocators of I/O virtual addresses.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod allocator;
mod direct;
mod gaps;
mod lock;
pub mod percpu;
mod range;
mod request;
mod space;
mod sync;
mod usage;

pub use allocator::{AllocateError, Allocator, FreeError};
pub use direct::Direct;
#[cfg(all(feature = "std", not(loom)))]
pub use percpu::Host;
pub use percpu::{Cpus, Percpu, Sharded};
#[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(loom)))]
pub use percpu::Rseq;
pub use range::Range;
pub use request::Request;
pub use space::{PAGE_MAX, Space, SpaceError};
pub use usage::Usage;
