//! Allocators of I/O virtual addresses.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod allocator;
mod direct;
mod lock;
mod range;
mod request;
mod space;
mod usage;

pub use allocator::{AllocateError, Allocator, FreeError};
pub use direct::Direct;
pub use range::Range;
pub use request::Request;
pub use space::{PAGE_MAX, Space, SpaceError};
pub use usage::Usage;
