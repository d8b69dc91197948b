//! The BPF programs that run when a watched function is entered and left.
//!
//! A function is called while another runs, and an interrupt may come between. So each kernel stack has a stack of *frames*, one for each
//! watched function that runs there, and the time of a function is divided into its own and that of the watched functions that it called.
//!
//! ```text
//!   contexts: kernel stack -> depth | frame 0: nothing runs | frame 1: dma_unmap_page_attrs | frame 2: qi_submit_sync | ...
//!                                                                  | path, start, device, bytes, parts, time of callees, place
//!        a function is left: its frame is added up                 v
//!   tallies:  device, path  -> calls, bytes, parts, time, own time, histograms        (one for each CPU)
//!   names:    device        -> its name
//! ```
//!
//! A *path* has the numbers of the functions that called each other, the innermost in its lowest bits. The device comes from the function
//! or its callers: IOMMU drivers don't know for whom they work.

use crate::assembler::{Assembler, Condition, Helper, Instruction, Label, Register};
use crate::calling::Calling;
use crate::function::{Function, NUMBER_BITS};
use Register::{Frame, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use std::os::fd::BorrowedFd;

/// Most watched functions that run on a kernel stack at once.
const DEPTH_MAX: i32 = 8;
/// Bytes of the smallest kernel stack (`THREAD_SIZE`). Stacks are aligned by their size.
const STACK_BYTES_MIN: usize = 16 << 10;

const FRAMES_AT: i16 = 8;
const FRAME_BYTES: i16 = 56;
/// Bytes of a context: depth, and one frame more than functions, for when none runs.
pub(crate) const CONTEXT_BYTES: u32 = FRAMES_AT as u32 + (DEPTH_MAX as u32 + 1) * FRAME_BYTES as u32;

/// Offsets in a frame.
mod frame {
    pub(super) const PATH: i16 = 0;
    pub(super) const START: i16 = 8;
    pub(super) const DEVICE: i16 = 16;
    pub(super) const CALLEES_NS: i16 = 24;
    pub(super) const BYTES: i16 = 32;
    pub(super) const PARTS: i16 = 40;
    /// The place of the stack at which the function was entered.
    pub(super) const PLACE: i16 = 48;
}

/// Where a program keeps what the function returned.
const RESULT: i16 = -32;
/// Where it keeps its place of the stack. It uses less than 64 bytes below the frame's end: see `load_place`.
const OWN_PLACE: i16 = -40;

/// Bytes of the key of a tally: device and path.
pub(crate) const KEY_BYTES: u32 = 16;
/// Buckets of a histogram: bucket `n` has values from 2^n to below 2^(n+1), the first also 0, the last all above.
pub(crate) const BUCKETS: usize = 40;
/// 64-bit words of a tally.
pub(crate) const TALLY_WORDS: usize = 5 + 2 * BUCKETS;

/// Places of a tally's words.
pub(crate) mod tally {
    pub(crate) const CALLS: usize = 0;
    pub(crate) const BYTES: usize = 1;
    pub(crate) const PARTS: usize = 2;
    pub(crate) const NS: usize = 3;
    pub(crate) const OWN_NS: usize = 4;
    pub(crate) const NS_BUCKETS: usize = 5;
    pub(crate) const BYTES_BUCKETS: usize = NS_BUCKETS + super::BUCKETS;
}

/// Bytes of a device's name with its end.
pub(crate) const NAME_BYTES: u32 = 32;

/// Calls that were not counted, by reason: the places of the losses' words.
pub(crate) mod loss {
    /// A function was left whose entry was not seen.
    pub(crate) const NO_ENTRY: usize = 0;
    /// More kernel stacks than the table holds.
    pub(crate) const CONTEXTS: usize = 1;
    /// Too many functions called each other.
    pub(crate) const DEPTH: usize = 2;
    /// More devices and paths than the table holds, or an interrupt came while it was written.
    pub(crate) const TALLIES: usize = 3;
    /// A function was entered whose end was not seen.
    pub(crate) const NO_END: usize = 4;
    /// No loss, but what one is found by: how often the kernel traced that entries of an I/O page table were cleared.
    pub(crate) const CLEARS_TRACED: usize = 5;
    pub(crate) const WORDS: usize = 6;
}

/// The tables that programs share with this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables<'a> {
    /// By kernel stack: a context.
    pub(crate) contexts: BorrowedFd<'a>,
    /// By device and path: a tally for each CPU.
    pub(crate) tallies: BorrowedFd<'a>,
    /// By device: its name.
    pub(crate) names: BorrowedFd<'a>,
    /// Entry 0: zeros, as many as the largest value needs.
    pub(crate) zeros: BorrowedFd<'a>,
    /// Entry 0: the losses.
    pub(crate) losses: BorrowedFd<'a>,
}

