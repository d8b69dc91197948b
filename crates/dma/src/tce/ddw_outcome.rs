//! The result of `enable_ddw`: which DMA window an adapter got, or why only the default one.

use super::Status;
use super::rtas::RtasStatus;
use crate::{BusAddress, Domain};
use ddw::DefaultReason;
use iova::SpaceError;
use std::sync::Arc;

/// A window that was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// LIOBN.
    pub liobn: u32,
    /// Lowest bus address.
    pub first: BusAddress,
    /// Log2 of the page size.
    pub page_shift: u32,
    /// Log2 of the window's size.
    pub window_shift: u32,
}

/// How an adapter of the slot reaches memory.
#[derive(Debug)]
pub enum DdwOutcome {
    /// All memory is mapped once; the offset is the window's lowest address.
    Direct {
        /// The window.
        window: Created,
    },
    /// Like direct, and addresses above for persistent memory, which is mapped as needed.
    Hybrid {
        /// The window.
        window: Created,
        /// The domain of those addresses.
        above: Arc<Domain>,
    },
    /// A window beyond 4 GiB whose entries are written per mapping.
    Dynamic {
        /// The window.
        window: Created,
        /// Its domain.
        domain: Arc<Domain>,
    },
    /// Only the default window, as at boot.
    Default {
        /// Why no other window was created.
        why: NoWindow,
    },
}

/// Why no window was created besides the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoWindow {
    /// Linux does not request one.
    #[error("the kernel requests no window: {0:?}")]
    NotRequested(DefaultReason),
    /// The default window would have to be removed, but is in use.
    #[error("the default window would have to be removed, but is in use")]
    DefaultInUse,
    /// `ibm,query-pe-dma-windows` failed.
    #[error("ibm,query-pe-dma-windows: {0}")]
    QueryRefused(RtasStatus),
    /// `ibm,create-pe-dma-window` failed.
    #[error("ibm,create-pe-dma-window: {0}")]
    CreateRefused(RtasStatus),
    /// The hypervisor refused an entry.
    #[error("memory could not be mapped in the new window: {0}")]
    PremapRefused(Status),
    /// The window has more pages than the allocator supports.
    #[error(transparent)]
    TooLarge(#[from] SpaceError),
}

impl From<DefaultReason> for NoWindow {
    fn from(reason: DefaultReason) -> Self {
        Self::NotRequested(reason)
    }
}
