//! VFIO's type 1 interface, for the IOMMUs of x86 and Arm (`drivers/vfio/vfio_iommu_type1.c`).

use super::device::Device;
use super::error::VfioError;
use super::group::{Group, read_write};
use super::kernel_translation::{KernelTranslation, MapCalls, MapRequest, ProcessMemories};
use super::{call, ranges};
use crate::{BusAddress, Ram, Window};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::fs::File;
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;
use vfio_bindings::bindings::vfio;

const CHECK_EXTENSION: u8 = 101;
const SET_IOMMU: u8 = 102;
const GET_INFO: u8 = 112;
/// Words for the answer to `VFIO_IOMMU_GET_INFO`; its capabilities take a few dozen bytes.
const INFO_WORDS: usize = 512;
const RANGES: u16 = 1;

/// A translation through a VFIO container.
pub type Type1 = KernelTranslation<Container>;

/// `/dev/vfio/vfio`, with the groups added to it.
#[derive(Debug)]
pub struct Container {
    pub(super) file: File,
    groups: Vec<Group>,
}

impl Container {
    /// Opens a container with the devices' groups and an IOMMU type.
    pub(super) fn new(
        adapters: &[&str],
        kind: u32,
        what: &'static str,
        module: &'static str,
    ) -> Result<Self, VfioError> {
        Self::with_groups(|| Group::of(adapters), kind, what, module)
    }

    /// Opens a container with groups and an IOMMU type. The groups are opened only after the kernel confirmed that it has this type.
    pub(super) fn with_groups(
        groups: impl FnOnce() -> Result<Vec<Group>, VfioError>,
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
        let groups = groups()?;
        groups.iter().try_for_each(|group| group.join(file.as_fd()))?;
        call::with_number(&file, SET_IOMMU, kind as usize).map_err(VfioError::call("VFIO_SET_IOMMU"))?;
        Ok(Self { file, groups })
    }

    /// Opens the devices, in the order given.
    pub(super) fn devices(&self, adapters: &[&str]) -> Result<Vec<Device>, VfioError> {
        let device = |adapter: &&str| {
            let group = self.groups.iter().find(|group| group.has(adapter));
            let group = group.ok_or_else(|| VfioError::NoGroup { adapter: (*adapter).to_owned() })?;
            Device::new(group.device(adapter)?)
        };
        adapters.iter().map(device).collect()
    }
}

/// The calls are the same for all IOMMU types.
impl MapCalls for Container {
    const MAP: &'static str = "VFIO_IOMMU_MAP_DMA";
    const UNMAP: &'static str = "VFIO_IOMMU_UNMAP_DMA";

