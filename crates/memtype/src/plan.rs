//! Changes to the MTRRs that give chosen ranges a chosen type and leave all else as it was.
//!
//! `/proc/mtrr` takes two kinds of writes: `disable=N`, and `base=… size=… type=…`, which goes into
//! the lowest free register. [`plan`] finds the writes, their order, what the table looks like after
//! each, what goes wrong for a moment in between, and the way back from every point.
//!
//! The example that the tests reproduce to the register is "RHEL6.4 Apparent reduced PCIe performance
//! in comparison to RHEL5.9" (Red Hat Customer Portal, 2013). Its author moves three registers that
//! keep devices uncached, for a tidier list. [`Order::Tidy`] does the same; by default they are left
//! alone, because until they are back those devices are cached.

mod cover;
mod order;
mod registers;
mod restore;
mod script;

pub use registers::AddRules;

use super::{
    memory_type::{MemoryType, MemoryTypeError},
    mtrr::{DefaultType, FIXED_RANGES_END, KernelVersion, MtrrEffect, Register, TableLayout, lookup},
    range::{PhysRange, parse_size, split_at},
};
use cover::{Cell, Cover, Existing, Search};
use order::{Action, Passage};
use registers::{Block, RegisterFile};
use serde::Serialize;
use std::{fmt, str::FromStr};

/// More registers than this over one and the same range are not planned with.
const SAME_RANGE_MAX: usize = 8;

/// A register that so many users hold is theirs: each `disable=` takes back the claim of one.
const COUNT_MAX: u32 = 64;

/// Widths of physical addresses that processors have (CPUID 0x80000008), with room for tests.
const ADDRESS_BITS: std::ops::RangeInclusive<u32> = 21..=52;

/// A range and the type it shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wish {
    /// The addresses.
    pub range: PhysRange,
    /// Their type.
    #[serde(rename = "type")]
    pub kind: MemoryType,
}

/// Text that is not a wish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WishError {
    /// Not three parts, or a number that is none.
    #[error("`{0}` is not BASE:SIZE:TYPE, like 0x10000000:80M:uncachable")]
    Layout(String),
    /// Empty, or beyond 64 bits.
    #[error("the range of `{0}` is empty or ends beyond 64 bits")]
    Bounds(String),
    /// A type that does not exist.
    #[error(transparent)]
    MemoryType(#[from] MemoryTypeError),
}

impl FromStr for Wish {
    type Err = WishError;

    /// Accepts `BASE:SIZE:TYPE`, numbers as in [`parse_size`], types as [`MemoryType`] reads them.
    fn from_str(text: &str) -> Result<Self, WishError> {
        let shown = || text.chars().take(60).collect::<String>();
        let number = |text| match parse_size(text) {
            Some((number, "")) => Some(number),
            _ => None,
        };
        let parts = text.splitn(3, ':').collect::<Vec<_>>();
        let [base, size, kind] = parts[..] else { return Err(WishError::Layout(shown())) };
        let (Some(base), Some(size)) = (number(base), number(size)) else {
            return Err(WishError::Layout(shown()));
        };
        let range = PhysRange::from_base_and_size(base, size).ok_or_else(|| WishError::Bounds(shown()))?;
        Ok(Self { range, kind: kind.parse()? })
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.range, self.kind)
    }
}

/// The processor and kernel to plan for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanTarget {
    /// Variable registers in use.
    pub registers: Vec<Register>,
    /// Variable registers there are: bits 0 to 7 of the MSR IA32_MTRRCAP.
    pub register_count: u32,
    /// Width of a physical address: `address sizes` in `/proc/cpuinfo`.
    pub address_bits: u32,
    /// The type outside all registers.
    pub default: DefaultType,
    /// Kernel version, for its rules.
    #[serde(serialize_with = "dotted")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub kernel: KernelVersion,
    /// How its `/proc/mtrr` is laid out.
    pub layout: TableLayout,
}

/// A kernel version as people write it: `6.1.0`.
fn dotted<S: serde::Serializer>(
    (major, minor, patch): &KernelVersion,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{major}.{minor}.{patch}"))
}

/// Why [`assume_register_count`] is a reasonable assumption.
pub const REGISTER_COUNT_REASON: &str = "Intel processors since Nehalem have 10, most others 8; where there are fewer, the write \
                                         that finds none free fails and the script goes back";

/// The number of variable registers to plan with where nobody read IA32_MTRRCAP; [`REGISTER_COUNT_REASON`] says why.
pub fn assume_register_count(registers: &[Register]) -> u32 {
    let needed = registers.iter().map(|r| r.number.saturating_add(1)).max().unwrap_or(0);
    needed.max(10)
}

