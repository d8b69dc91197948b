//! What ran in each window, by function and by stage.

use crate::record::{DeviceAccess, Record, RecordError, Step};
use crate::stage::{Follower, Stages};
use crate::symbols::{Code, FunctionId, Symbols};
use std::collections::BTreeMap;
use std::io::Read;
use toll::Stage;

/// What one window counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Which of the record's windows it is: they are numbered from 0 as they begin.
    pub number: u64,
    /// The workload's number.
    pub phase: u64,
    /// I/Os in it.
    pub units: u64,
    /// The virtual CPU it was on.
    pub vcpu: u32,
    /// Instructions begun.
    pub instructions: u64,
    /// Instructions by whose code they are.
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
    /// Looks of a program at whether devices have answered.
    pub looks: u64,
}

/// A part of a block that is one function's.
struct Run {
    code: Code,
    instructions: u64,
}

struct Block {
    runs: Vec<Run>,
    /// The function that begins with it.
    entry: Option<FunctionId>,
}

/// Folds a record into windows.
pub struct Folder<'a> {
    symbols: &'a Symbols,
    stages: &'a Stages,
    layout: Layout,
    blocks: Vec<Block>,
    phase: u64,
    units: u64,
    vcpu: u32,
    open: BTreeMap<u32, Open>,
    /// Windows begun so far.
    begun: u64,
    /// Milliseconds that the plugin waited for devices in vain, each time.
    pub gave_up: Vec<u32>,
}

#[derive(Default)]
struct Open {
    window: Window,
    follower: Follower,
    /// Stores made by the block that comes next.
    stores: u64,
    /// Whoever runs waits, which is not counted. What adapters are told meanwhile is.
    pauses: bool,
}

impl<'a> Folder<'a> {
    /// Begins.
    pub fn new(symbols: &'a Symbols, stages: &'a Stages, layout: Layout) -> Self {
        Self {
            symbols,
            stages,
            layout,
            blocks: Vec::new(),
            phase: 0,
            units: 1,
            vcpu: 0,
            open: BTreeMap::new(),
            begun: 0,
            gave_up: Vec::new(),
        }
    }

    /// Reads a whole record. Windows come in the order of their ends.
    ///
    /// # Errors
    /// [`RecordError`] if the record is not whole or makes no sense.
    pub fn fold(&mut self, record: &mut Record<impl Read>) -> Result<Vec<Window>, RecordError> {
        let mut windows = Vec::new();
        while let Some(step) = record.step()? {
            windows.extend(self.step(step));
        }
        Ok(windows)
    }

    /// Takes a step. A window comes out at its end.
    fn step(&mut self, step: Step) -> Option<Window> {
        match step {
            Step::Block { addresses } => self.blocks.push(self.block(&addresses)),
            Step::Vcpu(vcpu) => self.vcpu = vcpu,
            Step::Phase(phase) => (self.phase, self.units) = (phase, 1),
            Step::Units(units) => self.units = units,
            Step::GaveUp(milliseconds) => self.gave_up.push(milliseconds),
            Step::Begin => self.begin(),
            Step::End => return self.open.remove(&self.vcpu).map(|open| open.window),
            Step::Ran { block, begun } => {
                if let Some(open) = self.open.get_mut(&self.vcpu).filter(|open| !open.pauses) {
                    open.ran(&self.blocks[block as usize], begun, self.stages);
                }
            }
            Step::Pause => self.now(|open| open.pauses = true),
            Step::GoOn => self.now(|open| open.pauses = false),
            Step::Look => self.now(|open| open.window.looks += 1),
            Step::Repeated(times) => self.unless_paused(|open| open.window.repeats += u64::from(times)),
            Step::Device(access) => self.now(|open| open.window.device(access)),
            Step::Store => self.unless_paused(|open| open.stores += 1),
        }
        None
    }

    fn now(&mut self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.open.get_mut(&self.vcpu) {
            change(open);
        }
    }

    fn unless_paused(&mut self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.open.get_mut(&self.vcpu).filter(|open| !open.pauses) {
            change(open);
        }
    }

    fn begin(&mut self) {
        let (number, phase, units, vcpu) = (self.begun, self.phase, self.units, self.vcpu);
        let window = Window { number, phase, units, vcpu, ..Window::default() };
        self.begun += 1;
        self.open.insert(self.vcpu, Open { window, ..Open::default() });
    }

