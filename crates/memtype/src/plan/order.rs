//! The order of the steps that does least harm on the search.

use super::{
    Harm, PlanTarget, Transient,
    registers::{AddRules, Block, Verdict},
};
use crate::{
    memory_type::{MemoryType, TypeSet},
    mtrr::{MtrrEffect, combine},
    range::PhysRange,
};

/// Up to so many actions all orders are compared; beyond, each next action is the least harmful one.
const ACTIONS_EXACT_MAX: usize = 12;

/// A register to clear or a block to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Clear { number: u32, block: Block },
    Add(Block),
}

/// A range with its types at both ends of the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    pub(super) range: PhysRange,
    pub(super) before: MtrrEffect,
    pub(super) after: MtrrEffect,
    pub(super) default: MemoryType,
}

impl Passage {
    /// What happens here while `blocks` are in use, if it is neither as before nor as after.
    fn transient(&self, blocks: impl Iterator<Item = Block>) -> Option<Transient> {
        let kinds: TypeSet = blocks.filter(|b| b.range.contains(self.range)).map(|b| b.kind).collect();
        let meanwhile = combine(kinds, self.default);
        if meanwhile == self.before || meanwhile == self.after {
            return None;
        }
        let weaker = weakness(meanwhile) > weakness(self.before).max(weakness(self.after));
        let harm = if weaker { Harm::Dangerous } else { Harm::Slow };
        Some(Transient { range: self.range, before: self.before, meanwhile, after: self.after, harm })
    }
}

/// How much freedom a type leaves the CPU: none, to gather writes, to read ahead and cache.
fn weakness(effect: MtrrEffect) -> u8 {
    match effect {
        MtrrEffect::Type(MemoryType::Uncacheable | MemoryType::UncachedMinus) => 0,
        MtrrEffect::Type(MemoryType::WriteCombining) => 1,
        MtrrEffect::Type(_) => 2,
        MtrrEffect::Undefined(_) => 3,
    }
}

/// What is neither as before nor as after while `blocks` are in use; neighbours alike are joined.
pub(super) fn transients(passages: &[Passage], blocks: &[Block]) -> Vec<Transient> {
    let mut joined: Vec<Transient> = Vec::new();
    for next in passages.iter().filter_map(|p| p.transient(blocks.iter().copied())) {
        match joined.last_mut() {
            Some(last) if continues(last, &next) => {
                if let Some(range) = PhysRange::from_first_to_last(last.range.base(), next.range.last()) {
                    last.range = range;
                }
            }
            _ => joined.push(next),
        }
    }
    joined
}

/// Whether one transient state continues another in the next range.
fn continues(last: &Transient, next: &Transient) -> bool {
    last.range.end() == u128::from(next.range.base())
        && (last.before, last.meanwhile, last.after) == (next.before, next.meanwhile, next.after)
}

/// Harm of one state: dangerous bytes first, then slow ones.
type Weight = (u128, u128);

/// The harm of a state in which these blocks are in use.
fn weight(passages: &[Passage], blocks: &[Block]) -> Weight {
    let found = passages.iter().filter_map(|p| p.transient(blocks.iter().copied()));
    found.fold((0, 0), |(dangerous, slow), transient| match transient.harm {
        Harm::Dangerous => (dangerous + transient.range.size_bytes(), slow),
        Harm::Slow => (dangerous, slow + transient.range.size_bytes()),
    })
}

/// Puts `actions` into an order that the kernel accepts; among those, the one that does least harm,
/// summed over the states between. `None` if the kernel accepts no order that was tried.
pub(super) fn order(
    machine: &PlanTarget,
    rules: AddRules,
    actions: &[Action],
    passages: &[Passage],
) -> Option<Vec<Action>> {
    let search = OrderSearch { machine, rules, actions, passages };
    if actions.len() <= ACTIONS_EXACT_MAX { search.least_harm() } else { search.step_by_step() }
}

struct OrderSearch<'a> {
    machine: &'a PlanTarget,
    rules: AddRules,
    actions: &'a [Action],
    passages: &'a [Passage],
}

