//! The readers of tables against entries written down by hand from the specifications: what they allow, and what they refuse.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Access, BusAddress, ByteOrder, Leaf, MemoryAddress, Ram, Walk, WalkAmd, WalkFault, WalkSmmu, WalkVtd,
};

const ROOT: u64 = 0x1000;
const RAM_BYTES: u64 = 0x8000;

/// Entries, each by its address.
type Entries<'a> = &'a [(u64, u64)];

fn walk(walker: &dyn Walk, entries: Entries<'_>, at: u64) -> Result<Leaf, WalkFault> {
    let ram = Ram::new(MemoryAddress(0), RAM_BYTES);
    for (place, entry) in entries {
        ram.write_u64(MemoryAddress(*place), ByteOrder::Little, *entry).unwrap();
    }
    walker.walk(&ram, BusAddress(at), &mut 0)
}

fn leaf(memory: u64, page_bytes: u64, access: Access) -> Result<Leaf, WalkFault> {
    Ok(Leaf { memory: MemoryAddress(memory), page_bytes, access })
}

fn vtd(levels: u32) -> WalkVtd {
    WalkVtd { root: MemoryAddress(ROOT), levels, host_bits: 46, page_level_max: 2 }
}

#[test]
fn vtd_tables_translate_as_specified() {
    // Bits 47-39: 1, 38-30: 2, 29-21: 3, 20-12: 4.
    let at = 1 << 39 | 2 << 30 | 3 << 21 | 4 << 12 | 0x567;
    let tables =
        [(ROOT + 8, 0x2003), (0x2000 + 16, 0x3003), (0x3000 + 24, 0x4003), (0x4000 + 32, 0xabc_d003)];
    assert_eq!(walk(&vtd(4), &tables, at), leaf(0xabc_d000, 0x1000, Access::ReadWrite));
    let lead = walk(&vtd(4), &tables, at).unwrap().lead(BusAddress(at));
    assert_eq!(lead, MemoryAddress(0xabc_d567));
    let with = |place: usize, entry: u64| {
        let mut changed = tables;
        changed[place].1 = entry;
        walk(&vtd(4), &changed, at)
    };
    // What any level forbids is forbidden.
    assert_eq!(with(0, 0x2001), leaf(0xabc_d000, 0x1000, Access::Read));
    assert_eq!(with(2, 0x4002), leaf(0xabc_d000, 0x1000, Access::Write));
    let mut apart = tables;
    (apart[1].1, apart[3].1) = (0x3001, 0xabc_d002);
    assert_eq!(walk(&vtd(4), &apart, at), Err(WalkFault::NoAccess));
    // A page of 2 MiB; its address must be aligned. Those of 1 GiB this unit does not have.
    assert_eq!(with(2, 0x60_0083), leaf(0x60_0000, 2 << 20, Access::ReadWrite));
    assert_eq!(with(2, 0x60_1083), Err(WalkFault::Reserved { level: 2, entry: 0x60_1083 }));
    assert_eq!(with(1, 0x4000_0083), Err(WalkFault::Reserved { level: 3, entry: 0x4000_0083 }));
    let largest = WalkVtd { page_level_max: 3, ..vtd(4) };
    let mut gib = tables;
    gib[1].1 = 0x4000_0083;
    assert_eq!(walk(&largest, &gib, at), leaf(0x4000_0000, 1 << 30, Access::ReadWrite));
    // Bits above the host's addresses; the highest that are not.
    let beyond = 1 << 46 | 0x2003;
    assert_eq!(with(0, beyond), Err(WalkFault::Reserved { level: 4, entry: beyond }));
    assert_eq!(with(3, 1 << 45 | 3), leaf(1 << 45, 0x1000, Access::ReadWrite));
    // An entry that allows nothing is not there, whatever else it says.
    assert_eq!(with(1, !3), Err(WalkFault::NotPresent { level: 3 }));
    assert_eq!(with(0, 0x9003), Err(WalkFault::NoTable { level: 3 }));
    assert_eq!(walk(&vtd(4), &tables, at | 1 << 48), Err(WalkFault::BeyondWidth));
    let three = WalkVtd { root: MemoryAddress(0x2000), ..vtd(3) };
    assert_eq!(walk(&three, &tables, at & ((1 << 39) - 1)), walk(&vtd(4), &tables, at));
    assert_eq!(walk(&three, &tables, at), Err(WalkFault::BeyondWidth));
}

