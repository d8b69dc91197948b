//! The variable memory type range registers, as `/proc/mtrr` shows them.
//!
//! Sources: arch/x86/kernel/cpu/mtrr/{if,main,generic}.c of Linux 2.6.18, 2.6.32 and 6.1; Intel SDM
//! vol. 3, section 11.11 "Memory Type Range Registers". The fixed registers, which rule the first
//! MiB, are not shown by `/proc/mtrr`.

use super::{
    memory_type::{MemoryType, TypeSet},
    problem::{LineProblem, Unreadable},
    range::{PAGE_BYTES, PhysRange, parse_hex, split_at},
};
use crate::{Citation, Cited, Text};
use serde::Serialize;
use std::fmt::{self, Write as _};

/// Kernel version: 6.1.192 is `(6, 1, 192)`.
pub type KernelVersion = (u32, u32, u32);

/// The fixed-range registers rule the addresses below; variable registers have no say there.
pub const FIXED_RANGES_END: u64 = 1 << 20;

/// IA32_MTRRCAP counts the variable registers in 8 bits. Everything else about a table takes time that
/// goes with the square of its length.
const REGISTERS_MAX: u32 = 255;

const FOUR_GIB: u64 = 1 << 32;
const MIB: u128 = 1 << 20;

/// A variable register in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Register {
    /// Number: `reg02` is 2.
    pub number: u32,
    /// Addresses it rules.
    pub range: PhysRange,
    /// Their type.
    #[serde(rename = "type")]
    pub kind: MemoryType,
    /// How often it was asked for; the kernel clears it when this falls to 0.
    pub count: u32,
}

/// The layout of a line of `/proc/mtrr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TableLayout {
    /// `… size=  64MB: uncachable, count=1`: 2.6.18, also in the kernel's own documentation.
    TypeThenCount,
    /// `… size=   64MB, count=1: uncachable`: 2.6.32 and later.
    CountThenType,
}

impl TableLayout {
    /// The layout kernel `version` prints. Where it changed between 2.6.18 and 2.6.32 was not looked up.
    pub fn of_kernel(version: KernelVersion) -> Self {
        if version < (2, 6, 32) { Self::TypeThenCount } else { Self::CountThenType }
    }
}

/// The variable registers in use, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MtrrTable {
    /// Each with its line.
    pub registers: Vec<Cited<Register>>,
    /// Layout of the lines; `None` without lines.
    pub layout: Option<TableLayout>,
}

/// Reads `/proc/mtrr`. What cannot be read is in the second value, in the order of the lines.
pub fn parse_mtrr(text: &Text) -> (MtrrTable, Vec<LineProblem>) {
    let mut table = MtrrTable::default();
    let mut problems = Vec::new();
    for (line, body) in text.lines().filter(|(_, body)| !body.trim().is_empty()) {
        let at = text.cite(line, body);
        let read = parse_register(body).and_then(|(register, layout)| {
            let repeated = table.registers.iter().any(|r| r.value.number == register.number);
            if repeated { Err(Unreadable::Repeated) } else { Ok((register, layout)) }
        });
        match read {
            Ok((register, layout)) => {
                table.layout = table.layout.or(Some(layout));
                table.registers.push(Cited::new(register, at));
            }
            Err(what) => problems.push(LineProblem { at, what }),
        }
    }
    table.registers.sort_by_key(|r| r.value.number);
    (table, problems)
}

