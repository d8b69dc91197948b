//! Why two hosts have no outcome.

use crate::host::HostError;
use crate::steady::Unsteady;

/// Why two hosts have no outcome.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// An invalid host, or a DMA path that can't be built.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A packet that no send ring can hold would wait for ever.
    #[error(
        "a send ring of the {host} has {entries} descriptors; expected {needed}, those of the longest packet"
    )]
    SendRing {
        /// Client or server.
        host: &'static str,
        /// Descriptors of the ring.
        entries: u32,
        /// Descriptors of the longest packet.
        needed: u64,
    },
    /// No window was steady.
    #[error(transparent)]
    Unsteady(#[from] Unsteady),
}
