//! How much memory a partition can have at most, by the kernel's own rule.
//!
//! A direct window must cover the *maximum* memory of the partition's profile, which the kernel learns from
//! different properties at different times (arch/powerpc: `memory_hotplug_max` in mm/numa.c and
//! `ddw_memory_hotplug_max` in platforms/pseries/iommu.c).

use crate::power::device_tree::{PropertyError, cells};
use crate::{Citation, Cited};
use ddw::{KernelVersion, size};
use serde::Serialize;

/// Flag of a logical memory block that the partition owns (asm/drmem.h, `DRCONF_MEM_ASSIGNED`).
const ASSIGNED: u32 = 0x8;

/// `/rtas` `ibm,lrdr-capacity`: the limits of logical partitioning (LoPAR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LrdrCapacity {
    /// Most memory, in bytes. QEMU says 0 for a guest that cannot grow.
    pub memory_max_bytes: u64,
    /// Step in which memory comes and goes, in bytes.
    pub increment_bytes: Option<u64>,
    /// Most processors.
    pub processors_max: Option<u32>,
}

/// Decodes `ibm,lrdr-capacity`; Linux reads its first eight bytes only.
pub fn lrdr_capacity(bytes: &[u8]) -> Result<LrdrCapacity, PropertyError> {
    match cells("ibm,lrdr-capacity", bytes)?.as_slice() {
        [high, low, rest @ ..] => Ok(LrdrCapacity {
            memory_max_bytes: join_cells(*high, *low),
            increment_bytes: rest.first_chunk().map(|[high, low]| join_cells(*high, *low)),
            processors_max: rest.get(2).copied(),
        }),
        _ => Err(PropertyError::length("ibm,lrdr-capacity", bytes, "at least 8")),
    }
}

/// A 64-bit number from two cells.
fn join_cells(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Consecutive logical memory blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LmbRun {
    /// Address of the first.
    pub base: u64,
    /// How many.
    pub count: u32,
    /// The partition owns them now.
    pub assigned: bool,
}

/// The logical memory blocks that the partition has or may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lmbs {
    /// In the order of the property.
    pub runs: Vec<LmbRun>,
}

impl Lmbs {
    /// All blocks.
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// End of the last block in the property; `None` if the numbers overflow or there is no block.
    pub fn end(&self, lmb_bytes: u64) -> Option<u64> {
        self.runs.last().and_then(|run| run.end(lmb_bytes))
    }

    /// Highest end of the blocks that the partition owns.
    pub fn assigned_end(&self, lmb_bytes: u64) -> Option<u64> {
        self.runs.iter().filter(|run| run.assigned).filter_map(|run| run.end(lmb_bytes)).max()
    }
}

impl LmbRun {
    /// The address behind the last block.
    fn end(&self, lmb_bytes: u64) -> Option<u64> {
        self.base.checked_add(lmb_bytes.checked_mul(u64::from(self.count))?)
    }
}

/// `ibm,dynamic-reconfiguration-memory` `ibm,dynamic-memory`: one entry per block, after their number.
pub fn dynamic_memory(bytes: &[u8]) -> Result<Lmbs, PropertyError> {
    let entries = dynamic_memory_entries("ibm,dynamic-memory", bytes)?;
    let run = |&[high, low, _drc, _reserved, _associativity, flags]: &[u32; 6]| LmbRun {
        base: join_cells(high, low),
        count: 1,
        assigned: flags & ASSIGNED != 0,
    };
    Ok(Lmbs { runs: entries.iter().map(run).collect() })
}

/// `ibm,dynamic-memory-v2`: one entry per run of like blocks, after their number.
pub fn dynamic_memory_v2(bytes: &[u8]) -> Result<Lmbs, PropertyError> {
    let entries = dynamic_memory_entries("ibm,dynamic-memory-v2", bytes)?;
    let run = |&[count, high, low, _drc, _associativity, flags]: &[u32; 6]| LmbRun {
        base: join_cells(high, low),
        count,
        assigned: flags & ASSIGNED != 0,
    };
    Ok(Lmbs { runs: entries.iter().map(run).collect() })
}