/// Reads `reg05: base=0xb0000000 (2816MB), size= 256MB: uncachable, count=1` and its later relatives.
fn parse_register(line: &str) -> Result<(Register, TableLayout), Unreadable> {
    let (number, rest) = line
        .trim()
        .strip_prefix("reg")
        .ok_or(Unreadable::Layout)?
        .split_once(':')
        .ok_or(Unreadable::Layout)?;
    let number = decimal(number)?;
    if number >= REGISTERS_MAX {
        return Err(Unreadable::Register);
    }
    let (base, rest) =
        rest.trim_start().strip_prefix("base=").and_then(|r| r.split_once('(')).ok_or(Unreadable::Layout)?;
    let base = parse_hex(base.trim()).ok_or(Unreadable::Number)?;
    let (_, rest) = rest.split_once("),").ok_or(Unreadable::Layout)?;
    let rest = rest.trim_start().strip_prefix("size=").ok_or(Unreadable::Layout)?;
    let (size_bytes, rest) = size(rest.trim_start())?;
    let (kind, count, layout) = kind_and_count(rest)?;
    let kind = MemoryType::from_mtrr_keyword(kind).ok_or(Unreadable::MemoryType)?;
    let range = PhysRange::from_base_and_size(base, size_bytes).ok_or(Unreadable::Range)?;
    Ok((Register { number, range, kind, count }, layout))
}

/// The type and the use count at the end of a register's line, in either layout of the table.
fn kind_and_count(text: &str) -> Result<(&str, u32, TableLayout), Unreadable> {
    if let Some(rest) = text.strip_prefix(':') {
        let (kind, count) = rest.split_once(',').ok_or(Unreadable::Layout)?;
        let count = count.trim().strip_prefix("count=").ok_or(Unreadable::Layout)?;
        return Ok((kind.trim(), decimal(count)?, TableLayout::TypeThenCount));
    }
    let rest = text.strip_prefix(',').ok_or(Unreadable::Layout)?;
    let (count, kind) = rest.split_once(':').ok_or(Unreadable::Layout)?;
    let count = count.trim().strip_prefix("count=").ok_or(Unreadable::Layout)?;
    Ok((kind.trim(), decimal(count)?, TableLayout::CountThenType))
}

/// Parses a decimal number.
fn decimal(text: &str) -> Result<u32, Unreadable> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().ok_or(Unreadable::Number)
}

/// A size such as `256MB`; the kernel prints K below 1 MiB and M from there.
fn size(text: &str) -> Result<(u64, &str), Unreadable> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).ok_or(Unreadable::Layout)?;
    let (digits, rest) = text.split_at(digits_end);
    let number: u64 = digits.parse().map_err(|_| Unreadable::Number)?;
    let (unit, rest) = rest.split_once('B').ok_or(Unreadable::Layout)?;
    let shift = match unit.trim() {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(Unreadable::Layout),
    };
    Ok((number.checked_mul(1 << shift).ok_or(Unreadable::Range)?, rest))
}

impl Register {
    /// The line `/proc/mtrr` prints for it.
    pub fn line(&self, layout: TableLayout) -> String {
        let Self { number, range, kind, count } = self;
        let (base_pages, base_mib) = (range.base() / PAGE_BYTES, range.base() >> 20);
        let (size, unit) = match range.size_bytes() {
            bytes if bytes < MIB => (bytes >> 10, 'K'),
            bytes => (bytes >> 20, 'M'),
        };
        let kind = kind.mtrr_keyword().unwrap_or("?");
        match layout {
            TableLayout::TypeThenCount => format!(
                "reg{number:02}: base=0x{base_pages:05x}000 ({base_mib:4}MB), size={size:4}{unit}B: {kind}, count={count}"
            ),
            TableLayout::CountThenType => format!(
                "reg{number:02}: base=0x{base_pages:06x}000 ({base_mib:5}MB), size={size:5}{unit}B, count={count}: {kind}"
            ),
        }
    }
}

/// `/proc/mtrr` with these registers in use, a line each.
pub fn print_table(registers: &[Register], layout: TableLayout) -> String {
    registers.iter().fold(String::new(), |mut text, register| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}", register.line(layout));
        text
    })
}

/// What the MTRRs make of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MtrrEffect {
    /// This type.
    Type(MemoryType),
    /// Registers of types for whose overlap the manual gives no result. Linux takes it for UC.
    Undefined(TypeSet),
}

impl MtrrEffect {
    /// The type Linux reckons with.
    pub fn as_linux_sees_it(self) -> MemoryType {
        match self {
            Self::Type(kind) => kind,
            Self::Undefined(_) => MemoryType::Uncacheable,
        }
    }
}

