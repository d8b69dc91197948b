//! Registers of an adapter.

#![allow(unsafe_code, reason = "registers are memory that the adapter answers for")]

use super::order;
use crate::Ram;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// A BAR of an adapter, mapped into this process.
#[derive(Debug)]
pub struct Registers {
    first: NonNull<u8>,
    bytes: usize,
    /// What the adapter reaches without an IOMMU: the mapping keeps the adapter open.
    _reaches: Option<Arc<Ram>>,
}

/// There is no such register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no register of {width} bytes at {at:#x}: the BAR has {bytes:#x}, and registers lie at multiples of their width"
)]
pub struct OutOfRegisters {
    /// Where it was to be.
    pub at: u64,
    /// Its bytes.
    pub width: u64,
    /// What the BAR has.
    pub bytes: u64,
}

// SAFETY: the mapping is this value's alone, and an adapter's registers may be read and written by any thread.
unsafe impl Send for Registers {}
// SAFETY: each access is one load or store, of whatever the adapter makes of it.
unsafe impl Sync for Registers {}

impl Registers {
    pub(super) fn map(
        device: BorrowedFd<'_>,
        offset: u64,
        bytes: u64,
        reaches: Option<Arc<Ram>>,
    ) -> rustix::io::Result<Self> {
        if !order::IS_KNOWN {
            return Err(rustix::io::Errno::OPNOTSUPP);
        }
        let bytes = usize::try_from(bytes).map_err(|_| rustix::io::Errno::OVERFLOW)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place where nothing is.
        let first = unsafe { mmap(null_mut(), bytes, rights, MapFlags::SHARED, device, offset) }?;
        NonNull::new(first.cast())
            .map(|first| Self { first, bytes, _reaches: reaches })
            .ok_or(rustix::io::Errno::NOMEM)
    }

    /// Reads a register, and waits for the adapter. What is read of memory or written to it afterwards is read or written after that.
    ///
    /// # Errors
    /// If there is none.
    pub fn read_u32(&self, at: u64) -> Result<u32, OutOfRegisters> {
        let register = self.register::<u32>(at)?;
        order::before_read();
        // SAFETY: within the mapping, aligned.
        let value = unsafe { register.read_volatile() };
        order::after_read(value.into());
        Ok(u32::from_le(value))
    }

    /// Writes a register. The adapter sees it after what was written to memory before, and what was read of memory before is not what
    /// the adapter writes there in answer.
    ///
    /// # Errors
    /// If there is none.
    pub fn write_u32(&self, at: u64, value: u32) -> Result<(), OutOfRegisters> {
        let register = self.register::<u32>(at)?;
        order::before_write();
        // SAFETY: within the mapping, aligned.
        unsafe { register.write_volatile(value.to_le()) };
        Ok(())
    }

    /// Reads a register of eight bytes, in order with memory as [`read_u32`](Self::read_u32).
    ///
    /// # Errors
    /// If there is none.
    pub fn read_u64(&self, at: u64) -> Result<u64, OutOfRegisters> {
        let register = self.register::<u64>(at)?;
        order::before_read();
        // SAFETY: within the mapping, aligned.
        let value = unsafe { register.read_volatile() };
        order::after_read(value);
        Ok(u64::from_le(value))
    }

    /// Writes a register of eight bytes, in order with memory as [`write_u32`](Self::write_u32).
    ///
    /// # Errors
    /// If there is none.
    pub fn write_u64(&self, at: u64, value: u64) -> Result<(), OutOfRegisters> {
        let register = self.register::<u64>(at)?;
        order::before_write();
        // SAFETY: within the mapping, aligned.
        unsafe { register.write_volatile(value.to_le()) };
        Ok(())
    }

    fn register<T>(&self, at: u64) -> Result<*mut T, OutOfRegisters> {
        let (width, bytes) = (size_of::<T>() as u64, self.bytes as u64);
        let none = OutOfRegisters { at, width, bytes };
        let end = at.checked_add(width).filter(|end| *end <= bytes && at.is_multiple_of(width));
        // SAFETY: so many bytes further is still within the mapping, which begins at a page.
        end.map(|_| unsafe { self.first.as_ptr().add(at as usize) }.cast()).ok_or(none)
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: nobody has a pointer into it any more.
        let _: Result<(), io::Error> =
            unsafe { munmap(self.first.as_ptr().cast(), self.bytes) }.map_err(Into::into);
    }
}
