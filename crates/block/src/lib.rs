//! CAPI flash's block library on any NVMe controller, file or block device, with the same C interface.
//!
//! ```text
//!   interface      cblk_*, cblk_cg_*, iotoll_block_*: arguments are checked, errors become errno
//!     |            iotoll_queue_*: a DirectQueue, which is a queue pair of nvme and no more
//!     |  table     identifiers -> chunks and groups; fork
//!     v
//!   OpenChunk      a chunk: its commands' tags, its blocks of the disk (space), a queue for each thread
//!     |
//!     v
//!   Queue          commands of a thread, cut into requests of the disk; another thread may fetch their results
//!     |
//!     v
//!   nvme::chunk    a queue pair of a controller, or a ring of io_uring over a file
//! ```
//!
//! The interface is that of Open POWER's capiflash (`src/include/capiblock.h`, `src/block/README.md`, 2020). From Rust, `nvme::chunk` is the
//! better one: it knows no pointers.
//!
//! # Threads
//!
//! A command is begun in its thread's queue and keeps a tag of its chunk, which says in which queue it is. So threads do not wait for each
//! other unless one fetches what another has begun. A thread that waits sleeps on its queue's descriptor, or polls where there is none;
//! others that wait for the same queue sleep until it has processed completions.
//!
//! # Pitfalls
//!
//! - A caller's buffer belongs to the library until its command has ended.
//! - A command whose result was not fetched keeps its tag, and its chunk can't be closed.
//! - A child process must clone a chunk before it uses it.
#![cfg(target_os = "linux")]

pub mod c_types;
mod close_wait;
mod counts;
pub mod direct_queue;
mod disk;
mod driven;
mod ended;
mod errno;
mod failure;
mod flush_losses;
pub mod interface;
mod open_chunk;
mod own_requests;
mod queue;
mod space;
mod table;
mod tags;
mod thread_number;

/// Bytes of a block in the C interface, whatever the disk's blocks are.
pub const BLOCK_BYTES: u64 = 4096;
/// Commands of a chunk where its opener does not say how many.
pub(crate) const COMMANDS_DEFAULT: i32 = 64;
/// The most commands of a chunk.
pub(crate) const COMMANDS_MAX: u16 = 8192;
/// The most blocks of a command to a physical LUN: 16 MiB.
pub(crate) const TRANSFER_BLOCKS_MAX: u64 = 4096;

/// The README, whose Rust examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