/// The offset of a device's pointer to its name (`struct device.kobj.name`).
pub(crate) type NameOffset = i32;

/// The program for the entry of the function with this number.
pub(crate) fn entry(
    number: usize,
    function: &Function,
    calling: Calling,
    tables: Tables<'_>,
) -> Vec<Instruction> {
    let mut program = Assembler::default();
    let code = &mut program;
    let done = code.label();
    code.move_register(R6, R1);
    load_place(code, R7);
    code.store(Frame, OWN_PLACE, R7);
    round_to_stack(code, R7);
    find_context(code, tables, done);
    drop_unseen(code, number, tables);
    let is_free = code.label();
    code.load(R9, R8, 0);
    if function.only_within {
        code.jump_if(R9, Condition::Equal, 0, done);
    }
    code.jump_if(R9, Condition::Below, DEPTH_MAX, is_free);
    // Frames whose functions were left unseen are dropped with the others.
    code.store_constant(R8, 0, 0);
    count_loss(code, tables, loss::DEPTH);
    code.jump(done);
    code.place(is_free);
    // R3: the caller's frame, less FRAMES_AT. The new one follows it.
    frame_at(code, R3, R9);
    let (caller, new) = (FRAMES_AT, FRAMES_AT + FRAME_BYTES);
    code.load(R1, R3, caller + frame::PATH);
    code.shift_left(R1, NUMBER_BITS as i32);
    code.or_constant(R1, number as i32);
    code.store(R3, new + frame::PATH, R1);
    match calling.device {
        Some(at) => code.load(R1, R6, at),
        None => code.load(R1, R3, caller + frame::DEVICE),
    }
    code.store(R3, new + frame::DEVICE, R1);
    for (parameter, field, without) in [(calling.bytes, frame::BYTES, 0), (calling.parts, frame::PARTS, 1)] {
        match parameter {
            Some(at) => {
                code.load(R1, R6, at);
                if field == frame::PARTS {
                    // Of type `int` or `long`, and small: the upper half of an `int` may hold anything.
                    code.shift_left(R1, 32);
                    code.shift_right(R1, 32);
                }
                code.store(R3, new + field, R1);
            }
            None => code.store_constant(R3, new + field, without),
        }
    }
    code.store_constant(R3, new + frame::CALLEES_NS, 0);
    code.load(R1, Frame, OWN_PLACE);
    code.store(R3, new + frame::PLACE, R1);
    // The time last, so that little of the program is in it.
    code.call(Helper::KtimeGetNs);
    frame_at(code, R3, R9);
    code.store(R3, new + frame::START, R0);
    code.add_constant(R9, 1);
    code.store(R8, 0, R9);
    code.place(done);
    code.exit();
    program.finish()
}

