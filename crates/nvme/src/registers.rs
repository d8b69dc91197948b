//! A controller's registers, wherever they are.

use std::fmt;

/// Registers of a controller: a real one's, mapped through VFIO, or an emulated one's. What is read of an adapter that is gone, is
/// ones.
///
/// Accesses to registers are in order with those to memory, which the controller reads and writes by itself: what is done to memory before a
/// register is written is done before that, and what is done to memory after a register is read is done after that.
pub trait Registers: Send + Sync + fmt::Debug {
    /// Reads four bytes.
    fn read_u32(&self, at: u64) -> u32;
    /// Reads eight.
    fn read_u64(&self, at: u64) -> u64;
    /// Writes four bytes.
    fn write_u32(&self, at: u64, value: u32);
    /// Writes eight.
    fn write_u64(&self, at: u64, value: u64);
}

/// There is nothing beyond the BAR, as there is nothing of an adapter that is gone.
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
