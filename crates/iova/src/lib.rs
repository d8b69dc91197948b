//! Allocators of I/O virtual addresses: pages of the space that an adapter's DMA addresses lie in, handed out to any thread
//! and taken back from any thread.
//!
//! [`Percpu`] is the one to use; the others are Linux's, and simple ones, to compare with.
//!
//! | | allocates and frees in | finds what fits | space |
//! |---|---|---|---|
//! | [`Direct`] | nothing: memory moved by an offset | | all |
//! | [`Percpu`] | steps on a CPU without atomic instructions, up to 1,024 pages; locks for a batch of 64 where a CPU has none or too many; O(log n) for larger ranges and in a nearly full space | everything, where a size up to 1,024 pages may take the next power of two | all |
//! | [`Magazines`] | a lock per CPU up to 32 pages, else one lock and a walk (Linux 6) | see there | 2^40 pages |
//! | [`Pools`] | a lock per pool, linear search of a bitmap (powerpc) | see there | 2^32 pages |
//! | [`Bitmap`] | one lock, linear search (powerpc before 3.6) | see there | 2^32 pages |
//! | [`Rbtree`] | one lock, a walk from the last found (Linux before 4.7) | everything above the lowest page | all |
//! | [`GapTree`] | one lock, O(log n) | everything | all |
//! | [`BitTree`] | one lock, O(log64 of the space) | everything | 2^32 pages |
//!
//! All but [`Direct`]: what is out at the same time doesn't overlap, holds no reserved page, and respects limit and alignment; a
//! range freed twice, never allocated, or of another size is an error that changes nothing. ([`Percpu`] tells sizes of 241 to
//! 1,024 pages apart by 128 pages only. A range freed twice at the very same moment on two CPUs may pass; see
//! [`percpu`].)
//!
//! It is not for use from signal handlers, which may interrupt a thread that holds a lock, and it maps nothing: it only says
//! where.
//!
//! ```
//! use iova::{Allocator, Host, Percpu, Range, Request, Space};
//!
//! // A device that reaches 39 bits, in 4 KiB pages; the window of message-signalled interrupts is not to be used.
//! let mut space = Space::new(1, (1 << 27) - 1);
//! space.reserved.push(Range::between(0xfee00, 0xfeeff));
//! let four_gib = 1 << 20;
//! let addresses = Percpu::new(&space, four_gib, Host::new())?;
//!
//! let request = Request::size_aligned(32, space.last);
//! let buffer = request.range(addresses.allocate(&request)?);
//! // For an adapter with a 32-bit mask:
//! let low = addresses.allocate(&Request::new(1, four_gib - 1))?;
//! assert!(low < four_gib && buffer.first % 32 == 0);
//! addresses.free(buffer)?;
//! assert!(addresses.free(buffer).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the feature `std` it needs an allocator of memory only: locks spin, and CPUs come from the caller's own [`Cpus`].

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod allocated;
mod allocator;
mod bit_tree;
mod bitmap;
mod bits;
mod direct;
mod domain;
mod gap_tree;
mod gaps;
mod lock;
mod magazine;
pub mod percpu;
mod pool;
mod range;
mod ranges;
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