/// What to prefer where several tables do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The fewest writes, then the fewest registers: registers in use stay where they are.
    #[default]
    FewestSteps,
    /// The fewest registers, then the fewest writes.
    FewestRegisters,
    /// The ranges of `FewestSteps`, listed by type, uncachable last, and by address. Registers that
    /// stand elsewhere are cleared and added again, which takes more writes and exposes their ranges.
    Tidy,
}

/// A write to `/proc/mtrr`; `Display` gives its text, without the newline that the kernel wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Step {
    /// Lowers the use count of a register, which clears it at 0.
    Disable {
        /// Its number.
        register: u32,
    },
    /// Puts a range into the lowest free register.
    Add {
        /// The addresses.
        range: PhysRange,
        /// Their type.
        #[serde(rename = "type")]
        kind: MemoryType,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disable { register } => write!(f, "disable={register}"),
            Self::Add { range, kind } => {
                let kind = kind.mtrr_keyword().unwrap_or("?");
                write!(f, "base={:#x} size={:#x} type={kind}", range.base(), range.size_bytes())
            }
        }
    }
}

/// How bad a passing type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Harm {
    /// More ordered or less cached than before and after: slow, and correct.
    Slow,
    /// More freely cached than before and after, or undefined: the CPU may cache and prefetch from
    /// device registers, with lost writes or a machine check as the result.
    Dangerous,
}

/// A range that for a moment is neither what it was nor what it will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Transient {
    /// The addresses.
    pub range: PhysRange,
    /// Before the first step.
    pub before: MtrrEffect,
    /// Until the next step.
    pub meanwhile: MtrrEffect,
    /// After the last step.
    pub after: MtrrEffect,
    /// How bad that is.
    pub harm: Harm,
}

impl fmt::Display for Transient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { range, before, meanwhile, .. } = self;
        match self.harm {
            Harm::Dangerous => write!(
                f,
                "DANGER: {range} is {meanwhile} instead of {before} for a moment; device registers there may be cached"
            ),
            Harm::Slow => write!(f, "{range} is {meanwhile} instead of {before} for a moment"),
        }
    }
}

/// A step with all that follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlannedStep {
    /// The write.
    pub step: Step,
    /// The register it changes.
    pub register: u32,
    /// The registers in use after it.
    pub table: Vec<Register>,
    /// What is wrong until the next step.
    pub transients: Vec<Transient>,
    /// The way back to the first table from here.
    pub undo: Vec<Step>,
}

/// Writes that fulfil the wishes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Plan {
    /// The wishes.
    pub wishes: Vec<Wish>,
    /// The registers in use before.
    pub before: Vec<Register>,
    /// The writes, none if all is as wished.
    pub steps: Vec<PlannedStep>,
    /// Layout of `/proc/mtrr`.
    pub layout: TableLayout,
}

impl Plan {
    /// The registers in use at the end.
    pub fn after(&self) -> &[Register] {
        self.steps.last().map_or(&self.before, |last| &last.table)
    }

    /// The steps that restore the table as it was before the plan.
    pub fn undo(&self) -> &[Step] {
        self.steps.last().map_or(&[], |last| &last.undo)
    }

    /// The worst that happens on the way.
    pub fn worst(&self) -> Option<Harm> {
        self.steps.iter().flat_map(|step| &step.transients).map(|t| t.harm).max()
    }

