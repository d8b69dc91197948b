//! What a function of the kernel says of a call chain that it is in.

use crate::function::FUNCTIONS;
use toll::Stage;

/// What a function's name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It belongs to a stage of DMA mapping.
    Stage(Stage),
    /// It runs programs that watch functions: what they take belongs to no stage.
    Program,
    /// A device's interrupt is being handled, with interrupts off.
    Handler,
    /// It was called by no function but by an interrupt: its caller in the chain is whatever was interrupted.
    Interrupt,
    /// Nothing.
    Other,
}

/// Functions by their names. `*` at the end stands for any text; the longest match wins. Functions that programs watch ([`FUNCTIONS`]) keep
/// their stage.
///
/// Linux 5.10 to 7.0: `kernel/dma/{mapping,direct,swiotlb,pool}.c`, `drivers/iommu/{dma-iommu,iommu,iova,virtio-iommu}.c`,
/// `drivers/iommu/{io-pgtable-arm.c,generic_pt}`, `drivers/iommu/{intel,amd,arm/arm-smmu-v3}`, `arch/powerpc/{kernel,platforms/pseries}/iommu.c`.
const STAGES: &[(Stage, &[&str])] = &[
    (
        Stage::DmaMap,
        &[
            "dma_map_*",
            "__dma_map_*",
            "dma_iova_*",
            "__dma_iova_*",
            "iommu_dma_*",
            "__iommu_dma_map*",
            "__iommu_dma_iova_link",
            "dma_iommu_map_*",
            "dma_direct_*",
            "dma_alloc_*",
            "__dma_alloc_*",
            "dma_pool_*",
            "iommu_get_dma_domain",
            "arch_dma_map_*",
            "dma_sync_*",
            "__dma_sync_*",
            "arch_sync_dma_*",
            "dma_info_to_prot",
            "__finalise_sg",
            "ppc_iommu_map_*",
            "iommu_map_page",
            "iommu_map_phys",
            "ppc_iommu_alloc_*",
            "__dma_need_*",
            "dma_need_*",
        ],
    ),
    (
        Stage::DmaUnmap,
        &[
            "dma_unmap_*",
            "__dma_unmap_*",
            "iommu_dma_unmap_*",
            "__iommu_dma_unmap*",
            "__iommu_dma_iova_unlink",
            "dma_iommu_unmap_*",
            "dma_direct_unmap_*",
            "arch_dma_unmap_*",
            "dma_iova_unlink",
            "dma_iova_destroy",
            "dma_iova_free",
            "dma_free_*",
            "__dma_free_*",
            "iommu_dma_free",
            "iommu_unmap_page",
            "iommu_unmap_phys",
            "ppc_iommu_unmap_*",
            "ppc_iommu_free_*",
        ],
    ),
    (
        Stage::Iova,
        &[
            "alloc_iova*",
            "__alloc_and_insert_iova*",
            "iova_*",
            "__iova_*",
            "free_iova*",
            "__free_iova*",
            "private_free_iova",
            "private_find_iova",
            "remove_iova",
            "find_iova",
            "iommu_dma_alloc_iova",
            "iommu_dma_free_iova",
            "queue_iova",
            "fq_ring_*",
            "fq_flush_iotlb",
            "iommu_range_alloc",
            "iommu_area_alloc",
            "iommu_is_span_*",
            "iommu_alloc",
            "iommu_free",
            "__iommu_free",
        ],
    ),
    (
        Stage::TableWrite,
        &[
            "iommu_map",
            "iommu_map_atomic",
            "iommu_map_nosync",
            "iommu_map_sg*",
            "__iommu_map*",
            "iommu_pgsize",
            "iommu_sync_map",
            "iommu_unmap",
            "iommu_unmap_fast",
            "__iommu_unmap",
            "iommu_iova_to_phys",
            "intel_iommu_map*",
            "intel_iommu_unmap*",
            "intel_iommu_iotlb_sync_map",
            "intel_iommu_iova_to_phys",
            "__domain_mapping",
            "domain_mapping",
            "domain_unmap",
            "pfn_to_dma_pte",
            "dma_pte_*",
            "switch_to_super_page",
            "amd_iommu_map*",
            "amd_iommu_unmap*",
            "amd_iommu_iova_to_phys",
            "iommu_v1_*",
            "alloc_pte",
            "fetch_pte",
            "increase_address_space",
            "pt_iommu_*",
            "arm_smmu_map*",
            "arm_smmu_unmap*",
            "arm_smmu_iova_to_phys",
            "arm_lpae_*",
            "__arm_lpae_*",
            "tce_build_*",
            "tce_buildmulti_*",
            "tce_free_*",
            "tce_freemulti_*",
            "tce_set*",
            "tce_clear*",
            "plpar_tce_*",
            "viommu_map*",
            "viommu_unmap*",
            "viommu_iova_to_phys",
            "viommu_add_mapping",
            "viommu_del_mappings",
        ],
    ),
    (
        Stage::Invalidation,
        &[
            "qi_*",
            "iommu_flush_*",
            "__iommu_flush_*",
            "iommu_dma_flush_*",
            "intel_iommu_tlb_sync",
            "intel_iommu_flush_*",
            "intel_iommu_iotlb_sync",
            "iommu_iotlb_sync*",
            "cache_tag_*",
            "amd_iommu_iotlb_*",
            "amd_iommu_flush_*",
            "amd_iommu_domain_flush*",
            "domain_flush_*",
            "__domain_flush_*",
            "device_flush_*",
            "iommu_completion_wait",
            "iommu_queue_command*",
            "__iommu_queue_command*",
            "build_inv_iommu_pages",
            "build_completion_wait",
            "wait_on_sem",
            "arm_smmu_iotlb_*",
            "arm_smmu_tlb_*",
            "__arm_smmu_tlb_*",
            "arm_smmu_cmdq_*",
            "__arm_smmu_cmdq_*",
            "arm_smmu_domain_inv*",
            "arm_smmu_atc_*",
            "arm_smmu_flush_*",
            "viommu_sync*",
            "__viommu_sync*",
            "viommu_send_*",
            "viommu_add_req*",
            "__viommu_add_req",
            "viommu_iotlb_*",
            "viommu_flush_*",
        ],
    ),
    (Stage::Bounce, &["swiotlb_*", "__swiotlb_*", "is_swiotlb_*", "iommu_dma_map_swiotlb"]),
];

