//! Instruments each block that QEMU translates: registers callbacks for its instructions and memory accesses.

use crate::log;
use crate::mark::Mark;
use crate::qemu::{self, Block, Instruction};
use crate::recorder::{self, Access, BEGUN, Instrumentation, Recorder};
use std::ffi::{CStr, c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;

/// The longest instruction of any architecture: x86.
const INSTRUCTION_BYTES_MAX: usize = 16;

/// Instruments a block. QEMU calls it before the block is executed for the first time.
pub(crate) fn instrument(block: *mut Block) {
    recorder::with(|recorder| {
        if recorder.instrumentation == Instrumentation::All {
            instrument_all(recorder, block);
        }
        instrument_marks(block);
        instrument_idle(recorder, block);
    });
}

/// The instructions of a block.
fn instructions(block: *mut Block) -> impl Iterator<Item = *mut Instruction> {
    // SAFETY: the block is valid during the callback, and the index is below the number of instructions.
    let number = unsafe { qemu::qemu_plugin_tb_n_insns(block) };
    // SAFETY: as above.
    (0..number).map(move |index| unsafe { qemu::qemu_plugin_tb_get_insn(block, index) })
}

/// An instruction's virtual address.
fn address(instruction: *const Instruction) -> u64 {
    // SAFETY: QEMU passed the instruction for this block's translation, which is still going on.
    unsafe { qemu::qemu_plugin_insn_vaddr(instruction) }
}

/// Registers callbacks at the block's marks.
fn instrument_marks(block: *mut Block) {
    for instruction in instructions(block) {
        if let Some(mark) = Mark::at(address(instruction)) {
            register_callback(instruction, on_mark, mark as usize);
        }
    }
}

/// Registers callbacks at idle instructions and at the kernel's function that polls a device.
fn instrument_idle(recorder: &Recorder, block: *mut Block) {
    for instruction in instructions(block) {
        if recorder.is_poll_function(address(instruction)) {
            register_callback(instruction, on_poll, 0);
        }
        if is_idle_instruction(recorder, code(instruction).bytes(), address(instruction)) {
            register_callback(instruction, on_idle, 0);
        }
    }
}

/// Records the block and registers callbacks at all of its instructions and memory accesses.
fn instrument_all(recorder: &mut Recorder, block: *mut Block) {
    let addresses: Vec<u64> = instructions(block).map(|instruction| address(instruction)).collect();
    let Some(&start) = addresses.first() else { return };
    let offsets: Vec<u32> = addresses.iter().map(|address| address.wrapping_sub(start) as u32).collect();
    let number = recorder.add_block(start, &offsets);
    for (index, instruction) in (0..).zip(instructions(block)) {
        let address = addresses[index as usize];
        let code = code(instruction);
        if is_string(code.bytes()) {
            register_callback(instruction, on_string, recorder.add_string(number, index, address));
        } else if index == 0 {
            register_callback(instruction, on_first, number as usize);
        } else {
            register_callback(instruction, on_later, index as usize + 1);
        }
        instrument_accesses(instruction);
    }
}

/// Registers a callback before an instruction; QEMU passes `userdata` to it.
fn register_callback(instruction: *mut Instruction, callback: qemu::OnInstruction, userdata: usize) {
    // SAFETY: the instruction is valid during translation; the userdata is a number and is never dereferenced.
    unsafe {
        qemu::qemu_plugin_register_vcpu_insn_exec_cb(
            instruction,
            callback,
            qemu::NO_REGISTERS,
            userdata as *mut c_void,
        );
    }
}

/// Registers a callback at an instruction's loads and stores.
fn instrument_accesses(instruction: *mut Instruction) {
    // SAFETY: as for `register_callback`.
    unsafe {
        qemu::qemu_plugin_register_vcpu_mem_cb(
            instruction,
            on_access,
            qemu::NO_REGISTERS,
            qemu::LOADS_AND_STORES,
            std::ptr::null_mut(),
        );
    }
}

/// The bytes of an instruction.
struct Code {
    bytes: [u8; INSTRUCTION_BYTES_MAX],
    length: usize,
}

impl Code {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Copies the bytes of an instruction.
fn code(instruction: *const Instruction) -> Code {
    let mut bytes = [0; INSTRUCTION_BYTES_MAX];
    // SAFETY: the instruction is valid during translation.
    let length = unsafe { qemu::qemu_plugin_insn_size(instruction) }.min(INSTRUCTION_BYTES_MAX);
    #[cfg(not(feature = "api-3"))]
    // SAFETY: in this version the function returns a pointer to as many bytes as the size said.
    unsafe {
        let data = qemu::qemu_plugin_insn_data(instruction);
        std::ptr::copy_nonoverlapping(data.cast(), bytes.as_mut_ptr(), length);
    }
    #[cfg(feature = "api-3")]
    // SAFETY: the buffer holds the number of bytes that is asked for.
    unsafe {
        qemu::qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), length);
    }
    Code { bytes, length }
}

