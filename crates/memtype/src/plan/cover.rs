//! The fewest changes to a table of registers that give every address its wanted type.
//!
//! MTRRs hold blocks: a power of two long and aligned to it. Blocks form a binary tree, in which two
//! of them either nest or have nothing in common. What a register may be, and what an address ends up
//! as, depends on the types of the blocks around it only. So the best table for a node of the tree
//! follows from the best tables of its two halves for each set of types that can surround them, and
//! the search below is exact: no table the kernel would build has fewer registers, or takes fewer
//! steps, than the ones it finds. (It does not use the kernel's merging of registers, nor masks with
//! gaps, which /proc/mtrr cannot write.)

use super::registers::{AddRules, Block};
use crate::{
    memory_type::{MemoryType, TypeSet},
    mtrr::{MtrrEffect, combine},
    range::PhysRange,
};
use std::{collections::HashMap, rc::Rc};

/// log2 of the smallest block.
const PAGE_BITS: u32 = 12;

/// A range over which wish and default are the same. Cells join up to the whole address space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) range: PhysRange,
    pub(super) want: MtrrEffect,
    pub(super) default: MemoryType,
}

/// A register in use, and the steps it takes to clear it; `None` if it cannot be cleared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Existing {
    pub(super) block: Block,
    pub(super) steps_to_clear: Option<u32>,
}

/// What is looked for.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) cells: &'a [Cell],
    pub(super) existing: &'a [Existing],
    pub(super) rules: AddRules,
    pub(super) address_bits: u32,
    memo: HashMap<Key, Rc<[Point]>>,
}

/// A table: which of the existing registers stay, and which blocks join them.
#[derive(Debug, Clone, Default)]
pub(super) struct Cover {
    pub(super) kept: Vec<usize>,
    pub(super) added: Vec<Block>,
}

/// How many registers a table takes, and how many writes to `/proc/mtrr` lead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) registers: u32,
    pub(super) steps: u32,
}

/// A node of the tree, and the types of the blocks around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    base: u64,
    bits: u32,
    /// All that surround it.
    around: TypeSet,
    /// Those of them that are to be added.
    added: TypeSet,
}

/// One way to treat a node that no other beats in both registers and steps.
#[derive(Debug, Clone, Copy)]
struct Point {
    cost: Cost,
    /// A bit for each of the node's own registers that stays.
    keep: u32,
    add: Option<MemoryType>,
    /// Points of both halves; `None` where the node needs no division.
    halves: Option<(usize, usize)>,
}

impl Key {
    /// The range of addresses of this node; `None` if it exceeds 64 bits.
    fn range(&self) -> Option<PhysRange> {
        PhysRange::from_base_and_size(self.base, 1_u64.checked_shl(self.bits)?)
    }

