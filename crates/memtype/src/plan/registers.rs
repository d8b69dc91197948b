//! The variable registers under the kernel's rules for changing them.
//!
//! Sources: `mtrr_add_page` and `mtrr_del_page` in main.c, `generic_validate_add_page` and
//! `generic_get_free_region` in generic.c; arch/i386/kernel/cpu/mtrr of 2.6.18 and RHEL 5,
//! arch/x86/kernel/cpu/mtrr of 2.6.32 and 6.1, whose rules are the same.

use super::{PlanTarget, Step};
use crate::{
    memory_type::MemoryType,
    mtrr::{FIXED_RANGES_END, KernelVersion, Register},
    range::PhysRange,
};

/// Which ranges may overlap when one is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddRules {
    /// 2.6.18: a new range is disjoint from a register, or inside it and uncachable; and none lies
    /// below 1 MiB. Taken for all kernels before 2.6.32, since whatever these rules accept the later
    /// ones accept with the same result.
    Strict,
    /// 2.6.32 and later: a new range may also enclose a register; UC goes with anything, WB with WT.
    Compatible,
}

/// What the kernel answers to a new range, as far as one register in use is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Both may stand.
    Coexist,
    /// The new range is inside the register, of the same type: only its use count grows.
    Counted,
    /// The new range encloses the register, of the same type: it takes the register's place.
    Replaced,
    /// EINVAL.
    Refused,
}

impl AddRules {
    /// The rules of kernel `version`.
    pub fn of_kernel(version: KernelVersion) -> Self {
        if version < (2, 6, 32) { Self::Strict } else { Self::Compatible }
    }

    /// Whether ranges of different types may overlap, the one inside being `inner`.
    pub(super) fn compatible(self, outer: MemoryType, inner: MemoryType) -> bool {
        use MemoryType::{Uncacheable, WriteBack, WriteThrough};
        match (self, outer, inner) {
            (_, _, Uncacheable) => true,
            (Self::Strict, ..) => false,
            (Self::Compatible, Uncacheable, _)
            | (Self::Compatible, WriteThrough, WriteBack)
            | (Self::Compatible, WriteBack, WriteThrough) => true,
            (Self::Compatible, ..) => false,
        }
    }

    /// The answer to adding `new` with `old` in use.
    pub(super) fn verdict(self, old: Block, new: Block) -> Verdict {
        if !old.range.overlaps(new.range) {
            return Verdict::Coexist;
        }
        let inside = old.range.contains(new.range);
        let encloses = new.range.contains(old.range);
        match self {
            _ if inside && old.kind == new.kind => Verdict::Counted,
            _ if inside && self.compatible(old.kind, new.kind) => Verdict::Coexist,
            Self::Strict => Verdict::Refused,
            Self::Compatible if encloses && !inside && old.kind == new.kind => Verdict::Replaced,
            Self::Compatible if encloses && !inside && self.compatible(new.kind, old.kind) => {
                Verdict::Coexist
            }
            Self::Compatible => Verdict::Refused,
        }
    }

    /// Whether the kernel takes a register for `range` at all.
    pub(super) fn accepts_range(self, range: PhysRange, address_bits: u32) -> bool {
        let below_top = |address: u64| u128::from(address) < 1_u128 << address_bits;
        let low = self == Self::Strict && range.end() < u128::from(FIXED_RANGES_END);
        // A single register cannot hold the whole space: its size would not fit the address bits.
        range.is_block() && below_top(range.last()) && range.size_bytes() < 1_u128 << address_bits && !low
    }
}

/// A range with its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Block {
    pub(super) range: PhysRange,
    pub(super) kind: MemoryType,
}

impl From<&Register> for Block {
    fn from(register: &Register) -> Self {
        Self { range: register.range, kind: register.kind }
    }
}

/// Why the kernel does not take a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum StepError {
    #[error("the register is not in use")]
    NotInUse,
    #[error("the use count of the register is 0")]
    NotCounted,
    #[error("the range is no block, or beyond the address bits")]
    Range,
    #[error("it overlaps a register in a way the kernel refuses")]
    Overlap,
    #[error("no register is free")]
    Full,
}

