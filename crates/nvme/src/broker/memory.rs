//! Memory files that processes share, of a size that none of them can change.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// A new memory file of so many bytes. Its name is for people who look at a process.
pub(super) fn of_fixed_size(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    let memory = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, bytes)?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
}
