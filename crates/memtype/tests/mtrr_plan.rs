//! Plans, run through a second model of the kernel's rules.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod mtrr_machine;

use memtype::{
    DefaultType, KernelVersion, MemoryType, PhysRange, Register, TableLayout, Text, parse_mtrr,
    plan::{Harm, Order, Plan, PlanTarget, Refusal, Step, Wish, plan},
};
use mtrr_machine::{Did, KEYWORDS, Mtrrs, Reg};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};

const RHEL_5: KernelVersion = (2, 6, 18);
const DEBIAN_12: KernelVersion = (6, 1, 192);
const ORDERS: [Order; 3] = [Order::FewestSteps, Order::FewestRegisters, Order::Tidy];
const MIB: u64 = 1 << 20;

/// The article's table: "RHEL6.4 Apparent reduced PCIe performance in comparison to RHEL5.9" (Red Hat
/// Customer Portal, 2013).
const ARTICLE: &str = "\
reg00: base=0x00000000 (   0MB), size=32768MB: write-back, count=1
reg01: base=0x800000000 (32768MB), size=8192MB: write-back, count=1
reg02: base=0xa00000000 (40960MB), size=1024MB: write-back, count=1
reg03: base=0xa40000000 (41984MB), size= 256MB: write-back, count=1
reg04: base=0xae000000 (2784MB), size=  32MB: uncachable, count=1
reg05: base=0xb0000000 (2816MB), size= 256MB: uncachable, count=1
reg06: base=0xc0000000 (3072MB), size=1024MB: uncachable, count=1
";

/// The table that the article's author ends with.
const ARTICLE_AFTER: &str = "\
reg00: base=0x00000000 (   0MB), size=32768MB: write-back, count=1
reg01: base=0x800000000 (32768MB), size=8192MB: write-back, count=1
reg02: base=0xa00000000 (40960MB), size=1024MB: write-back, count=1
reg03: base=0xa40000000 (41984MB), size= 256MB: write-back, count=1
reg04: base=0x10000000 ( 256MB), size=  64MB: uncachable, count=1
reg05: base=0x14000000 ( 320MB), size=  16MB: uncachable, count=1
reg06: base=0xae000000 (2784MB), size=  32MB: uncachable, count=1
reg07: base=0xb0000000 (2816MB), size= 256MB: uncachable, count=1
reg08: base=0xc0000000 (3072MB), size=1024MB: uncachable, count=1
";

fn registers(table: &str) -> Vec<Register> {
    let (table, problems) = parse_mtrr(&Text::new("proc/mtrr", table));
    assert_eq!(problems, []);
    table.registers.into_iter().map(|r| r.value).collect()
}

fn machine(table: &str, kernel: KernelVersion, default: MemoryType) -> PlanTarget {
    PlanTarget {
        registers: registers(table),
        register_count: 10,
        address_bits: 40,
        default: DefaultType::given(default),
        kernel,
        layout: TableLayout::of_kernel(kernel),
    }
}

fn wishes(texts: &[&str]) -> Vec<Wish> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The planner's machine as the model sees it.
fn model(machine: &PlanTarget) -> Mtrrs {
    let old = machine.kernel < (2, 6, 32);
    let mut model = Mtrrs::new(machine.register_count as usize, machine.address_bits, old);
    for r in &machine.registers {
        let size = u64::try_from(r.range.size_bytes()).unwrap();
        model.regs[r.number as usize] =
            Some(Reg { base: r.range.base(), size, kind: number(r.kind), count: r.count });
    }
    model
}

fn number(kind: MemoryType) -> usize {
    KEYWORDS.iter().position(|k| Some(*k) == kind.mtrr_keyword()).unwrap()
}

fn kind(number: usize) -> MemoryType {
    MemoryType::from_mtrr_keyword(KEYWORDS[number]).unwrap()
}

fn print(machine: &PlanTarget, table: &[Register]) -> String {
    memtype::mtrr::print_table(table, machine.layout)
}

fn range(base: u64, size: u64) -> PhysRange {
    PhysRange::from_base_and_size(base, size).unwrap()
}

