//! VFIO's interface to the IOMMUs of x86 and Arm (`drivers/vfio/vfio_iommu_type1.c`).

use super::book::{ByKernel, Calls, Wanted};
use super::device::Device;
use super::error::VfioError;
use super::group::{Group, read_write};
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
/// Words for the answer to `VFIO_IOMMU_GET_INFO`: some capabilities, of which the ranges are a few dozen bytes.
const INFO_WORDS: usize = 512;
const RANGES: u16 = 1;

/// Adapters' addresses through a container of VFIO.
pub type Type1 = ByKernel<Container>;

/// `/dev/vfio/vfio`, with the groups in it.
#[derive(Debug)]
pub struct Container {
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
        Self::with_groups(|| Group::of(adapters), kind, what, module)
    }

    /// With groups that are opened once the kernel has said that it offers this kind.
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

    /// The adapters, in the order in which they were named.
    pub(super) fn devices(&self, adapters: &[&str]) -> Result<Vec<Device>, VfioError> {
        let device = |adapter: &&str| {
            let group = self.groups.iter().find(|group| group.has(adapter));
            let group = group.ok_or_else(|| VfioError::NoGroup { adapter: (*adapter).to_owned() })?;
            Device::new(group.device(adapter)?)
        };
        adapters.iter().map(device).collect()
    }
}

/// As all kinds of IOMMU are asked.
impl Calls for Container {
    const MAP: &'static str = "VFIO_IOMMU_MAP_DMA";
    const UNMAP: &'static str = "VFIO_IOMMU_UNMAP_DMA";

    fn map(&self, wanted: Wanted) -> Result<i32, Errno> {
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

    fn unmap(&self, at: BusAddress, bytes: u64) -> Result<i32, Errno> {
        let mut argument = vfio::vfio_iommu_type1_dma_unmap {
            argsz: size_of::<vfio::vfio_iommu_type1_dma_unmap>() as u32,
            iova: at.0,
            size: bytes,
            ..Default::default()
        };
        call::with(&self.file, &mut argument)
    }
}

impl ByKernel<Container> {
    /// Adapters, each by its address as `0000:3b:00.0`, with one address space for them, in which `memory` can be mapped.
    ///
    /// # Errors
    /// [`VfioError`]
    pub fn open(adapters: &[&str], memory: Arc<Ram>) -> Result<(Self, Vec<Device>), VfioError> {
        let (kind, module) = (vfio::VFIO_TYPE1v2_IOMMU, "vfio_iommu_type1");
        let container = Container::new(adapters, kind, "VFIO type 1 IOMMU", module)?;
        let window = window(&container.file)?;
        let devices = container.devices(adapters)?;
        Ok((Self::new(container, memory, window), devices))
    }
}

fn window(container: &File) -> Result<Window, VfioError> {
    let info = info(container)?;
    let answer = |why| VfioError::Answer { what: "VFIO_IOMMU_GET_INFO", why };
    let flags = info.u32(offset_of!(vfio::vfio_iommu_type1_info, flags)).unwrap_or(0);
    let sizes = info.u64(offset_of!(vfio::vfio_iommu_type1_info, iova_pgsizes));
    let sizes = sizes.filter(|sizes| flags & vfio::VFIO_IOMMU_INFO_PGSIZES != 0 && *sizes > 0);
    let granule = 1 << sizes.ok_or_else(|| answer("no page sizes"))?.trailing_zeros();
    // Kernels before 5.4 tell no ranges: then every address is tried.
    let seen = if flags & vfio::VFIO_IOMMU_INFO_CAPS != 0 { info.ranges() } else { None };
    ranges::window(seen.unwrap_or_else(|| vec![(0, u64::MAX)]), granule).ok_or_else(|| answer("no addresses"))
}

/// The kernel's answer: `struct vfio_iommu_type1_info` and capabilities behind it, which begin at multiples of four.
struct Info(Vec<u8>);

#[allow(unsafe_code, reason = "the kernel fills as much as it is told there is")]
fn info(container: &File) -> Result<Info, VfioError> {
    let mut room = vec![0_u64; INFO_WORDS];
    // Its first field, `argsz`: bytes of room.
    let [a, b, c, d] = ((INFO_WORDS * size_of::<u64>()) as u32).to_ne_bytes();
    room[0] = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
    // SAFETY: the room begins with the structure, zeroed but for its size, and words are aligned for it.
    unsafe { call::with_room(container, GET_INFO, &mut room) }
        .map_err(VfioError::call("VFIO_IOMMU_GET_INFO"))?;
    Ok(Info(room.into_iter().flat_map(u64::to_ne_bytes).collect()))
}

impl Info {
    /// The ranges of addresses among the capabilities, each of which says where the next one is.
    fn ranges(&self) -> Option<Vec<(u64, u64)>> {
        let mut at = self.u32(offset_of!(vfio::vfio_iommu_type1_info, cap_offset))? as usize;
        // No more of them than there is room for, whatever they say.
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

    fn u32(&self, at: usize) -> Option<u32> {
        self.0.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
    }

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
