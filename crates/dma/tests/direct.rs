//! Adapters whose addresses nothing translates: masks, offsets, bounce buffers, and the rules of who may touch what.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use dma::{
    Access, Bounce, Bouncing, BusAddress, Direction, DmaCounters, DmaError, Element, Kind, Limits, Mapper,
    Memory, MemoryAddress, Misuse, Pool, Ram, Segment,
};
use std::sync::Arc;

const GIB: u64 = 1 << 30;
/// Memory just below 4 GiB and beyond, and a pool of bounce buffers in its first half MiB.
const BASE: MemoryAddress = MemoryAddress(4 * GIB - (1 << 20));
const LOW: MemoryAddress = MemoryAddress(BASE.0 + (1 << 19));
const HIGH: MemoryAddress = MemoryAddress(4 * GIB);
const BYTES: u64 = 2 << 20;

fn memory() -> Arc<Ram> {
    Arc::new(Ram::new(BASE, BYTES))
}

fn bounced(ram: &Arc<Ram>, when: Bouncing, bits: u32) -> Mapper {
    let memory = Arc::clone(ram) as Arc<dyn Memory>;
    let bounce = Bounce::new(memory, BASE, 1 << 19, 1, || 0);
    Mapper::direct(Limits::of_bits(bits), 0).with_bounce(Arc::new(bounce), when).with_debug(true)
}

fn byte(ram: &Ram, at: u64) -> u8 {
    let mut byte = [0];
    ram.read(MemoryAddress(at), &mut byte).unwrap();
    byte[0]
}

#[test]
fn addresses_are_those_of_memory_plus_an_offset() {
    let (window, mut counters) = (1 << 59, DmaCounters::default());
    let mapper = Mapper::direct(Limits::of_bits(64), window).with_debug(true);
    let at = mapper.map(HIGH, 5000, Direction::ToDevice, &mut counters).unwrap();
    assert_eq!(at, BusAddress(HIGH.0 + window));
    mapper.unmap(at, 5000, Direction::ToDevice, &mut counters).unwrap();
    assert_eq!(counters, DmaCounters { mappings: 1, unmappings: 1, ..DmaCounters::default() });
    mapper.close().unwrap();
}

#[test]
fn a_mask_is_kept_to_the_last_byte() {
    let mapper = Mapper::direct(Limits::of_bits(32), 0);
    let mut counters = DmaCounters::default();
    mapper.map(MemoryAddress(HIGH.0 - 16), 16, Direction::ToDevice, &mut counters).unwrap();
    let error = mapper.map(MemoryAddress(HIGH.0 - 16), 17, Direction::ToDevice, &mut counters).unwrap_err();
    let at = BusAddress(HIGH.0 - 16);
    assert_eq!(error, DmaError::BeyondMask { at, bytes: 17, mask: 0xffff_ffff });
    assert_eq!(counters.mappings, 1);
    for (memory, bytes) in [(HIGH, 0), (MemoryAddress(u64::MAX), 2)] {
        let error = mapper.map(memory, bytes, Direction::ToDevice, &mut counters).unwrap_err();
        assert_eq!(error, DmaError::NoBuffer { memory, bytes });
    }
}

#[test]
fn only_memory_beyond_the_mask_is_bounced() {
    let ram = memory();
    let mapper = bounced(&ram, Bouncing::BeyondMask, 32);
    let mut counters = DmaCounters::default();
    let low = mapper.map(LOW, 4096, Direction::FromDevice, &mut counters).unwrap();
    assert_eq!((low.0, counters.bounce_bytes), (LOW.0, 0));
    ram.write(HIGH, &[1; 100]).unwrap();
    let high = mapper.map(HIGH, 100, Direction::FromDevice, &mut counters).unwrap();
    assert!(high.0 + 100 <= LOW.0, "in the pool");
    assert_eq!(counters.bounce_bytes, 100, "what the adapter does not write must stay");
    ram.write(MemoryAddress(high.0), &[2; 50]).unwrap();
    mapper.sync_for_cpu(high, 0, 25, Direction::FromDevice, &mut counters).unwrap();
    assert_eq!([0, 24, 25].map(|place| byte(&ram, HIGH.0 + place)), [2, 2, 1]);
    mapper.unmap(high, 100, Direction::FromDevice, &mut counters).unwrap();
    assert_eq!([49, 50].map(|place| byte(&ram, HIGH.0 + place)), [2, 1]);
    mapper.unmap(low, 4096, Direction::FromDevice, &mut counters).unwrap();
    assert_eq!(counters.bounce_bytes, 100 + 25 + 100);
    mapper.close().unwrap();
}

