//! POWER's DMA windows and TCE tables: the hypervisor's side, which keeps the tables, and Linux's side, which writes
//! them by hypercall.
//!
//! An adapter's bus addresses lie in *DMA windows*. Each window has a table of [entries](Entry) kept by the
//! hypervisor, and a number, its LIOBN. At boot there is a default window below 4 GiB with pages of 4 KiB. The
//! firmware may offer further ones at higher addresses and with larger pages (dynamic DMA windows, DDW).
//!
//! ```text
//!   Mapper ── Domain ── TceWindow ─┐ H_PUT_TCE, H_PUT_TCE_INDIRECT,      ┌─ Table, in Ram
//!                                  ├ H_STUFF_TCE, H_GET_TCE ── Hypervisor┤      │
//!   PciSlot::enable_ddw ── ddw::planned_window ─┘ ibm,query-pe-dma-windows, … └─ windows, statuses
//!                                                                          adapter ── TceWalk
//! ```
//!
//! - [`Hypervisor`]: tables in [`Ram`](crate::Ram), the calls with their checks and statuses, and the firmware's calls for
//!   windows ([`RtasCall`]).
//! - [`Partition`], [`PciSlot`], [`TceWindow`]: Linux's side. A slot begins with its default window;
//!   [`PciSlot::enable_ddw`] makes the window that the rules of crate [`ddw`] ask for.
//! - [`TceWalk`]: the hardware's side, which reads the table's bytes and shares no code with the writer.
//!
//! ```
//! use dma::tce::{Endpoint, EndpointAddress, Hypervisor, Offer, Partition, PciSlot, MemoryRange, DdwOutcome};
//! use dma::{DmaCounters, BusAddress, Direction, Frames, Limits, MemoryAddress, Ram};
//! use std::sync::Arc;
//!
//! // 16 GiB of memory. Only its last page must exist, for lists of entries; behind it are the hypervisor's tables.
//! let (page, end) = (MemoryAddress((16 << 30) - 4096), MemoryAddress(16 << 30));
//! let tables = MemoryRange { start: end, bytes: 8 << 20 };
//! let memory = MemoryRange { start: MemoryAddress(0), bytes: 16 << 30 };
//! let ram = Arc::new(Ram::new(page, 4096 + tables.bytes));
//! let hypervisor = Arc::new(Hypervisor::new(ram.clone(), [memory]));
//! let address = EndpointAddress { config: 0x1_0000, buid: 0x8000_0002_0000_0010 };
//! let offer = Offer {
//!     windows_max: 2,
//!     first: BusAddress(1 << 59),
//!     page_sizes: ddw::PageSizes(0x103),
//!     reset: true,
//!     query_in_six: true,
//! };
//! hypervisor.add(Endpoint { address, liobn: 1, default_bytes: 2 << 30, tables, offer: Some(offer) })?;
//!
//! let partition = Partition::new(hypervisor, ram, Frames::new(page, 4096), vec![memory], "", || 0);
//! let slot = PciSlot::new(Arc::new(partition), address)?.expect("it was added above");
//! let request = ddw::Request {
//!     era: ddw::Era::Linux61,
//!     mask_bits: 64,
//!     memory_max_bytes: memory.bytes,
//!     disable_ddw: false,
//!     persistent_memory: false,
//! };
//! let mut counters = DmaCounters::default();
//! let way = slot.enable_ddw(&request, &mut |_| (), &mut counters);
//! // Pages of 2 MiB, 512 for each call.
//! assert!(matches!(way, DdwOutcome::Direct { .. }));
//! assert_eq!((counters.table_entries, counters.hypercalls), (8192, 16));
//!
//! let mapper = slot.mapper(&way, Limits::of_bits(64));
//! let at = mapper.map(MemoryAddress(0x1234), 100, Direction::ToDevice, &mut counters)?;
//! assert_eq!((at, counters.hypercalls), (BusAddress((1 << 59) + 0x1234), 16));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not modelled: negative LIOBNs (several tables at once, which Linux never uses), windows for masks of 33 to 63 bits
//! (LoPAR's public text is too short on them), and secure guests. The hypervisor executes one call at a time,
//! completely.
//!
//! Sources: LoPAR ("Linux on Power Architecture Reference", OpenPOWER Foundation), chapters on the address map (TCE
//! definition), on RTAS (DMA window calls) and on the LPAR option (TCE hypercalls); `arch/powerpc/platforms/pseries/iommu.c`
//! and `arch/powerpc/kernel/iommu.c` of Linux 2.6.32 to 7.2.

mod ddw_outcome;
mod enable_ddw;
mod endpoint;
mod entry;
mod hypercall;
mod hypervisor;
mod mapped_pages;
mod memory_range;
mod partition;
mod rtas;
mod rtas_service;
mod slot;
mod status;
mod table;
mod walk;
mod window;
mod windows;

pub use ddw_outcome::{Created, DdwOutcome, NoWindow};
pub use endpoint::{DefaultWindow, Endpoint, EndpointAddress, EndpointError, Offer, Properties};
pub use entry::Entry;
pub use hypercall::Hypercall;
pub use hypervisor::Hypervisor;
pub use memory_range::MemoryRange;
pub use partition::Partition;
pub use rtas::{RtasCall, RtasStatus};
pub use slot::PciSlot;
pub use status::Status;
pub use table::Table;
pub use walk::{TceFault, TceWalk};
pub use window::TceWindow;