impl fmt::Display for MtrrEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(kind) => kind.fmt(f),
            Self::Undefined(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(MemoryType::abbreviation).collect();
                write!(f, "undefined ({} overlap)", kinds.join(" and "))
            }
        }
    }
}

/// The type of an address held by registers of these types (Intel SDM vol. 3, section 11.11.4.1 "MTRR
/// Precedences"): UC beats all, WT beats WB, equals agree, and nothing else is defined.
pub fn combine(kinds: TypeSet, default: MemoryType) -> MtrrEffect {
    use MemoryType::{Uncacheable, WriteBack, WriteThrough};
    if kinds.has(Uncacheable) {
        return MtrrEffect::Type(Uncacheable);
    }
    let wt_and_wb = TypeSet::EMPTY.with(WriteThrough).with(WriteBack);
    let mut each = kinds.iter();
    match (each.next(), each.next()) {
        (None, _) => MtrrEffect::Type(default),
        (Some(kind), None) => MtrrEffect::Type(kind),
        _ if kinds == wt_and_wb => MtrrEffect::Type(WriteThrough),
        _ => MtrrEffect::Undefined(kinds),
    }
}

/// The type of addresses that no register holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DefaultType {
    /// The type in the MSR IA32_MTRR_DEF_TYPE.
    #[serde(rename = "type")]
    pub kind: MemoryType,
    /// First address above 4 GiB to which `kind` applies again: below, down to 4 GiB, AMD processors
    /// with TOP_MEM2 take WB. `None` where that is not in use.
    pub top_mem2: Option<u64>,
    /// How it is known: `/proc/mtrr` does not show it.
    pub reasons: Vec<DefaultReason>,
}

/// How the default type is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum DefaultReason {
    /// The kernel printed it.
    Printed {
        /// Where.
        at: Citation,
    },
    /// RAM below 4 GiB lies outside all registers; were the default not WB, it would be uncached.
    RamOutsideRegisters {
        /// The RAM.
        ram: PhysRange,
        /// Where it is listed.
        at: Citation,
    },
    /// No register is WB; were the default not WB, no memory would be cached.
    NoWriteBackRegister,
    /// RAM from 4 GiB up lies outside all registers although the default is not WB: AMD's TOP_MEM2.
    HighRamOutsideRegisters {
        /// The RAM.
        ram: PhysRange,
        /// Where it is listed.
        at: Citation,
    },
    /// Firmware usually sets UC; nothing here contradicts it.
    AssumedUncacheable,
    /// The caller said so.
    Given,
}

impl fmt::Display for DefaultReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Printed { at } => write!(f, "the kernel printed it ({at})"),
            Self::RamOutsideRegisters { ram, at } => {
                write!(f, "inferred: RAM at {ram} is in no register, and would be uncached if the default were not WB ({at})")
            }
            Self::NoWriteBackRegister => {
                f.write_str("inferred: no register is write-back, and no memory would be cached if the default were not WB")
            }
            Self::HighRamOutsideRegisters { ram, at } => {
                write!(f, "inferred: RAM at {ram} is in no register; AMD's TOP_MEM2 makes such memory WB ({at})")
            }
            Self::AssumedUncacheable => f.write_str("assumed: firmware usually sets UC, and all RAM seen is in registers"),
            Self::Given => f.write_str("as given"),
        }
    }
}

impl DefaultType {
    /// A default the caller knows.
    pub fn given(kind: MemoryType) -> Self {
        Self { kind, top_mem2: None, reasons: vec![DefaultReason::Given] }
    }

