//! POWER: properties of the device tree, `lparcfg`, and the prediction of 64-bit windows.

use crate::text;
use arbitrary::{Arbitrary, Unstructured};
use ddw::{Era, Hypercalls, Outcome, PageSizes, Query, Request, TceCalls, predict, tces_of};
use host::power::distribution::Distribution;
use host::power::firmware::FirmwareLevel;
use host::power::location::location_codes;
use host::power::memory::{self, MemoryFacts, MemoryRule, maximum_memory};
use host::power::partition::{self, MachineType};
use host::power::slots::{Placement, SlotTables};
use host::power::window::{self, DdwKind, DmaCells};
use host::power::{device_tree as property, lparcfg};
use host::{Citation, Cited};
use std::sync::LazyLock;

static TABLES: LazyLock<Option<SlotTables>> = LazyLock::new(|| SlotTables::builtin().ok());

/// One property's bytes, read as every property there is. The first byte lays out the windows' cells.
pub fn device_tree(data: &[u8]) {
    let Some((layout, bytes)) = data.split_first() else { return };
    scalars(bytes);
    windows(*layout, bytes);
    memory_properties(*layout, bytes);
    placement(bytes);
    let text = lparcfg::lparcfg(&text("proc/powerpc/lparcfg", bytes));
    let _ = (text.memory_max_bytes(), text.partition_name(), text.system_type());
    let _ = (text.serial_number(), text.memory_is_shared());
}

fn scalars(bytes: &[u8]) {
    let _ = (property::u32_cell("p", bytes), property::u64_cells("p", bytes), property::number("p", bytes));
    let _ = (property::cells("p", bytes), property::string("p", bytes), property::strings("p", bytes));
    let _ = property::counted_strings("p", bytes).map_err(|error| error.to_string());
    let _ =
        (partition::system_id(bytes), partition::partition_name(bytes), partition::partition_number(bytes));
    let _ = partition::is_qemu(&String::from_utf8_lossy(bytes));
}

fn windows(layout: u8, bytes: &[u8]) {
    let cells = [layout & 3, layout >> 2 & 7].map(|count| [0, 0, 0, count]);
    if let Ok(layout) = DmaCells::from_properties(Some(&cells[0]), None, None, Some(&cells[1])) {
        let found = [window::default_window(bytes, layout), window::saved_window(bytes, layout)];
        for window in
            found.into_iter().flatten().chain(window::virtual_windows(bytes, layout).into_iter().flatten())
        {
            let _ = (window.tces(), window.below_4_gib(), window.to_string());
        }
    }
    for kind in [DdwKind::Direct, DdwKind::Dynamic] {
        if let Ok(ddw) = window::ddw(kind, bytes) {
            let _ = (ddw.size_bytes(), ddw.tces(), ddw.covers(ddw.base), ddw.to_string());
            let _ = [0, 32, 64, 200].map(|bits| ddw.within_mask(bits));
        }
    }
    let _ = (window::ddw_applicable(bytes), window::ddw_extensions(bytes));
}

fn memory_properties(layout: u8, bytes: &[u8]) {
    fn cited<T>(value: T) -> Cited<T> {
        Cited::new(value, Citation::of_file("p", ""))
    }
    let lmbs = if layout & 1 == 0 { memory::dynamic_memory(bytes) } else { memory::dynamic_memory_v2(bytes) };
    let facts = MemoryFacts {
        lrdr_memory_max_bytes: memory::lrdr_capacity(bytes).ok().map(|found| cited(found.memory_max_bytes)),
        lmb_bytes: bytes.first_chunk().map(|first| cited(u64::from_be_bytes(*first))),
        lmbs: lmbs.ok().map(cited),
        ranges: memory::memory_reg(bytes).into_iter().flatten().map(cited).collect(),
    };
    for rule in [MemoryRule::LmbCount, MemoryRule::Lrdr, MemoryRule::LrdrAndNodes] {
        let _ = maximum_memory(rule, &facts);
    }
}

fn placement(bytes: &[u8]) {
    let machine = MachineType::from_property(bytes).ok();
    let firmware = FirmwareLevel::from_property(bytes).ok();
    let mut locations = location_codes(bytes).into_iter().flatten().flatten();
    let location = locations.next();
    let words = String::from_utf8_lossy(bytes);
    let distribution = words.split_once(' ').and_then(|(id, version)| Distribution::new(id, version));
    if let Some(location) = &location {
        let _ =
            (location.planar(), location.slot(), location.port(), location.slot_code(), location.to_string());
        let _ = (location.is_virtual(), location.may_be_system_unit());
    }
    let placement = Placement {
        machine: machine.as_ref(),
        firmware: firmware.as_ref(),
        location: location.as_ref(),
        distribution: distribution.as_ref(),
    };
    let _ = TABLES.as_ref().map(|tables| tables.advice(&placement));
}

#[derive(Debug, Arbitrary)]
struct Asked {
    kernel: (u8, u8, u8),
    rhel: Option<u8>,
    era: u8,
    mask_bits: u32,
    memory_max_bytes: u64,
    flags: u8,
    query: Option<(u32, u64, u32)>,
    mapping: (u64, u64, u8),
}

/// What a kernel decides about a 64-bit window, and what mappings cost.
pub fn ddw(data: &[u8]) {
    let Ok(asked) = Asked::arbitrary(&mut Unstructured::new(data)) else { return };
    let (major, minor, patch) = asked.kernel;
    let _ = Era::of((major.into(), minor.into(), patch.into()), asked.rhel.map(u32::from)).era.source_trees();
    let request = Request {
        era: Era::ALL[usize::from(asked.era) % Era::ALL.len()],
        mask_bits: asked.mask_bits,
        memory_max_bytes: asked.memory_max_bytes,
        disable_ddw: asked.flags & 1 != 0,
        persistent_memory: asked.flags & 2 != 0,
    };
    let query = asked.query.map(|(windows_available, block_tces, sizes)| Query {
        windows_available,
        block_tces,
        page_sizes: PageSizes(sizes),
        reset: asked.flags & 4 != 0,
        limited_addressing: asked.flags & 8 != 0,
    });
    check(&request, query.as_ref());
    let (address, bytes, shift) = asked.mapping;
    for calls in [TceCalls::Single, TceCalls::Multi] {
        let tces = tces_of(address, bytes, shift.into()).unwrap_or(bytes);
        let mut sum = Hypercalls::map(tces, calls) + Hypercalls::unmap(tces, calls);
        sum += sum;
        assert!(sum.total() >= sum.put);
    }
}

fn check(request: &Request, query: Option<&Query>) {
    let prediction = predict(request, query);
    match prediction.outcome {
        Outcome::Direct { window_shift, .. } => {
            let bytes = 1_u128.checked_shl(window_shift).unwrap_or(u128::MAX);
            // Beyond 2^51 bytes Linux has no memory, and its own arithmetic stops there.
            let memory = u128::from(request.memory_max_bytes).min(1 << 51);
            assert!(bytes >= memory, "not all memory is in it: {prediction:?}");
        }
        Outcome::Hybrid { window_shift, dynamic_from_shift, .. } => {
            assert!(dynamic_from_shift <= window_shift, "{prediction:?}");
        }
        Outcome::Dynamic { .. } => {}
        Outcome::Default { reason } => {
            assert!(!prediction.steps.is_empty(), "{reason:?} without a step");
        }
    }
}
