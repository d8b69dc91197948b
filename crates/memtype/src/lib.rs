//! x86 memory types: what an address is cached as, why, and how to change it.
//!
//! ```text
//!   /proc/mtrr --------parse_mtrr------------+
//!   /proc/iomem -------parse_iomem-----------+
//!   command line ------memmap::parse_cmdline-+--> Facts --effective()--> type of each part, for each way to map it
//!   pat_memtype_list --parse_memtype_list----+
//!
//!   registers, wishes --plan()--> Plan: writes to /proc/mtrr, what is wrong between them, the way back, a script
//! ```
//!
//! A CPU's view of a physical address is the product of three things: the memory type range registers
//! (`/proc/mtrr`), the page table of the mapping (PAT), and who owns the address (`/proc/iomem`,
//! `memmap=`), which decides what mappings the kernel grants. Each has its parser here;
//! [`effective`] joins them, and [`plan`] works out how to change the registers.
//!
//! ```
//! use memtype::effective::{Call, Facts, effective};
//! use memtype::{DefaultType, Iomem, MemoryType, Text, memmap, parse_mtrr};
//!
//! let (table, _) = parse_mtrr(&Text::new("proc/mtrr", "reg00: base=0x000000000 (    0MB), size= 4096MB, count=1: write-back\n"));
//! let kernel = (6, 1, 0);
//! let facts = Facts {
//!     registers: &table.registers,
//!     default: &DefaultType::given(MemoryType::Uncacheable),
//!     iomem: &Iomem::default(),
//!     memmap: &memmap::parse_cmdline(&Text::new("proc/cmdline", "ro memmap=80M$256M"), kernel),
//!     memtypes: &[],
//!     without_pat: false,
//!     kernel,
//! };
//! let reserved = effective(&facts, "0x10000000+80M".parse()?);
//! let mapping = reserved.mapped_by(Call::IoremapWc).ok_or("refused")?;
//! assert_eq!(mapping.parts[0].kind, MemoryType::WriteCombining);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Pitfalls:
//! - `/proc/mtrr` shows neither the default type nor the number of registers. [`DefaultType::infer`] tells the former from where RAM is.
//! - A plan holds for the table that it was made from. [`Plan::script`](plan::Plan::script) checks the table before it begins and after each write.
//! - Without root, `/proc/iomem` shows zeros for addresses.
//!
//! Parsers take a [`Text`] and never fail: lines that cannot be read come back as
//! [`LineProblem`]s. Nothing here opens a file or writes a register.
//!
//! Intel SDM section and table numbers are those of volume 3, order number 325384-060 (2016).
#![forbid(unsafe_code)]

pub mod effective;
pub mod iomem;
pub mod memmap;
pub mod memory_type;
pub mod mtrr;
pub mod pat;
pub mod plan;
pub mod problem;
pub mod range;

pub use cited::{Citation, Cited, Text};
pub use iomem::{Iomem, Resource, parse_iomem};
pub use memmap::{MemmapArea, MemmapEffect, MemmapRequest};
pub use memory_type::{MemoryType, TypeSet};
pub use mtrr::{DefaultType, KernelVersion, MtrrTable, Register, TableLayout, parse_mtrr};
pub use pat::{Memtype, PatSlots, parse_memtype_list, parse_pat_slots};
pub use problem::{LineProblem, Unreadable};
pub use range::PhysRange;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