#[test]
fn a_list_that_can_not_be_mapped_is_not_mapped_in_part() {
    let ram = memory();
    let mapper = bounced(&ram, Bouncing::BeyondMask, 32);
    let mut counters = DmaCounters::default();
    let element = |memory, bytes| Element { memory, bytes };
    let too_long = [element(HIGH, 2048), element(LOW, 64), element(HIGH, Bounce::BYTES_MAX + 1)];
    let error = mapper.map_list(&too_long, Direction::Bidirectional, &mut counters).unwrap_err();
    assert!(matches!(error, DmaError::NoSlots { slots_used: 1, .. }), "{error}");
    let good = &too_long[..2];
    let segments = mapper.map_list(good, Direction::Bidirectional, &mut counters).unwrap();
    assert_eq!(segments[1], Segment { at: BusAddress(LOW.0), bytes: 64 });
    mapper.unmap_list(good, &segments, Direction::Bidirectional, &mut counters).unwrap();
    mapper.close().unwrap();
}

#[test]
fn an_adapter_that_is_not_coherent_costs_maintenance() {
    let mut counters = DmaCounters::default();
    let mapper = Mapper::direct(Limits::of_bits(64), 0).not_coherent();
    let at = mapper.map(LOW, 64, Direction::Bidirectional, &mut counters).unwrap();
    mapper.sync_for_cpu(at, 0, 64, Direction::Bidirectional, &mut counters).unwrap();
    mapper.sync_for_device(at, 0, 64, Direction::Bidirectional, &mut counters).unwrap();
    mapper.unmap(at, 64, Direction::Bidirectional, &mut counters).unwrap();
    assert_eq!(counters.cache_syncs, 4);
}

#[test]
fn coherent_memory_is_zero_aligned_and_within_its_mask() {
    let ram = memory();
    ram.write(BASE, &vec![0xff; 1 << 20]).unwrap();
    let pool = Pool::new(Arc::clone(&ram) as Arc<dyn Memory>, BASE, BYTES).unwrap();
    let mapper = Mapper::direct(Limits::of_bits(32), 0).with_coherent(Arc::new(pool)).with_debug(true);
    let mut counters = DmaCounters::default();
    let first = mapper.allocate_coherent(3 * 4096, &mut counters).unwrap();
    assert_eq!((first.bytes, first.at.0 % (4 * 4096)), (3 * 4096, 0));
    assert_eq!([0, 3 * 4096 - 1].map(|place| byte(&ram, first.memory.0 + place)), [0, 0]);
    mapper.check_cpu_access(first.memory, 8, Access::ReadWrite).unwrap();
    assert!(mapper.allocate_coherent(BYTES, &mut counters).is_err(), "only half of it is below the mask");
    assert!(mapper.allocate_coherent(0, &mut counters).is_err());
    mapper.free_coherent(first, &mut counters).unwrap();
    mapper.allocate_coherent(1, &mut counters).unwrap();
    assert!(matches!(mapper.close(), Err(Misuse::Leaked { mappings: 1, bytes: 4096, .. })));
}

/// An offset below zero wraps.
#[test]
fn coherent_memory_is_within_its_mask_whatever_the_offset() {
    let minus = |bytes: u64| bytes.wrapping_neg();
    let (from, to) = (BASE.0, BASE.0 + BYTES);
    for (bits, offset, expected) in [
        (32, minus(GIB), Ok(from - GIB)),
        (64, minus(GIB), Ok(from - GIB)),
        (64, 1 << 59, Ok(from + (1 << 59))),
        (12, minus(from), Ok(0)),
        // The pool has the highest bus addresses.
        (64, minus(to), Ok(minus(BYTES))),
        // All is above the mask, or all but one page, which is not found.
        (11, minus(from), Err(())),
        (32, 1 << 59, Err(())),
        (32, minus(to - 4096), Err(())),
    ] {
        let pool = Pool::new(memory(), BASE, BYTES).unwrap();
        let mapper = Mapper::direct(Limits::of_bits(bits), offset).with_coherent(Arc::new(pool));
        let allocated = mapper.allocate_coherent(4096, &mut DmaCounters::default());
        let at = allocated.as_ref().map(|coherent| coherent.at.0).map_err(|_| ());
        assert_eq!(at, expected, "{bits} bits, offset {offset:#x}: {allocated:?}");
        if let Ok(coherent) = allocated {
            assert_eq!(coherent.memory.0.wrapping_add(offset), coherent.at.0);
            mapper.free_coherent(coherent, &mut DmaCounters::default()).unwrap();
        }
        mapper.close().unwrap();
    }
}

