//! The memory that bounce buffers and coherent buffers are in.

use crate::{MemoryAddress, NoMemory};

/// Memory by address: a model's [`Ram`](crate::Ram), or the process's own.
pub trait Memory: Send + Sync {
    /// Copies bytes between ranges that do not overlap.
    ///
    /// # Errors
    /// If a range is outside the memory; then nothing was copied.
    fn copy(&self, from: MemoryAddress, to: MemoryAddress, bytes: u64) -> Result<(), NoMemory>;

    /// Sets bytes to zero.
    ///
    /// # Errors
    /// If the range is outside the memory; then nothing was changed.
    fn zero(&self, at: MemoryAddress, bytes: u64) -> Result<(), NoMemory>;
}