/// The program for the end of the function with this number.
pub(crate) fn exit(
    number: usize,
    function: &Function,
    calling: Calling,
    name_at: NameOffset,
    tables: Tables<'_>,
) -> Vec<Instruction> {
    let mut program = Assembler::default();
    let code = &mut program;
    let done = code.label();
    if let Some(at) = calling.result {
        code.load(R2, R1, at);
        code.store(Frame, RESULT, R2);
    }
    code.call(Helper::KtimeGetNs);
    code.move_register(R9, R0);
    load_place(code, R7);
    round_to_stack(code, R7);
    let no_entry = code.label();
    lookup(code, tables.contexts, -8);
    code.jump_if(R0, Condition::Equal, 0, no_entry);
    code.move_register(R8, R0);
    find_frame(code, number, tables, no_entry);
    // R7: the caller's frame, less FRAMES_AT. R9: the function's time.
    let (caller, own) = (FRAMES_AT, FRAMES_AT + FRAME_BYTES);
    code.load(R1, R7, own + frame::START);
    code.subtract(R9, R1);
    code.load(R1, R7, caller + frame::CALLEES_NS);
    code.add(R1, R9);
    code.store(R7, caller + frame::CALLEES_NS, R1);
    if function.only_if_true && calling.result.is_some() {
        // A truth value is the lowest byte alone.
        code.load(R1, Frame, RESULT);
        code.shift_left(R1, 56);
        code.jump_if(R1, Condition::Equal, 0, done);
    }
    code.load(R1, R7, own + frame::DEVICE);
    code.store(Frame, -16, R1);
    code.load(R1, R7, own + frame::PATH);
    code.store(Frame, -8, R1);
    find_tally(code, name_at, tables, done);
    let add = |code: &mut Assembler, word: usize| code.add_to_memory(R0, 8 * word as i16, R1);
    code.move_constant(R1, 1);
    add(code, tally::CALLS);
    code.load(R1, R7, own + frame::PARTS);
    add(code, tally::PARTS);
    code.move_register(R1, R9);
    add(code, tally::NS);
    code.load(R2, R7, own + frame::CALLEES_NS);
    code.subtract(R1, R2);
    add(code, tally::OWN_NS);
    add_to_histogram(code, R9, tally::NS_BUCKETS);
    match calling.result.filter(|_| function.returns_bytes) {
        Some(_) => {
            // An error is negative.
            code.load(R1, Frame, RESULT);
            code.move_register(R2, R1);
            code.shift_right(R2, 63);
            code.jump_if(R2, Condition::NotEqual, 0, done);
        }
        None => code.load(R1, R7, own + frame::BYTES),
    }
    code.jump_if(R1, Condition::Equal, 0, done);
    add(code, tally::BYTES);
    add_to_histogram(code, R1, tally::BYTES_BUCKETS);
    code.place(done);
    code.exit();
    code.place(no_entry);
    if !function.only_within {
        count_loss(code, tables, loss::NO_ENTRY);
    }
    code.exit();
    program.finish()
}

/// The program for the kernel's tracepoint of cleared entries.
pub(crate) fn count_clear(tables: Tables<'_>) -> Vec<Instruction> {
    let mut program = Assembler::default();
    count_loss(&mut program, tables, loss::CLEARS_TRACED);
    program.exit();
    program.finish()
}

/// Bytes by which this kernel's stacks are aligned at least. On 64-bit Arm a stack has a page, if that is larger than the smallest stack.
fn stack_bytes() -> i32 {
    let page = if cfg!(target_arch = "aarch64") { rustix::param::page_size() } else { 0 };
    STACK_BYTES_MIN.max(page) as i32
}

/// `to`, and the word at -8, = the place of the kernel stack where the program runs.
fn load_place(code: &mut Assembler, to: Register) {
    // An address of the program's own stack is one of the kernel's stack. As a pointer it can't be rounded down: it becomes a number by
    // being added to one in memory. (Programs with 64 bytes of stack or more have one of their own since Linux 6.13.)
    code.store_constant(Frame, -8, 0);
    code.move_register(to, Frame);
    code.add_to_memory(Frame, -8, to);
    code.load(to, Frame, -8);
}

/// `to`, and the word at -8, = the kernel stack of a place.
fn round_to_stack(code: &mut Assembler, to: Register) {
    code.and_constant(to, -stack_bytes());
    code.store(Frame, -8, to);
}

