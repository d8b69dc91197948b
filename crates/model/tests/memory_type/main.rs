//! Caches, write-combining buffers and devices against a reference that is written apart, over random programs.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod reference;

use host::memory::MemoryType;
use model::Link;
use model::memory_type::{Cause, Cpu, MemorySystem, OverwriteCause, Party, Prices, Snoop, Stale};
use proptest::prelude::*;
use reference::{Old, Reference};
use std::num::NonZeroUsize;

const PRICES: Prices = Prices {
    uncached_load_ns: 80.0,
    uncached_store_ns: 90.0,
    hit_ns: 0.5,
    miss_ns: 80.0,
    streamed_line_ns: 8.0,
    access_bytes: 8,
};

fn link() -> Link {
    Link {
        generation: 1.try_into().unwrap(),
        lanes: 8,
        payload_bytes_max: 256,
        read_request_bytes_max: 512,
        completion_boundary_bytes: 64,
        overhead_share: 0.05,
    }
}

/// Two sets of two lines, two buffers: programs of a few lines have them all at work.
fn machine() -> MemorySystem {
    let cpu = Cpu { cache_bytes: 256, ways: NonZeroUsize::new(2).unwrap(), combining_buffers: 2 };
    MemorySystem::new(cpu, PRICES, link())
}

/// Bytes that programs touch.
const SPACE: u64 = 512;
/// Of an access: more than a line, so that some touch three.
const ACCESS_MAX: usize = 140;

#[derive(Debug, Clone)]
enum Step {
    Load(u64, usize, MemoryType),
    Store(u64, Vec<u8>, MemoryType),
    Flush(u64),
    Fence,
    DeviceWrite(u64, Vec<u8>, Snoop),
    DeviceRead(u64, usize, Snoop),
}

fn address() -> impl Strategy<Value = u64> {
    // Many accesses to the same few bytes, and some anywhere.
    prop_oneof![2 => 0..SPACE, 1 => (0..SPACE / 64).prop_map(|line| line * 64)]
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1..9_usize, Just(64), 1..ACCESS_MAX]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    size().prop_flat_map(|size| prop::collection::vec(0..4_u8, size))
}

fn kind() -> impl Strategy<Value = MemoryType> {
    prop::sample::select(&MemoryType::ALL[..])
}

fn snoop() -> impl Strategy<Value = Snoop> {
    prop::sample::select(&[Snoop::Snooped, Snoop::Unsnooped][..])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (address(), size(), kind()).prop_map(|(at, size, kind)| Step::Load(at, size, kind)),
        3 => (address(), bytes(), kind()).prop_map(|(at, bytes, kind)| Step::Store(at, bytes, kind)),
        1 => address().prop_map(Step::Flush),
        1 => Just(Step::Fence),
        3 => (address(), bytes(), snoop()).prop_map(|(at, bytes, snoop)| Step::DeviceWrite(at, bytes, snoop)),
        3 => (address(), size(), snoop()).prop_map(|(at, size, snoop)| Step::DeviceRead(at, size, snoop)),
    ]
}

/// A program: any types mixed, or one type for each half of memory, as a driver has it.
fn program() -> impl Strategy<Value = Vec<Step>> {
    let steps = || prop::collection::vec(step(), 1..40);
    let driver = (steps(), kind(), kind()).prop_map(|(steps, low, high)| {
        let of = |at: u64| if at < SPACE / 2 { low } else { high };
        let change = |step| match step {
            Step::Load(at, size, _) => Step::Load(at, size, of(at)),
            Step::Store(at, bytes, _) => Step::Store(at, bytes, of(at)),
            other => other,
        };
        steps.into_iter().map(change).collect()
    });
    prop_oneof![steps(), driver]
}