impl OrderSearch<'_> {
    /// The blocks in use once the actions of the bit mask `done` are done.
    fn blocks(&self, done: u64) -> Vec<Block> {
        let is_done = |index: usize| done & 1 << index != 0;
        let cleared = |number: u32| {
            let clears = |(index, action): (usize, &Action)| {
                is_done(index) && matches!(action, Action::Clear { number: n, .. } if *n == number)
            };
            self.actions.iter().enumerate().any(clears)
        };
        let standing = self.machine.registers.iter().filter(|r| !cleared(r.number)).map(Block::from);
        let added = self.actions.iter().enumerate().filter_map(|(index, action)| match action {
            Action::Add(block) if is_done(index) => Some(*block),
            _ => None,
        });
        standing.chain(added).collect()
    }

    /// Whether the kernel accepts an action while these blocks are in use.
    fn accepts(&self, blocks: &[Block], action: &Action) -> bool {
        match action {
            Action::Clear { .. } => true,
            Action::Add(new) => {
                blocks.len() < self.machine.register_count as usize
                    && blocks.iter().all(|old| self.rules.verdict(*old, *new) == Verdict::Coexist)
            }
        }
    }

    /// Compares all orders, by dynamic programming over the sets of actions done.
    fn least_harm(&self) -> Option<Vec<Action>> {
        let sets = 1_usize << self.actions.len();
        let mut best: Vec<Option<(Weight, usize)>> = vec![None; sets];
        best[0] = Some(((0, 0), 0));
        for done in 0..sets {
            let Some((harm, _)) = best[done] else { continue };
            let blocks = self.blocks(done as u64);
            let here = weight(self.passages, &blocks);
            let harm = (harm.0.saturating_add(here.0), harm.1.saturating_add(here.1));
            for (index, action) in self.actions.iter().enumerate() {
                let next = done | 1 << index;
                if next == done || !self.accepts(&blocks, action) {
                    continue;
                }
                // Of equally harmful ways the one whose last action stands last in the list.
                if best[next]
                    .is_none_or(|(known, last)| (harm, usize::MAX - index) < (known, usize::MAX - last))
                {
                    best[next] = Some((harm, index));
                }
            }
        }
        let mut order = Vec::new();
        let mut done = sets - 1;
        while done != 0 {
            let (_, last) = best[done]?;
            order.push(self.actions[last]);
            done &= !(1 << last);
        }
        order.reverse();
        Some(order)
    }

    /// Takes the least harmful action each time. An action never waits for one that cannot come:
    /// blocks that enclose others go first.
    fn step_by_step(&self) -> Option<Vec<Action>> {
        let mut left: Vec<Action> = self.actions.to_vec();
        let mut blocks: Vec<Block> = self.machine.registers.iter().map(Block::from).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let ready = |action: &Action| match action {
                Action::Clear { .. } => true,
                Action::Add(new) => {
                    let waits = |other: &Action| match other {
                        Action::Add(o) => o.range != new.range && o.range.contains(new.range),
                        Action::Clear { .. } => false,
                    };
                    !left.iter().any(waits)
                }
            };
            let candidates = left.iter().enumerate().filter(|(_, a)| ready(a) && self.accepts(&blocks, a));
            let harm = |action: &Action| weight(self.passages, &after_action(&blocks, action));
            let (index, _) = candidates.min_by_key(|(index, action)| (harm(action), *index))?;
            let action = left.remove(index);
            blocks = after_action(&blocks, &action);
            order.push(action);
        }
        Some(order)
    }
}

/// The blocks in use after an action.
fn after_action(blocks: &[Block], action: &Action) -> Vec<Block> {
    let mut blocks = blocks.to_vec();
    match action {
        Action::Add(block) => blocks.push(*block),
        Action::Clear { block, .. } => {
            if let Some(index) = blocks.iter().position(|b| b == block) {
                blocks.remove(index);
            }
        }
    }
    blocks
}
