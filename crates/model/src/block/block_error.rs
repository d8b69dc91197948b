//! Why a host with a disk has no outcome.

use crate::host::HostError;
use crate::steady::Unsteady;

/// Why a host with a disk has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// An invalid host, or a DMA path that can't be built.
    #[error(transparent)]
    Host(#[from] HostError),
    /// No window was steady.
    #[error(transparent)]
    Unsteady(#[from] Unsteady),
}
