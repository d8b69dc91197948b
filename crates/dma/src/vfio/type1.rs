//! VFIO's interface to the IOMMUs of x86 and Arm (`drivers/vfio/vfio_iommu_type1.c`).

use super::book::{Book, Wanted};
use super::device::Device;
use super::error::VfioError;
use super::group::{Group, read_write};
use super::{call, ranges};
use crate::{Access, Bill, BusAddress, MapError, MemoryAddress, Ram, Translation, UnmapError, Window};
use rustix::fd::AsFd;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use vfio_bindings::bindings::vfio;

const CHECK_EXTENSION: u8 = 101;
const SET_IOMMU: u8 = 102;
const GET_INFO: u8 = 112;
/// Words for the answer to `VFIO_IOMMU_GET_INFO`: some capabilities, of which the ranges are a few dozen bytes.
const INFO_WORDS: usize = 512;
const RANGES: u16 = 1;

/// Adapters' addresses through a container of VFIO.
#[derive(Debug)]
pub struct Type1 {
    container: Container,
    book: Book,
}

/// `/dev/vfio/vfio`, with the groups in it.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) file: File,
    groups: Vec<Group>,
}

impl Container {
    /// With the adapters' groups in it, and an IOMMU of a kind.
    pub(super) fn new(
        adapters: &[&str],
        kind: u32,
        what: &'static str,
        module: &'static str,
    ) -> Result<Self, VfioError> {
        let file = read_write(Path::new("/dev/vfio/vfio"))?;
        let offers = call::with_number(&file, CHECK_EXTENSION, kind as usize)
            .map_err(VfioError::call("VFIO_CHECK_EXTENSION"))?;
        if offers == 0 {
            return Err(VfioError::NotOffered { what, module });
        }
        let groups = adapters.iter().map(|adapter| Group::open(adapter)).collect::<Result<Vec<_>, _>>()?;
        groups.iter().try_for_each(|group| group.join(file.as_fd()))?;
        call::with_number(&file, SET_IOMMU, kind as usize).map_err(VfioError::call("VFIO_SET_IOMMU"))?;
        Ok(Self { file, groups })
    }

    /// The adapters, in the order in which they were named.
    pub(super) fn devices(&self, adapters: &[&str]) -> Result<Vec<Device>, VfioError> {
        adapters
            .iter()
            .zip(&self.groups)
            .map(|(adapter, group)| Device::new(group.device(adapter)?))
            .collect()
    }

    /// Maps memory of this process, as all kinds of IOMMU do.
    pub(super) fn map(&self, wanted: Wanted) -> Result<i32, rustix::io::Errno> {
        let Wanted { at, memory, bytes, access } = wanted;
        let flag = |has: bool, flag: u32| if has { flag } else { 0 };
        let mut argument = vfio::vfio_iommu_type1_dma_map {
            argsz: size_of::<vfio::vfio_iommu_type1_dma_map>() as u32,
            flags: flag(access.reads(), vfio::VFIO_DMA_MAP_FLAG_READ)
                | flag(access.writes(), vfio::VFIO_DMA_MAP_FLAG_WRITE),
            vaddr: memory.0,
            iova: at.0,
            size: bytes,
        };
        call::with(&self.file, &mut argument)
    }

    pub(super) fn unmap(&self, at: BusAddress, bytes: u64) -> Result<i32, rustix::io::Errno> {
        let mut argument = vfio::vfio_iommu_type1_dma_unmap {
            argsz: size_of::<vfio::vfio_iommu_type1_dma_unmap>() as u32,
            iova: at.0,
            size: bytes,
            ..Default::default()
        };
        call::with(&self.file, &mut argument)
    }
}

impl Type1 {
    /// Adapters, each by its address as `0000:3b:00.0`, with one address space for them, in which `memory` can be mapped.
    ///
    /// # Errors
    /// [`VfioError`]
    pub fn open(adapters: &[&str], memory: Arc<Ram>) -> Result<(Self, Vec<Device>), VfioError> {
        let (kind, module) = (vfio::VFIO_TYPE1v2_IOMMU, "vfio_iommu_type1");
        let container = Container::new(adapters, kind, "VFIO type 1 IOMMU", module)?;
        let window = window(&container.file)?;
        let devices = container.devices(adapters)?;
        Ok((Self { container, book: Book::new(memory, window) }, devices))
    }
}

