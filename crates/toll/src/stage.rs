//! The stages that the instructions of an I/O are divided into.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The stages of an I/O. Every instruction between its begin and its end belongs to exactly one. Serialised names are stable, because
/// scripts match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// User mode: the workload and its libraries, with a symbol or without.
    User,
    /// Entry and exit of system calls, and the layers before a device is known: VFS, io_uring, and the socket layer.
    SystemCall,
    /// Bios, requests, tags, plugs and schedulers of the block layer.
    BlockLayer,
    /// Protocols, queueing disciplines, socket buffers and device queues of the network.
    NetworkLayer,
    /// The adapter's driver.
    Driver,
    /// The map functions of the DMA API, without IOVA allocation and table writes.
    DmaMap,
    /// Allocation and free of IOVAs and of entries in a TCE window, with their caches.
    Iova,
    /// Writing and clearing entries of the I/O page table or TCE table.
    TableWrite,
    /// IOTLB invalidations: queueing, batching, and waiting for them.
    Invalidation,
    /// The unmap functions of the DMA API.
    DmaUnmap,
    /// swiotlb: slots and copies.
    Bounce,
    /// Copies of data except swiotlb's, mostly to and from user space.
    Copy,
    /// Interrupt entry and exit, controllers, softirqs, and the dispatch of completions.
    Interrupt,
    /// The scheduler, wake-ups, idling, and the accounting of time and timers.
    Schedule,
    /// Allocators, reference counts of pages, and page pinning.
    Memory,
    /// A known function of no other stage.
    Other,
    /// An address without a symbol.
    Unattributed,
}

impl Stage {
    /// All stages in the order in which an I/O passes them; those without a fixed position last.
    pub const ALL: [Self; 17] = [
        Self::User,
        Self::SystemCall,
        Self::BlockLayer,
        Self::NetworkLayer,
        Self::Driver,
        Self::DmaMap,
        Self::Iova,
        Self::TableWrite,
        Self::Invalidation,
        Self::DmaUnmap,
        Self::Bounce,
        Self::Copy,
        Self::Interrupt,
        Self::Schedule,
        Self::Memory,
        Self::Other,
        Self::Unattributed,
    ];

    /// Whether it belongs to DMA mapping: it runs because a driver maps and unmaps memory for its adapter, and no other stage does.
    pub fn is_dma(self) -> bool {
        matches!(
            self,
            Self::DmaMap | Self::Iova | Self::TableWrite | Self::Invalidation | Self::DmaUnmap | Self::Bounce
        )
    }

    /// Its name in reports and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::SystemCall => "system-call",
            Self::BlockLayer => "block-layer",
            Self::NetworkLayer => "network-layer",
            Self::Driver => "driver",
            Self::DmaMap => "dma-map",
            Self::Iova => "iova",
            Self::TableWrite => "table-write",
            Self::Invalidation => "invalidation",
            Self::DmaUnmap => "dma-unmap",
            Self::Bounce => "bounce",
            Self::Copy => "copy",
            Self::Interrupt => "interrupt",
            Self::Schedule => "schedule",
            Self::Memory => "memory",
            Self::Other => "other",
            Self::Unattributed => "unattributed",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_serialised_name_and_all_are_in_order() {
        for stage in Stage::ALL {
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.word());
            assert_eq!(serde_json::from_value::<Stage>(stage.word().into()).unwrap(), stage);
        }
        assert!(Stage::ALL.is_sorted());
    }
}
