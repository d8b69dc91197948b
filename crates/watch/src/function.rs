//! The kernel's functions that are watched, and what their parameters say.

use serde::{Deserialize, Serialize};
use toll::Stage;

/// What a call of a function does for a driver, where that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// Maps memory for a device.
    Map,
    /// Unmaps it.
    Unmap,
    /// Allocates memory that stays mapped.
    AllocateCoherent,
    /// Frees it.
    FreeCoherent,
    /// Hands mapped memory to the device or back, by copies or cache maintenance where those are needed.
    Sync,
    /// Allocates an IOVA.
    AllocateIova,
    /// Takes an IOVA from the tree, since the CPU's cache had none.
    MissIova,
    /// Writes entries of an I/O page table, or of a table of translation control entries (TCE).
    WriteTable,
    /// Clears such entries.
    ClearTable,
    /// Sends invalidations to the IOMMU, and waits until they are done where it does.
    Invalidate,
    /// Calls the hypervisor while it maps or unmaps.
    CallHypervisor,
    /// Takes a bounce buffer. Data for the device, or both ways, is copied into it.
    TakeBounce,
    /// Returns a bounce buffer. Data from the device, or both ways, is copied out of it.
    ReturnBounce,
}

/// A function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The stage that its own time belongs to, without that of watched functions that it calls.
    pub stage: Stage,
    /// What a call is counted as. A call within another of the same action is not counted.
    pub action: Option<Action>,
    /// Parameters with the device, of which the first that a kernel's function has is taken.
    pub(crate) device: &'static [&'static str],
    /// Parameters with the number of bytes.
    pub(crate) bytes: &'static [&'static str],
    /// Parameters with the number of parts: of a scatter list, or commands to the IOMMU.
    pub(crate) parts: &'static [&'static str],
    /// Its first parameters in Linux 6.1, as far as they are read: for kernels that do not describe theirs.
    pub(crate) prototype: &'static [&'static str],
    /// Tracepoints at its begin and its end, by which it is watched instead of by its name.
    pub(crate) tracepoints: Option<(&'static str, &'static str)>,
    /// Whether it returns the number of bytes, where that is positive.
    pub(crate) returns_bytes: bool,
    /// Whether it returns a truth value, and calls count only where that is true.
    pub(crate) only_if_true: bool,
    /// Whether calls count only within another watched function: it does much else.
    pub(crate) only_within: bool,
}

const DEVICE: &[&str] = &["dev", "hwdev"];
const BYTES: &[&str] = &["size", "mapping_size", "mapped_len"];

/// A function that works for the device of its caller, and of whose parameters none is read.
pub(crate) const fn plain(name: &'static str, stage: Stage, action: Option<Action>) -> Function {
    Function {
        name,
        stage,
        action,
        device: &[],
        bytes: &[],
        parts: &[],
        prototype: &[],
        tracepoints: None,
        returns_bytes: false,
        only_if_true: false,
        only_within: false,
    }
}

/// The first parameters of functions that take memory by its page, by an address, and as a scatter list.
const BY_PAGE: &[&str] = &["dev", "page", "offset", "size"];
const BY_ADDRESS: &[&str] = &["dev", "addr", "size"];
const BY_LIST: &[&str] = &["dev", "sg", "nents"];
const COHERENT: &[&str] = &["dev", "size"];
/// Of functions that write and clear tables.
const WRITE: &[&str] = &["domain", "iova", "paddr", "size"];
const CLEAR: &[&str] = &["domain", "iova", "size"];

/// A function of the DMA API, which takes the device and bytes.
const fn api(
    name: &'static str,
    stage: Stage,
    action: Action,
    prototype: &'static [&'static str],
) -> Function {
    Function { device: DEVICE, bytes: BYTES, prototype, ..plain(name, stage, Some(action)) }
}

/// A function of the DMA API, which takes the device and a scatter list.
const fn list(name: &'static str, stage: Stage, action: Action) -> Function {
    Function { device: DEVICE, parts: &["nents"], prototype: BY_LIST, ..plain(name, stage, Some(action)) }
}

/// A function of the DMA API that does a part of a mapping: from Linux 6.16 on a driver links memory piece by piece into an IOVA range that it
/// has allocated before. The range is what is counted.
const fn of_device(name: &'static str, stage: Stage) -> Function {
    Function { device: DEVICE, prototype: &["dev"], ..plain(name, stage, None) }
}