/// The entries of `ibm,dynamic-memory` or its version 2: their number, then six cells for each.
fn dynamic_memory_entries(property: &str, bytes: &[u8]) -> Result<Vec<[u32; 6]>, PropertyError> {
    let words = cells(property, bytes)?;
    let Some((count, rest)) = words.split_first() else {
        return Err(PropertyError::length(property, bytes, "at least 4"));
    };
    let (entries, tail) = rest.as_chunks::<6>();
    if !tail.is_empty() || u64::try_from(entries.len()).ok() != Some(u64::from(*count)) {
        return Err(PropertyError::length(property, bytes, format!("{}", 4 + 24 * u64::from(*count))));
    }
    Ok(entries.to_vec())
}

/// A range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub size_bytes: u64,
}

/// `reg` of a `memory@` node, in two cells each as on every 64-bit POWER machine.
pub fn memory_reg(bytes: &[u8]) -> Result<Vec<MemoryRange>, PropertyError> {
    let words = cells("memory reg", bytes)?;
    let (ranges, tail) = words.as_chunks::<4>();
    if ranges.is_empty() || !tail.is_empty() {
        return Err(PropertyError::length("memory reg", bytes, "a multiple of 16"));
    }
    let range = |&[high, low, size_high, size_low]: &[u32; 4]| MemoryRange {
        start: join_cells(high, low),
        size_bytes: join_cells(size_high, size_low),
    };
    Ok(ranges.iter().map(range).collect())
}

/// What the device tree says about memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Most memory by `ibm,lrdr-capacity`, in bytes.
    pub lrdr_memory_max_bytes: Option<Cited<u64>>,
    /// `ibm,lmb-size`, in bytes.
    pub lmb_bytes: Option<Cited<u64>>,
    /// `ibm,dynamic-memory` or its second version.
    pub lmbs: Option<Cited<Lmbs>>,
    /// `reg` of the memory nodes.
    pub ranges: Vec<Cited<MemoryRange>>,
}

/// The rule by which a kernel finds the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryRule {
    /// Block size times number of blocks (RHEL 6, RHEL 7, Linux 3.6).
    LmbCount,
    /// `ibm,lrdr-capacity`, or the end of the last block (Linux 4.14, 4.19, and again from 6.12).
    Lrdr,
    /// The same, and not less than the end of any memory node (RHEL 8, Linux 5.10 to 6.1).
    LrdrAndNodes,
}

impl MemoryRule {
    /// The rule of a kernel. Between the trees that were read, the older rule is taken.
    pub fn of(kernel: KernelVersion, rhel_major: Option<u32>) -> Self {
        match rhel_major {
            Some(6 | 7) => Self::LmbCount,
            Some(8 | 9) => Self::LrdrAndNodes,
            _ if kernel < (4, 14, 0) => Self::LmbCount,
            _ if ((5, 10, 0)..(6, 12, 0)).contains(&kernel) => Self::LrdrAndNodes,
            _ => Self::Lrdr,
        }
    }
}

/// The most memory that the kernel reckons with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaximumMemory {
    /// In bytes.
    pub bytes: u64,
    /// The rule applied.
    pub rule: MemoryRule,
    /// What each contribution was, in words.
    pub steps: Vec<String>,
    /// Where they stand.
    pub evidence: Vec<Citation>,
}

/// Applies a rule. `None` if the device tree says nothing about memory.
///
/// All kernels take the end of present memory if that is higher. It is reckoned here from the memory nodes
/// and the assigned blocks.
pub fn maximum_memory(rule: MemoryRule, facts: &MemoryFacts) -> Option<MaximumMemory> {
    let mut contributions = present(facts);
    contributions.extend(match rule {
        MemoryRule::LmbCount => by_block_count(facts).or_else(|| instead_of_blocks(facts)),
        MemoryRule::Lrdr | MemoryRule::LrdrAndNodes => {
            by_lrdr_capacity(facts).or_else(|| by_last_block(facts))
        }
    });
    let bytes = contributions.iter().map(|c| c.bytes).max()?;
    let (steps, evidence): (Vec<_>, Vec<_>) = contributions
        .into_iter()
        .map(|c| (format!("{}: {}", c.what, size::binary(c.bytes.into())), c.at))
        .unzip();
    let evidence = evidence.into_iter().flatten().collect();
    Some(MaximumMemory { bytes, rule, steps, evidence })
}

struct Contribution {
    bytes: u64,
    what: String,
    at: Vec<Citation>,
}