    fn block(&self, addresses: &[u64]) -> Block {
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

impl Open {
    fn ran(&mut self, block: &Block, begun: u32, stages: &Stages) {
        let mut left = u64::from(begun);
        if let Some(entry) = block.entry.filter(|_| left > 0) {
            *self.window.calls.entry(entry).or_default() += 1;
        }
        for run in &block.runs {
            let instructions = run.instructions.min(left);
            left -= instructions;
            if instructions == 0 {
                break;
            }
            let stage = stages.next(run.code, &mut self.follower);
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
    fn device(&mut self, access: DeviceAccess) {
        let accesses = if access.write { &mut self.device_writes } else { &mut self.device_reads };
        *accesses.entry(access.region).or_default() += 1;
    }

    /// Instructions in user mode.
    pub fn user(&self) -> u64 {
        let of_user = self.functions.iter().filter(|(code, _)| code.is_user());
        of_user.map(|(_, instructions)| instructions).sum()
    }
}

/// Where a kernel's code and memory are, as far as the architecture decides it.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Where memory is mapped one to one, without randomisation; the kernel's stacks are elsewhere.
    pub linear_maps: &'static [(u64, u64)],
    /// Bytes from a function's symbol to where the kernel's own calls enter it.
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
            // Partitions' tables are the hypervisor's: none of the kernel's stores are entries. The 64-bit ELF V2
            // ABI, 2.3.2.1: callers with the same TOC skip the two instructions that set it.
            crate::Arch::Ppc => Self { linear_maps: &[], local_entry: 8 },
        }
    }

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
        let symbols = Symbols::read(TEXT).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let bytes: Vec<u8> =
            b"IOTOLLR2".iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
        let layout = Layout::of(crate::Arch::X86);
        Folder::new(&symbols, &stages, layout).fold(&mut Record::new(bytes.as_slice()).unwrap()).unwrap()
    }

    /// Blocks 0: vfs_read and on into nvme_queue_rq; 1: __domain_mapping; 2: user.
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
    fn sums_agree_and_a_block_cut_short_counts_what_began() {
        let ran = [5 << 28, 7, 0, 4 << 28, 2, 0, 1 << 28, 2, 1, 4 << 28 | 1];
        let window = windows(&[&BLOCKS[..], &ran, &END].concat()).pop().unwrap();
        assert_eq!((window.phase, window.instructions, window.user()), (7, 1 + 3 + 2 + 2, 1));
        assert_eq!(window.functions.values().sum::<u64>(), window.instructions);
        assert_eq!(window.stages.values().sum::<u64>(), window.instructions);
        assert_eq!(window.stages[&Stage::Driver], 1);
        assert_eq!(window.calls.values().sum::<u64>(), 3);
    }

    #[test]
    fn only_table_writers_stores_are_entries() {
        let ran = [4 << 28, 10 << 28, 1, 10 << 28, 0, 4 << 28 | 1];
        let window = windows(&[&BLOCKS[..], &ran, &END].concat()).pop().unwrap();
        assert_eq!(window.table_stores, 1);
    }

    #[test]
    fn what_runs_while_a_window_pauses_is_not_counted() {
        const REGION: [u32; 3] = [8 << 28, 1, u32::from_le_bytes(*b"nvme")];
        let (pause, go_on, look) = (4 << 28 | 2, 4 << 28 | 3, 4 << 28 | 4);
        let written = [7 << 28 | 1 << 20, 0x1008, 0];
        let waits = [pause, 0, 10 << 28, 1, 9 << 28, 5, look, 2, look, go_on];
        let ran = [&REGION[..], &[4 << 28, 2], &waits, &written, &[1, 4 << 28 | 1]].concat();
        let window = windows(&[&BLOCKS[..], &ran, &END].concat()).pop().unwrap();
        assert_eq!((window.instructions, window.user(), window.looks), (1 + 2, 1, 2));
        assert_eq!((window.table_stores, window.repeats), (0, 0));
        assert_eq!(window.calls.values().sum::<u64>(), 1);
        // What adapters are told belongs to the I/O, whenever that is.
        let ran = [&REGION[..], &[4 << 28, pause], &written, &[2, go_on, 4 << 28 | 1]].concat();
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
    fn windows_of_two_cpus_are_apart() {
        let ran = [4 << 28, 3 << 28 | 1, 4 << 28, 1, 3 << 28, 0, 4 << 28 | 1, 3 << 28 | 1, 4 << 28 | 1];
        let windows = windows(&[&BLOCKS[..], &ran, &END].concat());
        let counts: Vec<_> = windows.iter().map(|window| (window.vcpu, window.instructions)).collect();
        assert_eq!(counts, [(0, 3), (1, 2)]);
    }
}
