//! The state of recording: open windows, the current block of each virtual CPU, and executions not yet written.

use crate::devices::{Devices, DiskMessage};
use crate::mark::Mark;
use crate::record::{Record, WindowEvent};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Virtual CPUs, more than any machine of the lab has.
pub(crate) const VCPUS_MAX: usize = 64;

/// The number of instructions of its current block that each virtual CPU has begun. It is outside [`RECORDER`], because
/// it is written for each instruction. QEMU runs virtual CPUs in turn in one thread (`-icount`), so relaxed ordering
/// is program order.
pub(crate) static BEGUN: [AtomicU32; VCPUS_MAX] = [const { AtomicU32::new(0) }; VCPUS_MAX];

/// Whether the guest's instructions are those of x86.
pub(crate) static TARGET_IS_X86: AtomicBool = AtomicBool::new(false);

/// The recorder. It is static, because not all callbacks get a pointer of the plugin's.
pub(crate) static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

/// Runs a function on the recorder; `None` before the plugin is installed.
pub(crate) fn with<T>(run: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    RECORDER.lock().ok()?.as_mut().map(run)
}

/// What is instrumented in a translated block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instrumentation {
    /// Marks and idle instructions only.
    Marks,
    /// Every instruction and memory access.
    All,
}

/// A translated block.
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

/// The state of a virtual CPU.
#[derive(Clone, Copy, Default)]
struct Vcpu {
    /// The current block, if it is in a window and its execution is not written yet.
    block: Option<u32>,
    in_window: bool,
    /// It is at its idle instruction.
    idle: bool,
    /// The address of the string instruction that it is repeating.
    string: Option<u64>,
    repeats: u32,
}

/// The state of recording.
pub(crate) struct Recorder {
    record: Record,
    devices: Devices,
    linear_maps: Vec<Range<u64>>,
    pub(crate) instrumentation: Instrumentation,
    blocks: Vec<Block>,
    strings: Vec<StringInstruction>,
    vcpu_states: [Vcpu; VCPUS_MAX],
    vcpus: usize,
    /// The virtual CPU that is running.
    running: usize,
    /// The virtual CPU that was last written to the record.
    written: Option<usize>,
    /// Numbers of memory regions by name.
    regions: HashMap<Vec<u8>, u32>,
    /// A device's register was written since the plugin last waited for the devices.
    register_written: bool,
    /// The bits received by marks since the last value was used.
    value: u64,
    idle_function: Option<u64>,
    poll_function: Option<u64>,
}

impl Recorder {
    /// A recorder that instruments only marks at first.
    pub(crate) fn new(record: Record, devices: Devices, linear_maps: Vec<Range<u64>>, vcpus: usize) -> Self {
        Self {
            record,
            devices,
            linear_maps,
            instrumentation: Instrumentation::Marks,
            blocks: Vec::new(),
            strings: Vec::new(),
            vcpu_states: [Vcpu::default(); VCPUS_MAX],
            vcpus: vcpus.clamp(1, VCPUS_MAX),
            running: 0,
            written: None,
            regions: HashMap::new(),
            register_written: false,
            value: 0,
            idle_function: None,
            poll_function: None,
        }
    }

    /// Processes a mark. After `Arm`, the caller must make QEMU retranslate.
    pub(crate) fn process_mark(&mut self, vcpu: usize, mark: Mark) {
        match mark {
            Mark::Arm => {
                self.devices.send(DiskMessage::Hold);
                self.instrumentation = Instrumentation::All;
            }
            Mark::Disarm => {
                self.devices.release();
                self.instrumentation = Instrumentation::Marks;
            }
            Mark::Begin => {
                self.write_window_event(vcpu, WindowEvent::Begin);
                self.vcpu_states[vcpu].in_window = true;
            }
            Mark::End => {
                self.write_window_event(vcpu, WindowEvent::End);
                self.vcpu_states[vcpu].in_window = false;
            }
            Mark::Pause => {
                self.write_window_event(vcpu, WindowEvent::Pause);
                self.wait_for_devices();
            }
            Mark::Resume => self.write_window_event(vcpu, WindowEvent::Resume),
            Mark::Polled => self.write_window_event(vcpu, WindowEvent::Poll),
            Mark::Zero => self.value <<= 1,
            Mark::One => self.value = self.value << 1 | 1,
            Mark::Phase => {
                let number = std::mem::take(&mut self.value);
                self.record.write_phase(number);
            }
            Mark::IosPerWindow => {
                let ios = std::mem::take(&mut self.value);
                self.record.write_ios_per_window(ios);
            }
            Mark::IdleFunction => self.idle_function = Some(std::mem::take(&mut self.value)),
            Mark::PollFunction => self.poll_function = Some(std::mem::take(&mut self.value)),
        }
    }

    /// Records an event of a virtual CPU's window, after the instructions before it.
    fn write_window_event(&mut self, vcpu: usize, event: WindowEvent) {
        self.write_execution(vcpu);
        self.switch_record_to(vcpu);
        self.record.write_window_event(event);
    }

    /// Records a translated block and returns its number. A block that is translated again gets a new number.
    pub(crate) fn add_block(&mut self, address: u64, offsets: &[u32]) -> u32 {
        let block = self.blocks.len() as u32;
        self.blocks.push(Block { instructions: offsets.len() as u32 });
        self.record.write_block(block, address, offsets);
        block
    }