    /// A POSIX shell script that checks the table, makes the changes, checks each, and goes back if
    /// one fails. With the argument `undo` it goes back from wherever the table stands.
    pub fn script(&self) -> String {
        script::script(self)
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// MTRRs rule whole pages.
    #[error("{wish}: base and size must be multiples of 4 KiB")]
    NotPageAligned {
        /// The wish.
        wish: Wish,
    },
    /// The first MiB belongs to the fixed registers, which `/proc/mtrr` cannot change.
    #[error(
        "{wish}: begins in the first MiB, which fixed MTRRs rule and /proc/mtrr cannot change; expected a base of 1 MiB or more"
    )]
    FixedRange {
        /// The wish.
        wish: Wish,
    },
    /// There is no such address.
    #[error("{wish}: ends beyond the {address_bits}-bit physical addresses of this processor")]
    BeyondAddressBits {
        /// The wish.
        wish: Wish,
        /// Their width.
        address_bits: u32,
    },
    /// MTRRs know no UC-.
    #[error("{wish}: no MTRR can hold this type; PAT can")]
    NotAnMtrrType {
        /// The wish.
        wish: Wish,
    },
    /// Two wishes want one address to be different things.
    #[error("{one} contradicts {other}")]
    Contradiction {
        /// A wish.
        one: Wish,
        /// Another.
        other: Wish,
    },
    /// A register that the kernel could not have set: its range is no aligned power of two, its number
    /// or address too high, or it is listed twice.
    #[error(
        "reg{number:02} is not as a kernel sets it (its number is too high or listed twice, or {range} is no aligned power of two within the address bits)"
    )]
    IrregularRegister {
        /// Its number.
        number: u32,
        /// Its range.
        range: PhysRange,
    },
    /// Address bits or a number of registers that no processor has.
    #[error("no processor has {register_count} variable MTRRs and {address_bits} address bits")]
    IrregularMachine {
        /// Variable registers.
        register_count: u32,
        /// Address bits.
        address_bits: u32,
    },
    /// Even the smallest table is too big.
    #[error("this takes {needed} variable MTRRs, the processor has {available}")]
    TooFewRegisters {
        /// Registers of the smallest table.
        needed: u32,
        /// Registers there are.
        available: u32,
    },
    /// No table does it: a register with use count 0 or above 64 is not cleared, or the wish cuts through an
    /// overlap whose type is undefined and which the kernel would not build again.
    #[error(
        "no table does this: a register in the range cannot be disabled (use count 0 or above 64), or registers overlap in \
         a way that the kernel would not set up again"
    )]
    Unreachable,
    /// The kernel would not take the steps in any order that was tried.
    #[error("the kernel would refuse the changes in every order that was tried")]
    NoOrder,
    /// The table could be reached but not left: the kernel cannot build the present one again.
    #[error(
        "the present table could not be restored through /proc/mtrr: a register lies inside another of the same type, \
         or registers hold all addresses, so that none is left to occupy a lower register with"
    )]
    NoWayBack,
}

/// Works out how to fulfil `wishes` on `machine`.
///
/// The number of registers and writes is the least possible (module `cover` says within what bounds).
/// The order of the writes is the least harmful of all for up to 12 registers to change; with more,
/// each next write is the least harmful one.
///
/// # Errors
/// A [`Refusal`] where a wish makes no sense or the registers do not suffice.
pub fn plan(machine: &PlanTarget, wishes: &[Wish], order: Order) -> Result<Plan, Refusal> {
    check_machine(machine)?;
    check_wishes(machine, wishes)?;
    let cover = choose_cover(machine, wishes, order)?;
    let actions = match order {
        Order::FewestSteps | Order::FewestRegisters => order_by_harm(machine, &cover),
        Order::Tidy => sort_actions(machine, &cover),
    };
    let steps = simulate(machine, &actions.ok_or(Refusal::NoOrder)?)?;
    let plan =
        Plan { wishes: wishes.to_vec(), before: sorted_registers(machine), steps, layout: machine.layout };
    // The steps were simulated. Check that their result is what was wished for.
    let reached = effects(machine, plan.after(), &plan.before, wishes);
    let wanted = wished_effects(machine, wishes, plan.after());
    if reached == wanted { Ok(plan) } else { Err(Refusal::NoOrder) }
}

/// The registers that are in use, by number.
fn sorted_registers(machine: &PlanTarget) -> Vec<Register> {
    RegisterFile::new(machine).registers()
}

/// Refuses registers that no machine can have.
fn check_machine(machine: &PlanTarget) -> Result<(), Refusal> {
    let PlanTarget { register_count, address_bits, .. } = *machine;
    if !ADDRESS_BITS.contains(&address_bits) || !(1..=255).contains(&register_count) {
        return Err(Refusal::IrregularMachine { register_count, address_bits });
    }
    for (index, register) in machine.registers.iter().enumerate() {
        let Register { number, range, kind, .. } = *register;
        let earlier = &machine.registers[..index];
        let regular = number < register_count
            && range.is_block()
            && range.end() <= 1_u128 << address_bits
            && range.size_bytes() < 1_u128 << address_bits
            && kind != MemoryType::UncachedMinus
            && earlier.iter().all(|r| r.number != number)
            && earlier.iter().filter(|r| r.range == range).count() < SAME_RANGE_MAX;
        if !regular {
            return Err(Refusal::IrregularRegister { number, range });
        }
    }
    Ok(())
}

