//! A host, its paths and its disk.

use super::adapter::Adapter;
use super::media::Media;
use crate::host::{Cpus, DmaPath, MappingCost};

/// A host with an NVMe adapter.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its CPUs.
    pub cpus: Cpus,
    /// What it executes.
    pub paths: Paths,
    /// Its adapter.
    pub adapter: Adapter,
    /// What the adapter keeps its data in.
    pub media: Media,
    /// How it maps memory.
    pub dma_path: DmaPath,
    /// What that costs.
    pub mapping: MappingCost,
    /// Instructions for each entry that a call writes or clears beyond its first, where an IOMMU reads tables in memory.
    pub entry_instructions: f64,
}

/// Instructions, without those of mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paths {
    /// To ask for a read or a write: the system call, the block layer, the driver.
    pub submit: f64,
    /// The same for each page beyond the first.
    pub submit_page: f64,
    /// To put a command into its queue and ring the doorbell, with the queue's lock held.
    pub queue: f64,
    /// To take an interrupt, and to be back from it.
    pub interrupt: f64,
    /// To complete a command.
    pub complete: f64,
    /// The same for each page beyond the first.
    pub complete_page: f64,
    /// For a thread to go to sleep.
    pub sleep: f64,
    /// To be woken.
    pub wake: f64,
}
