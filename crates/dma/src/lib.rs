//! The DMA mapping layer: memory of a driver, a VMM or a model, mapped for adapters, with the contract of the kernel's DMA API
//! (`Documentation/core-api/dma-api.rst`).
//!
//! ```text
//!   driver                                                                         adapter
//!     | map, unmap, sync                                                              | read, write
//!     v                                                                               v
//!   Mapper ---- direct: no IOMMU, and the memory is within the DMA mask ---------> memory
//!     |  `----- bounced: beyond the mask, or the adapter is untrusted: Bounce ----> memory
//!     v translated
//!   Domain ---- an IOVA allocator (crate iova), and strict or lazy invalidation
//!     v
//!   Translation   SoftwareDomain   VT-d, AMD, SMMUv3 tables, and a Unit that reads them
//!                 tce::TceWindow   POWER's tables, by hypercall
//!                 vfio::{Type1, Iommufd, Spapr}   the host's own IOMMU
//! ```
//!
//! A [`Domain`] has one builder, [`Domain::builder`], whatever its translation is; [`DomainBuilder::lazy`] starts a thread that
//! flushes. [`ThreadMapper`] has a mapper's calls for one thread, and counts them. The examples `software_iommu`, `bounce` and `vfio`
//! are one program for each way.
//!
//! Violations of the API are reported as [`Misuse`]: a wrong size, a buffer that the CPU touches while the adapter owns it, a
//! mapping that was never removed. Each call adds what it did besides executing instructions to the [`DmaCounters`] passed to it:
//! table entries written, hypercalls, invalidations, bytes copied.
//!
//! ```
//! use dma::{DmaCounters, Direction, Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Ram};
//! use dma::{Requester, SoftwareDomain, Unit, Vtd};
//! use std::sync::Arc;
//!
//! // A MiB of memory, a quarter of it for tables, and an IOMMU in software with an adapter behind it.
//! let ram = Arc::new(Ram::new(MemoryAddress(0), 1 << 20));
//! let frames = Arc::new(Frames::new(MemoryAddress(0), 1 << 18));
//! let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
//! let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, 4)?;
//! table.attach(Requester(0x0300));
//! let adapter = unit.adapter(Requester(0x0300));
//!
//! let domain = Domain::builder(Arc::new(table)).build()?;
//! let mapper = Mapper::translated(Limits::of_bits(64), domain);
//!
//! // A packet to send: the adapter may read it, and nothing else.
//! let (packet, mut counters) = (MemoryAddress(0x8_0040), DmaCounters::default());
//! ram.write(packet, b"hello")?;
//! let at = mapper.map(packet, 5, Direction::ToDevice, &mut counters)?;
//! let mut sent = [0; 5];
//! adapter.read(at, &mut sent)?;
//! assert_eq!(&sent, b"hello");
//! assert!(adapter.write(at, b"oops").is_err());
//!
//! mapper.unmap(at, 5, Direction::ToDevice, &mut counters)?;
//! assert!(adapter.read(at, &mut sent).is_err());
//! // The entry and three tables above it; the entry again.
//! assert_eq!((counters.table_entries, counters.invalidations, counters.hypercalls), (5, 1, 0));
//! mapper.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod address;
mod bounce;
mod coherent;
mod counters;
mod debug;
mod domain;
mod error;
mod flush_queue;
mod frames;
mod iotlb;
mod limits;
mod mapper;
mod memory;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod pinned;
mod radix;
mod ram;
mod ram_array;
#[cfg(target_os = "linux")]
mod reserved;
mod software;
pub mod tce;
mod thread_mapper;
mod translation;
#[cfg(target_os = "linux")]
pub mod vfio;
mod walk;

pub use access::{Access, Direction};
pub use address::{BusAddress, MemoryAddress};
pub use bounce::Bounce;
pub use coherent::{Coherent, Pool};
pub use counters::DmaCounters;
pub use debug::{Kind, Misuse};
pub use domain::builder::{BuildError, DomainBuilder};
pub use domain::{Domain, Element, ListRanges, Segment};
pub use error::DmaError;
pub use flush_queue::FlushQueue;
pub use frames::{FRAME_BYTES, Frames, OutOfFrames};
pub use iotlb::{DomainId, Iotlb, IotlbStatistics};
pub use limits::Limits;
pub use mapper::{Bouncing, Mapper};
pub use memory::Memory;
#[cfg(target_os = "linux")]
pub use pinned::PinError;
pub use radix::{Amd, Entry, Format, Radix, Smmu, TableError, Vtd};
pub use ram::{ByteOrder, NoMemory, Ram};
pub use ram_array::RamArray;
#[cfg(target_os = "linux")]
pub use reserved::PageCaching;
pub use software::{
    Context, DomainError, Fault, Faults, NoDomainId, Reason, Requester, SoftwareAdapter, SoftwareDomain,
    Stopped, Translated, Unit,
};
pub use thread_mapper::ThreadMapper;
pub use translation::{MapError, Translation, UnmapError, Window};
pub use walk::{Leaf, Walk, WalkAmd, WalkFault, WalkSmmu, WalkVtd, Walked};

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