    fn map(&self, wanted: MapRequest) -> Result<i32, Errno> {
        let MapRequest { at, memory, bytes, access } = wanted;
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

    fn unmap(&self, at: BusAddress, bytes: u64) -> Result<i32, Errno> {
        let mut argument = vfio::vfio_iommu_type1_dma_unmap {
            argsz: size_of::<vfio::vfio_iommu_type1_dma_unmap>() as u32,
            iova: at.0,
            size: bytes,
            ..Default::default()
        };
        call::with(&self.file, &mut argument)
    }

    /// `VFIO_DMA_CC_IOMMU`: the IOMMU enforces coherency for all devices of the container.
    fn forces_snooping(&self) -> Option<bool> {
        let forces = call::with_number(&self.file, CHECK_EXTENSION, vfio::VFIO_DMA_CC_IOMMU as usize);
        forces.ok().map(|forces| forces > 0)
    }
}

impl KernelTranslation<Container> {
    /// Opens devices by addresses such as `0000:3b:00.0` in one address space, in which `memories` can be mapped.
    ///
    /// # Errors
    /// [`VfioError::NotOfThisProcess`] unless all `memories` are from [`Ram::of_this_process`] or [`Ram::reserved`], or another [`VfioError`]
    pub fn open(adapters: &[&str], memories: &[Arc<Ram>]) -> Result<(Self, Vec<Device>), VfioError> {
        let memories = ProcessMemories::new(memories)?;
        let (kind, module) = (vfio::VFIO_TYPE1v2_IOMMU, "vfio_iommu_type1");
        let container = Container::new(adapters, kind, "VFIO type 1 IOMMU", module)?;
        let window = window(&container.file)?;
        let devices = container.devices(adapters)?;
        Ok((Self::new(container, memories, window), devices))
    }
}

/// The IOVAs that a container may use, and the smallest page size.
fn window(container: &File) -> Result<Window, VfioError> {
    let info = info(container)?;
    let answer = |why| VfioError::Answer { what: "VFIO_IOMMU_GET_INFO", why };
    let flags = info.u32(offset_of!(vfio::vfio_iommu_type1_info, flags)).unwrap_or(0);
    let sizes = info.u64(offset_of!(vfio::vfio_iommu_type1_info, iova_pgsizes));
    let sizes = sizes.filter(|sizes| flags & vfio::VFIO_IOMMU_INFO_PGSIZES != 0 && *sizes > 0);
    let granule = 1 << sizes.ok_or_else(|| answer("no page sizes"))?.trailing_zeros();
    // Kernels before 5.4 report no ranges; then all addresses are tried.
    let seen = if flags & vfio::VFIO_IOMMU_INFO_CAPS != 0 { info.ranges() } else { None };
    ranges::window(seen.unwrap_or_else(|| vec![(0, u64::MAX)]), granule).ok_or_else(|| answer("no addresses"))
}

/// `struct vfio_iommu_type1_info`, followed by capabilities at multiples of four.
struct Info(Vec<u8>);

/// Calls `VFIO_IOMMU_GET_INFO`.
#[allow(unsafe_code, reason = "the kernel fills as much as it is told there is")]
fn info(container: &File) -> Result<Info, VfioError> {
    let mut room = vec![0_u64; INFO_WORDS];
    // The first field is `argsz`, the size of the buffer.
    let [a, b, c, d] = ((INFO_WORDS * size_of::<u64>()) as u32).to_ne_bytes();
    room[0] = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
    // SAFETY: the buffer begins with the structure, zeroed but for its size; words are aligned for it.
    unsafe { call::with_trailing_data(container, GET_INFO, &mut room) }
        .map_err(VfioError::call("VFIO_IOMMU_GET_INFO"))?;
    Ok(Info(room.into_iter().flat_map(u64::to_ne_bytes).collect()))
}

impl Info {
    /// The address ranges among the capabilities, which form a linked list.
    fn ranges(&self) -> Option<Vec<(u64, u64)>> {
        let mut at = self.u32(offset_of!(vfio::vfio_iommu_type1_info, cap_offset))? as usize;
        // Follow at most as many as fit, in case the list is a loop.
        for _ in 0..INFO_WORDS {
            if at == 0 {
                break;
            }
            if self.u32(at)? as u16 == RANGES {
                let count =
                    self.u32(at + offset_of!(vfio::vfio_iommu_type1_info_cap_iova_range, nr_iovas))?;
                let first = at + size_of::<vfio::vfio_iommu_type1_info_cap_iova_range>();
                let range = |place: u32| first + place as usize * size_of::<vfio::vfio_iova_range>();
                return (0..count)
                    .map(|one| Some((self.u64(range(one))?, self.u64(range(one) + 8)?)))
                    .collect();
            }
            at = self.u32(at + offset_of!(vfio::vfio_info_cap_header, next))? as usize;
        }
        None
    }

    /// The 32-bit number at an offset.
    fn u32(&self, at: usize) -> Option<u32> {
        self.0.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
    }

    /// The 64-bit number at an offset.
    fn u64(&self, at: usize) -> Option<u64> {
        self.0.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_among_capabilities() {
        let answer = |next: u32| {
            let mut bytes = Vec::new();
            let mut halves = |halves: &[u32]| halves.iter().for_each(|one| bytes.extend(one.to_ne_bytes()));
            // The structure of 24 bytes, a capability of 12 that nobody knows, and the ranges.
            halves(&[92, 3, 0x1000, 0, 24, 0]);
            halves(&[9, next, 0]);
            halves(&[u32::from(RANGES) | 1 << 16, 0, 2, 0]);
            [0, 0xfedf_ffff, 0xfef0_0000, u64::MAX >> 8]
                .iter()
                .for_each(|one: &u64| bytes.extend(one.to_ne_bytes()));
            Info(bytes)
        };
        assert_eq!(answer(36).ranges(), Some(vec![(0, 0xfedf_ffff), (0xfef0_0000, u64::MAX >> 8)]));
        // Chains that go nowhere, or for ever.
        for next in [0, 24, 4096, u32::MAX] {
            assert_eq!(answer(next).ranges(), None);
        }
    }
}
