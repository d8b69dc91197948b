//! Assigns kernel functions to the stages of an I/O.

use crate::symbols::{Code, Function, FunctionId, Symbols};
use serde::Deserialize;
use std::collections::BTreeMap;
use toll::Stage;

/// The built-in table: `data/lab/stages.toml`.
const TABLE: &str = include_str!("../../../data/lab/stages.toml");

/// Patterns of function names and the stages that they belong to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTable {
    /// Helper functions, such as locks, which count for the stage that ran before them.
    same: Vec<String>,
    /// Functions that copy memory.
    copies: Vec<String>,
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
    /// It copies memory: bouncing if swiotlb ran before it, else `copy`.
    Copies,
}

/// The rule of each function of some symbols.
pub struct Stages {
    /// By function number.
    rules: Vec<StageRule>,
}

/// The stage that ran last on a virtual CPU, which decides the stage of helper functions.
#[derive(Debug, Clone, Copy)]
pub struct StageTracker {
    last: Stage,
}

impl Default for StageTracker {
    fn default() -> Self {
        Self { last: Stage::Other }
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

    /// The rule of the best matching pattern, else of the function's module, else the stage `other`.
    fn rule(&self, function: &Function) -> StageRule {
        let name = function.name.split('.').next().unwrap_or_default();
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

    /// A function's stage by its own name; `None` for helpers, which count for their caller's stage.
    pub fn own(&self, code: Code) -> Option<Stage> {
        match code {
            Code::User | Code::Program(_) => Some(Stage::User),
            Code::Unknown => Some(Stage::Unattributed),
            Code::Kernel(function) => match self.rules[function.0] {
                StageRule::Is(stage) => Some(stage),
                StageRule::Copies => Some(Stage::Copy),
                StageRule::Same => None,
            },
        }
    }

    /// The stage of the function that runs next on a virtual CPU; updates that CPU's tracker.
    pub fn next(&self, code: Code, tracker: &mut StageTracker) -> Stage {
        let function = match code {
            Code::User | Code::Program(_) => return Stage::User,
            Code::Unknown => return Stage::Unattributed,
            Code::Kernel(function) => function,
        };
        let stage = match (self.rules[function.0], tracker.last) {
            (StageRule::Is(stage), _) => stage,
            (StageRule::Same, last) => return last,
            (StageRule::Copies, Stage::Bounce) => return Stage::Bounce,
            (StageRule::Copies, _) => return Stage::Copy,
        };
        tracker.last = stage;
        stage
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn stage_after(before: &str, name: &str) -> Stage {
        let text = format!("ffffffff81000000 {before}\nffffffff81000100 {name}\n");
        let symbols = Symbols::parse(&text).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let mut tracker = StageTracker::default();
        stages.next(symbols.code(0xffff_ffff_8100_0000), &mut tracker);
        stages.next(symbols.code(0xffff_ffff_8100_0100), &mut tracker)
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
    fn code_without_a_function_is_user_or_unattributed() {
        let stages = StageTable::built_in().stages(&Symbols::default());
        assert_eq!(stages.next(Code::User, &mut StageTracker::default()), Stage::User);
        assert_eq!(stages.next(Code::Unknown, &mut StageTracker::default()), Stage::Unattributed);
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
        let lists = table.stages.values().chain([&table.same, &table.copies]);
        for list in lists {
            let mut sorted = list.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), list.len(), "twice: {list:?}");
        }
    }
}