/// Runs the plan through the model: each table is as predicted, the wishes come true, nothing else
/// changes, and from every point the undo leads back.
fn verify(machine: &PlanTarget, plan: &Plan) {
    let before = model(machine);
    let mut now = before.clone();
    for planned in &plan.steps {
        let did = now.write(&planned.step.to_string());
        let ok = matches!(did, Some(Did::Added(n) | Did::Disabled(n)) if n == planned.register as usize);
        assert!(ok, "{}: {did:?} on\n{}", planned.step, now.read());
        assert_eq!(now.read(), print(machine, &planned.table));
        undo(&before, now.clone(), &planned.undo);
    }
    let default = number(machine.default.kind);
    for address in samples(&before, &now, plan) {
        let wish = plan.wishes.iter().find(|w| w.range.contains(range(address, 1)));
        let expect = wish.map_or(before.type_at(address, default), |w| 1 << number(w.kind));
        assert_eq!(now.type_at(address, default), expect, "at {address:#x} of\n{}", now.read());
    }
}

fn undo(before: &Mtrrs, mut now: Mtrrs, steps: &[Step]) {
    for step in steps {
        assert!(now.write(&step.to_string()).is_some(), "{step} on\n{}", now.read());
    }
    assert_eq!(now.read(), before.read());
}

/// Both sides of every edge, so that no address is left out.
fn samples(before: &Mtrrs, after: &Mtrrs, plan: &Plan) -> Vec<u64> {
    let registers = before.regs.iter().chain(&after.regs).flatten().flat_map(|r| [r.base, r.base + r.size]);
    let edges = registers.chain(plan.wishes.iter().flat_map(|w| [w.range.base(), w.range.last() + 1]));
    let top = 1 << before.address_bits;
    edges.flat_map(|edge| [edge, edge.wrapping_sub(1)]).chain([0]).filter(|address| *address < top).collect()
}

#[test]
fn the_article_to_the_register() {
    let machine = machine(ARTICLE, RHEL_5, MemoryType::Uncacheable);
    let wishes = wishes(&["0x10000000:80M:uncachable"]);
    let tidy = plan(&machine, &wishes, Order::Tidy).unwrap();
    verify(&machine, &tidy);
    assert_eq!(print(&machine, tidy.after()), ARTICLE_AFTER);
    let steps: Vec<_> = tidy.steps.iter().map(|s| s.step.to_string()).collect();
    assert_eq!(
        steps,
        [
            "disable=6",
            "disable=5",
            "disable=4",
            "base=0x10000000 size=0x4000000 type=uncachable",
            "base=0x14000000 size=0x1000000 type=uncachable",
            "base=0xae000000 size=0x2000000 type=uncachable",
            "base=0xb0000000 size=0x10000000 type=uncachable",
            "base=0xc0000000 size=0x40000000 type=uncachable",
        ]
    );
    // Device registers lie below 4 GiB: while reg04 to 06 are gone, they are cached.
    assert_eq!(tidy.worst(), Some(Harm::Dangerous));
}

#[test]
fn by_default_the_article_takes_two_writes_and_no_risk() {
    let machine = machine(ARTICLE, RHEL_5, MemoryType::Uncacheable);
    for order in [Order::FewestSteps, Order::FewestRegisters] {
        let plan = plan(&machine, &wishes(&["0x10000000:80M:uc"]), order).unwrap();
        verify(&machine, &plan);
        assert_eq!(plan.steps.len(), 2);
        assert_eq!(plan.after().len(), 9);
        assert_eq!(plan.worst(), None);
        assert_eq!(
            plan.undo().iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["disable=8", "disable=7"]
        );
    }
}

#[test]
fn the_script() {
    let machine = machine(ARTICLE, RHEL_5, MemoryType::Uncacheable);
    let plan = plan(&machine, &wishes(&["0x10000000:80M:uc"]), Order::FewestSteps).unwrap();
    insta::assert_snapshot!(plan.script());
}

#[test]
fn a_hole_that_overrides_takes_fewer_registers_than_pieces() {
    // 1 GiB but its last MiB: 10 pieces, or the whole and a hole.
    let machine = machine("", DEBIAN_12, MemoryType::Uncacheable);
    let plan = plan(&machine, &wishes(&["0x40000000:1023M:wb"]), Order::FewestSteps).unwrap();
    verify(&machine, &plan);
    assert_eq!(plan.after().len(), 2);
}

#[test]
fn write_combining_inside_write_back_needs_the_big_register_split() {
    let table = "reg00: base=0x000000000 (    0MB), size= 4096MB, count=1: write-back\n";
    let machine = machine(table, DEBIAN_12, MemoryType::Uncacheable);
    let split = plan(&machine, &wishes(&["0xd0000000:256M:wc"]), Order::FewestSteps).unwrap();
    verify(&machine, &split);
    // 2 GiB, 1 GiB, 256 MiB below, 512 MiB above, and the wish.
    assert_eq!(split.after().len(), 5);
    assert_eq!(split.worst(), Some(Harm::Slow));
    let small = plan(&machine, &wishes(&["0xd0000000:4K:wc"]), Order::FewestSteps);
    assert_eq!(small, Err(Refusal::TooFewRegisters { needed: 21, available: 10 }));
}

