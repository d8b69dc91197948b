//! Memory types: the tables that Linux shows, `memmap=`, and the planner.

use crate::{parts, text};
use arbitrary::{Arbitrary, Unstructured};
use host::memory::effective::{Facts, effective};
use host::memory::mtrr::{self, MtrrEffect, parse_default_type};
use host::memory::plan::{Order, Plan, PlanTarget, Wish, plan};
use host::memory::{
    DefaultType, KernelVersion, MemoryType, PhysRange, Register, TableLayout, memmap, parse_iomem,
    parse_memtype_list, parse_mtrr, parse_pat_slots,
};

const KERNELS: [KernelVersion; 4] = [(2, 6, 18), (2, 6, 32), (4, 18, 0), (6, 1, 0)];

/// `/proc/mtrr`, the kernel's list of mappings, its log, `/proc/iomem`, the command line and a range,
/// and what that range is by all of them.
pub fn mtrr_pat_iomem(data: &[u8]) {
    let [table, memtypes, log, iomem, words, range] = parts(data);
    let (table, _) = parse_mtrr(&text("proc/mtrr", table));
    let (memtypes, _) = parse_memtype_list(&text("sys/kernel/debug/x86/pat_memtype_list", memtypes));
    let log = text("dmesg", log);
    let slots = parse_pat_slots(&log);
    let (iomem, _) = parse_iomem(&text("proc/iomem", iomem));
    let default = DefaultType::infer(&table, &iomem.ram(), parse_default_type(&log).as_ref());
    let kernel = KERNELS[words.len() % KERNELS.len()];
    let memmap = memmap::parse_cmdline(&text("proc/cmdline", words), kernel);
    let registers: Vec<Register> = table.registers.iter().map(|cited| cited.value).collect();
    for layout in [TableLayout::TypeThenCount, TableLayout::CountThenType] {
        // Whatever is finer than a page, or a MiB, is lost once; what is left reads as it is printed.
        let printed = mtrr::print_table(&registers, layout);
        let (again, problems) = parse_mtrr(&text("proc/mtrr", printed.as_bytes()));
        let again: Vec<Register> = again.registers.iter().map(|cited| cited.value).collect();
        assert!(problems.is_empty() && mtrr::print_table(&again, layout) == printed, "{printed}");
    }
    let asked = String::from_utf8_lossy(range).parse::<PhysRange>().ok();
    let facts = Facts {
        registers: &table.registers,
        default: &default,
        iomem: &iomem,
        memmap: &memmap,
        memtypes: &memtypes,
        without_pat: slots.is_none(),
        kernel,
    };
    let ranges = asked
        .into_iter()
        .chain(registers.iter().map(|r| r.range))
        .chain(iomem.ram().first().map(|r| r.value));
    for range in ranges.take(4) {
        let answer = effective(&facts, range);
        let bytes: u128 = answer.parts.iter().map(|part| part.range.size_bytes()).sum();
        assert_eq!(bytes, range.size_bytes(), "the parts are the range");
    }
}

/// A command line, a wish and a range as people type them.
pub fn memmap_wish_range(data: &[u8]) {
    let [words, wish, range] = parts(data);
    for kernel in KERNELS {
        for area in memmap::parse_cmdline(&text("proc/cmdline", words), kernel) {
            let _ = area.request.range();
        }
    }
    if let Ok(wish) = String::from_utf8_lossy(wish).parse::<Wish>() {
        let _ = wish.to_string();
    }
    if let Ok(range) = String::from_utf8_lossy(range).parse::<PhysRange>() {
        assert_eq!(range.to_string().parse(), Ok(range), "what is written reads the same");
    }
}

const KINDS: [MemoryType; 5] = [
    MemoryType::Uncacheable,
    MemoryType::WriteCombining,
    MemoryType::WriteThrough,
    MemoryType::WriteProtect,
    MemoryType::WriteBack,
];

#[derive(Debug, Arbitrary)]
struct Table {
    registers: Vec<(u8, u8, u16, u8)>,
    wishes: Vec<(u8, u16, u16, u8)>,
    machine: u8,
    top_mem2: Option<u8>,
    spare: u8,
}