    /// Concludes the default type from the registers, the RAM of `/proc/iomem` (none if its addresses
    /// are hidden) and what the kernel printed at boot.
    pub fn infer(table: &MtrrTable, ram: &[Cited<PhysRange>], printed: Option<&Cited<MemoryType>>) -> Self {
        let outside = |from: u64, to: u64| ram.iter().find_map(|ram| outside_registers(table, ram, from, to));
        let (kind, reason) = if let Some(printed) = printed {
            (printed.value, DefaultReason::Printed { at: printed.at.clone() })
        } else if let Some((ram, at)) = outside(FIXED_RANGES_END, FOUR_GIB - 1) {
            (MemoryType::WriteBack, DefaultReason::RamOutsideRegisters { ram, at })
        } else if table.registers.iter().all(|r| r.value.kind != MemoryType::WriteBack) {
            (MemoryType::WriteBack, DefaultReason::NoWriteBackRegister)
        } else {
            (MemoryType::Uncacheable, DefaultReason::AssumedUncacheable)
        };
        let mut reasons = vec![reason];
        let mut top_mem2 = None;
        let high_ram = (kind != MemoryType::WriteBack).then(|| outside(FOUR_GIB, u64::MAX)).flatten();
        if let Some((high, at)) = high_ram {
            // TOP_MEM2 is the end of RAM.
            top_mem2 = ram.iter().map(|r| r.value.last().saturating_add(1)).max();
            reasons.push(DefaultReason::HighRamOutsideRegisters { ram: high, at });
        }
        Self { kind, top_mem2, reasons }
    }

    /// The default at `address`.
    pub fn at(&self, address: u64) -> MemoryType {
        match self.top_mem2 {
            Some(top) if (FOUR_GIB..top).contains(&address) => MemoryType::WriteBack,
            _ => self.kind,
        }
    }

    /// Addresses at which the default changes.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = u128> {
        self.top_mem2.into_iter().flat_map(|top| [u128::from(FOUR_GIB), u128::from(top)])
    }
}

/// The first part of `ram` between `from` and `to` that no register holds.
fn outside_registers(
    table: &MtrrTable,
    ram: &Cited<PhysRange>,
    from: u64,
    to: u64,
) -> Option<(PhysRange, Citation)> {
    let ram_part = ram.value.intersection(PhysRange::from_first_to_last(from, to)?)?;
    let registers: Vec<_> = table.registers.iter().map(|r| r.value.range).collect();
    let parts = split_at(ram_part, registers.iter().flat_map(|r| [u128::from(r.base()), r.end()]));
    let part = parts.into_iter().find(|part| !registers.iter().any(|r| r.overlaps(*part)))?;
    Some((part, ram.at.clone()))
}

/// Finds the line `MTRR default type: uncachable` in a boot log (arch/x86/kernel/cpu/mtrr/generic.c).
pub fn parse_default_type(dmesg: &Text) -> Option<Cited<MemoryType>> {
    const MARK: &str = "MTRR default type: ";
    dmesg.lines().filter(|(_, body)| body.contains(MARK)).find_map(|(line, body)| {
        let (_, word) = body.split_once(MARK)?;
        Some(Cited::new(MemoryType::from_mtrr_keyword(word.trim())?, dmesg.cite(line, body)))
    })
}

/// A part of a range over which the MTRRs agree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MtrrPart {
    /// The addresses.
    pub range: PhysRange,
    /// Their type.
    pub effect: MtrrEffect,
    /// Numbers of the registers that hold them; empty where the default rules.
    pub registers: Vec<u32>,
}

/// What registers and default make of each part of `range`. The variable registers only: the first
/// MiB belongs to the fixed ones.
pub fn lookup(registers: &[Register], default: &DefaultType, range: PhysRange) -> Vec<MtrrPart> {
    let ends = registers.iter().flat_map(|r| [u128::from(r.range.base()), r.range.end()]);
    let parts = split_at(range, ends.chain(default.cuts()));
    parts.into_iter().map(|range| effect_on_undivided(registers, default, range)).collect()
}

/// The memory type of a range that no register's border divides, and the registers that hold it.
fn effect_on_undivided(registers: &[Register], default: &DefaultType, range: PhysRange) -> MtrrPart {
    let holding = || registers.iter().filter(|r| r.range.contains(range));
    MtrrPart {
        range,
        effect: combine(holding().map(|r| r.kind).collect(), default.at(range.base())),
        registers: holding().map(|r| r.number).collect(),
    }
}