/// Carries out a step, and gives what was read and what of it was stale.
fn run(machine: &mut MemorySystem, step: &Step) -> (Vec<u8>, Vec<Stale>) {
    let mut into = Vec::new();
    let stale = match step {
        Step::Load(at, size, kind) => {
            into.resize(*size, 0);
            machine.load(*at, &mut into, *kind)
        }
        Step::DeviceRead(at, size, snoop) => {
            into.resize(*size, 0);
            machine.device_read(*at, &mut into, *snoop)
        }
        Step::Store(at, bytes, kind) => {
            machine.store(*at, bytes, *kind);
            Vec::new()
        }
        Step::Flush(at) => {
            machine.flush(*at);
            Vec::new()
        }
        Step::Fence => {
            machine.fence();
            Vec::new()
        }
        Step::DeviceWrite(at, bytes, snoop) => {
            machine.device_write(*at, bytes, *snoop);
            Vec::new()
        }
    };
    (into, stale)
}

fn refer(reference: &mut Reference, step: &Step) -> (Vec<u8>, Vec<Old>) {
    match step {
        Step::Load(at, size, kind) => return reference.load(*at, *size, *kind),
        Step::DeviceRead(at, size, snoop) => return reference.device_read(*at, *size, *snoop),
        Step::Store(at, bytes, kind) => reference.store(*at, bytes, *kind),
        Step::Flush(at) => reference.flush(*at),
        Step::Fence => reference.fence(),
        Step::DeviceWrite(at, bytes, snoop) => reference.device_write(*at, bytes, *snoop),
    }
    (Vec::new(), Vec::new())
}

/// Each stale byte by itself.
fn single(stale: &[Stale]) -> Vec<Old> {
    let byte = |one: &Stale| {
        let (seen, missed, cause) = (one.seen.access, (one.missed.access, one.missed.by.unwrap()), one.cause);
        (one.address..one.address + one.bytes)
            .map(|address| Old { address, seen, missed, cause })
            .collect::<Vec<_>>()
    };
    stale.iter().flat_map(byte).collect()
}

proptest! {
    /// What is read, which bytes of it are stale, since when, and why.
    #[test]
    fn every_byte_is_the_references(program in program()) {
        let (mut machine, mut reference) = (machine(), Reference::new(2, 2, 2));
        for (number, step) in program.iter().enumerate() {
            let (read, stale) = run(&mut machine, step);
            let (expected, old) = refer(&mut reference, step);
            prop_assert_eq!(read, expected, "step {} of {:?}", number, &program);
            prop_assert_eq!(single(&stale), old, "step {} of {:?}", number, &program);
        }
    }

    /// With a device that snoops, what is not drained is all that can be stale; and nothing is, once the CPU waits for it.
    #[test]
    fn a_coherent_device_sees_all_but_gathered_stores(program in program(), is_fenced in any::<bool>()) {
        let mut machine = machine();
        for step in &program {
            let step = match step.clone() {
                Step::DeviceWrite(at, bytes, _) => Step::DeviceWrite(at, bytes, Snoop::Snooped),
                Step::DeviceRead(at, size, _) => Step::DeviceRead(at, size, Snoop::Snooped),
                other => other,
            };
            if is_fenced && matches!(step, Step::DeviceWrite(..) | Step::DeviceRead(..)) {
                machine.fence();
            }
            for one in run(&mut machine, &step).1 {
                prop_assert!(!is_fenced, "{:?}", one);
                let is_gathered = matches!(one.cause, Cause::NotDrained | Cause::WrittenOver { by: OverwriteCause::Drain, .. });
                prop_assert!(is_gathered, "{:?}", one);
            }
        }
    }

    /// Memory that nobody caches or gathers is never stale, whatever the device does.
    #[test]
    fn uncached_memory_is_never_stale(program in program()) {
        let mut machine = machine();
        for step in program {
            let step = match step {
                Step::Load(at, size, _) => Step::Load(at, size, MemoryType::UncachedMinus),
                Step::Store(at, bytes, _) => Step::Store(at, bytes, MemoryType::Uncacheable),
                other => other,
            };
            prop_assert_eq!(run(&mut machine, &step).1, Vec::new());
        }
    }

    /// Time goes on, and each party's is its own.
    #[test]
    fn each_access_takes_the_time_of_its_party(program in program()) {
        let mut machine = machine();
        for step in &program {
            let before = (machine.cpu_busy(), machine.link_busy(), machine.now());
            run(&mut machine, step);
            let after = (machine.cpu_busy(), machine.link_busy(), machine.now());
            let is_device = matches!(step, Step::DeviceWrite(..) | Step::DeviceRead(..));
            prop_assert_eq!(is_device, after.1 > before.1);
            prop_assert!(!is_device || after.0 == before.0, "a device's access takes nothing of the CPU");
            prop_assert!(after.2 >= before.2);
        }
    }
}

