//! A software IOMMU: it walks the page tables in memory, caches translations in an IOTLB, and is an adapter's only
//! access to memory.

mod context;
mod domain;
mod domain_ids;
mod fault;
mod software_adapter;
mod unit;

pub use context::{Context, Requester};
pub use domain::{DomainError, SoftwareDomain};
pub use domain_ids::NoDomainId;
pub use fault::{Fault, Faults, Reason};
pub use software_adapter::{SoftwareAdapter, Stopped, Translated};
pub use unit::Unit;
