//! Counts the instructions of each window, by function and by stage.

use crate::record::{DeviceAccess, Record, RecordError, Step};
use crate::stage::{StageTracker, Stages};
use crate::symbols::{Code, FunctionId, Symbols};
use std::collections::BTreeMap;
use std::io::Read;
use toll::Stage;

/// The counts of one window: the code between two marks of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Its number in the record; windows are numbered from 0 in the order of their begins.
    pub number: u64,
    /// The workload's number.
    pub phase: u64,
    /// The number of I/Os in it.
    pub ios: u64,
    /// The virtual CPU that it ran on.
    pub vcpu: u32,
    /// Instructions begun.
    pub instructions: u64,
    /// Instructions by function.
    pub functions: BTreeMap<Code, u64>,
    /// Instructions by stage.
    pub stages: BTreeMap<Stage, u64>,
    /// How often each function was entered.
    pub calls: BTreeMap<FunctionId, u64>,
    /// Repetitions of string instructions beyond the first.
    pub repeats: u64,
    /// Writes of devices' registers, by region.
    pub device_writes: BTreeMap<String, u64>,
    /// Reads of devices' registers, by region.
    pub device_reads: BTreeMap<String, u64>,
    /// Stores of 8 bytes to the kernel's linear map by functions of the stage `table-write`.
    pub table_stores: u64,
    /// A user-space driver's polls for completions.
    pub polls: u64,
}

/// Consecutive instructions of a block that belong to one function.
struct Run {
    code: Code,
    instructions: u64,
}

/// A block that QEMU translated.
struct Block {
    runs: Vec<Run>,
    /// The function that is entered at the block's first instruction.
    entry: Option<FunctionId>,
}

/// Reads a record and counts its windows.
pub struct WindowCounter<'a> {
    symbols: &'a Symbols,
    stages: &'a Stages,
    layout: Layout,
    blocks: Vec<Block>,
    phase: u64,
    ios: u64,
    vcpu: u32,
    /// The current window of each virtual CPU.
    open: BTreeMap<u32, OpenWindow>,
    /// Windows begun so far.
    begun: u64,
    /// The milliseconds that the plugin last waited for devices in vain.
    waited_ms: Option<u32>,
    /// The same, of the first time before a window ended. What happens behind the last window counts nowhere.
    pub gave_up_ms: Option<u32>,
}

/// A window that has begun and not ended.
#[derive(Default)]
struct OpenWindow {
    window: Window,
    tracker: StageTracker,
    /// Stores made by the next block.
    stores: u64,
    /// While paused, only device accesses are counted: the CPU is waiting.
    paused: bool,
}

impl<'a> WindowCounter<'a> {
    /// A counter for one record.
    pub fn new(symbols: &'a Symbols, stages: &'a Stages, layout: Layout) -> Self {
        Self {
            symbols,
            stages,
            layout,
            blocks: Vec::new(),
            phase: 0,
            ios: 1,
            vcpu: 0,
            open: BTreeMap::new(),
            begun: 0,
            waited_ms: None,
            gave_up_ms: None,
        }
    }

    /// Reads a whole record. The windows are in the order of their ends.
    ///
    /// # Errors
    /// [`RecordError`] if the record is truncated or invalid.
    pub fn count(&mut self, record: &mut Record<impl Read>) -> Result<Vec<Window>, RecordError> {
        let mut windows = Vec::new();
        while let Some(step) = record.next_step()? {
            windows.extend(self.process(step));
        }
        Ok(windows)
    }

    /// Processes one event of the record. Returns a window when it ends.
    fn process(&mut self, step: Step) -> Option<Window> {
        match step {
            Step::Block { addresses } => self.blocks.push(self.split_block(&addresses)),
            Step::Vcpu(vcpu) => self.vcpu = vcpu,
            Step::Phase(phase) => (self.phase, self.ios) = (phase, 1),
            Step::IosPerWindow(ios) => self.ios = ios,
            Step::GaveUp(milliseconds) => self.waited_ms = Some(milliseconds),
            Step::Begin => self.begin(),
            Step::End => {
                self.gave_up_ms = self.gave_up_ms.or(self.waited_ms);
                return self.open.remove(&self.vcpu).map(|open| open.window);
            }
            Step::Ran { block, begun } => {
                if let Some(open) = self.open.get_mut(&self.vcpu).filter(|open| !open.paused) {
                    open.execute(&self.blocks[block as usize], begun, self.stages);
                }
            }
            Step::Pause => self.change_open(|open| open.paused = true),
            Step::Resume => self.change_open(|open| open.paused = false),
            Step::Poll => self.change_open(|open| open.window.polls += 1),
            Step::Repeated(times) => self.change_unpaused(|open| open.window.repeats += u64::from(times)),
            Step::Device(access) => self.change_open(|open| open.window.count_device_access(access)),
            Step::Store => self.change_unpaused(|open| open.stores += 1),
        }
        None
    }