/// Memory that is there now; later kernels look at the nodes by themselves, to the same effect.
fn present(facts: &MemoryFacts) -> Vec<Contribution> {
    let end = |range: &MemoryRange| range.start.checked_add(range.size_bytes);
    let nodes = facts.ranges.iter().filter_map(|cited| Some((end(&cited.value)?, cited)));
    let node = nodes.max_by_key(|(end, _)| *end).map(|(bytes, cited)| Contribution {
        bytes,
        what: "end of the memory nodes".to_owned(),
        at: vec![cited.at.clone()],
    });
    let assigned = facts.lmbs.as_ref().zip(facts.lmb_bytes.as_ref()).and_then(|(lmbs, lmb)| {
        let bytes = lmbs.value.assigned_end(lmb.value)?;
        let what = "end of the assigned memory blocks".to_owned();
        Some(Contribution { bytes, what, at: vec![lmbs.at.clone(), lmb.at.clone()] })
    });
    node.into_iter().chain(assigned).collect()
}

/// Memory by the number of logical memory blocks and their size.
fn by_block_count(facts: &MemoryFacts) -> Option<Contribution> {
    let (lmbs, lmb) = (facts.lmbs.as_ref()?, facts.lmb_bytes.as_ref()?);
    let count = lmbs.value.count();
    Some(Contribution {
        bytes: count.checked_mul(lmb.value)?,
        what: format!("{count} memory blocks x {}", size::binary(lmb.value.into())),
        at: vec![lmbs.at.clone(), lmb.at.clone()],
    })
}

/// Memory by `ibm,lrdr-capacity`, for kernels that count blocks, where no block and no memory node was read: firmware gives a
/// partition blocks up to that.
fn instead_of_blocks(facts: &MemoryFacts) -> Option<Contribution> {
    by_lrdr_capacity(facts).filter(|_| facts.ranges.is_empty() && facts.lmbs.is_none())
}

/// Memory by `ibm,lrdr-capacity`.
fn by_lrdr_capacity(facts: &MemoryFacts) -> Option<Contribution> {
    let cited = facts.lrdr_memory_max_bytes.as_ref()?;
    let what = "ibm,lrdr-capacity".to_owned();
    Some(Contribution { bytes: cited.value, what, at: vec![cited.at.clone()] })
}

