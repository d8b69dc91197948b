//! Tables of every format against a model of their pages: what is written is what an independent reader of the bytes finds, and
//! what fails changes nothing.
//!
//! `PROPTEST_CASES=20000 cargo test --release -p dma --test tables` for a long run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Access, Amd, BusAddress, DmaCounters, FRAME_BYTES, Frames, Leaf, MapError, MemoryAddress, Radix, Ram,
    Smmu, UnmapError, Vtd, WalkFault, Walked,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = FRAME_BYTES;
const TWO_MIB: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
/// Where the tables lie.
const TABLES: MemoryAddress = MemoryAddress(0x10_0000);
const TABLES_BYTES: u64 = 8 << 20;
const ALL_SIZES: u64 = u64::MAX;
const VTD_SIZES: u64 = PAGE | TWO_MIB | GIB;
const AMD_SIZES: u64 = ((1 << 49) - 1) & !(PAGE - 1);

#[test]
fn vtd_of_four_levels() {
    check::<Vtd>(4, ALL_SIZES, VTD_SIZES);
}

#[test]
fn vtd_of_three_levels() {
    check::<Vtd>(3, ALL_SIZES, VTD_SIZES);
}

#[test]
fn vtd_in_small_pages() {
    check::<Vtd>(4, PAGE, PAGE);
}

#[test]
fn vtd_without_the_largest_pages() {
    check::<Vtd>(4, PAGE | TWO_MIB, PAGE | TWO_MIB);
}

#[test]
fn amd_of_six_levels() {
    check::<Amd>(6, ALL_SIZES, AMD_SIZES);
}

#[test]
fn amd_of_three_levels() {
    check::<Amd>(3, ALL_SIZES, AMD_SIZES);
}

#[test]
fn amd_in_pages_of_three_sizes() {
    check::<Amd>(4, VTD_SIZES, VTD_SIZES);
}

#[test]
fn amd_in_small_pages() {
    check::<Amd>(4, PAGE, PAGE);
}

#[test]
fn smmu_of_four_levels() {
    check::<Smmu>(4, ALL_SIZES, VTD_SIZES);
}

#[test]
fn smmu_of_three_levels() {
    check::<Smmu>(3, ALL_SIZES, VTD_SIZES);
}

#[test]
fn smmu_in_small_pages() {
    check::<Smmu>(4, PAGE, PAGE);
}

/// What can be asked for, the range counted in the pages of a place.
#[derive(Debug, Clone, Copy)]
enum Step {
    Map {
        at: u64,
        bytes: u64,
        memory: u64,
        access: Access,
    },
    Unmap {
        at: u64,
        bytes: u64,
    },
    /// A range that was mapped, if there is one left.
    UnmapMapped {
        which: usize,
    },
    Invalidate,
}

/// The pages by where they begin: memory, bytes, access.
type Pages = BTreeMap<u64, (u64, u64, Access)>;

fn step(last: u64, small: bool) -> impl Strategy<Value = Step> {
    // Around borders of tables of several levels, and at the end.
    let bases = vec![0, GIB - 4 * TWO_MIB, 3 * GIB - 64 * PAGE, last - (4 * TWO_MIB - 1)];
    let offset = prop_oneof![(0_u64..40).prop_map(|n| n * PAGE), (0_u64..8).prop_map(|n| n * TWO_MIB)];
    let at = (select(bases), offset).prop_map(|(base, offset)| base.wrapping_add(offset));
    let whole = if small { 2 * TWO_MIB } else { GIB };
    let bytes = prop_oneof![
        4 => (1_u64..40).prop_map(|n| n * PAGE),
        2 => (1_u64..1200).prop_map(|n| n * PAGE),
        2 => (1_u64..5).prop_map(|n| n * TWO_MIB),
        1 => Just(whole),
        1 => Just(100),
    ];
    let memory =
        prop_oneof![Just(0), Just(TWO_MIB), Just(64 * PAGE), Just(PAGE), Just(1_u64 << 46), Just(1 << 60)];
    let access = select(vec![Access::Read, Access::Write, Access::ReadWrite]);
    prop_oneof![
        4 => (at.clone(), bytes.clone(), memory, access).prop_map(|(at, bytes, apart, access)| {
            // At the same place in a page of any size, or a little off, but for what would be very many pages then; not with all bits
            // of a 64-bit bus.
            let apart = if bytes < GIB { apart } else { apart & !(TWO_MIB - 1) };
            Step::Map { at, bytes, memory: (at % (1 << 40)).wrapping_add(apart), access }
        }),
        2 => (at, bytes).prop_map(|(at, bytes)| Step::Unmap { at, bytes }),
        3 => any::<usize>().prop_map(|which| Step::UnmapMapped { which }),
        1 => Just(Step::Invalidate),
    ]
}