const AMD_TABLE: u64 = 3 << 61 | 1;
const AMD_PAGE: u64 = 3 << 61 | 1 << 60 | 1;

fn amd(levels: u32) -> WalkAmd {
    WalkAmd { root: MemoryAddress(ROOT), levels }
}

#[test]
fn amd_tables_translate_as_specified() {
    let at = 2 << 30 | 3 << 21 | 5 << 12 | 0x567;
    let tables = [
        (ROOT + 16, AMD_TABLE | 2 << 9 | 0x3000),
        (0x3000 + 24, AMD_TABLE | 1 << 9 | 0x4000),
        (0x4000 + 40, AMD_PAGE | 0xabc_d000),
    ];
    assert_eq!(walk(&amd(3), &tables, at), leaf(0xabc_d000, 0x1000, Access::ReadWrite));
    let with = |place: usize, entry: u64| {
        let mut changed = tables;
        changed[place].1 = entry;
        walk(&amd(3), &changed, at)
    };
    let reserved = |level: u32, entry: u64| Err(WalkFault::Reserved { level, entry });
    assert_eq!(with(0, tables[0].1 & !(1 << 62)), leaf(0xabc_d000, 0x1000, Access::Read));
    assert_eq!(with(1, tables[1].1 & !(1 << 61)), leaf(0xabc_d000, 0x1000, Access::Write));
    assert_eq!(with(2, AMD_PAGE & !(3 << 61)), Err(WalkFault::NoAccess));
    assert_eq!(with(1, tables[1].1 & !1), Err(WalkFault::NotPresent { level: 2 }));
    // Level 0: a page of the level's own size.
    assert_eq!(with(1, AMD_PAGE | 0x60_0000), leaf(0x60_0000, 2 << 20, Access::ReadWrite));
    assert_eq!(with(1, AMD_PAGE | 0x60_1000), reserved(2, AMD_PAGE | 0x60_1000));
    // Level 7: the lowest zero of the address, from bit 12 on, is the bit below the size's.
    assert_eq!(with(2, AMD_PAGE | 7 << 9 | 0xabc_c000), leaf(0xabc_c000, 0x2000, Access::ReadWrite));
    assert_eq!(with(2, AMD_PAGE | 7 << 9 | 0xab4_7000), leaf(0xab4_0000, 0x1_0000, Access::ReadWrite));
    // 2 MiB is the next level's own size, and 1 MiB below that of the entry.
    let as_large = AMD_PAGE | 7 << 9 | 0xf_f000;
    assert_eq!(
        (with(2, as_large), with(1, as_large & !0x8_0000)),
        (reserved(1, as_large), reserved(2, as_large & !0x8_0000))
    );
    // A table of its own level or above, and bits that nobody has given a meaning.
    let upward = AMD_TABLE | 2 << 9 | 0x4000;
    assert_eq!(with(1, upward), reserved(2, upward));
    assert_eq!(with(0, tables[0].1 | 1 << 52), reserved(3, tables[0].1 | 1 << 52));
    assert_eq!(with(2, tables[2].1 | 1 << 58), reserved(1, tables[2].1 | 1 << 58));
    assert_eq!(walk(&amd(3), &tables, at | 1 << 39), Err(WalkFault::BeyondWidth));
}

