//! Partitionable endpoints: the adapters that share windows, and what the firmware offers them.

use super::Stretch;
use crate::{BusAddress, NoMemory};
use ddw::PageSizes;

/// Names an endpoint in the firmware's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointAddress {
    /// Its configuration address: bus << 16 | device and function << 8.
    pub config: u32,
    /// The unit ID of its host bridge.
    pub buid: u64,
}

/// An endpoint as the firmware sets it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name.
    pub address: EndpointAddress,
    /// The LIOBN of its default window; those created later get the next ones that are free.
    pub liobn: u32,
    /// Bytes of the default window, which begins at bus address 0: mostly 2 GiB.
    pub default_bytes: u64,
    /// Memory for the tables of all its windows. What the default window leaves is the largest block that can be had.
    pub tables: Stretch,
    /// What it can have beyond that; `None` without `ibm,ddw-applicable`.
    pub offer: Option<Offer>,
}

/// Windows that an endpoint can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Windows at the same time, the default one among them.
    pub windows_max: u32,
    /// Where created ones lie, or above: 2^52 on POWER7, 2^59 later.
    pub first: BusAddress,
    /// The sizes of their pages.
    pub page_sizes: PageSizes,
    /// There is `ibm,reset-pe-dma-windows` (`ibm,ddw-extensions`).
    pub reset: bool,
    /// The query may have six outputs, with 64 bits for the largest block (`ibm,ddw-extensions`).
    pub query_in_six: bool,
}

/// What the device tree says of an endpoint at boot, on the node above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// `ibm,dma-window`.
    pub default_window: DefaultWindow,
    /// `ibm,ddw-applicable` is there.
    pub ddw_applicable: bool,
    /// `ibm,ddw-extensions`: windows can be reset.
    pub reset: bool,
    /// `ibm,ddw-extensions`: the query may have six outputs.
    pub query_in_six: bool,
}

/// The window that an endpoint has at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultWindow {
    /// Its number.
    pub liobn: u32,
    /// Its lowest address.
    pub first: BusAddress,
    /// Its size.
    pub bytes: u64,
}

/// Why there can be no such endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Its address or LIOBN is another's.
    #[error("endpoint {config:#x} of bridge {buid:#x} or LIOBN {liobn:#x} is there already")]
    Taken {
        /// Its configuration address.
        config: u32,
        /// Its bridge.
        buid: u64,
        /// Its LIOBN.
        liobn: u32,
    },
    /// LoPAR wants the default window below 4 GiB; it is of whole pages of 4 KiB.
    #[error("a default window of {bytes:#x} bytes: not whole pages of 4 KiB, none, or more than 4 GiB")]
    DefaultWindow {
        /// Its size.
        bytes: u64,
    },
    /// The default window's table does not fit.
    #[error("{bytes:#x} bytes for tables do not hold the default window's")]
    NoRoom {
        /// Bytes for tables.
        bytes: u64,
    },
    /// Its tables would lie in the partition's memory, or in another endpoint's tables.
    #[error("tables at {} with {:#x} bytes are the partition's memory or another endpoint's tables", .0.start, .0.bytes)]
    Overlaps(Stretch),
    /// Its tables would lie where there is no memory, or not at a page of 4 KiB.
    #[error("no memory for tables")]
    NoMemory(#[from] NoMemory),
}

impl Endpoint {
    pub(super) fn properties(&self) -> Properties {
        Properties {
            default_window: self.default_window(),
            ddw_applicable: self.offer.is_some(),
            reset: self.offer.is_some_and(|offer| offer.reset),
            query_in_six: self.offer.is_some_and(|offer| offer.query_in_six),
        }
    }

    pub(super) fn default_window(&self) -> DefaultWindow {
        DefaultWindow { liobn: self.liobn, first: BusAddress(0), bytes: self.default_bytes }
    }
}