#[test]
fn a_register_enclosed_by_a_new_one() {
    // 2.6.18 adds nothing around a register, later kernels do.
    let table = "reg00: base=0x50000000 (1280MB), size= 256MB: uncachable, count=1\n";
    for (kernel, steps) in [(RHEL_5, 3), (DEBIAN_12, 1)] {
        let machine = machine(table, kernel, MemoryType::Uncacheable);
        let wishes = wishes(&["0x40000000:256M:wb", "0x60000000:512M:wb"]);
        let plan = plan(&machine, &wishes, Order::FewestRegisters).unwrap();
        verify(&machine, &plan);
        assert_eq!(plan.after().len(), 2, "{kernel:?}");
        assert_eq!(plan.steps.len(), steps, "{kernel:?}");
    }
}

#[test]
fn refusals() {
    let machine = machine(ARTICLE, RHEL_5, MemoryType::Uncacheable);
    let check = |texts: &[&str], expect: fn(&Refusal) -> bool| {
        let refusal = plan(&machine, &wishes(texts), Order::FewestSteps).unwrap_err();
        assert!(expect(&refusal), "{texts:?}: {refusal}");
    };
    check(&["0x10000800:80M:uc"], |r| matches!(r, Refusal::NotPageAligned { .. }));
    check(&["0x10000000:5000:uc"], |r| matches!(r, Refusal::NotPageAligned { .. }));
    check(&["0xa0000:64K:wc"], |r| matches!(r, Refusal::FixedRange { .. }));
    check(&["0xfffffff000:8K:uc"], |r| matches!(r, Refusal::BeyondAddressBits { address_bits: 40, .. }));
    check(&["0x10000000:80M:uc-"], |r| matches!(r, Refusal::NotAnMtrrType { .. }));
    check(&["0x10000000:80M:uc", "0x14000000:64M:wb"], |r| matches!(r, Refusal::Contradiction { .. }));
    check(&["0x10000000:124M:uc"], |r| matches!(r, Refusal::TooFewRegisters { needed: 12, available: 10 }));
    for text in ["", "0x1000:4K", "0x1000:4K:", "x:4K:uc", "0x1000:0:uc", "16E:1:uc", "0x1000:4Kx:uc"] {
        assert!(text.parse::<Wish>().is_err(), "{text}");
    }
}

#[test]
fn registers_no_kernel_sets() {
    let table = "reg00: base=0x10000000 ( 256MB), size=  96MB: uncachable, count=1\n";
    let refusal = plan(&machine(table, RHEL_5, MemoryType::WriteBack), &[], Order::Tidy);
    assert!(matches!(refusal, Err(Refusal::IrregularRegister { number: 0, .. })));
    let many = PlanTarget { register_count: 0, ..machine("", RHEL_5, MemoryType::WriteBack) };
    assert!(matches!(plan(&many, &[], Order::Tidy), Err(Refusal::IrregularMachine { .. })));
}

#[test]
fn registers_that_cannot_be_cleared() {
    for count in [0, u32::MAX] {
        let table =
            format!("reg00: base=0x10000000 (  256MB), size=   64MB, count={count}: write-combining\n");
        let machine = machine(&table, DEBIAN_12, MemoryType::WriteBack);
        let other = plan(&machine, &wishes(&["0x10000000:64M:wt"]), Order::FewestSteps);
        assert_eq!(other, Err(Refusal::Unreachable));
        // UC goes over anything, so it needs no clearing.
        let uncached = plan(&machine, &wishes(&["0x10000000:64M:uc"]), Order::FewestSteps).unwrap();
        verify(&machine, &uncached);
        let tidy = plan(&machine, &wishes(&["0x08000000:64M:wt"]), Order::Tidy);
        assert_eq!(tidy, Err(Refusal::NoOrder));
    }
}

#[test]
fn many_registers_take_no_time_to_speak_of() {
    let lines = (0..64_u64).map(|n| {
        let (base, kind) = (n << 30 | n << 12, KEYWORDS[usize::try_from(n % 5).unwrap()]);
        format!("reg{n:02}: base={:#x} (0MB), size=4KB, count=1: {kind}\n", base)
    });
    let table = lines.collect::<String>();
    let machine = PlanTarget {
        register_count: 255,
        address_bits: 52,
        ..machine(&table, DEBIAN_12, MemoryType::WriteBack)
    };
    let wish = |n: u64| Wish {
        range: range(n << 31 | 0x1000, (n * 977 + 1) << 12),
        kind: kind(usize::try_from(n % 5).unwrap()),
    };
    let wishes: Vec<_> = (1..10).map(wish).collect();
    let plan = plan(&machine, &wishes, Order::FewestSteps).unwrap();
    verify(&machine, &plan);
}

