//! Registers of a device in a mapped BAR.

#![allow(unsafe_code, reason = "registers are memory that the adapter answers for")]

use super::order;
use crate::Ram;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// A mapped BAR.
#[derive(Debug)]
pub struct Registers {
    first: NonNull<u8>,
    bytes: usize,
    /// Without an IOMMU: the memory that the device can reach, since the mapping keeps the device open.
    _reaches: Option<Arc<Ram>>,
}

/// The register does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no register of {width} bytes at {at:#x}; expected a multiple of its width within the BAR of {bytes:#x} bytes"
)]
pub struct OutOfRegisters {
    /// Offset in the BAR.
    pub at: u64,
    /// Width in bytes.
    pub width: u64,
    /// Size of the BAR.
    pub bytes: u64,
}

// SAFETY: this value owns the mapping, and registers may be accessed from any thread.
unsafe impl Send for Registers {}
// SAFETY: each access is one load or store; the device handles concurrent ones.
unsafe impl Sync for Registers {}

impl Registers {
    /// Maps `bytes` bytes of a device's file from `offset` on.
    pub(super) fn map(
        device: BorrowedFd<'_>,
        offset: u64,
        bytes: u64,
        reachable_memory: Option<Arc<Ram>>,
    ) -> rustix::io::Result<Self> {
        if !order::IS_KNOWN {
            return Err(rustix::io::Errno::OPNOTSUPP);
        }
        let bytes = usize::try_from(bytes).map_err(|_| rustix::io::Errno::OVERFLOW)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a fixed address the kernel maps nothing over existing mappings.
        let first = unsafe { mmap(null_mut(), bytes, rights, MapFlags::SHARED, device, offset) }?;
        NonNull::new(first.cast())
            .map(|first| Self { first, bytes, _reaches: reachable_memory })
            .ok_or(rustix::io::Errno::NOMEM)
    }

    /// Reads a 32-bit register. Later memory accesses come after the read.
    ///
    /// # Errors
    /// If the BAR has no such register.
    #[inline]
    pub fn read_u32(&self, at: u64) -> Result<u32, OutOfRegisters> {
        let register = self.register::<u32>(at)?;
        order::before_read();
        // SAFETY: within the mapping, aligned.
        let value = unsafe { register.read_volatile() };
        order::after_read(value.into());
        Ok(u32::from_le(value))
    }

    /// Writes a 32-bit register. Earlier memory accesses come before the write.
    ///
    /// # Errors
    /// If the BAR has no such register.
    #[inline]
    pub fn write_u32(&self, at: u64, value: u32) -> Result<(), OutOfRegisters> {
        let register = self.register::<u32>(at)?;
        order::before_write();
        // SAFETY: within the mapping, aligned.
        unsafe { register.write_volatile(value.to_le()) };
        Ok(())
    }

    /// Reads a 64-bit register, ordered like [`read_u32`](Self::read_u32).
    ///
    /// # Errors
    /// If the BAR has no such register.
    #[inline]
    pub fn read_u64(&self, at: u64) -> Result<u64, OutOfRegisters> {
        let register = self.register::<u64>(at)?;
        order::before_read();
        // SAFETY: within the mapping, aligned.
        let value = unsafe { register.read_volatile() };
        order::after_read(value);
        Ok(u64::from_le(value))
    }

    /// Writes a 64-bit register, ordered like [`write_u32`](Self::write_u32).
    ///
    /// # Errors
    /// If the BAR has no such register.
    #[inline]
    pub fn write_u64(&self, at: u64, value: u64) -> Result<(), OutOfRegisters> {
        let register = self.register::<u64>(at)?;
        order::before_write();
        // SAFETY: within the mapping, aligned.
        unsafe { register.write_volatile(value.to_le()) };
        Ok(())
    }

    /// A pointer to the register at an offset. Fails if it is unaligned or beyond the BAR.
    #[inline]
    fn register<T>(&self, at: u64) -> Result<*mut T, OutOfRegisters> {
        let (width, bytes) = (size_of::<T>() as u64, self.bytes as u64);
        let is_within = at % width == 0 && at.checked_add(width).is_some_and(|end| end <= bytes);
        if !is_within {
            return Err(OutOfRegisters { at, width, bytes });
        }
        // SAFETY: the offset is within the mapping, which begins at a page boundary.
        Ok(unsafe { self.first.as_ptr().add(at as usize) }.cast())
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: no pointer into the mapping is left.
        let _: Result<(), io::Error> =
            unsafe { munmap(self.first.as_ptr().cast(), self.bytes) }.map_err(Into::into);
    }
}
