//! A POWER partition with one adapter's endpoint: as much of one as windows need.

use ddw::PageSizes;
use dma::tce::{Endpoint, EndpointAddress, EndpointError, Hypervisor, MemoryRange, Offer, PciSlot};
use dma::{BusAddress, Frames, MemoryAddress, Ram};
use iova::SpaceError;
use std::sync::Arc;

/// A partition as its profile describes it, and what the firmware offers its slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partition {
    /// Memory that it has.
    pub(crate) memory_bytes: u64,
    /// Bytes of the default window.
    pub(crate) default_bytes: u64,
    /// Windows beside it; `None` in a slot without them.
    pub(crate) offer: Option<Windows>,
}

/// Windows on offer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    /// Entries of the largest.
    pub(crate) block_tces: u64,
    /// Sizes of their pages.
    pub(crate) page_sizes: PageSizes,
    /// Where they begin.
    pub(crate) first: BusAddress,
}

const ADDRESS: EndpointAddress = EndpointAddress { config: 0x1_0000, buid: 0x8000_0002_0000_0010 };
const LIOBN: u32 = 0x1000_0010;
/// Pages for lists of entries.
const LISTS_BYTES: u64 = 64 << 10;
const ENTRY_BYTES: u64 = 8;

/// Why there is no such partition.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// Its default window has too many pages.
    #[error("the default window's addresses")]
    Space(#[from] SpaceError),
    /// Its endpoint can't be.
    #[error("the adapter's endpoint")]
    Endpoint(#[from] EndpointError),
}

impl Partition {
    /// The adapter's slot. `cpu` returns the calling CPU, which selects a pool.
    pub(crate) fn slot(&self, cpu: fn() -> u32) -> Result<PciSlot, PartitionError> {
        let entries = (self.default_bytes >> ddw::DEFAULT_PAGE_SHIFT)
            + self.offer.map_or(0, |windows| windows.block_tces);
        let tables = MemoryRange { start: MemoryAddress(self.memory_bytes), bytes: entries * ENTRY_BYTES };
        // Of the partition's memory, only the pages for lists are really there; of the hypervisor's, the tables.
        let lists = MemoryAddress(self.memory_bytes - LISTS_BYTES);
        let ram = Arc::new(Ram::new(lists, LISTS_BYTES + tables.bytes));
        let memory = MemoryRange { start: MemoryAddress(0), bytes: self.memory_bytes };
        let hypervisor = Arc::new(Hypervisor::new(Arc::clone(&ram), [memory]));
        let offer = self.offer.map(|windows| Offer {
            // The default one and another.
            windows_max: 2,
            first: windows.first,
            page_sizes: windows.page_sizes,
            reset: false,
            query_in_six: false,
        });
        let default_bytes = self.default_bytes;
        hypervisor.add(Endpoint { address: ADDRESS, liobn: LIOBN, default_bytes, tables, offer })?;
        let lists = Frames::new(lists, LISTS_BYTES);
        let partition = Arc::new(dma::tce::Partition::new(hypervisor, ram, lists, vec![memory], "", cpu));
        let slot = PciSlot::new(partition, ADDRESS)?;
        Ok(slot.unwrap_or_else(|| unreachable!("the endpoint was added just now")))
    }
}
