//! A PCI device opened through VFIO.

use super::call;
use super::error::VfioError;
use super::registers::Registers;
use crate::Ram;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{pread, pwrite};
use std::sync::Arc;
use vfio_bindings::bindings::vfio;

const RESET: u8 = 111;
const CONFIG: u32 = vfio::VFIO_PCI_CONFIG_REGION_INDEX;
/// The command register in configuration space, with its bits for memory space and bus mastering (PCI Local Bus
/// Specification 3.0, 6.2.2).
const COMMAND: u64 = 4;
const MEMORY_SPACE: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;

/// An open device. The kernel resets it when it is opened and when it is closed.
#[derive(Debug)]
pub struct Device {
    file: OwnedFd,
    /// Without an IOMMU: the memory that it can reach, kept while it is open.
    reachable_memory: Option<Arc<Ram>>,
}

/// A region of a device: a BAR or configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Size in bytes; 0 if there is none.
    pub bytes: u64,
    /// It can be mapped with `mmap`.
    pub is_mappable: bool,
    offset: u64,
}

impl Device {
    /// A device by its VFIO file; resets it if it supports that.
    pub(super) fn new(file: OwnedFd) -> Result<Self, VfioError> {
        let argsz = size_of::<vfio::vfio_device_info>() as u32;
        let mut info = vfio::vfio_device_info { argsz, ..Default::default() };
        call::with(&file, &mut info).map_err(VfioError::call("VFIO_DEVICE_GET_INFO"))?;
        let device = Self { file, reachable_memory: None };
        if info.flags & vfio::VFIO_DEVICE_FLAGS_RESET != 0 {
            device.reset()?;
        }
        Ok(device)
    }

    /// Keeps `memory` while the device or [its registers](Self::registers) are open.
    pub(super) fn keeping_memory(self, memory: Arc<Ram>) -> Self {
        Self { reachable_memory: Some(memory), ..self }
    }

    /// The file, for ioctls.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Resets the device to its state after power-on.
    ///
    /// # Errors
    /// If the reset fails.
    pub fn reset(&self) -> Result<(), VfioError> {
        call::with_number(&self.file, RESET, 0).map_err(VfioError::call("VFIO_DEVICE_RESET"))?;
        Ok(())
    }

    /// Enables memory space and bus mastering.
    ///
    /// # Errors
    /// If configuration space can't be accessed.
    pub fn enable(&self) -> Result<(), VfioError> {
        let mut command = [0; 2];
        self.read_config(COMMAND, &mut command)?;
        let command = u16::from_le_bytes(command) | MEMORY_SPACE | BUS_MASTER;
        self.write_config(COMMAND, &command.to_le_bytes())
    }

    /// Reads configuration space.
    ///
    /// # Errors
    /// If the range is beyond its end.
    pub fn read_config(&self, at: u64, into: &mut [u8]) -> Result<(), VfioError> {
        let at = self.config_offset(at, into.len())?;
        let wanted = into.len();
        let got = pread(&self.file, into, at).map_err(VfioError::call("read of configuration space"))?;
        check_complete(got, wanted)
    }

    /// Writes configuration space. The kernel virtualises some of it.
    ///
    /// # Errors
    /// If the range is beyond its end.
    pub fn write_config(&self, at: u64, from: &[u8]) -> Result<(), VfioError> {
        let at = self.config_offset(at, from.len())?;
        let got = pwrite(&self.file, from, at).map_err(VfioError::call("write of configuration space"))?;
        check_complete(got, from.len())
    }

    /// A BAR, 0 to 5.
    ///
    /// # Errors
    /// If the device has no such BAR.
    pub fn region(&self, index: u32) -> Result<Region, VfioError> {
        let argsz = size_of::<vfio::vfio_region_info>() as u32;
        let mut info = vfio::vfio_region_info { argsz, index, ..Default::default() };
        call::with(&self.file, &mut info).map_err(VfioError::call("VFIO_DEVICE_GET_REGION_INFO"))?;
        let is_mappable = info.flags & vfio::VFIO_REGION_INFO_FLAG_MMAP != 0;
        Ok(Region { bytes: info.size, is_mappable, offset: info.offset })
    }

    /// Maps a BAR's registers.
    ///
    /// # Errors
    /// If it can't be mapped.
    pub fn registers(&self, bar: u32) -> Result<Registers, VfioError> {
        let region = self.region(bar)?;
        if !region.is_mappable || region.bytes == 0 {
            return Err(VfioError::Answer {
                what: "mmap of a BAR",
                why: "the BAR does not exist or can't be mapped",
            });
        }
        let mapped =
            Registers::map(self.file.as_fd(), region.offset, region.bytes, self.reachable_memory.clone());
        mapped.map_err(VfioError::call("mmap of a BAR"))
    }

    /// The file offset of a range of the configuration space.
    fn config_offset(&self, at: u64, bytes: usize) -> Result<u64, VfioError> {
        let region = self.region(CONFIG)?;
        let end = at.checked_add(bytes as u64).filter(|end| *end <= region.bytes);
        let beyond = VfioError::Answer { what: "configuration space", why: "the range is beyond its end" };
        end.map(|_| region.offset + at).ok_or(beyond)
    }
}

/// Fails if fewer bytes were transferred than requested.
fn check_complete(got: usize, wanted: usize) -> Result<(), VfioError> {
    let less =
        VfioError::Answer { what: "configuration space", why: "fewer bytes transferred than requested" };
    if got == wanted { Ok(()) } else { Err(less) }
}