/// A machine of 64 MiB with registers of whole MiB, as firmware might have left it.
fn any_machine() -> impl Strategy<Value = PlanTarget> {
    let register = (0..6_u32, any::<u64>(), 0..5_usize, 1..3_u32);
    let registers = proptest::collection::btree_map(0..8_u32, register, 0..6);
    (registers, 6..9_u32, any::<bool>(), prop_oneof![Just(0_usize), Just(4)]).prop_map(
        |(registers, register_count, old, default)| {
            let register = |(number, (order, place, kind_number, count)): (u32, (u32, u64, usize, u32))| {
                let size = MIB << order;
                let base = place % (64 * MIB) / size * size;
                Register { number, range: range(base, size), kind: kind(kind_number), count }
            };
            let kernel = if old { RHEL_5 } else { DEBIAN_12 };
            PlanTarget {
                registers: registers
                    .into_iter()
                    .map(register)
                    .filter(|r| r.number < register_count)
                    .collect(),
                register_count,
                address_bits: 26,
                default: DefaultType::given(kind(default)),
                kernel,
                layout: TableLayout::of_kernel(kernel),
            }
        },
    )
}

fn any_wishes() -> impl Strategy<Value = Vec<Wish>> {
    let wish = (1..64_u64, 1..24_u64, 0..5_usize).prop_map(|(base, length, kind_number)| Wish {
        range: range(base * MIB, length.min(64 - base) * MIB),
        kind: kind(kind_number),
    });
    proptest::collection::vec(wish, 1..4)
}

/// Whether the kernel itself could have built these registers in some order: no two of them overlap in
/// a way it refuses or merges.
fn buildable(machine: &PlanTarget) -> bool {
    machine.registers.iter().enumerate().all(|(i, a)| {
        machine.registers[..i].iter().all(|b| {
            let with = |first: &Register, second: &Register| {
                let mut model = Mtrrs::new(8, machine.address_bits, machine.kernel < (2, 6, 32));
                let add = |r: &Register| Step::Add { range: r.range, kind: r.kind }.to_string();
                model.write(&add(first));
                matches!(model.write(&add(second)), Some(Did::Added(1)))
            };
            with(a, b) || with(b, a)
        })
    })
}

