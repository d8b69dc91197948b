//! Memory that this layer copies within.

use crate::{MemoryAddress, NoMemory};

/// Memory by its addresses: a model's [`Ram`](crate::Ram), or the process's own.
pub trait Memory: Send + Sync {
    /// Copies bytes from one place to another that does not overlap it.
    ///
    /// # Errors
    /// If part of one is no memory; then nothing was copied.
    fn copy(&self, from: MemoryAddress, to: MemoryAddress, bytes: u64) -> Result<(), NoMemory>;

    /// Makes bytes zero.
    ///
    /// # Errors
    /// If part of them is no memory; then none was made zero.
    fn zero(&self, at: MemoryAddress, bytes: u64) -> Result<(), NoMemory>;
}