    /// Processes the begin of a block's first instruction.
    pub(crate) fn begin_block(&mut self, vcpu: usize, block: u32) {
        self.set_running(vcpu);
        self.write_execution(vcpu);
        let vcpu_state = &mut self.vcpu_states[vcpu];
        vcpu_state.block = vcpu_state.in_window.then_some(block);
        vcpu_state.idle = false;
        vcpu_state.string = None;
    }

    /// Sets the running virtual CPU. Writes a change to the log while windows are open.
    fn set_running(&mut self, vcpu: usize) {
        if self.running != vcpu {
            self.running = vcpu;
            if self.vcpu_states[..self.vcpus].iter().any(|vcpu_state| vcpu_state.in_window) {
                crate::log::write_event("on", vcpu);
            }
        }
    }

    /// Stores a string instruction and returns its number.
    pub(crate) fn add_string(&mut self, block: u32, index: u32, address: u64) -> usize {
        self.strings.push(StringInstruction { block, index, address });
        self.strings.len() - 1
    }

    /// Processes the begin of a string instruction, which may be a repetition of the last one.
    pub(crate) fn begin_string(&mut self, vcpu: usize, number: usize) {
        let StringInstruction { block, index, address } = self.strings[number];
        let vcpu_state = &mut self.vcpu_states[vcpu];
        if index == 0 && vcpu_state.string == Some(address) {
            vcpu_state.repeats += u32::from(vcpu_state.block.is_some());
            return;
        }
        if index == 0 {
            self.begin_block(vcpu, block);
        }
        BEGUN[vcpu].store(index + 1, Relaxed);
        self.vcpu_states[vcpu].string = Some(address);
    }

    /// Records an access to a device's register, and waits for the device after a write. In the record it precedes the
    /// block that made it.
    pub(crate) fn device_access(&mut self, vcpu: usize, region: &[u8], access: Access) {
        self.register_written |= access.write;
        if access.write
            && let Err(waited) = self.devices.wait_after_register_write()
        {
            self.record.write_gave_up(waited.as_millis() as u32);
        }
        if !self.vcpu_states[vcpu].in_window {
            return;
        }
        self.switch_record_to(vcpu);
        let region = self.region_number(region);
        self.record.write_device_access(region, access.size_shift, u32::from(access.write), access.address);
    }

    /// Records a store to the kernel's linear map. In the record it precedes the block that made it.
    pub(crate) fn store(&mut self, vcpu: usize, address: u64) {
        let is_linear = self.linear_maps.iter().any(|map| map.contains(&address));
        if is_linear && self.vcpu_states[vcpu].in_window {
            self.switch_record_to(vcpu);
            self.record.write_store();
        }
    }

    /// The number of a memory region, whose name is recorded the first time.
    fn region_number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.regions.get(name) {
            return *number;
        }
        let number = self.regions.len() as u32;
        self.regions.insert(name.to_vec(), number);
        self.record.write_region(number, name);
        number
    }

    /// Whether an address is in the kernel's function that yields the CPU.
    pub(crate) fn is_idle_function(&self, address: u64) -> bool {
        /// More than the length of the function, which only makes the hypercall.
        const FUNCTION_BYTES: u64 = 64;
        self.idle_function.is_some_and(|start| (start..start + FUNCTION_BYTES).contains(&address))
    }

    /// Whether an address is the first of the kernel's function that polls a device.
    pub(crate) fn is_poll_function(&self, address: u64) -> bool {
        self.poll_function == Some(address)
    }

    /// Processes an idle instruction. If all virtual CPUs are idle, waits for the devices.
    pub(crate) fn process_idle(&mut self, vcpu: usize) {
        self.vcpu_states[vcpu].idle = true;
        let all_idle = self.vcpu_states[..self.vcpus].iter().all(|vcpu_state| vcpu_state.idle);
        if all_idle {
            self.wait_for_devices();
        }
    }

    /// Holds the virtual CPU, which is idle or polls, until the devices have completed all requests.
    pub(crate) fn wait_for_devices(&mut self) {
        // While accesses are not instrumented, a register write may have gone unseen.
        let may_have_requests =
            std::mem::take(&mut self.register_written) || self.instrumentation == Instrumentation::Marks;
        if !may_have_requests {
            return;
        }
        if let Err(waited) = self.devices.wait_for_completions() {
            self.record.write_gave_up(waited.as_millis() as u32);
        }
    }

    /// Writes what is left and ends the record.
    pub(crate) fn finish(&mut self) -> std::io::Result<()> {
        (0..self.vcpus).for_each(|vcpu| self.write_execution(vcpu));
        self.record.finish(self.blocks.len() as u32)
    }

    /// Records the current block of a virtual CPU as far as it was executed, and its string repetitions.
    fn write_execution(&mut self, vcpu: usize) {
        let Some(block) = self.vcpu_states[vcpu].block.take() else { return };
        let begun = BEGUN[vcpu].load(Relaxed);
        self.switch_record_to(vcpu);
        self.record.write_execution(block, self.blocks[block as usize].instructions, begun);
        if self.vcpu_states[vcpu].repeats > 0 {
            self.record.write_repeats(std::mem::take(&mut self.vcpu_states[vcpu].repeats));
        }
    }

    /// Records the virtual CPU of the following events, if it changed.
    fn switch_record_to(&mut self, vcpu: usize) {
        if self.written != Some(vcpu) {
            self.written = Some(vcpu);
            self.record.write_vcpu(vcpu as u32);
        }
    }
}

/// An access to a device's register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// Base-2 logarithm of its size in bytes.
    pub(crate) size_shift: u32,
    pub(crate) write: bool,
    pub(crate) address: u64,
}