/// Whether no address is left outside the registers.
fn holds_all(machine: &PlanTarget) -> bool {
    let held = |mib: u64| machine.registers.iter().any(|r| r.range.contains(range(mib * MIB, MIB)));
    (1..64).all(held)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_hold_and_refusals_are_true(machine in any_machine(), wishes in any_wishes(), order in 0..3_usize) {
        let order = ORDERS[order];
        match plan(&machine, &wishes, order) {
            Ok(plan) => verify(&machine, &plan),
            Err(Refusal::Contradiction { one, other }) => {
                prop_assert!(one.range.overlaps(other.range) && one.kind != other.kind);
            }
            Err(Refusal::TooFewRegisters { needed, available }) => {
                prop_assert!(needed > available && available == machine.register_count);
                let wider = PlanTarget { register_count: needed, ..machine.clone() };
                let enough = plan(&wider, &wishes, order);
                prop_assert!(!matches!(enough, Err(Refusal::TooFewRegisters { .. })), "{:?}", enough);
            }
            // Tidying adds registers again that only firmware can put there.
            Err(Refusal::NoOrder) => prop_assert!(order == Order::Tidy && !buildable(&machine)),
            Err(Refusal::NoWayBack) => prop_assert!(!buildable(&machine) || holds_all(&machine)),
            Err(Refusal::Unreachable) => prop_assert!(!buildable(&machine)),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

/// A space of 8 MiB, and every table of up to 4 registers in it.
#[test]
fn no_table_of_fewer_registers_exists() {
    const KINDS: [usize; 3] = [0, 2, 4];
    let old = false;
    for default in [0, 4] {
        let mut fewest: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut tables = vec![Mtrrs::new(8, 23, old)];
        for registers in 0..=4 {
            for table in &tables {
                let types = (0..8).map(|mib| table.type_at(mib * MIB, default)).collect();
                fewest.entry(types).or_insert(registers);
            }
            tables = if registers < 4 { larger(&tables, &KINDS) } else { Vec::new() };
        }
        let empty = PlanTarget { address_bits: 23, ..machine("", DEBIAN_12, kind(default)) };
        let mut checked = 0;
        let mut maps: Vec<_> = fewest.iter().filter(|(types, _)| types[0] == 1 << default).collect();
        maps.sort();
        for (types, registers) in maps {
            let wish = |(mib, types): (u64, &u32)| Wish {
                range: range(mib * MIB, MIB),
                kind: kind(types.trailing_zeros() as usize),
            };
            let wishes: Vec<_> = (0..).zip(types).skip(1).map(wish).collect();
            let plan = plan(&empty, &wishes, Order::FewestRegisters).unwrap();
            assert_eq!(plan.after().len(), *registers, "{types:?}\n{}", print(&empty, plan.after()));
            checked += 1;
        }
        assert!(checked > 500, "{checked}");
    }
}

/// Every table with one register more, but for its number.
fn larger(tables: &[Mtrrs], kinds: &[usize]) -> Vec<Mtrrs> {
    let mut larger = HashSet::new();
    for table in tables {
        for line in additions(table.address_bits, kinds) {
            let mut next = table.clone();
            if matches!(next.write(&line), Some(Did::Added(_))) {
                next.regs.sort();
                next.regs.reverse();
                larger.insert(next);
            }
        }
    }
    larger.into_iter().collect()
}

/// Every write that adds a block of whole MiB.
fn additions(address_bits: u32, kinds: &[usize]) -> Vec<String> {
    let mut lines = Vec::new();
    for bits in 20..address_bits {
        for base in (0..1_u64 << address_bits).step_by(1 << bits) {
            let line = |&k: &usize| format!("base={base:#x} size={:#x} type={}", 1_u64 << bits, KEYWORDS[k]);
            lines.extend(kinds.iter().map(line));
        }
    }
    lines
}

/// A space of 4 MiB with 3 registers: all sequences of writes from some tables, breadth first.
#[test]
fn no_shorter_way_exists() {
    const KINDS: [usize; 3] = [0, 2, 4];
    for kernel in [RHEL_5, DEBIAN_12] {
        let lines = additions(22, &KINDS);
        let mut starts = vec![Mtrrs::new(3, 22, kernel == RHEL_5)];
        let singles: Vec<_> = lines.iter().step_by(4).filter_map(|line| written(&starts[0], line)).collect();
        let pairs: Vec<_> = singles
            .iter()
            .step_by(2)
            .flat_map(|t| lines.iter().step_by(5).filter_map(|l| written(t, l)))
            .collect();
        starts.extend(singles);
        starts.extend(pairs);
        assert!(starts.len() > 10);
        starts.iter().for_each(|start| compare_ways(start, kernel, &lines));
    }
}

fn written(table: &Mtrrs, line: &str) -> Option<Mtrrs> {
    let mut next = table.clone();
    matches!(next.write(line)?, Did::Added(_) | Did::Disabled(_)).then_some(next)
}

fn compare_ways(start: &Mtrrs, kernel: KernelVersion, lines: &[String]) {
    let default = 0;
    let types = |table: &Mtrrs| (0..4).map(|mib| table.type_at(mib * MIB, default)).collect::<Vec<_>>();
    let clears = (0..3).map(|n| format!("disable={n}"));
    let lines: Vec<_> = lines.iter().cloned().chain(clears).collect();
    let mut ways: HashMap<Vec<u32>, usize> = HashMap::new();
    let mut seen = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([(start.clone(), 0)]);
    while let Some((table, steps)) = queue.pop_front() {
        ways.entry(types(&table)).or_insert(steps);
        if steps == 3 {
            continue;
        }
        for next in lines.iter().filter_map(|line| written(&table, line)) {
            if seen.insert(next.clone()) {
                queue.push_back((next, steps + 1));
            }
        }
    }
    let machine = PlanTarget {
        register_count: 3,
        address_bits: 22,
        registers: registers(&start.read()),
        ..machine("", kernel, kind(default))
    };
    let before = types(start);
    for (types, steps) in ways.iter().filter(|(types, _)| types[0] == before[0]) {
        let wish = |(mib, types): (u64, &u32)| Wish {
            range: range(mib * MIB, MIB),
            kind: kind(types.trailing_zeros() as usize),
        };
        let wishes: Vec<_> = (0..).zip(types).skip(1).map(wish).collect();
        let plan = plan(&machine, &wishes, Order::FewestSteps).unwrap();
        assert_eq!(plan.steps.len(), *steps, "{}to {types:?}", start.read());
    }
}