/// `R0` = the value in a table of the key at this offset of the program's stack, or 0.
fn lookup(code: &mut Assembler, table: BorrowedFd<'_>, key_at: i32) {
    code.load_map(R1, table);
    code.move_register(R2, Frame);
    code.add_constant(R2, key_at);
    code.call(Helper::MapLookup);
}

/// Adds zeros under the key at this offset, unless the table has it. The word at `index_at` is overwritten. `R8` is kept.
fn insert_zeros(
    code: &mut Assembler,
    table: BorrowedFd<'_>,
    zeros: BorrowedFd<'_>,
    key_at: i32,
    index_at: i16,
) {
    const NO_EXIST: i32 = 1;
    let none = code.label();
    code.store_constant_u32(Frame, index_at, 0);
    lookup(code, zeros, i32::from(index_at));
    code.jump_if(R0, Condition::Equal, 0, none);
    code.move_register(R3, R0);
    code.load_map(R1, table);
    code.move_register(R2, Frame);
    code.add_constant(R2, key_at);
    code.move_constant(R4, NO_EXIST);
    code.call(Helper::MapUpdate);
    code.place(none);
}

/// `R8` = the context of the kernel stack at -8. Without one it counts a loss and goes to `done`.
fn find_context(code: &mut Assembler, tables: Tables<'_>, done: Label) {
    let found = code.label();
    lookup(code, tables.contexts, -8);
    code.jump_if(R0, Condition::NotEqual, 0, found);
    insert_zeros(code, tables.contexts, tables.zeros, -8, -16);
    lookup(code, tables.contexts, -8);
    code.jump_if(R0, Condition::NotEqual, 0, found);
    count_loss(code, tables, loss::CONTEXTS);
    code.jump(done);
    code.place(found);
    code.move_register(R8, R0);
}

/// Drops the innermost frame of the context at `R8` if the function that is entered now has left it unseen: a call of the same function that
/// still runs has a higher place of the stack, which grows downwards. Without this, all later calls from there would be within that frame. Overwrites
/// R7 and R9.
fn drop_unseen(code: &mut Assembler, number: usize, tables: Tables<'_>) {
    let runs = code.label();
    // A call within no other takes this way, too, though it has no such frame: what watching adds to a call is measured on one, so a nested
    // call must not take longer.
    code.load(R9, R8, 0);
    code.jump_if(R9, Condition::Above, DEPTH_MAX, runs);
    frame_at(code, R3, R9);
    code.load(R1, R3, FRAMES_AT + frame::PATH);
    code.and_constant(R1, (1 << NUMBER_BITS) - 1);
    code.jump_if(R1, Condition::NotEqual, number as i32, runs);
    code.jump_if(R9, Condition::Below, 1, runs);
    // Its sign says whether the frame's place is higher.
    code.load(R2, Frame, OWN_PLACE);
    code.load(R1, R3, FRAMES_AT + frame::PLACE);
    code.subtract(R2, R1);
    code.shift_right(R2, 63);
    code.jump_if(R2, Condition::NotEqual, 0, runs);
    code.add_constant(R9, -1);
    code.store(R8, 0, R9);
    code.move_constant(R7, 1);
    add_loss(code, tables, loss::NO_END, R7);
    code.place(runs);
}

/// `to` = `R8` + `depth` frames, which is FRAMES_AT before the frame at that depth.
fn frame_at(code: &mut Assembler, to: Register, depth: Register) {
    code.move_register(to, depth);
    code.multiply_constant(to, i32::from(FRAME_BYTES));
    code.add(to, R8);
}