/// Whether an instruction makes the virtual CPU wait for an interrupt.
fn is_idle_instruction(recorder: &Recorder, code: &[u8], address: u64) -> bool {
    const HLT_X86: &[u8] = &[0xf4];
    const WFI_ARM: &[u8] = &[0x7f, 0x20, 0x03, 0xd5];
    /// `sc 1`, little endian. Every hypercall uses it, so the function decides.
    const HYPERCALL_PPC: &[u8] = &[0x22, 0x00, 0x00, 0x44];
    code == HLT_X86 || code == WFI_ARM || code == HYPERCALL_PPC && recorder.is_idle_function(address)
}

/// Whether an instruction is a string instruction of x86 with a repeat prefix (Intel SDM volume 2, chapter 2.1.1).
/// Always false for guests of other architectures, whose instructions could have the same bytes.
fn is_string(code: &[u8]) -> bool {
    if !recorder::TARGET_IS_X86.load(Relaxed) {
        return false;
    }
    let is_prefix =
        |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3);
    let repeats = code.iter().take_while(|byte| is_prefix(byte)).any(|byte| matches!(byte, 0xf2 | 0xf3));
    let operation = code.iter().find(|byte| !is_prefix(byte));
    repeats && operation.is_some_and(|byte| matches!(byte, 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf))
}

/// Callback before a block's first instruction.
extern "C" fn on_first(vcpu: c_uint, block: *mut c_void) {
    let vcpu = vcpu as usize;
    recorder::with(|recorder| recorder.begin_block(vcpu, block as usize as u32));
    BEGUN[vcpu].store(1, Relaxed);
}

/// Callback before a later instruction of a block.
extern "C" fn on_later(vcpu: c_uint, begun: *mut c_void) {
    BEGUN[vcpu as usize].store(begun as usize as u32, Relaxed);
}

/// Callback before a string instruction.
extern "C" fn on_string(vcpu: c_uint, number: *mut c_void) {
    recorder::with(|recorder| recorder.begin_string(vcpu as usize, number as usize));
}

/// Callback before an idle instruction.
extern "C" fn on_idle(vcpu: c_uint, _: *mut c_void) {
    recorder::with(|recorder| recorder.process_idle(vcpu as usize));
}

/// Callback at the begin of the kernel's function that polls a device.
extern "C" fn on_poll(_: c_uint, _: *mut c_void) {
    recorder::with(Recorder::wait_for_devices);
}

/// Callback before a mark.
extern "C" fn on_mark(vcpu: c_uint, index: *mut c_void) {
    let Some(mark) = Mark::from_index(index as usize) else { return };
    recorder::with(|recorder| recorder.process_mark(vcpu as usize, mark));
    match mark {
        Mark::Begin => log::write_event("begin", vcpu as usize),
        Mark::End => log::write_event("end", vcpu as usize),
        Mark::Phase => log::write_event("phase", vcpu as usize),
        // Not at `Disarm`: QEMU 7.2 may use the lists of memory callbacks after a reset has freed them. Outside
        // windows nothing is recorded anyway.
        Mark::Arm => crate::install::retranslate(),
        Mark::Pause
        | Mark::Resume
        | Mark::Polled
        | Mark::Zero
        | Mark::One
        | Mark::IdleFunction
        | Mark::PollFunction
        | Mark::Disarm
        | Mark::IosPerWindow => {}
    }
}

/// Base-2 logarithm of the size of a translation table's entry.
const ENTRY_SIZE_SHIFT: u32 = 3;

/// Callback after a load or store: records device accesses, and stores with the size of a table entry.
extern "C" fn on_access(vcpu: c_uint, info: u32, address: u64, _: *mut c_void) {
    let vcpu = vcpu as usize;
    // SAFETY: both functions take the number that QEMU passed to this callback.
    let (write, size_shift) =
        unsafe { (qemu::qemu_plugin_mem_is_store(info), qemu::qemu_plugin_mem_size_shift(info)) };
    // SAFETY: called from a memory callback, with what that was passed. The result is valid until it returns.
    let place = unsafe { qemu::qemu_plugin_get_hwaddr(info, address) };
    // SAFETY: not null, and still in the callback.
    if !place.is_null() && unsafe { qemu::qemu_plugin_hwaddr_is_io(place) } {
        // SAFETY: the name is a string that lives as long as QEMU.
        let (name, physical) = unsafe {
            let name = CStr::from_ptr(qemu::qemu_plugin_hwaddr_device_name(place));
            (name.to_bytes(), qemu::qemu_plugin_hwaddr_phys_addr(place))
        };
        let access = Access { size_shift, write, address: physical };
        recorder::with(|recorder| recorder.device_access(vcpu, name, access));
    } else if write && size_shift == ENTRY_SIZE_SHIFT {
        recorder::with(|recorder| recorder.store(vcpu, address));
    }
}