/// Refuses wishes that no MTRRs can fulfil or that contradict each other.
fn check_wishes(machine: &PlanTarget, wishes: &[Wish]) -> Result<(), Refusal> {
    let address_bits = machine.address_bits;
    for (index, &wish) in wishes.iter().enumerate() {
        if !wish.range.is_page_aligned() {
            return Err(Refusal::NotPageAligned { wish });
        }
        if wish.range.end() > 1_u128 << address_bits {
            return Err(Refusal::BeyondAddressBits { wish, address_bits });
        }
        if wish.range.base() < FIXED_RANGES_END {
            return Err(Refusal::FixedRange { wish });
        }
        if wish.kind == MemoryType::UncachedMinus {
            return Err(Refusal::NotAnMtrrType { wish });
        }
        let contradicts = |one: &&Wish| one.range.overlaps(wish.range) && one.kind != wish.kind;
        if let Some(&one) = wishes[..index].iter().find(contradicts) {
            return Err(Refusal::Contradiction { one, other: wish });
        }
    }
    Ok(())
}

/// The physical address space.
fn address_space(machine: &PlanTarget) -> Option<PhysRange> {
    PhysRange::from_base_and_size(0, 1_u64.checked_shl(machine.address_bits)?)
}

/// The physical address space, split wherever a register, a wish, or the default begins or ends.
fn divide(machine: &PlanTarget, others: &[Register], wishes: &[Wish]) -> Vec<PhysRange> {
    let registers = machine.registers.iter().chain(others).map(|r| r.range);
    let ranges = registers.chain(wishes.iter().map(|w| w.range));
    let ends = ranges.flat_map(|range| [u128::from(range.base()), range.end()]);
    address_space(machine).map_or_else(Vec::new, |space| split_at(space, ends.chain(machine.default.cuts())))
}

/// The effect of `registers` on each part of the address space.
fn effects(
    machine: &PlanTarget,
    registers: &[Register],
    others: &[Register],
    wishes: &[Wish],
) -> Vec<MtrrEffect> {
    let mut all = others.to_vec();
    all.extend(registers);
    let parts = divide(machine, &all, wishes);
    parts.into_iter().map(|part| effect_on(machine, registers, part)).collect()
}

/// The effect of `registers` on `part`, which lies wholly inside or outside each of them.
fn effect_on(machine: &PlanTarget, registers: &[Register], part: PhysRange) -> MtrrEffect {
    let parts = lookup(registers, &machine.default, part);
    parts.first().map_or(MtrrEffect::Type(machine.default.kind), |part| part.effect)
}

/// The wished effect on each part of the address space.
fn wished_effects(machine: &PlanTarget, wishes: &[Wish], others: &[Register]) -> Vec<MtrrEffect> {
    divide(machine, others, wishes).into_iter().map(|part| wished_effect(machine, wishes, part)).collect()
}

/// The wished effect on one part; without a wish, the present effect.
fn wished_effect(machine: &PlanTarget, wishes: &[Wish], part: PhysRange) -> MtrrEffect {
    match wishes.iter().find(|wish| wish.range.contains(part)) {
        Some(wish) => MtrrEffect::Type(wish.kind),
        None => effect_on(machine, &machine.registers, part),
    }
}

/// Chooses which registers to keep and which blocks to add.
fn choose_cover(machine: &PlanTarget, wishes: &[Wish], order: Order) -> Result<Cover, Refusal> {
    let parts = divide(machine, &[], wishes);
    let cell = |range: PhysRange| Cell {
        range,
        want: wished_effect(machine, wishes, range),
        default: machine.default.at(range.base()),
    };
    let cells: Vec<_> = parts.into_iter().map(cell).collect();
    let existing = |register: &Register| Existing {
        block: Block::from(register),
        steps_to_clear: is_clearable(register).then_some(register.count),
    };
    let existing: Vec<_> = machine.registers.iter().map(existing).collect();
    let rules = AddRules::of_kernel(machine.kernel);
    let mut search = Search::new(&cells, &existing, rules, machine.address_bits);
    let costs = search.costs();
    let available = machine.register_count;
    let needed = costs.first().ok_or(Refusal::Unreachable)?.registers;
    let fits = costs.iter().take_while(|cost| cost.registers <= available).count();
    let last = fits.checked_sub(1).ok_or(Refusal::TooFewRegisters { needed, available })?;
    let index = if order == Order::FewestRegisters { 0 } else { last };
    Ok(search.cover(index))
}

/// Whether the register can be cleared with at most `COUNT_MAX` writes of `disable=`.
fn is_clearable(register: &Register) -> bool {
    (1..=COUNT_MAX).contains(&register.count)
}

/// The actions in the order that does the least harm in between.
fn order_by_harm(machine: &PlanTarget, cover: &Cover) -> Option<Vec<Action>> {
    let standing: Vec<Block> =
        cover.kept.iter().map(|&index| Block::from(&machine.registers[index])).collect();
    let mut actions = clear_actions(machine, |index| !cover.kept.contains(&index));
    actions.extend(cover.added.iter().copied().map(Action::Add));
    let after: Vec<Block> = standing.into_iter().chain(cover.added.iter().copied()).collect();
    let passages = passages(machine, &after);
    order::order(machine, AddRules::of_kernel(machine.kernel), &actions, &passages)
}

