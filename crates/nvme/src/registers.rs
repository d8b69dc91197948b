//! Access to a controller's registers.

use std::fmt;
use std::sync::Arc;

/// Registers of a real controller (mapped through VFIO) or an emulated one. Reads from an adapter that was removed
/// return all ones.
///
/// Implementations order register accesses against memory accesses. Memory writes before a register write are visible
/// to the controller first; memory reads after a register read are not moved before it.
pub trait Registers: Send + Sync + fmt::Debug {
    /// Reads a 32-bit register.
    fn read_u32(&self, at: u64) -> u32;
    /// Reads a 64-bit register.
    fn read_u64(&self, at: u64) -> u64;
    /// Writes a 32-bit register.
    fn write_u32(&self, at: u64, value: u32);
    /// Writes a 64-bit register.
    fn write_u64(&self, at: u64, value: u64);
}

/// Registers that others use too.
impl<R: Registers + ?Sized> Registers for Arc<R> {
    fn read_u32(&self, at: u64) -> u32 {
        (**self).read_u32(at)
    }

    fn read_u64(&self, at: u64) -> u64 {
        (**self).read_u64(at)
    }

    fn write_u32(&self, at: u64, value: u32) {
        (**self).write_u32(at, value);
    }

    fn write_u64(&self, at: u64, value: u64) {
        (**self).write_u64(at, value);
    }
}

/// Offsets beyond the BAR read as all ones, as for a removed adapter.
#[cfg(target_os = "linux")]
impl Registers for dma::vfio::Registers {
    fn read_u32(&self, at: u64) -> u32 {
        Self::read_u32(self, at).unwrap_or(u32::MAX)
    }

    fn read_u64(&self, at: u64) -> u64 {
        Self::read_u64(self, at).unwrap_or(u64::MAX)
    }

    fn write_u32(&self, at: u64, value: u32) {
        let _ = Self::write_u32(self, at, value);
    }

    fn write_u64(&self, at: u64, value: u64) {
        let _ = Self::write_u64(self, at, value);
    }
}