    /// Changes the current virtual CPU's window, if it has one.
    fn change_open(&mut self, change: impl FnOnce(&mut OpenWindow)) {
        if let Some(open) = self.open.get_mut(&self.vcpu) {
            change(open);
        }
    }

    /// Changes the current virtual CPU's window, if it has one that is not paused.
    fn change_unpaused(&mut self, change: impl FnOnce(&mut OpenWindow)) {
        if let Some(open) = self.open.get_mut(&self.vcpu).filter(|open| !open.paused) {
            change(open);
        }
    }

    /// Begins a window on the current virtual CPU.
    fn begin(&mut self) {
        let (number, phase, ios, vcpu) = (self.begun, self.phase, self.ios, self.vcpu);
        let window = Window { number, phase, ios, vcpu, ..Window::default() };
        self.begun += 1;
        self.open.insert(self.vcpu, OpenWindow { window, ..OpenWindow::default() });
    }

    /// Splits a block, given by its instructions' addresses, where the function changes.
    fn split_block(&self, addresses: &[u64]) -> Block {
        let mut runs: Vec<Run> = Vec::new();
        for &address in addresses {
            let code = self.symbols.code(address);
            match runs.last_mut() {
                Some(run) if run.code == code => run.instructions += 1,
                _ => runs.push(Run { code, instructions: 1 }),
            }
        }
        let entry = addresses.first().and_then(|address| self.layout.entry(self.symbols, *address));
        Block { runs, entry }
    }
}

impl OpenWindow {
    /// Counts the first `begun` instructions of a block.
    fn execute(&mut self, block: &Block, begun: u32, stages: &Stages) {
        let mut left = u64::from(begun);
        if let Some(entry) = block.entry.filter(|_| left > 0) {
            *self.window.calls.entry(entry).or_default() += 1;
        }
        let mut enters = block.entry.is_some();
        for run in &block.runs {
            let instructions = run.instructions.min(left);
            left -= instructions;
            if instructions == 0 {
                break;
            }
            let stage = stages.next(run.code, enters, &mut self.tracker);
            // A block goes on in the function behind it.
            enters = true;
            self.window.instructions += instructions;
            *self.window.functions.entry(run.code).or_default() += instructions;
            *self.window.stages.entry(stage).or_default() += instructions;
        }
        let stores = std::mem::take(&mut self.stores);
        if stages.writes_tables(block.runs.first().map(|run| run.code)) {
            self.window.table_stores += stores;
        }
    }
}

impl Window {
    fn count_device_access(&mut self, access: DeviceAccess) {
        let accesses = if access.write { &mut self.device_writes } else { &mut self.device_reads };
        *accesses.entry(access.region).or_default() += 1;
    }

    /// Instructions in user mode.
    pub fn user_instructions(&self) -> u64 {
        let of_user = self.functions.iter().filter(|(code, _)| code.is_user());
        of_user.map(|(_, instructions)| instructions).sum()
    }
}

/// An architecture's kernel address ranges and function entries.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Start and end of the linear maps of memory, without randomisation. The kernel's stacks are not in them.
    pub linear_maps: &'static [(u64, u64)],
    /// Bytes from a function's symbol to the local entry, where the kernel's own calls enter it.
    local_entry: u64,
}

impl Layout {
    /// The layout of an architecture's kernels.
    pub fn of(arch: crate::Arch) -> Self {
        match arch {
            // Documentation/arch/x86/x86_64/mm.rst: direct mapping with tables of 4 and 5 levels.
            crate::Arch::X86 => Self {
                linear_maps: &[
                    (0xffff_8880_0000_0000, 0xffff_c880_0000_0000),
                    (0xff11_0000_0000_0000, 0xff91_0000_0000_0000),
                ],
                local_entry: 0,
            },
            // Documentation/arm64/memory.rst: kernel logical memory map, 48-bit addresses.
            crate::Arch::Arm => {
                Self { linear_maps: &[(0xffff_0000_0000_0000, 0xffff_8000_0000_0000)], local_entry: 0 }
            }
            // The hypervisor writes a partition's translation tables, so no store of the kernel is an entry.
            // Callers with the same TOC skip the two instructions that set it (64-bit ELF V2 ABI, 2.3.2.1).
            crate::Arch::Ppc => Self { linear_maps: &[], local_entry: 8 },
        }
    }