/// All variable registers of a processor, used or free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegisterFile {
    slots: Vec<Option<(Block, u32)>>,
    rules: AddRules,
    address_bits: u32,
}

impl RegisterFile {
    /// The registers of `machine`; the caller has checked that all numbers are in range.
    pub(super) fn new(machine: &PlanTarget) -> Self {
        let mut slots = vec![None; machine.register_count as usize];
        for register in &machine.registers {
            if let Some(slot) = slots.get_mut(register.number as usize) {
                *slot = Some((Block::from(register), register.count));
            }
        }
        Self { slots, rules: AddRules::of_kernel(machine.kernel), address_bits: machine.address_bits }
    }

    /// The registers in use, by number.
    pub(super) fn registers(&self) -> Vec<Register> {
        let used = (0..).zip(&self.slots).filter_map(|(number, slot)| slot.map(|slot| (number, slot)));
        used.map(|(number, (block, count))| Register { number, range: block.range, kind: block.kind, count })
            .collect()
    }

    /// What is in register `number`.
    pub(super) fn get(&self, number: usize) -> Option<Block> {
        self.slots.get(number).copied().flatten().map(|(block, _)| block)
    }

    /// The use count of register `number`, 0 if it is free.
    pub(super) fn count(&self, number: usize) -> u32 {
        self.slots.get(number).copied().flatten().map_or(0, |(_, count)| count)
    }

    /// How many registers there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The registers in use, without numbers.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> {
        self.slots.iter().flatten().map(|(block, _)| *block)
    }

    /// The kernel's rules for adding a register.
    pub(super) fn rules(&self) -> AddRules {
        self.rules
    }

    /// Does what the kernel would do for a write of `step`; the register it touched.
    pub(super) fn apply(&mut self, step: &Step) -> Result<u32, StepError> {
        match *step {
            Step::Disable { register } => self.disable(register),
            Step::Add { range, kind } => self.add(Block { range, kind }),
        }
    }

    /// Lowers a register's use count by 1 and clears the register at 0, as `disable=N` does.
    fn disable(&mut self, number: u32) -> Result<u32, StepError> {
        let slot = self.slots.get_mut(number as usize).ok_or(StepError::NotInUse)?;
        let (_, count) = slot.as_mut().ok_or(StepError::NotInUse)?;
        *count = count.checked_sub(1).ok_or(StepError::NotCounted)?;
        if *count == 0 {
            *slot = None;
        }
        Ok(number)
    }

    /// Adds a range where the kernel would put it: a register that has it already, one that it replaces, or the lowest free one.
    fn add(&mut self, new: Block) -> Result<u32, StepError> {
        if !self.rules.accepts_range(new.range, self.address_bits) {
            return Err(StepError::Range);
        }
        let mut replaced = Vec::new();
        for (number, slot) in (0..).zip(&mut self.slots) {
            let Some((old, count)) = slot else { continue };
            match self.rules.verdict(*old, new) {
                Verdict::Coexist => {}
                Verdict::Replaced => replaced.push(number),
                Verdict::Refused => return Err(StepError::Overlap),
                Verdict::Counted => {
                    *count = count.saturating_add(1);
                    return Ok(number);
                }
            }
        }
        // One enclosed register gives its place; with several the kernel leaves them all standing.
        let (number, count_before) = match replaced[..] {
            [number] => (number, self.count(number as usize)),
            _ => (self.lowest_free().ok_or(StepError::Full)?, 0),
        };
        if let Some(slot) = self.slots.get_mut(number as usize) {
            *slot = Some((new, count_before.saturating_add(1)));
        }
        Ok(number)
    }

    /// The number of the lowest register that is not in use.
    fn lowest_free(&self) -> Option<u32> {
        self.slots.iter().position(Option::is_none).and_then(|number| u32::try_from(number).ok())
    }
}
