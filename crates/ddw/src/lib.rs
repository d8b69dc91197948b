//! POWER's DMA windows: which window Linux creates for an adapter, and how many hypercalls a mapping costs in it.
//!
//! This crate only calculates: it opens no file and makes no system call. It predicts a decision from a [`Request`] and from the
//! firmware's answer, a [`Query`]. `host` explains real machines with it, `model` simulated ones.
//!
//! ```
//! use ddw::{Era, Outcome, PageSizes, Query, Request, predict};
//!
//! // A POWER10 partition of 128 GiB at most, and a block of 2^24 entries in pages of 4 KiB, 64 KiB or 2 MiB.
//! let request = Request {
//!     era: Era::Linux61,
//!     mask_bits: 64,
//!     memory_max_bytes: 128 << 30,
//!     disable_ddw: false,
//!     persistent_memory: false,
//! };
//! let query = Query {
//!     windows_available: 1,
//!     block_tces: 1 << 24,
//!     page_sizes: PageSizes(0x103),
//!     reset: true,
//!     limited_addressing: false,
//! };
//! let direct = Outcome::Direct { page_shift: 21, window_shift: 37 };
//! assert_eq!(predict(&request, Some(&query)).outcome, direct);
//! ```
//!
//! LoPAR is the "Linux on Power Architecture Reference" of the OpenPOWER Foundation; kernel file names are those of Linux.
#![forbid(unsafe_code)]

mod decision;
mod era;
mod hypercalls;
mod page_sizes;
pub mod size;

pub use decision::{
    DefaultReason, Outcome, Plan, Prediction, Query, Request, Usage, check_request, planned_window, predict,
};
pub use era::{Era, EraOf, KernelVersion};
pub use hypercalls::{Hypercalls, TCES_PER_CALL_MAX, TceCalls, tces_of};
pub use page_sizes::PageSizes;

/// Bytes of one table entry (LoPAR, TCE Definition).
pub const TCE_BYTES: u64 = 8;
/// Page shift of the default window: always 4 KiB, whatever the CPU's pages are (LoPAR).
pub const DEFAULT_PAGE_SHIFT: u32 = 12;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
