//! What is going on: which windows are open, which block each virtual CPU is in, what is yet to be written.

use crate::mark::Mark;
use crate::quiet::{Quiet, Word};
use crate::record::{Moment, Record};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// More virtual CPUs than any machine of the lab has.
pub(crate) const VCPUS_MAX: usize = 64;

/// How many instructions of its current block each virtual CPU has begun. Apart from the rest because it is
/// written for each instruction. QEMU runs virtual CPUs in turn in one thread (`-icount`), so relaxed order
/// is program order.
pub(crate) static BEGUN: [AtomicU32; VCPUS_MAX] = [const { AtomicU32::new(0) }; VCPUS_MAX];

/// Whether the guest's instructions are those of x86.
pub(crate) static TARGET_IS_X86: AtomicBool = AtomicBool::new(false);

/// The one recorder: QEMU's callbacks carry no pointer of ours everywhere.
pub(crate) static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

/// Runs something on the recorder. Nothing happens before installation and after the end.
pub(crate) fn with<T>(run: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    RECORDER.lock().ok()?.as_mut().map(run)
}

/// How much is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Marks only.
    Marks,
    /// Every instruction and access.
    All,
}

/// A block as it was translated.
struct Block {
    instructions: u32,
}

/// An instruction of x86 with a repeat prefix.
#[derive(Clone, Copy)]
struct StringInstruction {
    block: u32,
    index: u32,
    address: u64,
}

/// Where a virtual CPU is.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The block it is in, if any was begun since the last was written.
    block: Option<u32>,
    /// Between the marks of a window.
    in_window: bool,
    /// About to give the CPU up, or gone.
    idle: bool,
    /// The string instruction it is repeating, by address.
    string: Option<u64>,
    repeats: u32,
}

/// The state of recording.
pub(crate) struct Recorder {
    record: Record,
    quiet: Quiet,
    linear_maps: Vec<Range<u64>>,
    pub(crate) watch: Watch,
    blocks: Vec<Block>,
    strings: Vec<StringInstruction>,
    places: [Place; VCPUS_MAX],
    vcpus: usize,
    /// The virtual CPU that runs.
    running: usize,
    /// The virtual CPU that the record is on.
    written: Option<usize>,
    regions: HashMap<Vec<u8>, u32>,
    /// A device was asked for something since the devices were last waited for.
    asked: bool,
    value: u64,
    idle_function: Option<u64>,
    poll_function: Option<u64>,
}

impl Recorder {
    pub(crate) fn new(record: Record, quiet: Quiet, linear_maps: Vec<Range<u64>>, vcpus: usize) -> Self {
        Self {
            record,
            quiet,
            linear_maps,
            watch: Watch::Marks,
            blocks: Vec::new(),
            strings: Vec::new(),
            places: [Place::default(); VCPUS_MAX],
            vcpus: vcpus.clamp(1, VCPUS_MAX),
            running: 0,
            written: None,
            regions: HashMap::new(),
            asked: false,
            value: 0,
            idle_function: None,
            poll_function: None,
        }
    }

    /// Takes a mark. What it asks of QEMU is the caller's to do.
    pub(crate) fn mark(&mut self, vcpu: usize, mark: Mark) {
        match mark {
            Mark::Arm => {
                self.quiet.tell(Word::Hold);
                self.watch = Watch::All;
            }
            Mark::Disarm => {
                self.quiet.tell(Word::Free);
                self.watch = Watch::Marks;
            }
            Mark::Begin => {
                self.window(vcpu, Moment::Begin);
                self.places[vcpu].in_window = true;
            }
            Mark::End => {
                self.window(vcpu, Moment::End);
                self.places[vcpu].in_window = false;
            }
            Mark::Pause => {
                self.window(vcpu, Moment::Pause);
                self.wait_for_devices();
            }
            Mark::GoOn => self.window(vcpu, Moment::GoOn),
            Mark::Look => self.window(vcpu, Moment::Look),
            Mark::Zero => self.value <<= 1,
            Mark::One => self.value = self.value << 1 | 1,
            Mark::Phase => {
                let number = std::mem::take(&mut self.value);
                self.record.phase(number);
            }
            Mark::Units => {
                let number = std::mem::take(&mut self.value);
                self.record.units(number);
            }
            Mark::Idle => self.idle_function = Some(std::mem::take(&mut self.value)),
            Mark::Poll => self.poll_function = Some(std::mem::take(&mut self.value)),
        }
    }

    fn window(&mut self, vcpu: usize, moment: Moment) {
        self.write_place(vcpu);
        self.on(vcpu);
        self.record.window(moment);
    }

    /// Names a block. Blocks translated again get a new number.
    pub(crate) fn add_block(&mut self, address: u64, offsets: &[u32]) -> u32 {
        let block = self.blocks.len() as u32;
        self.blocks.push(Block { instructions: offsets.len() as u32 });
        self.record.block(block, address, offsets);
        block
    }