/// Actions that clear the registers with these indices, the highest number first.
fn clear_actions(machine: &PlanTarget, which: impl Fn(usize) -> bool) -> Vec<Action> {
    let chosen = machine.registers.iter().enumerate().filter(|(index, _)| which(*index));
    let mut registers: Vec<_> = chosen.map(|(_, register)| register).collect();
    registers.sort_by_key(|r| std::cmp::Reverse(r.number));
    registers.iter().map(|r| Action::Clear { number: r.number, block: Block::from(*r) }).collect()
}

/// Actions that sort the table. Registers at the front that are already in order stay; all others are cleared and added
/// again. `None` if one of those can't be cleared.
fn sort_actions(machine: &PlanTarget, cover: &Cover) -> Option<Vec<Action>> {
    if cover.added.is_empty() && cover.kept.len() == machine.registers.len() {
        return Some(Vec::new());
    }
    let kept = cover.kept.iter().map(|&index| Block::from(&machine.registers[index]));
    let mut blocks: Vec<Block> = kept.chain(cover.added.iter().copied()).collect();
    blocks.sort_by_key(|b| (sort_rank(b.kind), b.range.base(), std::cmp::Reverse(b.range.last())));
    let now = RegisterFile::new(machine);
    let in_place =
        blocks.iter().enumerate().take_while(|(number, block)| now.get(*number) == Some(**block)).count();
    let behind = |register: &Register| register.number as usize >= in_place;
    if machine.registers.iter().any(|r| behind(r) && !is_clearable(r)) {
        return None;
    }
    let mut actions = clear_actions(machine, |index| behind(&machine.registers[index]));
    actions.extend(blocks[in_place..].iter().copied().map(Action::Add));
    Some(actions)
}

/// Position of a type in the sorted table. Uncachable ranges are last: they may be inside others, which kernels before
/// 2.6.32 require first.
fn sort_rank(kind: MemoryType) -> u8 {
    match kind {
        MemoryType::WriteBack => 0,
        MemoryType::WriteThrough => 1,
        MemoryType::WriteProtect => 2,
        MemoryType::WriteCombining => 3,
        MemoryType::UncachedMinus | MemoryType::Uncacheable => 4,
    }
}

/// Every part of the address space with its type before, and with its type when `after` is in use.
fn passages(machine: &PlanTarget, after: &[Block]) -> Vec<Passage> {
    let register =
        |(number, block): (u32, &Block)| Register { number, range: block.range, kind: block.kind, count: 1 };
    let after: Vec<Register> = (0..).zip(after).map(register).collect();
    let passage = |range: PhysRange| Passage {
        range,
        before: effect_on(machine, &machine.registers, range),
        after: effect_on(machine, &after, range),
        default: machine.default.at(range.base()),
    };
    divide(machine, &after, &[]).into_iter().map(passage).collect()
}

/// Simulates the actions one write at a time, by the kernel's rules.
fn simulate(machine: &PlanTarget, actions: &[Action]) -> Result<Vec<PlannedStep>, Refusal> {
    let mut file = RegisterFile::new(machine);
    let mut taken = Vec::new();
    for step in actions.iter().flat_map(|action| writes(machine, action)) {
        let register = file.apply(&step).map_err(|_| Refusal::NoOrder)?;
        taken.push((step, register, file.clone()));
    }
    let after: Vec<Block> = file.blocks().collect();
    let passages = passages(machine, &after);
    let planned = |(step, register, file): (Step, u32, RegisterFile)| {
        let blocks: Vec<Block> = file.blocks().collect();
        Ok(PlannedStep {
            step,
            register,
            table: file.registers(),
            transients: order::transients(&passages, &blocks),
            undo: restore::restore(machine, &file).ok_or(Refusal::NoWayBack)?,
        })
    };
    taken.into_iter().map(planned).collect()
}

/// The writes of an action. Each `disable=` lowers a register's use count by 1; at 0 it is cleared.
fn writes(machine: &PlanTarget, action: &Action) -> Vec<Step> {
    match *action {
        Action::Add(Block { range, kind }) => vec![Step::Add { range, kind }],
        Action::Clear { number, .. } => {
            let count = machine.registers.iter().find(|r| r.number == number).map_or(0, |r| r.count);
            vec![Step::Disable { register: number }; count as usize]
        }
    }
}