/// Removes the innermost frame of the function from the context at `R8`, and those within it, whose ends were not seen. `R7` is then
/// FRAMES_AT before its caller's frame.
fn find_frame(code: &mut Assembler, number: usize, tables: Tables<'_>, no_entry: Label) {
    let found = code.label();
    code.load(R6, R8, 0);
    for _ in 0..DEPTH_MAX {
        code.jump_if(R6, Condition::Below, 1, no_entry);
        code.jump_if(R6, Condition::Above, DEPTH_MAX, no_entry);
        code.add_constant(R6, -1);
        frame_at(code, R7, R6);
        code.load(R1, R7, FRAMES_AT + FRAME_BYTES + frame::PATH);
        code.and_constant(R1, (1 << NUMBER_BITS) - 1);
        code.jump_if(R1, Condition::Equal, number as i32, found);
    }
    code.jump(no_entry);
    code.place(found);
    // R1 = the number of frames within it.
    code.load(R1, R8, 0);
    code.store(R8, 0, R6);
    code.subtract(R1, R6);
    code.add_constant(R1, -1);
    let complete = code.label();
    code.jump_if(R1, Condition::Equal, 0, complete);
    code.move_register(R6, R1);
    add_loss(code, tables, loss::NO_END, R6);
    code.place(complete);
}

/// `R0` = the tally of the device at -16 and the path at -8. A new one gets its device's name. Without one it counts a loss and goes to
/// `done`.
fn find_tally(code: &mut Assembler, name_at: NameOffset, tables: Tables<'_>, done: Label) {
    let (found, named) = (code.label(), code.label());
    lookup(code, tables.tallies, -16);
    code.jump_if(R0, Condition::NotEqual, 0, found);
    insert_zeros(code, tables.tallies, tables.zeros, -16, -24);
    code.load(R3, Frame, -16);
    code.jump_if(R3, Condition::Equal, 0, named);
    insert_zeros(code, tables.names, tables.zeros, -16, -24);
    lookup(code, tables.names, -16);
    code.jump_if(R0, Condition::Equal, 0, named);
    code.move_register(R6, R0);
    code.load(R3, Frame, -16);
    code.add_constant(R3, name_at);
    code.move_register(R1, Frame);
    code.add_constant(R1, -24);
    code.move_constant(R2, 8);
    code.call(Helper::ProbeReadKernel);
    code.jump_if(R0, Condition::NotEqual, 0, named);
    code.move_register(R1, R6);
    code.move_constant(R2, NAME_BYTES as i32);
    code.load(R3, Frame, -24);
    code.call(Helper::ProbeReadKernelStr);
    code.place(named);
    lookup(code, tables.tallies, -16);
    code.jump_if(R0, Condition::NotEqual, 0, found);
    count_loss(code, tables, loss::TALLIES);
    code.jump(done);
    code.place(found);
}

/// Adds 1 to the bucket of `value` in the tally at `R0`.
fn add_to_histogram(code: &mut Assembler, value: Register, at: usize) {
    // R3 = log2 of the value, by halves.
    code.move_register(R2, value);
    code.move_constant(R3, 0);
    for bits in [32, 16, 8, 4, 2, 1] {
        let below = code.label();
        code.move_register(R4, R2);
        code.shift_right(R4, bits);
        code.jump_if(R4, Condition::Equal, 0, below);
        code.move_register(R2, R4);
        code.add_constant(R3, bits);
        code.place(below);
    }
    let within = code.label();
    code.jump_if(R3, Condition::Below, BUCKETS as i32, within);
    code.move_constant(R3, BUCKETS as i32 - 1);
    code.place(within);
    code.shift_left(R3, 3);
    code.add(R3, R0);
    code.move_constant(R5, 1);
    code.add_to_memory(R3, 8 * at as i16, R5);
}

/// Adds 1 to a loss. Overwrites R6 and the 32-bit word at -24.
fn count_loss(code: &mut Assembler, tables: Tables<'_>, word: usize) {
    code.move_constant(R6, 1);
    add_loss(code, tables, word, R6);
}

/// Adds a number, in one of R6 to R9, to a loss. Overwrites the 32-bit word at -24.
fn add_loss(code: &mut Assembler, tables: Tables<'_>, word: usize, number: Register) {
    let none = code.label();
    code.store_constant_u32(Frame, -24, 0);
    lookup(code, tables.losses, -24);
    code.jump_if(R0, Condition::Equal, 0, none);
    code.add_to_memory(R0, 8 * word as i16, number);
    code.place(none);
}
