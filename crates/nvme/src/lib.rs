//! A user-mode NVMe driver: queues in memory that is mapped once, polled without a system call.
//!
//! ```text
//!   Controller   resets, enables and identifies it through Registers; maps memory with dma's Mapper
//!     | queue_pair()
//!     v
//!   QueuePair    one per thread: read, write, copy, flush ... -> CommandId;  ring_doorbell();  poll() -> Done
//!     |  submission and completion rings in memory, two doorbells
//!     v
//!   a real controller through VFIO (Adapter), or one in this process (emulated)
//! ```
//!
//! - [`AsyncQueue`]: a queue pair whose commands are futures, with data as slices. It brings no runtime and needs none.
//! - [`spec`]: registers, commands, completions and Identify data as bytes.
//! - [`prp`] and [`sgl`]: how a command describes its data. [`walk`] is the controller's reading of the same lists.
//! - [`chunk`]: a disk with timeouts, retries and resets on top of a queue pair.
//! - [`broker`]: serves a controller to other processes, each with blocks of its own.
//! - [`takeover`]: unbinds an adapter from the kernel's driver, if nothing uses its disks, and rebinds it.
//! - [`signature`]: finds what is on a disk before it is overwritten.
//!
//! Write a block, read it back and compare it, on an emulated controller behind a software IOMMU. First with futures:
//!
//! ```
//! use nvme::{AsyncQueue, emulated::Machine};
//!
//! // A disk of 512 blocks of 512 bytes. A real controller has the same driver: see Adapter.
//! let Machine { mut controller, .. } = Machine::open(512, 9)?;
//! let disk = controller.namespaces()[0];
//! // 16 commands at a time, of 8 KiB each.
//! let queue = AsyncQueue::polled(&mut controller, disk, 16, 8192)?;
//! queue.block_on(async {
//!     queue.write(7, &[0xa5; 512]).await?;
//!     let mut read = [0; 512];
//!     queue.read(7, &mut read).await?;
//!     queue.compare(7, &read).await?;
//!     queue.flush().await
//! })?;
//! queue.close(&mut controller)?;
//! controller.shut_down()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! And by hand, where no byte is copied:
//!
//! ```
//! use dma::MemoryAddress;
//! use nvme::emulated::Machine;
//!
//! let Machine { mut controller, ram, .. } = Machine::open(512, 9)?;
//! let disk = controller.namespaces()[0];
//! let mut queue = controller.queue_pair(16)?;
//!
//! // The buffer stays mapped: no I/O maps or unmaps anything.
//! let buffer = controller.allocate(4096)?;
//! ram.write(buffer.memory(), b"hello")?;
//! let write = queue.write(&disk, 7, &[buffer.piece(0, 512)?])?;
//! queue.ring_doorbell();
//! let mut completed = Vec::new();
//! while queue.poll(16, |done| completed.push(done))? == 0 {}
//! assert!(completed[0].id == write && completed[0].status.is_success());
//!
//! // One doorbell for two commands: the read goes behind what was written, and the disk compares its block with that.
//! queue.read(&disk, 7, &[buffer.piece(512, 512)?])?;
//! queue.compare(&disk, 7, &[buffer.piece(0, 512)?])?;
//! queue.ring_doorbell();
//! while queue.in_flight() > 0 {
//!     queue.poll(16, |done| assert!(done.status.is_success()))?;
//! }
//! let mut read = [0; 5];
//! ram.read(MemoryAddress(buffer.memory().0 + 512), &mut read)?;
//! assert_eq!(&read, b"hello");
//!
//! controller.delete(queue)?;
//! controller.free(buffer)?;
//! controller.shut_down()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Memory of your own
//!
//! [`Controller::allocate`] returns memory that is already mapped. For I/O to other memory, map it with another [`Mapper`](dma::Mapper) of
//! the same [`Domain`](dma::Domain) (keep a clone of its `Arc`), and give the mapping's address to a queue as
//! [`prp::Piece`]. Unmap it after the completion.
//!
//! ```
//! use dma::{Direction, DmaCounters, Limits, Mapper, MemoryAddress};
//! use nvme::{emulated::Machine, prp::Piece};
//!
//! // 16 MiB of memory, of which the last 2 MiB are ours.
//! let Machine { mut controller, domain, .. } = Machine::builder(512, 9).own_bytes(2 << 20).open()?;
//! let disk = controller.namespaces()[0];
//! let mut queue = controller.queue_pair(16)?;
//!
//! let (own, mut counters) = (Mapper::translated(Limits::of_bits(64), domain), DmaCounters::default());
//! let at = own.map(MemoryAddress(14 << 20), 512, Direction::ToDevice, &mut counters)?;
//! queue.write(&disk, 7, &[Piece { at, bytes: 512 }])?;
//! queue.ring_doorbell();
//! while queue.poll(16, |done| assert!(done.status.is_success()))? == 0 {}
//! own.unmap(at, 512, Direction::ToDevice, &mut counters)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! VFIO maps only memory of the [`Ram`](dma::Ram) with which its translation was made. An [`Adapter`] keeps its domain to itself: build a
//! [`Controller`] from what [`dma::vfio::open`] returns, with a pool that leaves a part of the `Ram` to you.
//!
//! # Namespaces
//!
//! A controller that manages namespaces ([`can_manage_namespaces`](spec::identify::Controller::can_manage_namespaces)) creates them from its
//! unallocated capacity, and attaches them to controllers of its subsystem:
//!
//! ```
//! use nvme::{NewNamespace, emulated::Machine};
//!
//! let Machine { mut controller, .. } = Machine::builder(512, 9).unallocated_bytes(1 << 20).open()?;
//! let number = controller.create_namespace(&NewNamespace::private(1024, 9))?;
//! let this = controller.identity().controller;
//! controller.attach_namespace(number, &[this])?;
//! assert_eq!(controller.namespaces()[1].format.blocks, 1024);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Pitfalls
//!
//! - [`Controller`] drives a controller, [`Namespace`] is one of its disks. [`spec::identify::Controller`] and
//!   [`spec::identify::Namespace`] are the Identify data structures that they return.
//! - The controller sees nothing before [`ring_doorbell`](QueuePair::ring_doorbell).
//! - A submitted command's memory belongs to the controller until its completion, or until a reset.
//! - A queue pair reads no clock: the caller [ticks](QueuePair::tick) it, and [aborts](Controller::abort) or
//!   [resets](Controller::reset) when commands are [overdue](QueuePair::overdue). [`chunk`] does all of that.
//! - After a reset each queue pair returns [`QueueError::Reset`] until it is [renewed](Controller::renew). Commands in
//!   flight are then executed again, perhaps for the second time. [Appends](QueuePair::append) to zones are
//!   [cut off](QueuePair::take_cut_off) instead.
//! - A [`Namespace`] is what the controller said of it. Another controller of the subsystem may delete it and create another one with its number:
//!   [`refresh_namespaces`](Controller::refresh_namespaces) reads it again.
//! - A completed write may still be in the controller's volatile cache: [`flush`](QueuePair::flush) it, or submit it with Force Unit Access
//!   ([`write_fua`](QueuePair::write_fua)).

