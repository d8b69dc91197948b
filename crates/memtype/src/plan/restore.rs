//! The way back to a table: the same ranges in the same registers.

use super::{
    COUNT_MAX, PlanTarget, Step,
    registers::{Block, RegisterFile, Verdict},
};
use crate::{
    mtrr::{FIXED_RANGES_END, Register},
    range::{PAGE_BYTES, PhysRange},
};

/// Steps that lead from `now` to the registers of `machine`, each in its own number; `None` if the
/// kernel's rules leave no way (a register inside another of the same type cannot be added again).
///
/// The kernel puts a range into the lowest free register. Where a lower one has to stay free, a page
/// that no register holds keeps it busy for the moment, with the type it has anyway.
pub(super) fn restore(machine: &PlanTarget, now: &RegisterFile) -> Option<Vec<Step>> {
    let target = RegisterFile::new(machine);
    let wrong = wrong_registers(now, &target);
    let mut restorer = Restorer { machine, file: now.clone(), steps: Vec::new() };
    for register in target.registers().iter().filter(|r| !wrong.contains(&(r.number as usize))) {
        restorer.count_up(register)?;
    }
    for &number in wrong.iter().rev() {
        restorer.clear(number)?;
    }
    let mut missing: Vec<Register> =
        target.registers().into_iter().filter(|r| wrong.contains(&(r.number as usize))).collect();
    while !missing.is_empty() {
        let first = |r: &Register| !missing.iter().any(|other| must_precede(now, other, r));
        let index = missing.iter().position(first)?;
        let register = missing.remove(index);
        restorer.fill(&register)?;
    }
    (restorer.file == target).then_some(restorer.steps)
}

/// Registers that hold something else than they should, and those that stand in the way of others.
fn wrong_registers(now: &RegisterFile, target: &RegisterFile) -> Vec<usize> {
    let mut wrong: Vec<usize> = (0..target.len()).filter(|&n| is_wrong(now, target, n)).collect();
    loop {
        let blocks = |kept: usize| {
            let old = target.get(kept);
            let fails = |n: &usize| match (old, target.get(*n)) {
                (Some(old), Some(new)) => now.rules().verdict(old, new) != Verdict::Coexist,
                _ => false,
            };
            wrong.iter().any(fails)
        };
        let Some(found) = (0..target.len()).find(|n| !wrong.contains(n) && blocks(*n)) else {
            return wrong;
        };
        wrong.push(found);
        wrong.sort_unstable();
    }
}

/// Whether a register differs from what it should hold, or its use count is too low.
fn is_wrong(now: &RegisterFile, target: &RegisterFile, number: usize) -> bool {
    if now.get(number) != target.get(number) {
        return true;
    }
    // A use count that is too low: the right range once more, unless an overlap has the kernel refuse it.
    let Some(Block { range, kind }) = target.get(number) else { return false };
    let counts = now.count(number) == target.count(number)
        || now.clone().apply(&Step::Add { range, kind }).is_ok_and(|n| n as usize == number);
    !counts
}

/// Whether `a` can only be added while `b` is not yet there.
fn must_precede(file: &RegisterFile, a: &Register, b: &Register) -> bool {
    a.number != b.number && file.rules().verdict(Block::from(b), Block::from(a)) != Verdict::Coexist
}

struct Restorer<'a> {
    machine: &'a PlanTarget,
    file: RegisterFile,
    steps: Vec<Step>,
}

impl Restorer<'_> {
    /// Applies a step and remembers it. Returns the register that it changed; `None` if the kernel refuses the step.
    fn take(&mut self, step: Step) -> Option<u32> {
        let number = self.file.apply(&step).ok()?;
        self.steps.push(step);
        Some(number)
    }

    /// Disables a register until it is free.
    fn clear(&mut self, number: usize) -> Option<()> {
        (self.file.count(number) <= COUNT_MAX).then_some(())?;
        let register = u32::try_from(number).ok()?;
        while self.file.get(number).is_some() {
            self.take(Step::Disable { register })?;
        }
        Some(())
    }

    /// Fills a register. Lower free ones are occupied meanwhile, because the kernel takes the lowest.
    fn fill(&mut self, register: &Register) -> Option<()> {
        let lower_free = (0..register.number as usize).filter(|n| self.file.get(*n).is_none()).count();
        let mut busy = Vec::new();
        for page in self.unused_pages(lower_free)? {
            let kind = self.machine.default.at(page.base());
            busy.push(self.take(Step::Add { range: page, kind })?);
        }
        let number = self.take(Step::Add { range: register.range, kind: register.kind })?;
        for &register in busy.iter().rev() {
            self.take(Step::Disable { register })?;
        }
        (number == register.number).then_some(())?;
        self.count_up(register)
    }

    /// Adds what a register holds until its use count is what it was.
    fn count_up(&mut self, register: &Register) -> Option<()> {
        while self.file.count(register.number as usize) < register.count {
            let number = self.take(Step::Add { range: register.range, kind: register.kind })?;
            (number == register.number).then_some(())?;
        }
        Some(())
    }

    /// Pages from the top of the address space that no register holds or will hold.
    fn unused_pages(&self, count: usize) -> Option<Vec<PhysRange>> {
        let registers = self.machine.registers.iter().map(|r| r.range);
        let held: Vec<_> = self.file.blocks().map(|b| b.range).chain(registers).collect();
        let top = 1_u64.checked_shl(self.machine.address_bits)?;
        let mut ends: Vec<u64> =
            held.iter().map(|r| r.base()).chain([top]).filter(|end| *end <= top).collect();
        ends.sort_unstable();
        let below = |end: u64| (1..=count as u64).map_while(move |n| end.checked_sub(n * PAGE_BYTES));
        let page = |base: u64| PhysRange::from_base_and_size(base, PAGE_BYTES);
        let free = |page: &PhysRange| {
            page.base() >= FIXED_RANGES_END && !held.iter().any(|range| range.overlaps(*page))
        };
        let mut pages: Vec<_> =
            ends.into_iter().rev().flat_map(below).filter_map(page).filter(free).collect();
        pages.dedup();
        pages.truncate(count);
        (pages.len() == count).then_some(pages)
    }
}
