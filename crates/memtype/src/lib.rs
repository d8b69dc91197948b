//! x86 memory types: what an address is cached as, why, and how to change it.
//!
//! A CPU's view of a physical address is the product of three things: the memory type range registers
//! (`/proc/mtrr`), the page table of the mapping (PAT), and who owns the address (`/proc/iomem`,
//! `memmap=`), which decides what mappings the kernel grants. Each has its parser here;
//! [`effective`] joins them, and [`plan`] works out how to change the registers.
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
