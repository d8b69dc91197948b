//! Which stage of an I/O each function of the kernel belongs to.

use crate::symbols::{Code, Function, FunctionId, Symbols};
use serde::Deserialize;
use std::collections::BTreeMap;
use toll::Stage;

/// The table that is built in: `data/lab/stages.toml`.
const TABLE: &str = include_str!("../../../data/lab/stages.toml");

/// A table of functions and their stages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTable {
    same: Vec<String>,
    copies: Vec<String>,
    stages: BTreeMap<Stage, Vec<String>>,
    modules: BTreeMap<String, Stage>,
}

/// What a function says about the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It belongs to this one.
    Is(Stage),
    /// It works for whoever ran before it.
    Same,
    /// It copies: for swiotlb, if that ran before it.
    Copies,
}

/// The verdict on each function of some symbols.
pub struct Stages {
    verdicts: Vec<Verdict>,
}

/// Follows code from function to function.
#[derive(Debug, Clone, Copy)]
pub struct Follower {
    last: Stage,
}

impl Default for Follower {
    fn default() -> Self {
        Self { last: Stage::Other }
    }
}

impl StageTable {
    /// The table that is built in.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn built_in() -> Self {
        #[expect(clippy::unwrap_used, reason = "the text is compiled in and read by a test")]
        let table = toml::from_str(TABLE).unwrap();
        table
    }

    /// Looks every function up once.
    pub fn stages(&self, symbols: &Symbols) -> Stages {
        let verdicts = (0..symbols.len()).map(|id| self.verdict(symbols.function(FunctionId(id)))).collect();
        Stages { verdicts }
    }

    fn verdict(&self, function: &Function) -> Verdict {
        let name = function.name.split('.').next().unwrap_or_default();
        let named = self.patterns().filter_map(|(pattern, verdict)| Some((fit(pattern, name)?, verdict)));
        // The first of equals, so that the table's order decides, and not this loop's.
        let best = named.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let by_module = || function.module.as_ref().and_then(|module| self.modules.get(module));
        best.map(|(_, verdict)| verdict)
            .unwrap_or_else(|| by_module().map_or(Verdict::Is(Stage::Other), |stage| Verdict::Is(*stage)))
    }

    fn patterns(&self) -> impl Iterator<Item = (&str, Verdict)> {
        let same = self.same.iter().map(|pattern| (pattern.as_str(), Verdict::Same));
        let copies = self.copies.iter().map(|pattern| (pattern.as_str(), Verdict::Copies));
        let stages = self.stages.iter().flat_map(|(stage, patterns)| {
            patterns.iter().map(|pattern| (pattern.as_str(), Verdict::Is(*stage)))
        });
        same.chain(copies).chain(stages)
    }
}

/// How well a pattern fits a name: the length that it fixes; an exact one fixes most.
fn fit(pattern: &str, name: &str) -> Option<usize> {
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
    /// Whether code writes translation tables by its own name, and not for who called it.
    pub fn writes_tables(&self, code: Option<Code>) -> bool {
        matches!(code, Some(Code::Kernel(id)) if self.verdicts[id.0] == Verdict::Is(Stage::TableWrite))
    }

    /// The stage of code by its own name; none for servants, which count for who called them.
    pub fn own(&self, code: Code) -> Option<Stage> {
        match code {
            Code::User | Code::Program(_) => Some(Stage::User),
            Code::Unknown => Some(Stage::Unattributed),
            Code::Kernel(function) => match self.verdicts[function.0] {
                Verdict::Is(stage) => Some(stage),
                Verdict::Copies => Some(Stage::Copy),
                Verdict::Same => None,
            },
        }
    }

    /// The stage of the next code that runs, on one virtual CPU.
    pub fn next(&self, code: Code, follower: &mut Follower) -> Stage {
        let function = match code {
            Code::User | Code::Program(_) => return Stage::User,
            Code::Unknown => return Stage::Unattributed,
            Code::Kernel(function) => function,
        };
        let stage = match (self.verdicts[function.0], follower.last) {
            (Verdict::Is(stage), _) => stage,
            (Verdict::Same, last) => return last,
            (Verdict::Copies, Stage::Bounce) => return Stage::Bounce,
            (Verdict::Copies, _) => return Stage::Copy,
        };
        follower.last = stage;
        stage
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn stage_after(before: &str, name: &str) -> Stage {
        let text = format!("ffffffff81000000 {before}\nffffffff81000100 {name}\n");
        let symbols = Symbols::read(&text).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let mut follower = Follower::default();
        stages.next(symbols.code(0xffff_ffff_8100_0000), &mut follower);
        stages.next(symbols.code(0xffff_ffff_8100_0100), &mut follower)
    }

    #[test]
    fn the_longest_pattern_decides() {
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
            ("nobody_knows_this", Stage::Other),
        ] {
            assert_eq!(stage_after("vfs_read", name), stage, "{name}");
        }
    }

    #[test]
    fn servants_count_for_their_callers() {
        assert_eq!(stage_after("qi_submit_sync", "_raw_spin_lock_irqsave"), Stage::Invalidation);
        assert_eq!(stage_after("swiotlb_bounce", "memcpy_erms"), Stage::Bounce);
        assert_eq!(stage_after("skb_copy_bits", "memcpy_erms"), Stage::Copy);
    }

    #[test]
    fn code_without_a_function_is_said() {
        let stages = StageTable::built_in().stages(&Symbols::default());
        assert_eq!(stages.next(Code::User, &mut Follower::default()), Stage::User);
        assert_eq!(stages.next(Code::Unknown, &mut Follower::default()), Stage::Unattributed);
        assert_eq!(stages.own(Code::Unknown), Some(Stage::Unattributed));
    }

    #[test]
    fn servants_have_no_stage_of_their_own() {
        let text = "ffffffff81000000 _raw_spin_lock\nffffffff81000100 nvme_queue_rq\n";
        let symbols = Symbols::read(text).unwrap();
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