#[test]
fn amd_leaves_levels_out() {
    // From level 6 to level 1, where all bits between are zero.
    let tables = [(ROOT + 8 * 0x7f, AMD_TABLE | 1 << 9 | 0x4000), (0x4000 + 40, AMD_PAGE | 0x7000)];
    let at = 0x7f << 57 | 5 << 12;
    assert_eq!(walk(&amd(6), &tables, at), leaf(0x7000, 0x1000, Access::ReadWrite));
    assert_eq!(walk(&amd(6), &tables, at | 1 << 21), Err(WalkFault::NotPresent { level: 6 }));
    assert_eq!(walk(&amd(6), &tables, at | 1 << 56), Err(WalkFault::NotPresent { level: 6 }));
}

/// Accessed, inner shareable, for unprivileged accesses, writable; a page.
const ARM_PAGE: u64 = 0x743;

#[test]
fn smmu_tables_translate_as_specified() {
    let at = 1 << 39 | 2 << 30 | 3 << 21 | 4 << 12 | 0x567;
    let tables = [
        (ROOT + 8, 0x2003),
        (0x2000 + 16, 0x3003),
        (0x3000 + 24, 0x4003),
        (0x4000 + 32, 0xabc_d000 | ARM_PAGE),
    ];
    let smmu = WalkSmmu { root: MemoryAddress(ROOT), address_bits: 48 };
    assert_eq!(walk(&smmu, &tables, at), leaf(0xabc_d000, 0x1000, Access::ReadWrite));
    let with = |place: usize, entry: u64| {
        let mut changed = tables;
        changed[place].1 = entry;
        walk(&smmu, &changed, at)
    };
    let reserved = |level: u32, entry: u64| Err(WalkFault::Reserved { level, entry });
    // AP[2], AP[1], and the access flag.
    assert_eq!(with(3, tables[3].1 | 1 << 7), leaf(0xabc_d000, 0x1000, Access::Read));
    assert_eq!(with(3, tables[3].1 & !(1 << 6)), Err(WalkFault::NoAccess));
    assert_eq!(with(3, tables[3].1 & !(1 << 10)), Err(WalkFault::NotAccessed { level: 3 }));
    // APTable: what a table forbids for all below it.
    assert_eq!(with(0, 0x2003 | 1 << 62), leaf(0xabc_d000, 0x1000, Access::Read));
    assert_eq!(with(2, 0x4003 | 1 << 61), Err(WalkFault::NoAccess));
    // Blocks of 2 MiB and 1 GiB; none at levels 0 and 3; their addresses are aligned.
    let block = ARM_PAGE & !2;
    assert_eq!(with(2, 0x60_0000 | block), leaf(0x60_0000, 2 << 20, Access::ReadWrite));
    assert_eq!(with(1, 0x4000_0000 | block), leaf(0x4000_0000, 1 << 30, Access::ReadWrite));
    assert_eq!(with(2, 0x62_0000 | block), reserved(2, 0x62_0000 | block));
    assert_eq!(with(0, block), reserved(0, block));
    assert_eq!(with(3, 0xabc_d000 | block), reserved(3, 0xabc_d000 | block));
    assert_eq!(with(1, 0x3002), Err(WalkFault::NotPresent { level: 1 }));
    assert_eq!(walk(&smmu, &tables, at | 1 << 48), Err(WalkFault::BeyondWidth));
    // 39 bits: from level 1 on.
    let short = WalkSmmu { root: MemoryAddress(0x2000), address_bits: 39 };
    assert_eq!(walk(&short, &tables, at & ((1 << 39) - 1)), leaf(0xabc_d000, 0x1000, Access::ReadWrite));
    assert_eq!(walk(&short, &tables, at), Err(WalkFault::BeyondWidth));
}

#[test]
fn tables_of_no_height_translate_nothing() {
    let senseless: [&dyn Walk; 8] = [
        &vtd(0),
        &vtd(6),
        &vtd(99),
        &amd(0),
        &amd(7),
        &amd(u32::MAX),
        &WalkSmmu { root: MemoryAddress(ROOT), address_bits: 0 },
        &WalkSmmu { root: MemoryAddress(ROOT), address_bits: 99 },
    ];
    for walker in senseless {
        assert_eq!(walk(walker, &[(ROOT, u64::MAX)], 0), Err(WalkFault::BeyondWidth));
    }
}