#[test]
fn a_pool_has_a_whole_page() {
    for (base, bytes) in [(0, 0), (0, 100), (0, 4095), (1, 4096), (BASE.0, 4095), (u64::MAX - 100, 100)] {
        let pool = Pool::new(memory(), MemoryAddress(base), bytes);
        assert!(pool.is_err(), "{bytes} bytes at {base:#x}: {pool:?}");
    }
    assert!(Pool::new(memory(), MemoryAddress(0), 4096).is_ok());
    assert!(Pool::new(memory(), MemoryAddress(u64::MAX - 4095), 4096).is_err(), "the last page is left out");
}

#[test]
fn broken_rules_are_reported() {
    let mapper = Mapper::direct(Limits::of_bits(64), 0).with_debug(true);
    let mut counters = DmaCounters::default();
    let at = mapper.map(LOW, 4096, Direction::ToDevice, &mut counters).unwrap();
    let mut unmap = |at, bytes, direction| mapper.unmap(at, bytes, direction, &mut counters).unwrap_err();
    let elsewhere = BusAddress(at.0 + 4096);
    assert_eq!(
        unmap(elsewhere, 4096, Direction::ToDevice),
        DmaError::Misuse(Misuse::NotMapped { at: elsewhere })
    );
    assert_eq!(
        unmap(at, 4095, Direction::ToDevice),
        DmaError::Misuse(Misuse::OtherSize { at, bytes: 4095, mapped_bytes: 4096 })
    );
    let (named, mapped) = (Direction::FromDevice, Direction::ToDevice);
    assert_eq!(unmap(at, 4096, named), DmaError::Misuse(Misuse::OtherDirection { at, named, mapped }));
    let list = [Element { memory: LOW, bytes: 4096 }];
    let segment = [Segment { at, bytes: 4096 }];
    assert_eq!(
        mapper.unmap_list(&list, &segment, Direction::ToDevice, &mut counters).unwrap_err(),
        DmaError::Misuse(Misuse::OtherKind { at, named: Kind::List, mapped: Kind::Single })
    );
    assert_eq!(
        mapper.sync_for_cpu(at, 4000, 97, Direction::ToDevice, &mut counters).unwrap_err(),
        DmaError::Misuse(Misuse::SyncOutside { at, offset: 4000, bytes: 97, mapped_bytes: 4096 })
    );
    // After all that it is mapped as before; and mapped again, which nobody forbids, it has the same address.
    let again = mapper.map(LOW, 64, Direction::ToDevice, &mut counters).unwrap();
    assert_eq!(again, at);
    mapper.unmap(at, 4096, Direction::ToDevice, &mut counters).unwrap();
    mapper.unmap(at, 64, Direction::ToDevice, &mut counters).unwrap();
    let twice = mapper.unmap(at, 64, Direction::ToDevice, &mut counters).unwrap_err();
    assert_eq!(twice, DmaError::Misuse(Misuse::NotMapped { at }));
    mapper.close().unwrap();
}

#[test]
fn only_the_owner_accesses_a_buffer() {
    let mapper = Mapper::direct(Limits::of_bits(64), 0).with_debug(true);
    let mut counters = DmaCounters::default();
    let touch = |access| mapper.check_cpu_access(MemoryAddress(LOW.0 + 60), 8, access);
    let at = mapper.map(LOW, 64, Direction::FromDevice, &mut counters).unwrap();
    assert!(matches!(touch(Access::Read), Err(Misuse::DeviceOwns { access: Access::Read, .. })));
    mapper.check_cpu_access(MemoryAddress(LOW.0 + 64), 8, Access::ReadWrite).unwrap();
    mapper.sync_for_cpu(at, 0, 64, Direction::FromDevice, &mut counters).unwrap();
    touch(Access::Read).unwrap();
    mapper.sync_for_device(at, 0, 64, Direction::FromDevice, &mut counters).unwrap();
    assert!(touch(Access::Read).is_err());
    mapper.unmap(at, 64, Direction::FromDevice, &mut counters).unwrap();
    touch(Access::ReadWrite).unwrap();
    let at = mapper.map(LOW, 64, Direction::ToDevice, &mut counters).unwrap();
    touch(Access::Read).unwrap();
    assert!(touch(Access::Write).is_err());
    mapper.unmap(at, 64, Direction::ToDevice, &mut counters).unwrap();
    mapper.close().unwrap();
}
