//! Which function of a call chain decides what a sample counts for.

use super::sample::Sample;
use super::stage::Meaning;
use super::symbols::{Symbol, Symbols};
use toll::Stage;

/// What a sample in the kernel says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// The stage of the innermost function that belongs to DMA mapping, unless an interrupt came in between.
    pub(super) stage: Option<Stage>,
    /// Places of those functions in the symbols, the outermost first, and of the one that ran if that is another.
    pub(super) path: Vec<usize>,
    /// Whether it ran a program that watches such a function.
    pub(super) is_program: bool,
    /// Whether a handler of an interrupt ran, with interrupts off.
    pub(super) is_handler: bool,
}

impl Chain {
    pub(super) fn of(sample: &Sample, symbols: &Symbols) -> Self {
        let mut chain = Self::default();
        let mut was_interrupted = false;
        let mut innermost = None;
        for (depth, address) in sample.kernel.iter().enumerate() {
            // A caller's address is the one after its call, which may be the next function's.
            let address = address.wrapping_sub(u64::from(depth > 0));
            let Some(place) = symbols.find(address) else { continue };
            let meaning = symbols.get(place).map_or(Meaning::Other, Symbol::meaning);
            if depth == 0 {
                innermost = Some(place);
            }
            match meaning {
                Meaning::Stage(stage) if !was_interrupted => {
                    chain.stage.get_or_insert(stage);
                    chain.path.push(place);
                }
                Meaning::Program if chain.stage.is_none() && !was_interrupted => chain.is_program = true,
                Meaning::Handler => (chain.is_handler, was_interrupted) = (true, true),
                Meaning::Interrupt => was_interrupted = true,
                _ => {}
            }
        }
        let itself = innermost.filter(|place| chain.path.first() != Some(place));
        chain.path.reverse();
        chain.path.extend(itself);
        chain
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    /// Functions of 4 KiB in this order.
    const NAMES: [&str; 12] = [
        "nvme_irq",
        "__handle_irq_event_percpu",
        "asm_common_interrupt",
        "dma_unmap_phys",
        "__iommu_dma_unmap",
        "qi_submit_sync",
        "_raw_spin_lock",
        "alloc_iova_fast",
        "bpf_prog_0123456789abcdef_entry",
        "bpf_trampoline_1",
        "handle_softirqs",
        "nvme_queue_rq",
    ];

    fn symbols() -> Symbols {
        let line = |(index, name): (usize, &&str)| format!("{:x} t {name}\n", (index + 1) << 12);
        Symbols::of(NAMES.iter().enumerate().map(line).collect::<String>().as_bytes())
    }

    /// What a chain of these says, the innermost first, with its functions' names.
    fn chain(names: &[&str]) -> (Chain, Vec<&'static str>) {
        let address =
            |name: &&str| ((NAMES.iter().position(|one| one == name).unwrap() + 1) << 12) as u64 + 1;
        let sample = Sample { kernel: names.iter().map(address).collect(), register: None };
        let chain = Chain::of(&sample, &symbols());
        let path = chain.path.iter().map(|place| NAMES[*place]).collect();
        (chain, path)
    }

    #[test]
    fn the_innermost_known_function_decides() {
        let (of, path) =
            chain(&["_raw_spin_lock", "qi_submit_sync", "__iommu_dma_unmap", "dma_unmap_phys", "nvme_irq"]);
        assert_eq!(of.stage, Some(Stage::Invalidation));
        assert_eq!(path, ["dma_unmap_phys", "__iommu_dma_unmap", "qi_submit_sync", "_raw_spin_lock"]);
        let (of, path) = chain(&["__iommu_dma_unmap", "dma_unmap_phys"]);
        assert_eq!((of.stage, path), (Some(Stage::DmaUnmap), vec!["dma_unmap_phys", "__iommu_dma_unmap"]));
        assert_eq!(chain(&["_raw_spin_lock", "nvme_queue_rq"]).0.stage, None);
    }

    #[test]
    fn what_was_interrupted_does_not_count() {
        let interrupt = ["nvme_irq", "__handle_irq_event_percpu", "asm_common_interrupt", "alloc_iova_fast"];
        let (of, _) = chain(&interrupt);
        assert_eq!((of.stage, of.is_handler), (None, true));
        // The handler's own unmapping does, without the function that it interrupted.
        let (of, path) = chain(&[&["dma_unmap_phys"], &interrupt[..]].concat());
        assert_eq!((of.stage, of.is_handler, path), (Some(Stage::DmaUnmap), true, vec!["dma_unmap_phys"]));
        let (of, _) = chain(&["_raw_spin_lock", "handle_softirqs", "alloc_iova_fast"]);
        assert_eq!((of.stage, of.is_handler), (None, false));
    }

    #[test]
    fn programs_are_told_from_the_function_that_they_watch() {
        let (of, _) = chain(&["bpf_prog_0123456789abcdef_entry", "bpf_trampoline_1", "alloc_iova_fast"]);
        assert!(of.is_program && of.stage == Some(Stage::Iova));
        // A trampoline that called the function.
        let (of, _) = chain(&["alloc_iova_fast", "bpf_trampoline_1", "__iommu_dma_unmap"]);
        assert!(!of.is_program && of.stage == Some(Stage::Iova));
    }

    #[test]
    fn a_call_at_a_function_s_end_belongs_to_it() {
        let next = ((NAMES.iter().position(|name| *name == "qi_submit_sync").unwrap() + 2) << 12) as u64;
        let sample = Sample { kernel: vec![0x7001, next], register: None };
        assert_eq!(Chain::of(&sample, &symbols()).stage, Some(Stage::Invalidation));
    }
}
