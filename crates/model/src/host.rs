//! A host's CPUs with their tasks and locks, and the mapping of memory for adapters.
//!
//! It knows nothing about adapters or the content of tasks. A machine (block, network, flash array) asks a CPU for
//! its next action, supplies the steps of each task, and applies their effects.

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
pub use mapping::{DmaPath, InvalidationMode, Locking, MappingCost};
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

/// Why a host can't be simulated.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The POWER partition.
    #[error("can't set up the host's POWER partition")]
    Partition(#[from] PartitionError),
    /// The IOMMU's tables.
    #[error("can't set up the host's IOMMU")]
    Table(#[from] dma::DomainError),
    /// The driver's bus addresses.
    #[error("can't set up the driver's bus addresses")]
    Domain(#[from] dma::BuildError),
    /// An invalid parameter of a resource.
    #[error("can't set up a part of the host")]
    Part(#[from] des::Misuse),
}
