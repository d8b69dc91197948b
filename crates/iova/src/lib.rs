//! Allocators of I/O virtual addresses (IOVAs): ranges of pages in an adapter's address space, for any number of threads.
//!
//! ```text
//!   thread --allocate(Request)--> Allocator --first page--> caller maps it (crate dma), the adapter uses it
//!   any thread --free(Range)----> Allocator                 after the unmap and the IOTLB invalidation
//!
//!   Percpu:  this CPU's free ranges  --empty or full-->  batches  <-->  depot  <-->  central gaps, by size
//! ```
//!
//! Use [`host_percpu`], which makes the fastest [`Percpu`] that the host supports. The others are Linux's allocators and simple
//! ones, for comparison. A type parameter says how a wrong free is treated: of a range that was freed already, has another size
//! or was never allocated.
//!
//! | | a wrong free | time, where Linux's is 1 (`docs/validation/allocators.md`) |
//! |---|---|---|
//! | [`Trusting`] | is not found, and later allocations may overlap, as in Linux | about half (0.36 to 0.61); up to 0.94 if other CPUs free or the space is nearly full |
//! | [`Audited`] | may be found when a batch of free ranges leaves a CPU; until then its range may be allocated twice | the same, but up to 1.8 if other CPUs free and 0.98 if the space is nearly full |
//! | [`Checked`] | is found at once | 0.5 to 2: most if many CPUs have neighbouring ranges |
//!
//! Without restartable sequences there are locks, with which [`Trusting`] takes up to 2.64.
//!
//! | | cost of an allocation or a free | finds | space |
//! |---|---|---|---|
//! | [`Direct`] | nothing: an offset is added to the memory's address | | all |
//! | [`Percpu`] | up to 1,024 pages: per-CPU steps without atomic instructions, and a lock per batch of up to 63 when a CPU's stack is empty or full; O(log n) for larger ranges; if nothing fits, all CPUs' stacks are emptied first | with [`Checked`] every fit, though a size up to 1,024 pages may be rounded up to a power of two; with [`Audited`] and [`Trusting`] it always is, and aligned to that, so 4 pages from page 1 on are no fit for 4 | all |
//! | [`Magazines`] | up to 32 pages a lock per CPU, else one lock and a tree walk (Linux 6) | see the type | 2^40 pages |
//! | [`Pools`] | a lock per pool, linear search of a bitmap (powerpc) | see the type | 2^32 pages |
//! | [`Bitmap`] | one lock, linear search (powerpc before 3.6) | see the type | 2^32 pages |
//! | [`Rbtree`] | one lock, a tree walk from the last found range (Linux before 4.7) | every fit above the lowest page | all |
//! | [`GapTree`] | one lock, O(log n) | every fit | all |
//! | [`BitTree`] | one lock, O(log64 of the space) | every fit | 2^32 pages |
//!
//! All but [`Direct`] guarantee that allocated ranges don't overlap, contain no reserved page, and respect limit and alignment.
//! All but [`Direct`] and [`Percpu`] with [`Audited`] or [`Trusting`] refuse a wrong free and change nothing; for the limits of
//! [`Checked`] see [Pitfalls](#pitfalls).
//!
//! ```
//! use iova::{Checked, Range, Request, Space, Trusting, host_percpu};
//!
//! // 39 address bits in pages of 4 KiB, without the window of message-signalled interrupts.
//! let mut space = Space::new(1, (1 << 27) - 1);
//! space.reserved.push(Range::between(0xfee00, 0xfeeff));
//! let four_gib = 1 << 20;
//! let addresses = host_percpu::<Trusting>(&space, four_gib)?;
//!
//! let request = Request::size_aligned(32, space.last);
//! let buffer = request.range(addresses.allocate(&request)?);
//! // For an adapter with a 32-bit mask:
//! let low = addresses.allocate(&Request::new(1, four_gib - 1))?;
//! assert!(low < four_gib && buffer.first % 32 == 0);
//! addresses.free(buffer)?;
//!
//! // In tests, find wrong frees:
//! let addresses = host_percpu::<Checked>(&space, four_gib)?;
//! let buffer = request.range(addresses.allocate(&request)?);
//! addresses.free(buffer)?;
//! assert!(addresses.free(buffer).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Pitfalls
//!
//! - An allocator maps nothing; it only reserves addresses. Free a range after the IOTLB is invalidated, not before: it may be
//!   allocated again at once.
//! - Do not call it from a signal handler, which may have interrupted a thread that holds a lock.
//! - [`Checked`] distinguishes sizes of 241 to 1,024 pages only in steps of 128 when it checks a free, and may miss a range that
//!   two CPUs free at the very same moment; see [`percpu`].
//! - Don't unload a shared object that has this code in it (`dlclose`) while threads that called it run: the kernel may still read the
//!   description of their last restartable sequence.
//! - Without the feature `std` only `alloc` is needed: locks spin, and the caller supplies [`Cpus`]. The target must have atomics of
//!   64 bits (`target_has_atomic = "64"`), which processors such as Arm's Cortex-M do not have.

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
mod zeros;

pub use allocator::{AllocateError, Allocator, FreeError};
pub use bit_tree::BitTree;
pub use bitmap::Bitmap;
pub use direct::Direct;
pub use gap_tree::GapTree;
pub use magazine::{Depot, Magazines};
#[cfg(all(feature = "std", not(loom)))]
pub use percpu::Rseq;
pub use percpu::{Audited, Checked, Cpus, FreeCheck, Percpu, Sharded, Trusting};
#[cfg(feature = "std")]
pub use percpu::{host_cpus, host_percpu};
pub use pool::Pools;
pub use range::Range;
pub use rbtree::Rbtree;
pub use request::Request;
pub use space::{PAGE_MAX, Space, SpaceError};
pub use usage::Usage;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