    /// A virtual CPU begins a block's first instruction.
    pub(crate) fn begin_block(&mut self, vcpu: usize, block: u32) {
        self.run(vcpu);
        self.write_place(vcpu);
        let place = &mut self.places[vcpu];
        place.block = place.in_window.then_some(block);
        place.idle = false;
        place.string = None;
    }

    /// Tells the log which virtual CPU runs, if that changed while windows are open.
    fn run(&mut self, vcpu: usize) {
        if self.running != vcpu {
            self.running = vcpu;
            if self.places[..self.vcpus].iter().any(|place| place.in_window) {
                crate::log::tell("on", vcpu);
            }
        }
    }

    /// Numbers a string instruction.
    pub(crate) fn add_string(&mut self, block: u32, index: u32, address: u64) -> usize {
        self.strings.push(StringInstruction { block, index, address });
        self.strings.len() - 1
    }

    /// A virtual CPU begins a string instruction, which may be the last one over again.
    pub(crate) fn begin_string(&mut self, vcpu: usize, number: usize) {
        let StringInstruction { block, index, address } = self.strings[number];
        let place = &mut self.places[vcpu];
        if index == 0 && place.string == Some(address) {
            place.repeats += u32::from(place.block.is_some());
            return;
        }
        if index == 0 {
            self.begin_block(vcpu, block);
        }
        BEGUN[vcpu].store(index + 1, Relaxed);
        self.places[vcpu].string = Some(address);
    }

    /// A virtual CPU accessed a device's registers. In the record this comes before the block it was made in.
    pub(crate) fn device_access(&mut self, vcpu: usize, region: &[u8], access: Access) {
        self.asked |= access.write;
        if access.write
            && let Err(waited) = self.quiet.wait_for_prompt()
        {
            self.record.gave_up(waited.as_millis() as u32);
        }
        if !self.places[vcpu].in_window {
            return;
        }
        self.on(vcpu);
        let region = self.region(region);
        self.record.device_access(region, access.size_shift, u32::from(access.write), access.address);
    }

    /// The kernel stored to memory. In the record this comes before the block it was made in.
    pub(crate) fn store(&mut self, vcpu: usize, address: u64) {
        let is_linear = self.linear_maps.iter().any(|map| map.contains(&address));
        if is_linear && self.places[vcpu].in_window {
            self.on(vcpu);
            self.record.store();
        }
    }

    fn region(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.regions.get(name) {
            return *number;
        }
        let number = self.regions.len() as u32;
        self.regions.insert(name.to_vec(), number);
        self.record.region(number, name);
        number
    }

    /// Whether the function at an address is the one that gives the CPU up.
    pub(crate) fn is_idle_function(&self, address: u64) -> bool {
        /// Longer than the stub that makes the hypercall.
        const FUNCTION_BYTES: u64 = 64;
        self.idle_function.is_some_and(|start| (start..start + FUNCTION_BYTES).contains(&address))
    }

    /// Whether the function at an address is the one that polls a device.
    pub(crate) fn is_poll_function(&self, address: u64) -> bool {
        self.poll_function == Some(address)
    }

    /// A virtual CPU is about to give itself up: the last to do so waits for the devices.
    pub(crate) fn idle(&mut self, vcpu: usize) {
        self.places[vcpu].idle = true;
        let all_idle = self.places[..self.vcpus].iter().all(|place| place.idle);
        if all_idle {
            self.wait_for_devices();
        }
    }

    /// A virtual CPU can do nothing but wait, idle or looking again and again: it is held until the devices have answered.
    pub(crate) fn wait_for_devices(&mut self) {
        // Without watching accesses nobody knows whether a device was asked for something.
        let asked = std::mem::take(&mut self.asked) || self.watch == Watch::Marks;
        if !asked {
            return;
        }
        if let Err(waited) = self.quiet.wait() {
            self.record.gave_up(waited.as_millis() as u32);
        }
    }

    /// Ends the record.
    pub(crate) fn finish(&mut self) -> std::io::Result<()> {
        (0..self.vcpus).for_each(|vcpu| self.write_place(vcpu));
        self.record.finish(self.blocks.len() as u32)
    }

    fn write_place(&mut self, vcpu: usize) {
        let Some(block) = self.places[vcpu].block.take() else { return };
        let begun = BEGUN[vcpu].load(Relaxed);
        self.on(vcpu);
        self.record.block_begun(block, self.blocks[block as usize].instructions, begun);
        if self.places[vcpu].repeats > 0 {
            self.record.repeated(std::mem::take(&mut self.places[vcpu].repeats));
        }
    }

    fn on(&mut self, vcpu: usize) {
        if self.written != Some(vcpu) {
            self.written = Some(vcpu);
            self.record.vcpu(vcpu as u32);
        }
    }
}

/// One access to memory or registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// Base-2 logarithm of its size in bytes.
    pub(crate) size_shift: u32,
    pub(crate) write: bool,
    pub(crate) address: u64,
}
