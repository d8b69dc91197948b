//! The JSON document of `iotoll inspect`: `iotoll.inspect/2`.
//!
//! ```text
//! files of a host ──> host::Host ──> host::Inspection ──> Document ──> JSON
//!                     (facts)        (DMA paths,          (tables)
//!                                     findings)
//! ```
//!
//! The types of `host` may change at any time, the document may not, so it has its own types. It is designed for column stores and short
//! scripts:
//!
//! - Each array of the document is a table: all its rows have the same fields, and a field has one type in all documents.
//! - An unknown value is `null`. A missing row means that the thing does not exist. A capability states which of the two applies.
//! - Keys are in snake_case. Words that name a kind (`translated-strict`, `smmu-v3`) are in kebab-case and stable.
//! - Names that come from a host are never keys.
//! - PCI IDs and addresses in memory are hexadecimal strings, as sysfs and the kernel's log have them; all other quantities
//!   are numbers with the unit last in their name.
//! - `citations` lead from a value to its file: their rows name the value by a JSON pointer (RFC 6901).
//!
//! ```
//! let listing = "3b:00.0 Ethernet controller [0200]: Intel Corporation I350 [8086:1521]\n\tKernel driver in use: igb\n";
//! let mut files = host::tree::Memory::default();
//! files.file("sos_commands/pci/lspci", listing);
//! let inspection = host::Inspection::of(host::Host::read(&host::Tree::of_memory(files)));
//! let document = inspection::Document::new(&inspection, "an example", "pasted text", None);
//! assert_eq!(document.adapters[0].function.vendor_id.as_deref(), Some("0x8086"));
//! assert_eq!(document.adapters[0].dma_path, host::diagnose::DmaPath::Unknown);
//! ```
//!
//! Any release may add fields; a reader must ignore those that it does not know. If a field is removed or changes its meaning, the number in
//! `schema` changes.

mod adapter;
mod capability;
mod citation;
mod document;
mod estimate;
mod finding;
mod hex;
mod host_facts;
mod iommu;
mod kernel_log;
mod kernel_option;
mod memory;
mod power;
mod rdma;
mod unseen;

pub use adapter::{Adapter, Function, Interface, Vector};
pub use capability::{Capabilities, Capability, CapabilityState};
pub use citation::CitedFact;
pub use document::{Document, SCHEMA, Source};
pub use estimate::{Estimate, EventCount, TimeOnPath};
pub use finding::{Charge, Cost, Finding, Forecast, ForecastParameter, PredictedTime, Prediction};
pub use host_facts::{BounceBuffers, HostFacts, NumaNode};
pub use iommu::{Iommu, IommuGroup};
pub use kernel_log::{KernelLog, LogFact, LogFactKind, UnjudgedProblem};
pub use kernel_option::{KernelOption, OptionEffect, OptionVerdict};
pub use memory::{MemmapArea, MemmapKind, MemoryResource, MemoryTypes, MtrrRegister, PatMapping};
pub use power::{DmaEndpoint, DmaWindow, DmaWindowKind, FirmwareLevel, PartitionSetting, PowerPlatform};
pub use rdma::{RdmaDevice, RdmaPort};
pub use unseen::{ReasonKind, Unseen};

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
