//! The hypercalls: every status of each, and tables against a model and the hardware's side.

use crate::machine::{DEFAULT, GIB, KIB, MIB, Machine, Setup};
use dma::tce::{Entry, Hypercall, MemoryRange, Partition, PciSlot, Status, TceFault};
use dma::{Access, BusAddress, ByteOrder, Direction, DmaCounters, Frames, Limits, MemoryAddress};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const READ: u64 = 1;
const BOTH: u64 = 3;

/// 1 GiB of memory, and a default window of 16 MiB, which has 4,096 entries.
fn small() -> Setup {
    Setup { default_bytes: 16 * MIB, ..Setup::new(GIB, 1 << 16, 0x1ff) }
}

fn page(number: u64) -> BusAddress {
    BusAddress(number * 4 * KIB)
}

fn lead_to(memory: u64) -> Entry {
    Entry(memory | BOTH)
}

impl Machine {
    fn put(&self, at: BusAddress, entry: Entry) -> i64 {
        self.hypervisor.put_tce(DEFAULT, at, entry).code()
    }

    fn stuff(&self, at: BusAddress, entry: Entry, count: u64) -> i64 {
        self.hypervisor.stuff_tce(DEFAULT, at, entry, count).code()
    }

    fn get(&self, at: BusAddress) -> (i64, u64) {
        let (status, Entry(number)) = self.hypervisor.get_tce(DEFAULT, at);
        (status.code(), number)
    }

    fn indirect(&self, liobn: u32, at: BusAddress, entries: &[Entry]) -> i64 {
        for (place, entry) in (0..).zip(entries) {
            self.ram.write_u64(MemoryAddress(self.lists.0 + 8 * place), ByteOrder::Big, entry.0).unwrap();
        }
        self.hypervisor.put_tce_indirect(liobn, at, self.lists, entries.len() as u64).code()
    }
}

#[test]
fn arguments_that_are_wrong_in_every_call() {
    let machine = small().machine();
    let hypervisor = &machine.hypervisor;
    let wrong = [
        (DEFAULT + 1, page(0)),
        (DEFAULT, page(4096)),
        (DEFAULT, BusAddress(8)),
        (DEFAULT, BusAddress(u64::MAX)),
    ];
    for (liobn, at) in wrong {
        assert_eq!(hypervisor.get_tce(liobn, at), (Status::Parameter, Entry::NONE));
        let none = Entry::NONE;
        let statuses = [
            hypervisor.put_tce(liobn, at, none),
            hypervisor.stuff_tce(liobn, at, none, 1),
            hypervisor.put_tce_indirect(liobn, at, machine.lists, 1),
        ];
        assert_eq!(statuses.map(Status::code), [-4; 3], "{liobn:#x} {at}");
    }
    hypervisor.rescind(DEFAULT);
    assert_eq!(hypervisor.get_tce(DEFAULT, page(0)).0.code(), -46);
    let statuses = [
        hypervisor.put_tce(DEFAULT, page(0), Entry::NONE),
        hypervisor.stuff_tce(DEFAULT, page(0), Entry::NONE, 1),
        hypervisor.put_tce_indirect(DEFAULT, page(0), machine.lists, 1),
    ];
    assert_eq!(statuses.map(Status::code), [-46; 3]);
}

#[test]
fn an_entry_names_a_page_of_the_partition_or_none() {
    let machine = small().machine();
    let check = |entry: u64, status: i64| {
        assert_eq!(machine.put(page(1), Entry(entry)), status, "put {entry:#x}");
        assert_eq!(machine.stuff(page(2), Entry(entry), 3), status, "stuff {entry:#x}");
        assert_eq!(
            machine.indirect(DEFAULT, page(5), &[Entry::NONE, Entry(entry)]),
            status,
            "list {entry:#x}"
        );
    };
    check(0x4000 | READ, 0);
    check((GIB - 4096) | BOTH, 0);
    // The hypervisor's own tables begin where the partition's memory ends.
    check(GIB | READ, -4);
    check(GIB, 0);
    check(!0xfff | BOTH, -4);
    check(0x4800 | READ, -4);
    check(0x4004 | READ, -4);
    machine.hypervisor.reclaim_memory(MemoryRange { start: MemoryAddress(0x8000), bytes: 0x1000 });
    check(0x8000 | READ, -46);
    check(0x9000 | READ, 0);
}

#[test]
fn a_page_that_was_taken_back_is_veiled() {
    let machine = small().machine();
    assert_eq!(machine.put(page(7), Entry(0x8000 | READ)), 0);
    assert_eq!(machine.get(page(7)), (0, 0x8001));
    machine.hypervisor.reclaim_memory(MemoryRange { start: MemoryAddress(0x8000), bytes: 0x1000 });
    assert_eq!(machine.get(page(7)), (5, 0xffff_ffff_ffff_f001));
    assert_eq!(machine.put(page(7), Entry::NONE), 0);
    assert_eq!(machine.get(page(7)), (0, 0));
}

