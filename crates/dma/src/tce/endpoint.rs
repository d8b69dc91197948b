//! Partitionable endpoints: adapters that share DMA windows, and what the firmware offers them.

use super::MemoryRange;
use crate::{BusAddress, NoMemory};
use ddw::PageSizes;

/// Address of an endpoint in RTAS calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointAddress {
    /// Its configuration address: bus << 16 | device and function << 8.
    pub config: u32,
    /// The unit ID of its host bridge.
    pub buid: u64,
}

/// An endpoint as the firmware configures it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address in RTAS calls.
    pub address: EndpointAddress,
    /// LIOBN of the default window. Created windows get the next free ones.
    pub liobn: u32,
    /// Size of the default window, usually 2 GiB. It begins at bus address 0.
    pub default_bytes: u64,
    /// Memory for the tables of all its windows. What the default window leaves limits the largest block.
    pub tables: MemoryRange,
    /// What dynamic windows it can have; `None` without `ibm,ddw-applicable`.
    pub offer: Option<Offer>,
}

/// Dynamic windows that an endpoint can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Most windows at a time, including the default one.
    pub windows_max: u32,
    /// Lowest address of created windows: 2^52 on POWER7, 2^59 later.
    pub first: BusAddress,
    /// Page sizes of created windows.
    pub page_sizes: PageSizes,
    /// `ibm,reset-pe-dma-windows` exists (`ibm,ddw-extensions`).
    pub reset: bool,
    /// The query may have six outputs, with 64 bits for the largest block (`ibm,ddw-extensions`).
    pub query_in_six: bool,
}

/// Device-tree properties of an endpoint's parent node at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// `ibm,dma-window`.
    pub default_window: DefaultWindow,
    /// `ibm,ddw-applicable` exists.
    pub ddw_applicable: bool,
    /// `ibm,ddw-extensions`: windows can be reset.
    pub reset: bool,
    /// `ibm,ddw-extensions`: the query may have six outputs.
    pub query_in_six: bool,
}

/// The default window in the device tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultWindow {
    /// LIOBN.
    pub liobn: u32,
    /// Lowest bus address.
    pub first: BusAddress,
    /// Size.
    pub bytes: u64,
}

/// Why an endpoint can't be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Its address or LIOBN is in use.
    #[error("endpoint {config:#x} of bridge {buid:#x}, or LIOBN {liobn:#x}, exists already")]
    Taken {
        /// Configuration address.
        config: u32,
        /// Unit ID of the bridge.
        buid: u64,
        /// LIOBN.
        liobn: u32,
    },
    /// The default window must lie below 4 GiB (LoPAR), in whole pages of 4 KiB.
    #[error("a default window of {bytes:#x} bytes; expected a multiple of 4 KiB, up to 4 GiB")]
    DefaultWindow {
        /// Size of the window.
        bytes: u64,
    },
    /// The default window's table does not fit.
    #[error("{bytes:#x} bytes for tables are too few for the default window")]
    NoRoom {
        /// Bytes for tables.
        bytes: u64,
    },
    /// Its tables would overlap the partition's memory or another endpoint's tables.
    #[error("tables at {} with {:#x} bytes overlap the partition's memory or another endpoint's tables", .0.start, .0.bytes)]
    Overlaps(MemoryRange),
    /// Its tables would lie outside the memory, or not at a 4 KiB boundary.
    #[error("the memory for tables is outside the memory given")]
    NoMemory(#[from] NoMemory),
}

impl Endpoint {
    /// The properties that the device tree shows of it.
    pub(super) fn properties(&self) -> Properties {
        Properties {
            default_window: self.default_window(),
            ddw_applicable: self.offer.is_some(),
            reset: self.offer.is_some_and(|offer| offer.reset),
            query_in_six: self.offer.is_some_and(|offer| offer.query_in_six),
        }
    }

    /// The default window as the device tree shows it.
    pub(super) fn default_window(&self) -> DefaultWindow {
        DefaultWindow { liobn: self.liobn, first: BusAddress(0), bytes: self.default_bytes }
    }
}