const WB: MemoryType = MemoryType::WriteBack;

#[test]
fn a_line_that_was_read_hides_the_devices_write() {
    let mut machine = machine();
    let mut into = [0; 8];
    machine.load(0, &mut into, WB);
    machine.device_write(0, &[1; 8], Snoop::Unsnooped);
    let stale = machine.load(0, &mut into, WB);
    assert_eq!(into, [0; 8]);
    assert_eq!((stale.len(), stale[0].bytes, stale[0].cause), (1, 8, Cause::CachedBefore { filled_at: 1 }));
    assert_eq!(
        (stale[0].seen.access, stale[0].missed.access, stale[0].missed.by),
        (0, 2, Some(Party::Device))
    );
    assert!(stale[0].age_ns() > 0.0);
    machine.flush(0);
    assert!(machine.load(0, &mut into, WB).is_empty());
    assert_eq!(into, [1; 8]);
}

#[test]
fn a_dirty_line_hides_the_cpus_store_and_destroys_the_devices() {
    let mut machine = machine();
    machine.store(0, &[1; 8], WB);
    let mut into = [0; 8];
    let stale = machine.device_read(0, &mut into, Snoop::Unsnooped);
    assert_eq!((stale[0].cause, stale[0].reader, into), (Cause::NotWrittenBack, Party::Device, [0; 8]));
    machine.device_write(8, &[2; 8], Snoop::Unsnooped);
    // Two more lines of the set: the first has to go.
    machine.load(128, &mut into, WB);
    machine.load(256, &mut into, WB);
    let stale = machine.device_read(8, &mut into, Snoop::Unsnooped);
    assert_eq!(stale[0].cause, Cause::WrittenOver { by: OverwriteCause::Eviction, access: 5 });
    assert_eq!((stale[0].missed.access, into), (3, [0; 8]));
}

#[test]
fn gathered_stores_wait_for_the_fence() {
    let mut machine = machine();
    machine.store(0, &[1; 63], MemoryType::WriteCombining);
    let mut into = [0; 64];
    let stale = machine.device_read(0, &mut into, Snoop::Snooped);
    assert_eq!((stale[0].cause, stale[0].bytes), (Cause::NotDrained, 63));
    machine.fence();
    assert!(machine.device_read(0, &mut into, Snoop::Snooped).is_empty());
    // A full buffer waits for nobody.
    machine.store(64, &[1; 64], MemoryType::WriteCombining);
    assert!(machine.device_read(64, &mut into, Snoop::Unsnooped).is_empty());
}

#[test]
fn prices_are_by_the_access() {
    let took = |act: &dyn Fn(&mut MemorySystem)| {
        let mut machine = machine();
        act(&mut machine);
        machine.cpu_busy().as_ps()
    };
    let store = |bytes: usize, kind| took(&|machine| machine.store(0, &vec![1; bytes], kind));
    assert_eq!(store(64, MemoryType::Uncacheable), 8 * 90_000);
    assert_eq!(store(1, MemoryType::Uncacheable), 90_000);
    assert_eq!(store(64, WB), 80_000 + 8 * 500);
    assert_eq!(store(128, WB), 80_000 + 8_000 + 16 * 500, "the second line streams");
    assert_eq!(store(64, MemoryType::WriteCombining), 8 * 500 + 8_000);
    let load = |kind| took(&|machine| drop(machine.load(0, &mut [0; 64], kind)));
    assert_eq!([load(MemoryType::Uncacheable), load(WB)], [8 * 80_000, 80_000 + 8 * 500]);
}