#[test]
fn counts() {
    let machine = small().machine();
    let entries = vec![lead_to(0x4000); 513];
    assert_eq!(machine.stuff(page(0), entries[0], 513), -57);
    assert_eq!(machine.indirect(DEFAULT, page(0), &entries), -4);
    assert_eq!(machine.get(page(0)), (0, 0));
    assert_eq!(machine.stuff(page(4096 - 511), entries[0], 512), -4, "beyond the end");
    assert_eq!(machine.indirect(DEFAULT, page(4096 - 511), &entries[..512]), -4, "beyond the end");
    assert_eq!(machine.get(page(4095)), (0, 0));
    assert_eq!(machine.stuff(page(4096 - 512), entries[0], 512), 0);
    assert_eq!(machine.get(page(4095)), (0, 0x4003));
    assert_eq!(machine.indirect(DEFAULT, page(512), &entries[..512]), 0);
    assert_eq!((machine.get(page(1023)), machine.get(page(1024))), ((0, 0x4003), (0, 0)));
    assert_eq!(machine.stuff(page(0), entries[0], 0), 0);
    assert_eq!(machine.indirect(DEFAULT, page(0), &[]), 0);
    assert_eq!(machine.get(page(0)), (0, 0));
}

#[test]
fn lists_lie_in_pages_of_the_partition() {
    let machine = small().machine();
    let list = |at: u64| machine.hypervisor.put_tce_indirect(DEFAULT, page(0), MemoryAddress(at), 1).code();
    assert_eq!(list(machine.lists.0), 0);
    assert_eq!(list(machine.lists.0 + 8), -4, "not at a page");
    assert_eq!(list(GIB), -4, "the hypervisor's");
    assert_eq!(list(0), -4, "no memory behind it");
    machine.hypervisor.reclaim_memory(MemoryRange { start: machine.lists, bytes: 4096 });
    assert_eq!(list(machine.lists.0), -46);
}

#[test]
fn a_call_that_fails_has_done_nothing() {
    let machine = small().machine();
    assert_eq!(machine.indirect(DEFAULT, page(0), &[lead_to(0x4000), lead_to(GIB)]), -4);
    assert_eq!(machine.get(page(0)), (0, 0));
}

#[test]
fn firmware_without_calls_for_many() {
    let machine = small().machine_with(|hypervisor| hypervisor.without_multi_tce());
    assert_eq!(machine.stuff(page(0), Entry::NONE, 1), -2);
    assert_eq!(machine.indirect(DEFAULT, page(0), &[Entry::NONE]), -2);
    assert_eq!(machine.put(page(0), lead_to(0)), 0);
}

#[test]
fn an_entitlement_bounds_mapped_memory() {
    let machine = small().machine_with(|hypervisor| hypervisor.with_entitlement(3 * 4096));
    let two = [lead_to(0x4000), lead_to(0x5000)];
    assert_eq!(machine.indirect(DEFAULT, page(0), &two), 0);
    assert_eq!(machine.indirect(DEFAULT, page(2), &two), -44);
    assert_eq!(machine.stuff(page(2), two[0], 2), -44);
    assert_eq!(machine.get(page(2)), (0, 0));
    assert_eq!(machine.put(page(2), two[0]), 0);
    assert_eq!(machine.put(page(3), two[0]), -44);
    // What takes no more is granted.
    assert_eq!(machine.put(page(2), two[1]), 0);
    assert_eq!(machine.stuff(page(0), Entry::NONE, 2), 0);
    assert_eq!(machine.indirect(DEFAULT, page(3), &two), 0);
}

/// What a step writes.
#[derive(Debug, Clone)]
enum Step {
    Put(u64, Entry),
    Stuff(u64, Entry, u64),
    List(u64, Vec<Entry>),
}

const ENTRIES: u64 = 64;

fn entry(page_shift: u32) -> impl Strategy<Value = Entry> {
    let page = (0_u64..1000).prop_map(move |number| number << page_shift);
    (page, 0_u64..4).prop_map(|(page, access)| Entry(page | access))
}

fn step(page_shift: u32) -> impl Strategy<Value = Step> {
    let index = 0..ENTRIES;
    prop_oneof![
        (index.clone(), entry(page_shift)).prop_map(|(index, entry)| Step::Put(index, entry)),
        (index.clone(), entry(page_shift), 0..=ENTRIES).prop_map(|(index, entry, count)| Step::Stuff(
            index,
            entry,
            count.min(ENTRIES - index)
        )),
        (index, prop::collection::vec(entry(page_shift), 0..20)).prop_map(|(index, mut entries)| {
            entries.truncate((ENTRIES - index) as usize);
            Step::List(index, entries)
        }),
    ]
}

