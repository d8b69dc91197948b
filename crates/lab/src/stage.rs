//! Assigns kernel functions to the stages of an I/O.

use crate::symbols::{Code, Function, FunctionId, Symbols};
use serde::Deserialize;
use std::collections::BTreeMap;
use toll::Stage;

/// The built-in table: `data/lab/stages.toml`.
const TABLE: &str = include_str!("../data/lab/stages.toml");

/// Patterns of function names and the stages that they belong to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTable {
    /// Helper functions, such as locks, which count for the stage that ran before them.
    same: Vec<String>,
    /// Functions that copy memory.
    copies: Vec<String>,
    /// Functions of other stages that DMA mapping also calls. In its calls they are part of what it costs.
    serves_mapping: Vec<String>,
    /// Functions of each stage.
    stages: BTreeMap<Stage, Vec<String>>,
    /// The stage of a module's functions that no pattern matches.
    modules: BTreeMap<String, Stage>,
}

/// How the stage of a function is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageRule {
    /// It always belongs to this stage.
    Is(Stage),
    /// A helper: it belongs to the stage that ran before it.
    Same,
    /// It copies memory: for the DMA stage that called it, else `copy`.
    Copies,
    /// It belongs to the DMA stage that called it, else to this one.
    Serves(Stage),
}

/// The rule of each function of some symbols.
pub struct Stages {
    /// By function number.
    rules: Vec<StageRule>,
}

/// The kernel functions that are running on a virtual CPU and called each other, and their stages. Helpers are not among them.
#[derive(Debug, Clone, Default)]
pub struct StageTracker {
    /// The innermost last. A function that has returned stays until one that called it goes on.
    running: Vec<(FunctionId, Stage)>,
}

impl StageTracker {
    /// The stage that ran last.
    fn last(&self) -> Stage {
        self.running.last().map_or(Stage::Other, |(_, stage)| *stage)
    }

    /// A function begins to run (`enters`), or goes on after a call or an interrupt. `stage` is its stage if it begins, or is not
    /// among the running ones.
    fn run(&mut self, function: FunctionId, enters: bool, stage: Stage) -> Stage {
        let place = self.running.iter().rposition(|(running, _)| *running == function);
        match place.filter(|_| !enters) {
            Some(place) => self.running.truncate(place + 1),
            None => self.running.push((function, stage)),
        }
        self.last()
    }
}

impl StageTable {
    /// The built-in table.
    ///
    /// # Panics
    /// Never: a test parses it.
    pub fn built_in() -> Self {
        #[expect(clippy::unwrap_used, reason = "the text is compiled in and read by a test")]
        let table = toml::from_str(TABLE).unwrap();
        table
    }

    /// Determines the rule of every function.
    pub fn stages(&self, symbols: &Symbols) -> Stages {
        let rules = (0..symbols.len()).map(|id| self.rule(symbols.function(FunctionId(id)))).collect();
        Stages { rules }
    }

    /// The rule of a function.
    fn rule(&self, function: &Function) -> StageRule {
        let name = function.name.split('.').next().unwrap_or_default();
        match self.own_rule(function, name) {
            StageRule::Is(stage) if self.serves_mapping(stage, name) => StageRule::Serves(stage),
            rule => rule,
        }
    }

    /// Whether a function of a stage is one that DMA mapping also calls: all that allocate memory, and those in the list.
    fn serves_mapping(&self, stage: Stage, name: &str) -> bool {
        let fits = |pattern: &String| match_score(pattern, name).is_some();
        !stage.is_dma() && (stage == Stage::Memory || self.serves_mapping.iter().any(fits))
    }

    /// The rule of the best matching pattern, else of the function's module, else the stage `other`.
    fn own_rule(&self, function: &Function, name: &str) -> StageRule {
        let named = self.patterns().filter_map(|(pattern, rule)| Some((match_score(pattern, name)?, rule)));
        // Of equal scores the first pattern wins, so that the table's order decides.
        let best = named.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let by_module = || function.module.as_ref().and_then(|module| self.modules.get(module));
        best.map(|(_, rule)| rule)
            .unwrap_or_else(|| by_module().map_or(StageRule::Is(Stage::Other), |stage| StageRule::Is(*stage)))
    }

    /// All patterns with their rules.
    fn patterns(&self) -> impl Iterator<Item = (&str, StageRule)> {
        let same = self.same.iter().map(|pattern| (pattern.as_str(), StageRule::Same));
        let copies = self.copies.iter().map(|pattern| (pattern.as_str(), StageRule::Copies));
        let stages = self.stages.iter().flat_map(|(stage, patterns)| {
            patterns.iter().map(|pattern| (pattern.as_str(), StageRule::Is(*stage)))
        });
        same.chain(copies).chain(stages)
    }
}