/// Carries out random programs; `sizes` are those that pages are to have.
fn check<F: Walked>(levels: u32, asked_sizes: u64, sizes: u64) {
    let bits = 12 + 9 * levels;
    let last = if bits > 63 { u64::MAX } else { (1 << bits) - 1 };
    let program = prop::collection::vec(step(last, sizes == PAGE), 1..30);
    let probes = prop::collection::vec(any::<u64>(), 8);
    // Fewer than usual where nothing else is said: a case has thousands of walks.
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = if asked { ProptestConfig::default() } else { ProptestConfig::with_cases(24) };
    let mut runner = TestRunner::new(config);
    runner
        .run(&(program, probes), |(program, probes)| {
            let ram = Arc::new(Ram::new(TABLES, TABLES_BYTES));
            let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
            let table = Radix::<F>::new(Arc::clone(&ram), Arc::clone(&frames), levels).unwrap();
            let table = table.with_page_sizes(asked_sizes);
            let (mut pages, mut ranges) = (Pages::new(), Vec::new());
            for step in program {
                carry_out(&table, step, sizes, &mut pages, &mut ranges);
                compare(&table, &ram, &pages, &probes, 61);
            }
            compare(&table, &ram, &pages, &probes, 1);
            drop(table);
            prop_assert_eq!(
                std::iter::from_fn(|| frames.allocate().ok()).count() as u64,
                TABLES_BYTES / PAGE
            );
            Ok(())
        })
        .unwrap();
}

fn carry_out<F: Walked>(
    table: &Radix<F>,
    step: Step,
    sizes: u64,
    pages: &mut Pages,
    ranges: &mut Vec<(u64, u64)>,
) {
    let mut counters = DmaCounters::default();
    match step {
        Step::Map { at, bytes, memory, access } => {
            let expected = expected_map::<F>(table, pages, at, bytes, memory);
            let mapped = table.map(BusAddress(at), MemoryAddress(memory), bytes, access, &mut counters);
            assert_eq!(mapped.clone().map(|_| ()), expected, "{step:x?}");
            if mapped.is_ok() {
                add(pages, sizes, at, bytes, memory, access);
                ranges.push((at, bytes));
            }
        }
        Step::Unmap { at, bytes } => unmap(table, pages, at, bytes, &mut counters),
        Step::UnmapMapped { which } if !ranges.is_empty() => {
            let (at, bytes) = ranges.swap_remove(which % ranges.len());
            unmap(table, pages, at, bytes, &mut counters);
        }
        Step::UnmapMapped { .. } => {}
        Step::Invalidate => {
            table.all_invalidated(|| {});
            assert_eq!(table.quarantined(), 0);
        }
    }
}

fn unmap<F: Walked>(table: &Radix<F>, pages: &mut Pages, at: u64, bytes: u64, counters: &mut DmaCounters) {
    let expected = expected_unmap(pages, at, bytes);
    assert_eq!(table.unmap(BusAddress(at), bytes, counters), expected, "{bytes:#x} at {at:#x}");
    if expected.is_ok() {
        let end = at.wrapping_add(bytes).wrapping_sub(1);
        let gone: Vec<u64> = pages.range(at..=end).map(|(at, _)| *at).collect();
        gone.iter().for_each(|at| _ = pages.remove(at));
    }
}