fn page_shift_and_steps() -> impl Strategy<Value = (u32, Vec<Step>)> {
    let shifts = ddw::PageSizes(0x1ff).shifts();
    assert_eq!(shifts, [12, 16, 21, 24, 25, 26, 27, 28, 34]);
    prop::sample::select(shifts)
        .prop_flat_map(|shift| (Just(shift), prop::collection::vec(step(shift), 0..30)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn tables_of_every_page_size((page_shift, steps) in page_shift_and_steps()) {
        let machine = Setup { memory_bytes: 1 << 44, ..small() }.machine();
        let (liobn, first) = machine.create(page_shift, page_shift + 6).unwrap();
        let at = |index: u64| BusAddress(first.0 + (index << page_shift));
        let mut model: BTreeMap<u64, Entry> = BTreeMap::new();
        for step in steps {
            let (status, index, written) = match step {
                Step::Put(index, entry) => {
                    (machine.hypervisor.put_tce(liobn, at(index), entry).code(), index, vec![entry])
                }
                Step::Stuff(index, entry, count) => {
                    let status = machine.hypervisor.stuff_tce(liobn, at(index), entry, count).code();
                    (status, index, vec![entry; count as usize])
                }
                Step::List(index, entries) => (machine.indirect(liobn, at(index), &entries), index, entries),
            };
            prop_assert_eq!(status, 0);
            model.extend((index..).zip(written));
        }
        let walk = machine.walk(liobn);
        for index in 0..ENTRIES {
            let expected = model.get(&index).copied().unwrap_or_default();
            prop_assert_eq!(machine.hypervisor.get_tce(liobn, at(index)), (Status::Success, expected));
            let offset = (index * 0x1357) % (1 << page_shift);
            let bus = BusAddress(at(index).0 + offset);
            for access in [Access::Read, Access::Write, Access::ReadWrite] {
                let seen = walk.reach(&machine.ram, bus, access);
                let memory = MemoryAddress((expected.0 & !3) + offset);
                let allowed = expected.access().is_some_and(|has| has.allows(access));
                let fault = Err(TceFault::Forbidden { at: bus, access });
                prop_assert_eq!(seen, if allowed { Ok((memory, 1 << page_shift)) } else { fault });
            }
        }
        let beyond = at(ENTRIES);
        prop_assert_eq!(walk.reach(&machine.ram, beyond, Access::Read), Err(TceFault::Outside { at: beyond }));
    }
}

#[test]
fn a_trap_carries_every_hypercall() {
    let machine = small().machine();
    let (hypervisor, calls) = (machine.hypervisor.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = calls.clone();
    let lists = Frames::new(machine.lists, 4 * KIB);
    let partition = Partition::new(hypervisor.clone(), machine.ram.clone(), lists, vec![], "", || 0);
    let partition = partition.with_trap(move |call| {
        seen.lock().unwrap().push(call);
        hypervisor.serve(call)
    });
    let slot = PciSlot::new(Arc::new(partition), crate::machine::ADDRESS).unwrap().unwrap();
    let mapper = slot.default_mapper(Limits::of_bits(32));
    let mut counters = DmaCounters::default();
    for (bytes, is_list) in [(4 * KIB, false), (64 * KIB, true)] {
        let memory = MemoryAddress(MIB);
        let at = mapper.map(memory, bytes, Direction::FromDevice, &mut counters).unwrap();
        let last = BusAddress(at.0 + bytes - 1);
        let reached = machine.walk(DEFAULT).reach(&machine.ram, last, Access::Write);
        assert_eq!(reached, Ok((MemoryAddress(memory.0 + bytes - 1), 4 * KIB)));
        mapper.unmap(at, bytes, Direction::FromDevice, &mut counters).unwrap();
        let made = std::mem::take(&mut *calls.lock().unwrap());
        let [first, Hypercall::StuffTce { liobn: DEFAULT, at: cleared, entry: Entry::NONE, count }] =
            made[..]
        else {
            panic!("{made:?}")
        };
        assert_eq!((cleared, count), (at, bytes / (4 * KIB)));
        assert_eq!(matches!(first, Hypercall::PutTceIndirect { .. }), is_list, "{first:?}");
    }
    assert_eq!((counters.hypercalls, counters.table_entries), (4, 2 * 17));
    // A host that is gone refuses, and nothing is mapped.
    let refused = Partition::new(
        machine.hypervisor.clone(),
        machine.ram.clone(),
        Frames::new(machine.lists, 4 * KIB),
        vec![],
        "",
        || 0,
    )
    .with_trap(|_| Status::Function);
    let slot = PciSlot::new(Arc::new(refused), crate::machine::ADDRESS).unwrap().unwrap();
    let mapper = slot.default_mapper(Limits::of_bits(32));
    assert!(mapper.map(MemoryAddress(MIB), 4 * KIB, Direction::FromDevice, &mut counters).is_err());
}
