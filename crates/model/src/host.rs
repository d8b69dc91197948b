//! A host's CPUs and what they share: each does the steps of its tasks, waits for locks, and maps memory for adapters.
//!
//! It knows neither adapters nor what tasks are about: a machine asks a CPU what is next, says what a task's steps
//! are, and does what they lead to.

mod cpu;
mod cpus;
mod file;
mod invalidation_queue;
mod mapping;
mod memory;
mod processors;
mod stage;
mod translator;
mod usage;

pub use cpus::{Cpus, LineTransfer};
pub use invalidation_queue::InvalidationQueue;
pub use mapping::{DmaPath, Forgets, Locking, MappingCost};
pub use memory::Memory;
pub use stage::Stage;
pub use translator::IommuSetup;
pub use usage::{CpuUsage, CpusAnswer, IommuAnswer, IommuUsage, StageAnswer};

pub(crate) use cpu::{Level, Step};
pub(crate) use file::{CpusFile, IommuFile, MappingFile, MemoryFile};
pub(crate) use mapping::{Mapped, Mapping};
pub(crate) use processors::{Next, Processors};
pub(crate) use usage::Counts;

use crate::partition::PartitionError;

/// What can't be had of a host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A partition.
    #[error("the partition of a host")]
    Partition(#[from] PartitionError),
    /// An IOMMU's tables.
    #[error("the IOMMU of a host")]
    Domain(#[from] dma::DomainError),
    /// A number of servers that makes no sense.
    #[error("a part of a host")]
    Part(#[from] des::Misuse),
}