/// What the kernel's own lookup answers for a whole range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinuxLookup {
    /// This type for the whole range.
    Type(MemoryType),
    /// No single type (0xFE in 2.6.32): callers treat it as "not WB".
    Straddles,
}

/// Linux's `mtrr_type_lookup` of `range`.
///
/// Up to 2.6.36 a range that crosses the edge of any register has no type, even where both sides
/// agree. Later kernels look at both sides and combine them: different types give UC, WB with WT
/// gives WT.
pub fn linux_lookup(
    registers: &[Register],
    default: &DefaultType,
    range: PhysRange,
    kernel: KernelVersion,
) -> LinuxLookup {
    let crosses = |r: &Register| r.range.overlaps(range) && !r.range.contains(range);
    if kernel < (2, 6, 37) && registers.iter().any(crosses) {
        return LinuxLookup::Straddles;
    }
    let parts = lookup(registers, default, range);
    let kinds: TypeSet = parts.iter().map(|part| part.effect.as_linux_sees_it()).collect();
    LinuxLookup::Type(combine(kinds, default.kind).as_linux_sees_it())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "RHEL6.4 Apparent reduced PCIe performance in comparison to RHEL5.9" (Red Hat, 2013).
    const RHEL_5: &str = "\
reg00: base=0x00000000 (   0MB), size=32768MB: write-back, count=1
reg01: base=0x800000000 (32768MB), size=8192MB: write-back, count=1
reg04: base=0xae000000 (2784MB), size=  32MB: uncachable, count=1
";
    const QEMU: &str = "reg00: base=0x0c0000000 ( 3072MB), size= 1024MB, count=1: uncachable\n";

    fn parse(body: &str) -> (MtrrTable, Vec<LineProblem>) {
        parse_mtrr(&Text::new("proc/mtrr", body))
    }

    fn registers(body: &str) -> Vec<Register> {
        parse(body).0.registers.into_iter().map(|r| r.value).collect()
    }

    fn range(text: &str) -> PhysRange {
        text.parse().unwrap()
    }

    #[test]
    fn parses_its_own_output() {
        for (body, layout) in [(RHEL_5, TableLayout::TypeThenCount), (QEMU, TableLayout::CountThenType)] {
            let (table, problems) = parse(body);
            assert_eq!(problems, []);
            assert_eq!(table.layout, Some(layout));
            assert_eq!(print_table(&registers(body), layout), body);
        }
    }

    #[test]
    fn the_order_of_the_documentation() {
        let line = "reg01: base=0x08000000 ( 128MB), size=  64KB: write-combining, count=2";
        let expect = Register {
            number: 1,
            range: range("0x08000000+64K"),
            kind: MemoryType::WriteCombining,
            count: 2,
        };
        assert_eq!(registers(line), [expect]);
    }

    #[test]
    fn hostile_lines() {
        let check = |line: &str, what: Unreadable| {
            let problems = parse(line).1;
            assert_eq!(problems.iter().map(|p| p.what).collect::<Vec<_>>(), [what], "{line}");
        };
        check("reg", Unreadable::Layout);
        check("reg00: base=0x0 (0MB), size=", Unreadable::Layout);
        check("reg255: base=0x0 (0MB), size=1MB: write-back, count=1", Unreadable::Register);
        check("reg-1: base=0x0 (0MB), size=1MB: write-back, count=1", Unreadable::Number);
        check("reg00: base=0x (0MB), size=1MB: write-back, count=1", Unreadable::Number);
        check("reg00: base=0x0 (0MB), size=MB: write-back, count=1", Unreadable::Number);
        check("reg00: base=0x0 (0MB), size=0MB: write-back, count=1", Unreadable::Range);
        check("reg00: base=0x0 (0MB), size=99999999999999999MB: write-back, count=1", Unreadable::Range);
        check("reg00: base=0x1000 (0MB), size=17592186044415MB: ?, count=1", Unreadable::MemoryType);
        check("reg00: base=0x0 (0MB), size=1MB, count=1: uc", Unreadable::MemoryType);
        check("reg00: base=0x0 (0MB), size=1MB, count=-1: uncachable", Unreadable::Number);
        check(&format!("{QEMU}{QEMU}"), Unreadable::Repeated);
        check("cat: /proc/mtrr: Permission denied", Unreadable::Layout);
    }

    #[test]
    fn precedence() {
        use MemoryType::*;
        let check = |kinds: &[MemoryType], expect: MtrrEffect| {
            assert_eq!(combine(kinds.iter().copied().collect(), WriteBack), expect, "{kinds:?}");
        };
        check(&[], MtrrEffect::Type(WriteBack));
        check(&[WriteProtect, WriteProtect], MtrrEffect::Type(WriteProtect));
        check(&[WriteBack, WriteThrough], MtrrEffect::Type(WriteThrough));
        check(&[WriteCombining, WriteBack, Uncacheable], MtrrEffect::Type(Uncacheable));
        let undefined = [WriteCombining, WriteBack];
        check(&undefined, MtrrEffect::Undefined(undefined.into_iter().collect()));
        let undefined = [WriteThrough, WriteBack, WriteProtect];
        check(&undefined, MtrrEffect::Undefined(undefined.into_iter().collect()));
    }

    #[test]
    fn the_default_type() {
        let ram = |text: &str| Cited::new(range(text), Citation::of_file("proc/iomem", text));
        let infer = |body, ram: &[Cited<PhysRange>]| DefaultType::infer(&parse(body).0, ram, None);

        // QEMU's firmware: one register for the hole, everything else by default.
        let qemu = infer(QEMU, &[ram("00100000-7ffcffff")]);
        assert_eq!(qemu.kind, MemoryType::WriteBack);
        assert!(matches!(qemu.reasons[..], [DefaultReason::RamOutsideRegisters { .. }]));
        assert_eq!(infer(QEMU, &[]).reasons, [DefaultReason::NoWriteBackRegister]);

        let usual = infer(RHEL_5, &[ram("00100000-adffffff"), ram("00001000-0009fbff")]);
        assert_eq!(usual.reasons, [DefaultReason::AssumedUncacheable]);
        assert_eq!(usual.kind, MemoryType::Uncacheable);

        let amd_table = "reg00: base=0x000000000 (    0MB), size= 2048MB, count=1: write-back";
        let amd = infer(amd_table, &[ram("00100000-7fffffff"), ram("100000000-27fffffff")]);
        assert_eq!((amd.kind, amd.top_mem2), (MemoryType::Uncacheable, Some(0x2_8000_0000)));
        assert_eq!(amd.at(0x1_0000_0000), MemoryType::WriteBack);
        assert_eq!(amd.at(0x2_8000_0000), MemoryType::Uncacheable);

        let log = Text::new("dmesg", "[    0.0] MTRR default type: write-back\n");
        let printed = parse_default_type(&log);
        assert_eq!(DefaultType::infer(&parse(RHEL_5).0, &[], printed.as_ref()).kind, MemoryType::WriteBack);
    }

    #[test]
    fn a_range_across_two_registers() {
        let table = registers(RHEL_5);
        let default = DefaultType::given(MemoryType::Uncacheable);
        let both = range("7ff000000-800ffffff");
        assert_eq!(linux_lookup(&table, &default, both, (2, 6, 32)), LinuxLookup::Straddles);
        assert_eq!(linux_lookup(&table, &default, both, (6, 1, 0)), LinuxLookup::Type(MemoryType::WriteBack));

        let hole = range("ad000000-aeffffff");
        assert_eq!(
            linux_lookup(&table, &default, hole, (6, 1, 0)),
            LinuxLookup::Type(MemoryType::Uncacheable)
        );
        let parts = lookup(&table, &default, hole);
        assert_eq!(parts.iter().map(|p| p.registers.clone()).collect::<Vec<_>>(), [vec![0], vec![0, 4]]);
    }
}