fn expected_map<F: Walked>(
    table: &Radix<F>,
    pages: &Pages,
    at: u64,
    bytes: u64,
    memory: u64,
) -> Result<(), MapError> {
    let (bus, last) = (BusAddress(at), table.last());
    if (at | bytes | memory) % PAGE != 0 {
        let memory = MemoryAddress(memory);
        return Err(MapError::Unaligned { at: bus, memory, bytes, granule_bytes: PAGE });
    }
    if at.checked_add(bytes - 1).is_none_or(|end| end > last.0) {
        return Err(MapError::Outside { at: bus, bytes, first: BusAddress(0), last });
    }
    if memory + (bytes - 1) > F::MEMORY_LAST.0 {
        return Err(MapError::Unreachable { memory: MemoryAddress(memory) });
    }
    let begun_before = page_of(pages, at).map(|_| at);
    match begun_before.or_else(|| pages.range(at..=at + (bytes - 1)).next().map(|(at, _)| *at)) {
        Some(at) => Err(MapError::Mapped { at: BusAddress(at) }),
        None => Ok(()),
    }
}

fn expected_unmap(pages: &Pages, at: u64, bytes: u64) -> Result<(), UnmapError> {
    if (at | bytes) % PAGE != 0 {
        return Err(UnmapError::Unaligned { at: BusAddress(at), bytes, granule_bytes: PAGE });
    }
    let mut done = 0;
    while done < bytes {
        let Some(next) = at.checked_add(done) else {
            return Err(UnmapError::NotMapped { at: BusAddress(u64::MAX) });
        };
        let Some((first, _, page_bytes, _)) = page_of(pages, next) else {
            return Err(UnmapError::NotMapped { at: BusAddress(next) });
        };
        if first != next || page_bytes > bytes - done {
            return Err(UnmapError::CutsPage { at: BusAddress(first), page_bytes });
        }
        done += page_bytes;
    }
    Ok(())
}

fn page_of(pages: &Pages, at: u64) -> Option<(u64, u64, u64, Access)> {
    let (first, (memory, bytes, access)) = pages.range(..=at).next_back()?;
    (at - first < *bytes).then_some((*first, *memory, *bytes, *access))
}

/// The largest page that fits, again and again.
fn add(pages: &mut Pages, sizes: u64, at: u64, bytes: u64, memory: u64, access: Access) {
    let mut done = 0;
    while done < bytes {
        let (at, memory) = (at + done, memory + done);
        let fits = |bits: &u32| {
            let page = 1 << bits;
            sizes & page != 0 && at % page == 0 && memory % page == 0 && page <= bytes - done
        };
        let page_bytes = 1 << (12..64).rev().find(fits).unwrap();
        pages.insert(at, (memory, page_bytes, access));
        done += page_bytes;
    }
}

/// What the IOMMU reads, at the edges of each so manieth page and at addresses of any kind, and what the writer says.
fn compare<F: Walked>(table: &Radix<F>, ram: &Ram, pages: &Pages, probes: &[u64], each: usize) {
    let walker = F::walker(table);
    let edges = pages
        .iter()
        .step_by(each)
        .flat_map(|(at, (_, bytes, _))| [at.wrapping_sub(1), *at, at + (bytes - 1)]);
    let probed =
        probes.iter().flat_map(|probe| [*probe, probe % GIB, probe % TWO_MIB, GIB - probe % (9 * TWO_MIB)]);
    for at in edges.chain(probed) {
        let mut reads = 0;
        let seen = walker.walk(ram, BusAddress(at), &mut reads);
        let expected = page_of(pages, at);
        assert!(reads <= u64::from(table.levels()));
        match (seen, expected) {
            (Err(WalkFault::NotPresent { .. }), None) => {}
            (Err(WalkFault::BeyondWidth), None) => assert!(at > table.last().0),
            (Ok(leaf), Some((_, memory, page_bytes, access))) => {
                let page = Leaf { memory: MemoryAddress(memory), page_bytes, access: given::<F>(access) };
                assert_eq!(leaf, page, "at {at:#x}");
            }
            different => panic!("at {at:#x}: {different:x?}"),
        }
        let leads = expected.map(|(first, memory, ..)| MemoryAddress(memory + (at - first)));
        assert_eq!(table.find(BusAddress(at)), leads);
    }
}

/// What a format makes of an access: Arm's stage 1 can't forbid reading what may be written.
fn given<F: Walked>(access: Access) -> Access {
    let is_arm = std::any::TypeId::of::<F>() == std::any::TypeId::of::<Smmu>();
    if is_arm && access == Access::Write { Access::ReadWrite } else { access }
}