#[cfg(target_os = "linux")]
mod adapter;
#[cfg(target_os = "linux")]
mod adaptive;
mod async_queue;
mod blocks;
mod bring_up;
#[cfg(target_os = "linux")]
pub mod broker;
pub mod chunk;
mod controller;
mod controller_error;
pub mod emulated;
#[cfg(target_os = "linux")]
mod interrupts;
mod link;
mod maintenance;
mod namespaces;
pub mod prp;
mod queue_pair;
mod recovery;
mod registers;
mod ring;
pub mod sgl;
pub mod signature;
mod slots;
pub mod spec;
#[cfg(target_os = "linux")]
pub mod takeover;
mod unflushed;
mod waiting;
pub mod walk;
mod zones;

/// Atomics for what a test compiles with those of loom.
mod atomics {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

#[cfg(target_os = "linux")]
pub use adapter::{Adapter, AdapterError, ReservedBuffer};
#[cfg(target_os = "linux")]
pub use adaptive::{Adaptive, WaitCounts};
pub use async_queue::{AsyncError, AsyncQueue, Lease};
pub use blocks::BlockError;
pub use controller::{Buffer, Controller, Namespace, PAGE_BYTES, QueueOptions};
pub use controller_error::NvmeError;
#[cfg(target_os = "linux")]
pub use interrupts::Interrupts;
pub use maintenance::{Committed, FirmwareError, check_firmware};
pub use namespaces::{NamespaceError, NewNamespace};
pub use queue_pair::{CommandId, Done, QueueError, QueuePair};
pub use registers::Registers;
pub use zones::Zones;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