    /// The function that calls enter at an address.
    fn entry(&self, symbols: &Symbols, address: u64) -> Option<FunctionId> {
        symbols.entry(address).or_else(|| symbols.entry(address.checked_sub(self.local_entry)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::stage::StageTable;

    const TEXT: &str = "\
ffffffff81000000 vfs_read
ffffffff81000008 nvme_queue_rq
ffffffff81000100 __domain_mapping
";

    fn windows(words: &[u32]) -> Vec<Window> {
        counted(words).0
    }

    /// The windows of a record, and how long the plugin waited in vain.
    fn counted(words: &[u32]) -> (Vec<Window>, Option<u32>) {
        let symbols = Symbols::parse(TEXT).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let bytes: Vec<u8> =
            b"IOTOLLR2".iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
        let layout = Layout::of(crate::Arch::X86);
        let mut counter = WindowCounter::new(&symbols, &stages, layout);
        let windows = counter.count(&mut Record::new(bytes.as_slice()).unwrap()).unwrap();
        (windows, counter.gave_up_ms)
    }

    /// Block 0 is in vfs_read and continues in nvme_queue_rq, block 1 in __domain_mapping, block 2 in user mode.
    const BLOCKS: [u32; 18] = [
        2 << 28,
        0x8100_0000,
        0xffff_ffff,
        3,
        0,
        4,
        8, //
        2 << 28 | 1,
        0x8100_0100,
        0xffff_ffff,
        2,
        0,
        4, //
        2 << 28 | 2,
        0x7000_0010,
        0,
        1,
        0,
    ];
    const END: [u32; 2] = [15 << 28, 3];

    #[test]
    fn counts_agree_and_a_partial_block_counts_the_instructions_begun() {
        let ran = [5 << 28, 7, 0, 4 << 28, 2, 0, 1 << 28, 2, 1, 4 << 28 | 1];
        let window = windows(&[&BLOCKS[..], &ran, &END].concat()).pop().unwrap();
        assert_eq!((window.phase, window.instructions, window.user_instructions()), (7, 1 + 3 + 2 + 2, 1));
        assert_eq!(window.functions.values().sum::<u64>(), window.instructions);
        assert_eq!(window.stages.values().sum::<u64>(), window.instructions);
        assert_eq!(window.stages[&Stage::Driver], 1);
        assert_eq!(window.calls.values().sum::<u64>(), 3);
    }

    #[test]
    fn only_stores_of_table_writing_functions_are_table_entries() {
        let ran = [4 << 28, 10 << 28, 1, 10 << 28, 0, 4 << 28 | 1];
        let window = windows(&[&BLOCKS[..], &ran, &END].concat()).pop().unwrap();
        assert_eq!(window.table_stores, 1);
    }

    #[test]
    fn only_device_accesses_and_polls_are_counted_while_a_window_is_paused() {
        const REGION: [u32; 3] = [8 << 28, 1, u32::from_le_bytes(*b"nvme")];
        let (pause, resume, poll) = (4 << 28 | 2, 4 << 28 | 3, 4 << 28 | 4);
        let written = [7 << 28 | 1 << 20, 0x1008, 0];
        let waits = [pause, 0, 10 << 28, 1, 9 << 28, 5, poll, 2, poll, resume];
        let ran = [&REGION[..], &[4 << 28, 2], &waits, &written, &[1, 4 << 28 | 1]].concat();
        let window = windows(&[&BLOCKS[..], &ran, &END].concat()).pop().unwrap();
        assert_eq!((window.instructions, window.user_instructions(), window.polls), (1 + 2, 1, 2));
        assert_eq!((window.table_stores, window.repeats), (0, 0));
        assert_eq!(window.calls.values().sum::<u64>(), 1);
        // A doorbell belongs to the I/O even while the window is paused.
        let ran = [&REGION[..], &[4 << 28, pause], &written, &[2, resume, 4 << 28 | 1]].concat();
        let window = windows(&[&BLOCKS[..], &ran, &END].concat()).pop().unwrap();
        assert_eq!((window.instructions, window.device_writes["nvme"]), (0, 1));
    }

    #[test]
    fn a_pause_ends_with_its_window() {
        let ran = [4 << 28, 4 << 28 | 2, 4 << 28 | 1, 4 << 28, 2, 4 << 28 | 1];
        let windows = windows(&[&BLOCKS[..], &ran, &END].concat());
        assert_eq!(windows.iter().map(|window| window.instructions).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn waiting_in_vain_matters_until_the_last_window_ends() {
        let (waited, window) = ([11 << 28, 60_001], [4 << 28, 2, 4 << 28 | 1]);
        let gave_up = |steps: &[&[u32]]| counted(&[&BLOCKS[..], &steps.concat(), &END].concat()).1;
        assert_eq!(gave_up(&[&window]), None);
        assert_eq!(gave_up(&[&waited, &window]), Some(60_001));
        assert_eq!(gave_up(&[&window[..2], &waited, &window[2..]]), Some(60_001));
        assert_eq!(gave_up(&[&window, &waited]), None, "at power-off");
    }

    #[test]
    fn windows_on_two_virtual_cpus_are_counted_separately() {
        let ran = [4 << 28, 3 << 28 | 1, 4 << 28, 1, 3 << 28, 0, 4 << 28 | 1, 3 << 28 | 1, 4 << 28 | 1];
        let windows = windows(&[&BLOCKS[..], &ran, &END].concat());
        let counts: Vec<_> = windows.iter().map(|window| (window.vcpu, window.instructions)).collect();
        assert_eq!(counts, [(0, 3), (1, 2)]);
    }
}
