//! Typed facts about a Linux host's DMA, and the rules that diagnose them.
//!
//! Facts are read from a live system or from a capture of one; each keeps the file and line that it
//! came from. Rules look at facts only: they open no file.
//!
//! What decodes PCI and x86 memory types is in libraries of their own, [`pci`] and [`memory`] (the crate `memtype`).

pub mod diagnose;
pub mod digest;
pub mod facts;
pub mod kernel;
pub mod power;
pub mod redact;
#[cfg(feature = "schema")]
mod schema;
pub mod tree;

pub use cited::{Citation, Cited, Text};
pub use diagnose::Inspection;
pub use digest::{Digest, sheet_word};
pub use facts::{Host, NoFacts};
pub use memtype as memory;
pub use pci::{self, Bdf};
pub use tree::Tree;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