/// How closely a pattern matches a name: its length, and more for a pattern without `*`. `None` if it does not match.
fn match_score(pattern: &str, name: &str) -> Option<usize> {
    let fits = match pattern.split_once('*') {
        None => pattern == name,
        Some((front, back)) => {
            name.len() + 1 >= pattern.len() && name.starts_with(front) && name.ends_with(back)
        }
    };
    let exact = usize::from(!pattern.contains('*')) * name.len();
    fits.then_some(pattern.len() + exact)
}

impl Stages {
    /// Whether a function belongs to the stage `table-write` by its own name.
    pub fn writes_tables(&self, code: Option<Code>) -> bool {
        matches!(code, Some(Code::Kernel(id)) if self.rules[id.0] == StageRule::Is(Stage::TableWrite))
    }

    /// A function's stage by its own name; `None` for helpers, which count for the stage that ran before them.
    pub fn own(&self, code: Code) -> Option<Stage> {
        match code {
            Code::User | Code::Program(_) => Some(Stage::User),
            Code::Unknown => Some(Stage::Unattributed),
            Code::Kernel(function) => match self.rules[function.0] {
                StageRule::Is(stage) | StageRule::Serves(stage) => Some(stage),
                StageRule::Copies => Some(Stage::Copy),
                StageRule::Same => None,
            },
        }
    }

