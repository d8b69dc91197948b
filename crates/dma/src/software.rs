//! An IOMMU in software: it walks the tables that were really written, remembers what it read until it is told to forget, and
//! lets adapters reach memory through that alone.

mod adapter;
mod context;
mod domain;
mod domain_ids;
mod fault;
mod unit;

pub use adapter::{Adapter, Stopped, Translated};
pub use context::{Context, Requester};
pub use domain::{DomainError, SoftwareDomain};
pub use domain_ids::NoDomainId;
pub use fault::{Fault, Faults, Reason};
pub use unit::Unit;