    /// Both halves of this node, whose surroundings have these types.
    fn halves(&self, around: TypeSet, added: TypeSet) -> [Self; 2] {
        let bits = self.bits - 1;
        [self.base, self.base | 1 << bits].map(|base| Self { base, bits, around, added })
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(
        cells: &'a [Cell],
        existing: &'a [Existing],
        rules: AddRules,
        address_bits: u32,
    ) -> Self {
        Self { cells, existing, rules, address_bits, memo: HashMap::new() }
    }

    /// The costs no other table beats in both, from the fewest registers to the fewest steps; empty if
    /// no table gives every cell what it wants.
    pub(super) fn costs(&mut self) -> Vec<Cost> {
        let root = self.root();
        self.solve(root).iter().map(|point| point.cost).collect()
    }

    /// The table behind the entry `index` of [`Search::costs`].
    pub(super) fn cover(&mut self, index: usize) -> Cover {
        let mut cover = Cover::default();
        let root = self.root();
        self.collect(root, index, &mut cover);
        cover.kept.sort_unstable();
        cover.added.sort_unstable();
        cover
    }

    /// The node of the whole address space.
    fn root(&self) -> Key {
        Key { base: 0, bits: self.address_bits, around: TypeSet::EMPTY, added: TypeSet::EMPTY }
    }

    /// The best ways to treat a node, each computed once.
    fn solve(&mut self, key: Key) -> Rc<[Point]> {
        if let Some(points) = self.memo.get(&key) {
            return Rc::clone(points);
        }
        let points: Rc<[Point]> = best(self.candidates(key)).into();
        self.memo.insert(key, Rc::clone(&points));
        points
    }

    /// All ways to treat a node, given the best ways to treat its halves.
    fn candidates(&mut self, key: Key) -> Vec<Point> {
        let Some(range) = key.range() else { return Vec::new() };
        let own = self.own_registers(range);
        let whole = self.undivided_cell(range);
        let mut points = Vec::new();
        for keep in 0..1_u32 << own.len() {
            let Some((kept, clearing)) = self.keep(&own, keep, key) else { continue };
            for add in [None].into_iter().chain(MemoryType::OF_MTRR.map(Some)) {
                let around = kept.iter().fold(key.around, |set, block| set.with(block.kind));
                if add.is_some_and(|kind| !self.may_add(range, kind, around)) {
                    continue;
                }
                let adding = u32::from(add.is_some());
                let cost = Cost { registers: keep.count_ones() + adding, steps: clearing + adding };
                let inner_around = add.map_or(around, |kind| around.with(kind));
                let inner_added = add.map_or(key.added, |kind| key.added.with(kind));
                let point = Point { cost, keep, add, halves: None };
                match whole {
                    Some(cell) if combine(inner_around, cell.default) == cell.want => points.push(point),
                    Some(_) => {}
                    None => self.add_divided(key, inner_around, inner_added, point, &mut points),
                }
            }
        }
        points
    }

    /// Adds the ways to treat a node by treating each of its halves.
    fn add_divided(
        &mut self,
        key: Key,
        around: TypeSet,
        added: TypeSet,
        here: Point,
        points: &mut Vec<Point>,
    ) {
        if key.bits <= PAGE_BITS {
            return;
        }
        let [low, high] = key.halves(around, added).map(|half| self.solve(half));
        for (low_index, low) in low.iter().enumerate() {
            for (high_index, high) in high.iter().enumerate() {
                let cost = Cost {
                    registers: here.cost.registers + low.cost.registers + high.cost.registers,
                    steps: here.cost.steps + low.cost.steps + high.cost.steps,
                };
                points.push(Point { cost, halves: Some((low_index, high_index)), ..here });
            }
        }
    }

    /// Registers in use whose range is exactly `range`.
    fn own_registers(&self, range: PhysRange) -> Vec<usize> {
        (0..self.existing.len()).filter(|&i| self.existing[i].block.range == range).collect()
    }

    /// The cell that holds all of `range`, unless a register inside asks for a closer look.
    fn undivided_cell(&self, range: PhysRange) -> Option<Cell> {
        let inside = |e: &Existing| range.contains(e.block.range) && e.block.range != range;
        if self.existing.iter().any(inside) {
            return None;
        }
        self.cells.iter().find(|cell| cell.range.contains(range)).copied()
    }

    /// The blocks that stay if `keep` says which, and the steps to clear the others; `None` if the
    /// kernel would not have it so.
    fn keep(&self, own: &[usize], keep: u32, key: Key) -> Option<(Vec<Block>, u32)> {
        let mut kept = Vec::new();
        let mut clearing = 0_u32;
        for (bit, &index) in own.iter().enumerate() {
            let existing = &self.existing[index];
            if keep & 1 << bit == 0 {
                clearing = clearing.checked_add(existing.steps_to_clear?)?;
            } else if self.may_keep(existing.block.kind, key.added) {
                kept.push(existing.block);
            } else {
                return None;
            }
        }
        Some((kept, clearing))
    }

    /// Whether blocks of the types `added` may be added around a register that stays.
    fn may_keep(&self, kind: MemoryType, added: TypeSet) -> bool {
        match self.rules {
            // Nothing can be added around a register.
            AddRules::Strict => added == TypeSet::EMPTY,
            // Around one of the same type the kernel would merge the two.
            AddRules::Compatible => {
                added.iter().all(|outer| outer != kind && self.rules.compatible(outer, kind))
            }
        }
    }

    /// Whether a block may be added inside blocks of the types `around`.
    fn may_add(&self, range: PhysRange, kind: MemoryType, around: TypeSet) -> bool {
        self.rules.accepts_range(range, self.address_bits)
            && around.iter().all(|outer| outer != kind && self.rules.compatible(outer, kind))
    }

    /// Adds the registers of one way to treat a node, and of its halves, to the cover.
    fn collect(&mut self, key: Key, index: usize, cover: &mut Cover) {
        let (Some(point), Some(range)) = (self.solve(key).get(index).copied(), key.range()) else { return };
        let own = self.own_registers(range);
        let kept: Vec<_> =
            own.iter().enumerate().filter(|(bit, _)| point.keep & 1 << bit != 0).map(|(_, &i)| i).collect();
        let mut around = kept.iter().fold(key.around, |set, &i| set.with(self.existing[i].block.kind));
        let mut added = key.added;
        cover.kept.extend(kept);
        if let Some(kind) = point.add {
            cover.added.push(Block { range, kind });
            around = around.with(kind);
            added = added.with(kind);
        }
        if let Some((low, high)) = point.halves {
            let [low_half, high_half] = key.halves(around, added);
            self.collect(low_half, low, cover);
            self.collect(high_half, high, cover);
        }
    }
}

/// The points that no other beats in both registers and steps, by registers. Of equals the first
/// stays, which is the one that adds least here.
fn best(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by_key(|point| (point.cost.registers, point.cost.steps));
    let mut steps_min = u32::MAX;
    points.retain(|point| {
        let better = point.cost.steps < steps_min;
        steps_min = steps_min.min(point.cost.steps);
        better
    });
    points
}
