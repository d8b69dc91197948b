//! Allocators of I/O virtual addresses.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod allocator;
mod bit_tree;
mod bitmap;
mod bits;
mod direct;
mod domain;
mod ledger;
mod lock;
mod magazine;
mod pool;
mod range;
mod rbtree;
mod request;
mod space;
mod starts;
mod table;
mod tree;
mod usage;

pub use allocator::{AllocateError, Allocator, FreeError};
pub use bit_tree::BitTree;
pub use bitmap::Bitmap;
pub use direct::Direct;
pub use magazine::{Depot, Magazines};
pub use pool::Pools;
pub use range::Range;
pub use rbtree::Rbtree;
pub use request::Request;
pub use space::{PAGE_MAX, Space, SpaceError};
pub use usage::Usage;