/// Memory by the end of the last logical memory block.
fn by_last_block(facts: &MemoryFacts) -> Option<Contribution> {
    let (lmbs, lmb) = (facts.lmbs.as_ref()?, facts.lmb_bytes.as_ref()?);
    let what = "end of the last memory block".to_owned();
    let bytes = lmbs.value.end(lmb.value)?;
    Some(Contribution { bytes, what, at: vec![lmbs.at.clone(), lmb.at.clone()] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;
    const MIB_256: u64 = 256 << 20;

    fn cited<T>(value: T, file: &str) -> Cited<T> {
        Cited::new(value, Citation::of_file(file, ""))
    }

    fn words(cells: &[u32]) -> Vec<u8> {
        cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
    }

    /// 4 GiB now, 16 GiB at most, in blocks of 256 MiB.
    fn partition() -> MemoryFacts {
        let v2 = words(&[2, 16, 0, 0, 0x8000_0000, 0, 0x8, 48, 1, 0, 0x8000_0010, 0, 0]);
        let lmbs = dynamic_memory_v2(&v2).unwrap();
        MemoryFacts {
            lrdr_memory_max_bytes: Some(cited(16 * GIB, "rtas/ibm,lrdr-capacity")),
            lmb_bytes: Some(cited(MIB_256, "ibm,lmb-size")),
            lmbs: Some(cited(lmbs, "ibm,dynamic-memory-v2")),
            ranges: vec![cited(MemoryRange { start: 0, size_bytes: MIB_256 }, "memory@0/reg")],
        }
    }

    fn check(rule: MemoryRule, facts: &MemoryFacts, expect: Option<u64>) {
        assert_eq!(maximum_memory(rule, facts).map(|m| m.bytes), expect, "{rule:?} {facts:?}");
    }

    #[test]
    fn properties() {
        // QEMU's pseries machine, 2 GiB, no hotplug.
        let qemu = lrdr_capacity(&words(&[0, 0, 0, 0x1000_0000, 2])).unwrap();
        assert_eq!(qemu.memory_max_bytes, 0);
        assert_eq!((qemu.increment_bytes, qemu.processors_max), (Some(MIB_256), Some(2)));
        let reg = memory_reg(&words(&[0, 0, 0, 0x8000_0000])).unwrap();
        assert_eq!(reg, [MemoryRange { start: 0, size_bytes: 2 * GIB }]);
        let v1 = dynamic_memory(&words(&[2, 0, 0, 1, 0, 0, 8, 0, 0x1000_0000, 2, 0, 0, 0])).unwrap();
        assert_eq!(
            (v1.count(), v1.end(MIB_256), v1.assigned_end(MIB_256)),
            (2, Some(2 * MIB_256), Some(MIB_256))
        );
        let error = dynamic_memory(&words(&[3, 0])).unwrap_err().to_string();
        assert_eq!(error, "ibm,dynamic-memory has 8 bytes; expected 76");
        assert!(dynamic_memory(&words(&[u32::MAX])).is_err());
        assert!(memory_reg(&[]).is_err());
    }

    #[test]
    fn rules() {
        let facts = partition();
        check(MemoryRule::LmbCount, &facts, Some(16 * GIB));
        check(MemoryRule::Lrdr, &facts, Some(16 * GIB));
        let silent = MemoryFacts { lrdr_memory_max_bytes: None, ..facts.clone() };
        check(MemoryRule::Lrdr, &silent, Some(16 * GIB));
        let only_present = MemoryFacts { lmbs: None, ..silent };
        check(MemoryRule::LrdrAndNodes, &only_present, Some(MIB_256));
        check(MemoryRule::Lrdr, &MemoryFacts::default(), None);
    }

    #[test]
    fn a_guest_that_cannot_grow() {
        let facts = MemoryFacts {
            lrdr_memory_max_bytes: Some(cited(0, "rtas/ibm,lrdr-capacity")),
            ranges: vec![cited(MemoryRange { start: 0, size_bytes: 2 * GIB }, "memory@0/reg")],
            ..MemoryFacts::default()
        };
        let found = maximum_memory(MemoryRule::LrdrAndNodes, &facts).unwrap();
        assert_eq!(found.bytes, 2 * GIB);
        assert_eq!(found.steps, ["end of the memory nodes: 2 GiB", "ibm,lrdr-capacity: 0 B"]);
        assert_eq!(found.evidence.len(), 2);
    }

    #[test]
    fn rules_of_kernels() {
        for (kernel, rhel, rule) in [
            ((2, 6, 32), Some(6), MemoryRule::LmbCount),
            ((3, 10, 0), Some(7), MemoryRule::LmbCount),
            ((4, 14, 74), None, MemoryRule::Lrdr),
            ((4, 18, 0), Some(8), MemoryRule::LrdrAndNodes),
            ((5, 10, 262), None, MemoryRule::LrdrAndNodes),
            ((6, 1, 176), None, MemoryRule::LrdrAndNodes),
            ((6, 12, 0), Some(10), MemoryRule::Lrdr),
        ] {
            assert_eq!(MemoryRule::of(kernel, rhel), rule, "{kernel:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, lmb: u64) {
            let _ = (lrdr_capacity(&bytes), memory_reg(&bytes));
            for lmbs in [dynamic_memory(&bytes), dynamic_memory_v2(&bytes)].into_iter().flatten() {
                let _ = (lmbs.count(), lmbs.end(lmb), lmbs.assigned_end(lmb));
            }
        }

        #[test]
        fn capacity_round_trips(memory: u64, step: u64, processors: u32) {
            let bytes = [&memory.to_be_bytes()[..], &step.to_be_bytes(), &processors.to_be_bytes()].concat();
            let expect = LrdrCapacity {
                memory_max_bytes: memory, increment_bytes: Some(step), processors_max: Some(processors),
            };
            prop_assert_eq!(lrdr_capacity(&bytes), Ok(expect));
        }

        #[test]
        fn no_facts_panic(base: u64, count: u32, lmb: u64, start: u64, size_bytes: u64) {
            let runs = vec![LmbRun { base, count, assigned: true }; 3];
            let facts = MemoryFacts {
                lrdr_memory_max_bytes: None,
                lmb_bytes: Some(cited(lmb, "a")),
                lmbs: Some(cited(Lmbs { runs }, "b")),
                ranges: vec![cited(MemoryRange { start, size_bytes }, "c")],
            };
            for rule in [MemoryRule::LmbCount, MemoryRule::Lrdr, MemoryRule::LrdrAndNodes] {
                let _ = maximum_memory(rule, &facts);
            }
        }
    }
}
