//! Where the instructions of one I/O go.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The stages of an I/O. Every instruction between its begin and its end belongs to exactly one.
/// Serialised names are stable: scripts match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// All that runs in user mode: the workload and its libraries, with a symbol or without.
    User,
    /// Entry and exit of system calls, and what stands behind them before a device is known: VFS, io_uring,
    /// the sockets' front.
    SystemCall,
    /// Bios, requests, tags, plugs and schedulers of the block layer.
    BlockLayer,
    /// Protocols, queueing disciplines, socket buffers and device queues of the network.
    NetworkLayer,
    /// The adapter's driver.
    Driver,
    /// The DMA API's map side, from its entry to where an address is allocated or entries are written.
    DmaMap,
    /// I/O virtual addresses and places in a TCE window: allocation and free, with their caches.
    Iova,
    /// Entries of the I/O page table or TCE table, written and cleared.
    TableWrite,
    /// IOTLB invalidations: queued, batched, waited for.
    Invalidation,
    /// The DMA API's unmap side.
    DmaUnmap,
    /// swiotlb: its slots and its copies.
    Bounce,
    /// Copies of data that are not swiotlb's, to and from user space above all.
    Copy,
    /// Interrupt entry and exit, controllers, softirqs, and the dispatch of completions.
    Interrupt,
    /// The scheduler, wake-ups, idling, and the accounting of time and timers.
    Schedule,
    /// Allocators, reference counts of pages, and page pinning.
    Memory,
    /// A known function that belongs to no stage above.
    Other,
    /// An address for which there is no symbol.
    Unattributed,
}

impl Stage {
    /// All stages, in the order an I/O passes them, those without a place in it last.
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

    /// The word used for it everywhere.
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
    fn one_word_in_all_places_and_in_order() {
        for stage in Stage::ALL {
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.word());
            assert_eq!(serde_json::from_value::<Stage>(stage.word().into()).unwrap(), stage);
        }
        assert!(Stage::ALL.is_sorted());
    }
}