/// How BPF programs and probes begin, and what the kernel runs around them.
const PROGRAMS: &[&str] = &[
    "bpf_prog_*",
    "bpf_trampoline_*",
    "__bpf_prog_*",
    "__bpf_tramp_*",
    "bpf_get_*",
    "kprobe_*",
    "kretprobe_*",
    "__kretprobe_*",
    "pre_handler_kretprobe",
    "arch_rethook_*",
    "rethook_*",
    "trace_call_bpf",
    "perf_trace_*",
    "trampoline_handler",
    "trampoline_probe_handler",
    "opt_pre_handler",
    "optimized_callback",
    "ftrace_*",
];

/// Through which all handlers of devices' interrupts are called (`kernel/irq/handle.c`).
const HANDLERS: &[&str] = &["__handle_irq_event_percpu", "handle_irq_event_percpu", "handle_irq_event"];

/// How interrupts, faults and what runs at their end begin, on x86-64, 64-bit Arm and POWER.
const INTERRUPTS: &[&str] = &[
    "asm_common_interrupt",
    "common_interrupt",
    "asm_sysvec_*",
    "sysvec_*",
    "asm_exc_page_fault",
    "asm_fred_*",
    "fred_*",
    "__do_softirq",
    "handle_softirqs",
    "el1_interrupt",
    "el1h_64_irq*",
    "gic_handle_irq",
    "call_on_irq_stack",
    "do_interrupt_handler",
    "hardware_interrupt_*",
    "do_IRQ",
    "__do_irq",
    "__do_IRQ",
    "timer_interrupt",
    "decrementer_*",
];