impl Translation for Type1 {
    fn window(&self) -> &Window {
        self.book.window()
    }

    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        bill: &mut Bill,
    ) -> Result<(), MapError> {
        let wanted = Wanted { at, memory, bytes, access };
        self.book.map(wanted, "VFIO_IOMMU_MAP_DMA", bill, |wanted| self.container.map(wanted))
    }

    fn unmap(&self, at: BusAddress, bytes: u64, bill: &mut Bill) -> Result<(), UnmapError> {
        self.book.unmap(at, bytes, "VFIO_IOMMU_UNMAP_DMA", bill, || self.container.unmap(at, bytes))
    }

    /// Nothing: the kernel has done it when it unmapped.
    fn invalidate(&self, _at: BusAddress, _bytes: u64, _bill: &mut Bill) {}

    /// Nothing either.
    fn invalidate_all(&self, _bill: &mut Bill) {}

    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        self.book.find(at)
    }
}

fn window(container: &File) -> Result<Window, VfioError> {
    let info = info(container)?;
    let answer = |why| VfioError::Answer { what: "VFIO_IOMMU_GET_INFO", why };
    let flags = half(&info, 4).unwrap_or(0);
    let sizes = info.get(1).copied().filter(|_| flags & vfio::VFIO_IOMMU_INFO_PGSIZES != 0);
    let granule =
        1 << sizes.filter(|sizes| *sizes > 0).ok_or_else(|| answer("no page sizes"))?.trailing_zeros();
    // Kernels before 5.4 tell no ranges: then every address is tried.
    let seen = if flags & vfio::VFIO_IOMMU_INFO_CAPS != 0 { capability(&info) } else { None };
    ranges::window(seen.unwrap_or_else(|| vec![(0, u64::MAX)]), granule).ok_or_else(|| answer("no addresses"))
}

/// The kernel's answer: `struct vfio_iommu_type1_info` and capabilities behind it.
#[allow(unsafe_code, reason = "the kernel fills as much as it is told there is")]
fn info(container: &File) -> Result<Vec<u64>, VfioError> {
    let mut room = vec![0_u64; INFO_WORDS];
    // Its first field, `argsz`: bytes of room.
    let bytes = (INFO_WORDS * size_of::<u64>()) as u32;
    room[0] = u64::from_ne_bytes([bytes.to_ne_bytes(), [0; 4]].concat().try_into().unwrap_or_default());
    // SAFETY: the room begins with the structure, zeroed but for its size, and words are aligned for it.
    unsafe { call::with_room(container, GET_INFO, &mut room) }
        .map_err(VfioError::call("VFIO_IOMMU_GET_INFO"))?;
    Ok(room)
}

/// The ranges of addresses among the capabilities, each of which says where the next one is.
fn capability(info: &[u64]) -> Option<Vec<(u64, u64)>> {
    let mut at = half(info, 16)? as usize;
    // No more of them than there is room for, whatever they say.
    for _ in 0..INFO_WORDS {
        if at == 0 {
            break;
        }
        let id = half(info, at)? as u16;
        if id == RANGES {
            let count = half(info, at + 8)? as usize;
            let word = |place: usize| info.get((at + 16) / 8 + place).copied();
            return (0..count).map(|one| Some((word(2 * one)?, word(2 * one + 1)?))).collect();
        }
        at = half(info, at + 4)? as usize;
    }
    None
}

/// The 32-bit number at a byte, a multiple of four.
fn half(info: &[u64], at: usize) -> Option<u32> {
    let bytes = info.get(at / 8)?.to_ne_bytes();
    bytes.get(at % 8..at % 8 + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_among_capabilities() {
        let pair = |low: u64, high: u64| low | high << 32;
        // The structure of 24 bytes, a capability that nobody knows at 24, the ranges at 32.
        let mut info = vec![pair(72, 3), 0x1000, pair(24, 0)];
        info.extend([pair(9, 32)]);
        info.extend([pair(u64::from(RANGES) | 1 << 16, 0), 2, 0, 0xfedf_ffff, 0xfef0_0000, u64::MAX >> 8]);
        assert_eq!(capability(&info), Some(vec![(0, 0xfedf_ffff), (0xfef0_0000, u64::MAX >> 8)]));
        // Chains that go nowhere, or for ever.
        info[3] = pair(9, 24);
        assert_eq!(capability(&info), None);
        info[3] = pair(9, 4096);
        assert_eq!(capability(&info), None);
        info[3] = pair(9, 0);
        assert_eq!(capability(&info), None);
    }
}
