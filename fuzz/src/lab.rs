//! Inputs of the lab: records, QEMU's log, symbols, modules, presets.

use lab::Arch;
use lab::kernel::ModInfo;
use lab::preset::Presets;
use lab::record::Record;
use lab::stack::Landmarks;
use lab::stage::StageTable;
use lab::symbols::Symbols;
use lab::window::{Layout, WindowCounter};
use lab::workload::Workload;
use lab::{qemu_command, replay, trace};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Symbols at the addresses of the records in the corpus.
const SYMBOLS: &str = "\
ffffffff81000000 T entry_SYSCALL_64
ffffffff81000100 T iommu_dma_map_page
ffffffff81000200 t asm_common_interrupt
ffffffff81000300 T _etext
ffffffffc0001000 t nvme_irq [nvme]
";

/// Parsed once, because parsing takes longer than an input.
static TABLE: LazyLock<StageTable> = LazyLock::new(StageTable::built_in);

/// The plugin's record: its windows are counted, and it is read again for their stacks. The input follows the magic, which
/// a mutation would nearly always destroy.
pub fn lab_record(data: &[u8]) {
    let bytes = [b"IOTOLLR2", data].concat();
    let Ok(symbols) = Symbols::parse(SYMBOLS) else { return };
    let stages = TABLE.stages(&symbols);
    let mut counter = WindowCounter::new(&symbols, &stages, Layout::of(Arch::X86));
    let Ok(windows) = Record::new(bytes.as_slice()).and_then(|mut record| counter.count(&mut record)) else {
        return;
    };
    for window in &windows {
        // Every instruction counts for one function and one stage, even in a meaningless record.
        assert_eq!(window.functions.values().sum::<u64>(), window.instructions);
        assert_eq!(window.stages.values().sum::<u64>(), window.instructions);
    }
    let landmarks = Landmarks::new(&symbols, Arch::X86);
    let numbers: BTreeSet<u64> = windows.iter().map(|window| window.number).collect();
    let stacks = Record::new(bytes.as_slice())
        .and_then(|mut record| replay::stacks(&mut record, &symbols, &landmarks, &numbers));
    assert!(stacks.is_ok(), "a record that was read once can be read again");
}

/// QEMU's log.
pub fn lab_trace(data: &[u8]) {
    let _ = trace::read_log(data);
}

/// The guest's symbols and their stages.
pub fn lab_symbols(data: &[u8]) {
    let Ok(symbols) = Symbols::parse(&String::from_utf8_lossy(data)) else { return };
    let stages = TABLE.stages(&symbols);
    for address in [0, 0x900, 0x7000_0000, 0xffff_ffff_8100_0010, u64::MAX] {
        let _ = stages.own(symbols.code(address));
        let _ = symbols.entry(address);
    }
    for arch in [Arch::X86, Arch::Arm, Arch::Ppc] {
        let _ = Landmarks::new(&symbols, arch);
    }
}

/// A kernel module's file, and its section .modinfo alone.
pub fn lab_module(data: &[u8]) {
    let _ = ModInfo::of_module(data).map(|info| info.release().map(str::len));
    let _ = ModInfo::of_section(data);
}

/// A user's presets, their workloads and their kernel command lines.
pub fn lab_presets(data: &[u8]) {
    let Ok(presets) = Presets::parse(&String::from_utf8_lossy(data), "mine.toml") else { return };
    for preset in presets.iter() {
        let _ = Workload::select(preset, &[preset.what.clone()]);
        let _ = qemu_command::kernel_command_line(preset, 2);
        let _ = preset.series.parse::<lab::kernel::Series>();
        let _ = presets.get(&preset.what);
    }
}