/// A function below the DMA API, which works for the device of its caller.
const fn inner(
    name: &'static str,
    stage: Stage,
    action: Option<Action>,
    prototype: &'static [&'static str],
) -> Function {
    Function { bytes: &["size"], parts: &["count", "n", "npages"], prototype, ..plain(name, stage, action) }
}

/// A function that writes a scatter list into an I/O page table.
const fn inner_list(name: &'static str) -> Function {
    Function {
        parts: &["nents"],
        returns_bytes: true,
        ..plain(name, Stage::TableWrite, Some(Action::WriteTable))
    }
}

/// A function that allocates or frees IOVAs. Its size is in pages, so it is not counted.
const fn iova(name: &'static str, action: Option<Action>) -> Function {
    plain(name, Stage::Iova, action)
}

/// The functions that call the hypervisor for whatever the kernel asks of it.
const HYPERCALL: Function = Function {
    tracepoints: Some(("hcall_entry", "hcall_exit")),
    only_within: true,
    ..plain("plpar_hcall", Stage::TableWrite, Some(Action::CallHypervisor))
};

/// It fails where no IOMMU translates; the driver then maps page by page.
const TRY_ALLOC: Function =
    Function { only_if_true: true, ..api("dma_iova_try_alloc", Stage::DmaMap, Action::Map, &["dev"]) };

