//! What becomes of the addresses of an adapter.

use crate::{DomainId, Walk};
use std::fmt;
use std::sync::Arc;

/// Who puts an address on the bus: bus, device and function, as PCIe packs them into 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requester(pub u16);

/// How an adapter's addresses lead to memory.
#[derive(Clone)]
pub enum Context {
    /// Without a table: bus address = memory address + offset, wrapping. 0 for an IOMMU that lets everything pass.
    Direct {
        /// The offset.
        offset: u64,
    },
    /// By a table.
    Translated {
        /// Under which name its translations are remembered.
        domain: DomainId,
        /// What reads the table.
        table: Arc<dyn Walk>,
    },
}

impl Context {
    pub(super) fn domain(&self) -> Option<DomainId> {
        match self {
            Self::Direct { .. } => None,
            Self::Translated { domain, .. } => Some(*domain),
        }
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bus, device, function) = (self.0 >> 8, self.0 >> 3 & 0x1f, self.0 & 7);
        write!(formatter, "{bus:02x}:{device:02x}.{function}")
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { offset } => formatter.debug_struct("Direct").field("offset", offset).finish(),
            Self::Translated { domain, .. } => {
                formatter.debug_struct("Translated").field("domain", domain).finish_non_exhaustive()
            }
        }
    }
}
