//! Functions of the kernel in call traces that show what the IOMMU does, and who wants memory for DMA.

use super::iommu::Kind;
use crate::kernel::message::scan;

/// What a line of a call trace shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Some device's DMA is translated, by this kind of IOMMU where the function belongs to one driver.
    Translation(Option<Kind>),
    /// A device that keeps translations itself (ATS) is asked to drop some.
    DeviceInvalidation,
    /// A driver wants memory for DMA; `true` if nothing translates for its device.
    Allocation(bool),
}

/// Functions that run for translated domains alone, by the start of their names. Not those that VT-d's and AMD's own DMA
/// operations began with before 5.5: they ran under passthrough too.
const FUNCTIONS: [(&str, Shown); 20] = [
    ("iommu_dma_alloc", Shown::Translation(None)),
    ("iommu_dma_free", Shown::Translation(None)),
    ("iommu_dma_map", Shown::Translation(None)),
    ("iommu_dma_unmap", Shown::Translation(None)),
    ("__iommu_dma_map", Shown::Translation(None)),
    ("__iommu_dma_unmap", Shown::Translation(None)),
    ("intel_iommu_map", Shown::Translation(Some(Kind::VtD))),
    ("intel_alloc_iova", Shown::Translation(Some(Kind::VtD))),
    ("__domain_mapping", Shown::Translation(Some(Kind::VtD))),
    ("amd_iommu_map", Shown::Translation(Some(Kind::AmdVi))),
    ("iommu_v1_map_page", Shown::Translation(Some(Kind::AmdVi))),
    ("arm_smmu_map", Shown::Translation(None)),
    ("qi_flush_dev_iotlb", Shown::DeviceInvalidation),
    ("dma_direct_alloc", Shown::Allocation(true)),
    ("__dma_direct_alloc", Shown::Allocation(true)),
    // Of x86 up to 4.20.
    ("dma_generic_alloc_coherent", Shown::Allocation(true)),
    ("x86_swiotlb_alloc_coherent", Shown::Allocation(true)),
    ("swiotlb_alloc_coherent", Shown::Allocation(true)),
    ("dma_alloc_", Shown::Allocation(false)),
    ("pci_alloc_consistent", Shown::Allocation(false)),
];

/// A line of a call trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'m> {
    /// The function.
    pub(super) function: &'m str,
    /// The module that it is of; `None` if it is built in.
    pub(super) module: Option<&'m str>,
    /// It was called, and does not only lie on the stack (`? `).
    pub(super) is_certain: bool,
}

/// The frame in a line: ` iommu_dma_map_page+0xcc/0x170`, ` nvme_queue_rq+0x1b1/0x6a0 [nvme]`, `RIP: 0010:qi_flush_dev_iotlb+0x9a/0xd0`.
pub(super) fn frame(message: &str) -> Option<Frame<'_>> {
    let (before, after) = scan::split(message, "+0x")?;
    // A compiler's variant has a suffix: `.constprop.0`, `.isra.0`.
    let name = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').next()?;
    // On POWER before little endian the code's own name has a dot before it.
    let function = name.trim_start_matches('.');
    // Since 5.16 the module's build ID may stand behind its name.
    let module = after.split_once(" [").and_then(|(_, rest)| rest.split([']', ' ']).next());
    Some(Frame { function, module, is_certain: !before.contains("? ") })
}

impl Frame<'_> {
    /// What it shows.
    pub(super) fn shown(&self) -> Option<Shown> {
        FUNCTIONS.iter().find(|(known, _)| self.function.starts_with(known)).map(|(_, shown)| *shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Option<Shown> {
        frame(message)?.shown()
    }

    #[test]
    fn lines_of_call_traces() {
        let translation = |kind| Some(Shown::Translation(kind));
        assert_eq!(read(" iommu_dma_map_page+0xcc/0x170"), translation(None));
        assert_eq!(read(" ? intel_iommu_map_pages+0x1b/0x40"), translation(Some(Kind::VtD)));
        assert_eq!(read(" [<ffffffff8150d8a5>] intel_alloc_iova+0xa5/0xe0"), translation(Some(Kind::VtD)));
        assert_eq!(read("pc : arm_smmu_map_pages+0x10/0x20"), translation(None));
        assert_eq!(read(" __dma_direct_alloc_pages.constprop.0+0x11/0x20"), Some(Shown::Allocation(true)));
        assert_eq!(
            read(" [<ffffffff8105a1b3>] dma_generic_alloc_coherent+0xa3/0x170"),
            Some(Shown::Allocation(true))
        );
        assert_eq!(read(" dma_alloc_attrs+0x5a/0xe0"), Some(Shown::Allocation(false)));
        assert_eq!(read("RIP: 0010:qi_flush_dev_iotlb+0x9a/0xd0"), Some(Shown::DeviceInvalidation));
    }

    #[test]
    fn functions_that_prove_nothing() {
        for line in [
            " iommu_dma_get_resv_regions+0x10/0x20",
            " iommu_dma_prepare_msi+0x10/0x20",
            " intel_map_page+0x10/0x20",
            " dma_map_page_attrs+0x10/0x20",
            "iommu_dma_map_page is called",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