/// All, in the order of their numbers. A kernel has some of them: names changed from version to version, and others are inlined.
///
/// Linux 5.10 to 7.0: `include/linux/dma-mapping.h`, `drivers/iommu/{dma-iommu,iova,iommu}.c`, `drivers/iommu/intel/dmar.c`,
/// `drivers/iommu/amd/iommu.c`, `drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c`, `kernel/dma/{mapping,swiotlb}.c`,
/// `arch/powerpc/kernel/iommu.c`, `arch/powerpc/platforms/pseries/{iommu.c,hvCall.S}`.
///
/// `swiotlb_bounce` is not among them: drivers call it in interrupts and outside of them, and the kernel leaves out a program that
/// interrupts itself. Its time is that of the functions which take and return bounce buffers, and nothing is lost.
pub const FUNCTIONS: &[Function] = &[
    api("dma_map_page_attrs", Stage::DmaMap, Action::Map, BY_PAGE),
    api("dma_map_phys", Stage::DmaMap, Action::Map, BY_ADDRESS),
    api("dma_map_resource", Stage::DmaMap, Action::Map, BY_ADDRESS),
    list("dma_map_sg_attrs", Stage::DmaMap, Action::Map),
    list("dma_map_sgtable", Stage::DmaMap, Action::Map),
    TRY_ALLOC,
    of_device("dma_iova_link", Stage::DmaMap),
    of_device("dma_iova_sync", Stage::DmaMap),
    api("dma_unmap_page_attrs", Stage::DmaUnmap, Action::Unmap, BY_ADDRESS),
    api("dma_unmap_phys", Stage::DmaUnmap, Action::Unmap, BY_ADDRESS),
    api("dma_unmap_resource", Stage::DmaUnmap, Action::Unmap, BY_ADDRESS),
    list("dma_unmap_sg_attrs", Stage::DmaUnmap, Action::Unmap),
    of_device("dma_iova_unlink", Stage::DmaUnmap),
    api("dma_iova_destroy", Stage::DmaUnmap, Action::Unmap, &["dev"]),
    api("dma_iova_free", Stage::DmaUnmap, Action::Unmap, &["dev"]),
    api("dma_alloc_attrs", Stage::DmaMap, Action::AllocateCoherent, COHERENT),
    api("dma_free_attrs", Stage::DmaUnmap, Action::FreeCoherent, COHERENT),
    api("dma_sync_single_for_cpu", Stage::DmaUnmap, Action::Sync, BY_ADDRESS),
    api("dma_sync_single_for_device", Stage::DmaMap, Action::Sync, BY_ADDRESS),
    api("__dma_sync_single_for_cpu", Stage::DmaUnmap, Action::Sync, BY_ADDRESS),
    api("__dma_sync_single_for_device", Stage::DmaMap, Action::Sync, BY_ADDRESS),
    iova("iommu_dma_alloc_iova", Some(Action::AllocateIova)),
    iova("iommu_dma_free_iova", None),
    iova("alloc_iova_fast", Some(Action::AllocateIova)),
    iova("free_iova_fast", None),
    iova("alloc_iova", Some(Action::MissIova)),
    inner("iommu_map", Stage::TableWrite, Some(Action::WriteTable), WRITE),
    inner("iommu_map_atomic", Stage::TableWrite, Some(Action::WriteTable), WRITE),
    inner("iommu_map_nosync", Stage::TableWrite, Some(Action::WriteTable), WRITE),
    inner_list("iommu_map_sg"),
    inner_list("iommu_map_sg_atomic"),
    inner("iommu_unmap", Stage::TableWrite, Some(Action::ClearTable), CLEAR),
    inner("iommu_unmap_fast", Stage::TableWrite, Some(Action::ClearTable), CLEAR),
    // The IOMMU driver's part of a table is read for the address that is unmapped, and written to memory.
    inner("iommu_iova_to_phys", Stage::TableWrite, None, &[]),
    inner("intel_iommu_tlb_sync", Stage::Invalidation, None, &[]),
    inner("qi_submit_sync", Stage::Invalidation, Some(Action::Invalidate), &["iommu", "desc", "count"]),
    inner("amd_iommu_domain_flush_pages", Stage::Invalidation, Some(Action::Invalidate), &[]),
    inner("amd_iommu_iotlb_sync", Stage::Invalidation, Some(Action::Invalidate), &[]),
    inner("amd_iommu_flush_iotlb_all", Stage::Invalidation, Some(Action::Invalidate), &[]),
    inner(
        "arm_smmu_cmdq_issue_cmdlist",
        Stage::Invalidation,
        Some(Action::Invalidate),
        &["smmu", "cmds", "n"],
    ),
    inner("viommu_sync_req", Stage::Invalidation, Some(Action::Invalidate), &[]),
    inner("fq_flush_timeout", Stage::Invalidation, None, &[]),
    iova("iommu_range_alloc", Some(Action::AllocateIova)),
    inner(
        "tce_build_pSeriesLP",
        Stage::TableWrite,
        Some(Action::WriteTable),
        &["liobn", "tcenum", "tceshift", "npages"],
    ),
    inner(
        "tce_buildmulti_pSeriesLP",
        Stage::TableWrite,
        Some(Action::WriteTable),
        &["tbl", "tcenum", "npages"],
    ),
    inner(
        "tce_free_pSeriesLP",
        Stage::TableWrite,
        Some(Action::ClearTable),
        &["liobn", "tcenum", "tceshift", "npages"],
    ),
    inner(
        "tce_freemulti_pSeriesLP",
        Stage::TableWrite,
        Some(Action::ClearTable),
        &["tbl", "tcenum", "npages"],
    ),
    HYPERCALL,
    api("swiotlb_map", Stage::Bounce, Action::TakeBounce, &["dev", "paddr", "size"]),
    api("swiotlb_tbl_map_single", Stage::Bounce, Action::TakeBounce, &["dev", "orig_addr", "mapping_size"]),
    api(
        "swiotlb_tbl_unmap_single",
        Stage::Bounce,
        Action::ReturnBounce,
        &["dev", "tlb_addr", "mapping_size"],
    ),
    api(
        "__swiotlb_tbl_unmap_single",
        Stage::Bounce,
        Action::ReturnBounce,
        &["dev", "tlb_addr", "mapping_size"],
    ),
];

/// Bits of a function's number in a path. The number is one more than its place in [`FUNCTIONS`].
pub(crate) const NUMBER_BITS: u32 = 6;

const _: () = assert!(FUNCTIONS.len() < 1 << NUMBER_BITS);

/// The functions of a path, the outermost first.
pub(crate) fn of_path(mut path: u64) -> Vec<&'static Function> {
    let mut functions = Vec::new();
    while path != 0 {
        let number = (path & ((1 << NUMBER_BITS) - 1)) as usize;
        functions.extend(number.checked_sub(1).and_then(|index| FUNCTIONS.get(index)));
        path >>= NUMBER_BITS;
    }
    functions.reverse();
    functions
}
