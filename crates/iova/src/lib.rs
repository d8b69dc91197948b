//! Allocators of I/O virtual addresses.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod allocator;
mod bit_tree;
mod bitmap;
mod bits;
mod direct;
mod domain;
mod gap_tree;
mod gaps;
mod ledger;
mod lock;
mod magazine;
pub mod percpu;
mod pool;
mod range;
mod rbtree;
mod request;
mod space;
mod starts;
mod sync;
mod table;
mod tree;
mod usage;

pub use allocator::{AllocateError, Allocator, FreeError};
pub use bit_tree::BitTree;
pub use bitmap::Bitmap;
pub use direct::Direct;
pub use gap_tree::GapTree;
pub use magazine::{Depot, Magazines};
#[cfg(all(feature = "std", not(loom)))]
pub use percpu::Host;
#[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(loom)))]
pub use percpu::Rseq;
pub use percpu::{Cpus, Percpu, Sharded};
pub use pool::Pools;
pub use range::Range;
pub use rbtree::Rbtree;
pub use request::Request;
pub use space::{PAGE_MAX, Space, SpaceError};
pub use usage::Usage;
