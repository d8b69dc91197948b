//! An adapter's translation context.

use crate::{DomainId, Walk};
use std::fmt;
use std::sync::Arc;

/// Requester ID: bus, device and function in 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requester(pub u16);

/// How an adapter's bus addresses are translated.
#[derive(Clone)]
pub enum Context {
    /// Without a table: memory address = bus address - offset, wrapping. Offset 0 is passthrough.
    Direct {
        /// The offset.
        offset: u64,
    },
    /// By a table.
    Translated {
        /// Domain ID that tags its translations in the IOTLB.
        domain: DomainId,
        /// Walks the table.
        table: Arc<dyn Walk>,
    },
}

impl Context {
    /// The domain of a translated adapter.
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