    /// The stage of the function that runs next on a virtual CPU; updates that CPU's tracker. `enters`: it runs from its
    /// beginning.
    pub fn next(&self, code: Code, enters: bool, tracker: &mut StageTracker) -> Stage {
        let function = match code {
            Code::User | Code::Program(_) => {
                tracker.running.clear();
                return Stage::User;
            }
            Code::Unknown => return Stage::Unattributed,
            Code::Kernel(function) => function,
        };
        let last = tracker.last();
        let served = Some(last).filter(|stage| stage.is_dma());
        match self.rules[function.0] {
            StageRule::Is(stage) => tracker.run(function, enters, stage),
            StageRule::Serves(own) => tracker.run(function, enters, served.unwrap_or(own)),
            StageRule::Copies => served.unwrap_or(Stage::Copy),
            StageRule::Same => last,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::collections::BTreeSet;

    fn stage_after(before: &str, name: &str) -> Stage {
        let text = format!("ffffffff81000000 {before}\nffffffff81000100 {name}\n");
        let symbols = Symbols::parse(&text).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let mut tracker = StageTracker::default();
        stages.next(symbols.code(0xffff_ffff_8100_0000), true, &mut tracker);
        stages.next(symbols.code(0xffff_ffff_8100_0100), true, &mut tracker)
    }

    #[test]
    fn the_longest_matching_pattern_decides() {
        for (name, stage) in [
            ("iommu_dma_map_page", Stage::DmaMap),
            ("iommu_dma_alloc_iova.isra.0", Stage::Iova),
            ("__iommu_map", Stage::TableWrite),
            ("__iommu_dma_unmap", Stage::DmaUnmap),
            ("qi_submit_sync", Stage::Invalidation),
            ("nvme_queue_rq", Stage::Driver),
            ("blk_mq_submit_bio", Stage::BlockLayer),
            ("io_schedule_timeout", Stage::Schedule),
            ("rcu_gp_kthread", Stage::Schedule),
            ("__x64_sys_pread64", Stage::SystemCall),
            ("swiotlb_tbl_map_single", Stage::Bounce),
            ("unknown_function", Stage::Other),
        ] {
            assert_eq!(stage_after("vfs_read", name), stage, "{name}");
        }
    }

    #[test]
    fn helpers_count_for_the_stage_that_ran_before() {
        assert_eq!(stage_after("qi_submit_sync", "_raw_spin_lock_irqsave"), Stage::Invalidation);
        assert_eq!(stage_after("swiotlb_bounce", "memcpy_erms"), Stage::Bounce);
        assert_eq!(stage_after("skb_copy_bits", "memcpy_erms"), Stage::Copy);
    }

    #[test]
    fn what_serves_dma_mapping_counts_for_the_stage_that_called_it() {
        assert_eq!(stage_after("alloc_iova", "kmem_cache_alloc"), Stage::Iova);
        assert_eq!(stage_after("alloc_skb", "kmem_cache_alloc"), Stage::Memory);
        assert_eq!(stage_after("viommu_send_req_sync", "virtqueue_add_sgs"), Stage::Invalidation);
        assert_eq!(stage_after("start_xmit", "virtqueue_add_sgs"), Stage::Driver);
    }

    /// What a virtio network driver and a virtio-iommu in its mappings run, with the stages that they count for. `>` enters.
    const NESTED_RINGS: [(&str, Stage); 33] = [
        (">start_xmit", Stage::Driver),
        (">virtqueue_add_sgs", Stage::Driver),
        (">virtqueue_add_split", Stage::Driver),
        (">vring_map_one_sg", Stage::Driver),
        (">dma_map_page_attrs", Stage::DmaMap),
        (">viommu_send_req_sync", Stage::Invalidation),
        (">memcpy", Stage::Invalidation),
        (">virtqueue_add_sgs", Stage::Invalidation),
        (">virtqueue_add_split", Stage::Invalidation),
        (">vring_map_one_sg", Stage::Invalidation),
        ("<virtqueue_add_split", Stage::Invalidation),
        (">vring_map_one_sg", Stage::Invalidation),
        ("<virtqueue_add_split", Stage::Invalidation),
        (">kfree", Stage::Invalidation),
        ("<viommu_send_req_sync", Stage::Invalidation),
        ("<dma_map_page_attrs", Stage::DmaMap),
        ("<vring_map_one_sg", Stage::Driver),
        ("<virtqueue_add_split", Stage::Driver),
        (">vring_map_one_sg", Stage::Driver),
        ("<virtqueue_add_split", Stage::Driver),
        ("<virtqueue_add_sgs", Stage::Driver),
        (">virtqueue_get_buf", Stage::Driver),
        (">detach_buf_split", Stage::Driver),
        (">vring_unmap_one_split", Stage::Driver),
        (">dma_unmap_page_attrs", Stage::DmaUnmap),
        (">viommu_send_req_sync", Stage::Invalidation),
        (">detach_buf_split", Stage::Invalidation),
        ("<viommu_send_req_sync", Stage::Invalidation),
        ("<vring_unmap_one_split", Stage::Driver),
        ("<detach_buf_split", Stage::Driver),
        (">kfree", Stage::Memory),
        ("<virtqueue_get_buf", Stage::Driver),
        (">memcpy", Stage::Copy),
    ];

    #[test]
    fn a_ring_that_calls_dma_mapping_is_told_from_the_ring_that_serves_it() {
        let name = |step: &str| step[1..].to_owned();
        let names: BTreeSet<String> = NESTED_RINGS.iter().map(|(step, _)| name(step)).collect();
        let address = |index: usize| 0xffff_ffff_8100_0000 + ((index as u64) << 8);
        let lines = names.iter().enumerate().map(|(i, name)| format!("{:x} {name}\n", address(i)));
        let symbols = Symbols::parse(&lines.collect::<String>()).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let mut tracker = StageTracker::default();
        for (number, (step, stage)) in NESTED_RINGS.iter().enumerate() {
            let index = names.iter().position(|it| *it == name(step)).unwrap();
            let found = stages.next(symbols.code(address(index)), step.starts_with('>'), &mut tracker);
            assert_eq!(found, *stage, "step {number}: {step}");
        }
    }

    #[test]
    fn user_mode_ends_what_the_kernel_ran() {
        let symbols = Symbols::parse("ffffffff81000000 alloc_iova\nffffffff81000100 kfree\n").unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let mut tracker = StageTracker::default();
        let [iova, kfree] = [0xffff_ffff_8100_0000, 0xffff_ffff_8100_0100].map(|at| symbols.code(at));
        assert_eq!(stages.next(iova, true, &mut tracker), Stage::Iova);
        assert_eq!(stages.next(kfree, true, &mut tracker), Stage::Iova);
        stages.next(Code::User, true, &mut tracker);
        assert_eq!(stages.next(kfree, true, &mut tracker), Stage::Memory);
    }

    #[test]
    fn code_without_a_function_is_user_or_unattributed() {
        let stages = StageTable::built_in().stages(&Symbols::default());
        assert_eq!(stages.next(Code::User, true, &mut StageTracker::default()), Stage::User);
        assert_eq!(stages.next(Code::Unknown, true, &mut StageTracker::default()), Stage::Unattributed);
        assert_eq!(stages.own(Code::Unknown), Some(Stage::Unattributed));
    }

    #[test]
    fn helpers_have_no_stage_of_their_own() {
        let text = "ffffffff81000000 _raw_spin_lock\nffffffff81000100 nvme_queue_rq\n";
        let symbols = Symbols::parse(text).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        assert_eq!(stages.own(symbols.code(0xffff_ffff_8100_0000)), None);
        assert_eq!(stages.own(symbols.code(0xffff_ffff_8100_0100)), Some(Stage::Driver));
    }

    #[test]
    fn no_pattern_is_written_twice_in_a_stage() {
        let table = StageTable::built_in();
        let lists = table.stages.values().chain([&table.same, &table.copies, &table.serves_mapping]);
        for list in lists {
            let mut sorted = list.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), list.len(), "twice: {list:?}");
        }
    }
}