impl Table {
    fn kind(number: u8) -> MemoryType {
        KINDS[usize::from(number) % KINDS.len()]
    }

    /// A block of 2^12 to 2^35 bytes: small tables overlap more often when addresses are few.
    fn registers(&self) -> Vec<Register> {
        let register = |(number, &(bits, kind, at, count)): (u32, &(u8, u8, u16, u8))| {
            let bits = 12 + u32::from(bits) % 24;
            let base = u64::from(at) << 20 >> bits << bits;
            let range = PhysRange::from_base_and_size(base, 1 << bits)?;
            let count = if count == u8::MAX { u32::MAX } else { u32::from(count % 3) };
            Some(Register { number, range, kind: Self::kind(kind), count })
        };
        (0..).zip(&self.registers).take(8).filter_map(register).collect()
    }

    fn wishes(&self) -> Vec<Wish> {
        let wish = |&(bits, at, pages, kind): &(u8, u16, u16, u8)| {
            let size = u64::from(pages).max(1) << (12 + u32::from(bits) % 12);
            let range = PhysRange::from_base_and_size(u64::from(at) << 20, size)?;
            Some(Wish { range, kind: Self::kind(kind) })
        };
        self.wishes.iter().take(4).filter_map(wish).collect()
    }

    fn machine(&self) -> PlanTarget {
        let registers = self.registers();
        let kind = if self.machine & 1 == 0 { MemoryType::Uncacheable } else { MemoryType::WriteBack };
        let top_mem2 = self.top_mem2.map(|top| (4 << 30) + (u64::from(top) << 28));
        PlanTarget {
            register_count: u32::try_from(registers.len()).unwrap_or(8) + u32::from(self.spare % 8) + 1,
            registers,
            address_bits: 36 + u32::from(self.machine >> 1) % 4,
            default: DefaultType { top_mem2, ..DefaultType::given(kind) },
            kernel: KERNELS[usize::from(self.machine >> 3) % KERNELS.len()],
            layout: TableLayout::CountThenType,
        }
    }
}

/// A table of registers with wishes. A plan must give every address what was wished, and leave all
/// others as they were.
pub fn mtrr_plan(data: &[u8]) {
    let Ok(table) = Table::arbitrary(&mut Unstructured::new(data)) else { return };
    let (machine, wishes) = (table.machine(), table.wishes());
    let order = [Order::FewestSteps, Order::FewestRegisters, Order::Tidy][usize::from(table.spare >> 3) % 3];
    if let Ok(plan) = plan(&machine, &wishes, order) {
        check(&machine, &plan);
        let _ = plan.script();
    }
}

fn check(machine: &PlanTarget, plan: &Plan) {
    let after = plan.after();
    let count = usize::try_from(machine.register_count).unwrap_or(usize::MAX);
    assert!(plan.steps.iter().all(|step| step.table.len() <= count), "more registers than there are");
    assert!(after.iter().all(|register| register.range.is_block()));
    let ranges = machine.registers.iter().chain(after).map(|register| register.range);
    let edges = ranges.chain(plan.wishes.iter().map(|wish| wish.range));
    let points =
        edges.flat_map(|range| [range.base().wrapping_sub(1), range.base(), range.last(), range.last() + 1]);
    for point in points.filter(|point| point >> machine.address_bits == 0) {
        let wished = plan.wishes.iter().find(|wish| (wish.range.base()..=wish.range.last()).contains(&point));
        let expected = match wished {
            Some(wish) => Some(MtrrEffect::Type(wish.kind)),
            None => effect(machine, &machine.registers, point),
        };
        assert_eq!(effect(machine, after, point), expected, "at {point:#x} of {plan:?}");
    }
}

fn effect(machine: &PlanTarget, registers: &[Register], point: u64) -> Option<MtrrEffect> {
    let at = PhysRange::from_first_to_last(point, point)?;
    mtrr::lookup(registers, &machine.default, at).first().map(|part| part.effect)
}