/// What a function's name says. The compiler's suffixes (`.isra.0`, `.part.0`, `.cold`) do not matter.
pub(super) fn meaning(name: &str) -> Meaning {
    let name = name.split('.').next().unwrap_or_default();
    // Those that do much else belong to the stage of their caller.
    let watched = FUNCTIONS.iter().filter(|function| !function.only_within);
    if let Some(function) = watched.into_iter().find(|function| function.name == name) {
        return Meaning::Stage(function.stage);
    }
    let stages = STAGES.iter().flat_map(|(stage, patterns)| of(patterns, Meaning::Stage(*stage)));
    let others = of(PROGRAMS, Meaning::Program)
        .chain(of(HANDLERS, Meaning::Handler))
        .chain(of(INTERRUPTS, Meaning::Interrupt));
    let matching =
        stages.chain(others).filter_map(|(pattern, meaning)| Some((score(pattern, name)?, meaning)));
    matching.max_by_key(|(score, _)| *score).map_or(Meaning::Other, |(_, meaning)| meaning)
}

/// The stage of DMA mapping that a function of the kernel belongs to by its name; `None` for all others, which count for their callers.
pub fn mapping_stage(function: &str) -> Option<Stage> {
    match meaning(function) {
        Meaning::Stage(stage) => Some(stage),
        _ => None,
    }
}

fn of(patterns: &'static [&'static str], meaning: Meaning) -> impl Iterator<Item = (&'static str, Meaning)> {
    patterns.iter().map(move |pattern| (*pattern, meaning))
}

/// How closely a pattern matches: whether it is the name itself, and its length.
fn score(pattern: &str, name: &str) -> Option<(bool, usize)> {
    let fits = match pattern.strip_suffix('*') {
        Some(front) => name.starts_with(front),
        None => pattern == name,
    };
    fits.then_some((!pattern.ends_with('*'), pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_are_watched_keep_their_stage() {
        for function in FUNCTIONS.iter().filter(|function| !function.only_within) {
            assert_eq!(meaning(function.name), Meaning::Stage(function.stage), "{}", function.name);
            let cold = format!("{}.part.0.cold", function.name);
            assert_eq!(meaning(&cold), Meaning::Stage(function.stage), "{cold}");
        }
    }

    #[test]
    fn the_closest_pattern_decides() {
        for (name, stage) in [
            ("iommu_dma_map_phys", Stage::DmaMap),
            ("iommu_dma_unmap_phys", Stage::DmaUnmap),
            ("__iommu_dma_unmap", Stage::DmaUnmap),
            ("dma_direct_unmap_sg", Stage::DmaUnmap),
            ("dma_direct_map_sg", Stage::DmaMap),
            ("iommu_dma_free_iova.isra.0", Stage::Iova),
            ("__iova_rcache_insert", Stage::Iova),
            ("__arm_lpae_unmap", Stage::TableWrite),
            ("arm_smmu_cmdq_build_cmd", Stage::Invalidation),
            ("iommu_dma_flush_iotlb_all", Stage::Invalidation),
            ("swiotlb_bounce", Stage::Bounce),
            ("iommu_dma_map_swiotlb", Stage::Bounce),
        ] {
            assert_eq!(meaning(name), Meaning::Stage(stage), "{name}");
        }
        assert_eq!(meaning("bpf_prog_6deef7357e7b4530_entry"), Meaning::Program);
        assert_eq!(meaning("handle_irq_event"), Meaning::Handler);
        assert_eq!(meaning("asm_sysvec_apic_timer_interrupt"), Meaning::Interrupt);
        for name in ["", "plpar_hcall", "nvme_irq", "memset", "iommu", "_raw_spin_lock", "xdma_map_page"] {
            assert_eq!(meaning(name), Meaning::Other, "{name}");
        }
    }

    #[test]
    fn no_pattern_is_written_twice() {
        let mut all: Vec<&str> = STAGES.iter().flat_map(|(_, patterns)| *patterns).copied().collect();
        all.extend([PROGRAMS, HANDLERS, INTERRUPTS].concat());
        all.sort_unstable();
        let number = all.len();
        all.dedup();
        assert_eq!(all.len(), number);
    }
}
