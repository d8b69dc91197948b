//! The host's parameters.

use super::media::Media;
use super::nvme_adapter::NvmeAdapter;
use crate::host::{Cpus, DmaPath, MappingCost};

/// A host with an NVMe adapter.
#[derive(Debug, Clone)]
pub struct BlockHost {
    /// Its CPUs.
    pub cpus: Cpus,
    /// Lengths of its code paths.
    pub paths: Paths,
    /// Its adapter.
    pub adapter: NvmeAdapter,
    /// The adapter's media.
    pub media: Media,
    /// DMA path.
    pub dma_path: DmaPath,
    /// Costs of mapping.
    pub mapping: MappingCost,
    /// Instructions per table entry beyond a call's first, for an IOMMU with tables in memory.
    pub entry_instructions: f64,
}

/// Lengths of code paths in instructions, without mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paths {
    /// Submission of a request: system call, block layer, driver.
    pub submit: f64,
    /// Addition for each page beyond the first.
    pub submit_page: f64,
    /// Writing a command into the queue and ringing the doorbell, while the queue's lock is held.
    pub queue: f64,
    /// An interrupt, entry and exit.
    pub interrupt: f64,
    /// Completion of a command.
    pub complete: f64,
    /// Addition for each page beyond the first.
    pub complete_page: f64,
    /// Putting a thread to sleep.
    pub sleep: f64,
    /// Waking a thread.
    pub wake: f64,
}
