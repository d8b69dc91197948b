//! Writes BPF programs: instructions one after another, and jumps to labels.
//!
//! The encoding is that of the kernel's "BPF Instruction Set Architecture" (Documentation/bpf/standardization, RFC 9669).

use std::os::fd::{AsRawFd, BorrowedFd};

/// A register. Calls of helpers overwrite R0 to R5, and take their arguments from R1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Register {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The end of the program's stack, which grows down. Read-only.
    Frame,
}

/// The kernel's functions for programs, by their numbers (`enum bpf_func_id`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    KtimeGetNs = 5,
    ProbeReadKernel = 113,
    ProbeReadKernelStr = 115,
}

/// A comparison of a register with a constant, as unsigned numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition {
    Equal = 0x15,
    NotEqual = 0x55,
    Above = 0x25,
    Below = 0xa5,
}

/// A place in a program that jumps lead to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label(usize);

/// An instruction as the kernel reads it (`struct bpf_insn`), on little-endian machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) operation: u8,
    /// Destination in the low half, source in the high one.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) constant: i32,
}

/// A program that is being written.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label is, once it is placed.
    labels: Vec<Option<usize>>,
    /// Jumps by position, and the labels that they lead to.
    jumps: Vec<(usize, Label)>,
}

const LOAD_U64: u8 = 0x79;
const STORE_U64: u8 = 0x7b;
const STORE_CONSTANT_U64: u8 = 0x7a;
const STORE_CONSTANT_U32: u8 = 0x62;
const ATOMIC_ADD_U64: u8 = 0xdb;
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_CONSTANT: u8 = 0x07;
const SUBTRACT: u8 = 0x1f;
const MULTIPLY_CONSTANT: u8 = 0x27;
const AND_CONSTANT: u8 = 0x57;
const OR_CONSTANT: u8 = 0x47;
const SHIFT_LEFT_CONSTANT: u8 = 0x67;
const SHIFT_RIGHT_CONSTANT: u8 = 0x77;
const LOAD_MAP: u8 = 0x18;
/// The source register of [`LOAD_MAP`] that says its constant is a map's file descriptor.
const MAP_DESCRIPTOR: u8 = 1;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

impl Assembler {
    /// The instructions.
    ///
    /// # Panics
    /// If a jump leads to a label that was not placed, or further than 32,767 instructions. Both are mistakes of whoever wrote the
    /// program, whatever the input.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("each label is placed");
            let distance = target as i64 - at as i64 - 1;
            self.instructions[at].offset = i16::try_from(distance).expect("programs are short");
        }
        self.instructions
    }

    /// A label to be placed later.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Jumps to this label lead to the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// Adds an instruction: its operation, destination, source, offset and constant.
    fn push(&mut self, operation: u8, destination: u8, source: u8, offset: i16, constant: i32) {
        let registers = destination | (source << 4);
        self.instructions.push(Instruction { operation, registers, offset, constant });
    }

    /// `to` = the 64-bit word at `base + offset`.
    pub(crate) fn load(&mut self, to: Register, base: Register, offset: i16) {
        self.push(LOAD_U64, to as u8, base as u8, offset, 0);
    }

    /// The 64-bit word at `base + offset` = `from`.
    pub(crate) fn store(&mut self, base: Register, offset: i16, from: Register) {
        self.push(STORE_U64, base as u8, from as u8, offset, 0);
    }

    /// The 64-bit word at `base + offset` = a constant.
    pub(crate) fn store_constant(&mut self, base: Register, offset: i16, constant: i32) {
        self.push(STORE_CONSTANT_U64, base as u8, 0, offset, constant);
    }

    /// The 32-bit word at `base + offset` = a constant.
    pub(crate) fn store_constant_u32(&mut self, base: Register, offset: i16, constant: i32) {
        self.push(STORE_CONSTANT_U32, base as u8, 0, offset, constant);
    }

    /// Adds `from` to the 64-bit word at `base + offset` in one step, which no interrupt and no other CPU divides.
    pub(crate) fn add_to_memory(&mut self, base: Register, offset: i16, from: Register) {
        self.push(ATOMIC_ADD_U64, base as u8, from as u8, offset, 0);
    }

    pub(crate) fn move_register(&mut self, to: Register, from: Register) {
        self.push(MOVE, to as u8, from as u8, 0, 0);
    }

    pub(crate) fn move_constant(&mut self, to: Register, constant: i32) {
        self.push(MOVE_CONSTANT, to as u8, 0, 0, constant);
    }

    pub(crate) fn add(&mut self, to: Register, from: Register) {
        self.push(ADD, to as u8, from as u8, 0, 0);
    }

    pub(crate) fn add_constant(&mut self, to: Register, constant: i32) {
        self.push(ADD_CONSTANT, to as u8, 0, 0, constant);
    }

    pub(crate) fn subtract(&mut self, to: Register, from: Register) {
        self.push(SUBTRACT, to as u8, from as u8, 0, 0);
    }

    pub(crate) fn multiply_constant(&mut self, to: Register, constant: i32) {
        self.push(MULTIPLY_CONSTANT, to as u8, 0, 0, constant);
    }

    /// `to` &= the constant, extended by its sign.
    pub(crate) fn and_constant(&mut self, to: Register, constant: i32) {
        self.push(AND_CONSTANT, to as u8, 0, 0, constant);
    }

    pub(crate) fn or_constant(&mut self, to: Register, constant: i32) {
        self.push(OR_CONSTANT, to as u8, 0, 0, constant);
    }

    pub(crate) fn shift_left(&mut self, to: Register, bits: i32) {
        self.push(SHIFT_LEFT_CONSTANT, to as u8, 0, 0, bits);
    }

    pub(crate) fn shift_right(&mut self, to: Register, bits: i32) {
        self.push(SHIFT_RIGHT_CONSTANT, to as u8, 0, 0, bits);
    }

    /// `to` = the map, as helpers take it.
    pub(crate) fn load_map(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.push(LOAD_MAP, to as u8, MAP_DESCRIPTOR, 0, map.as_raw_fd());
        // The upper half of the constant.
        self.push(0, 0, 0, 0, 0);
    }

    /// Jumps to the label if the condition holds of the register and the constant, which is extended by its sign.
    pub(crate) fn jump_if(&mut self, register: Register, condition: Condition, constant: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(condition as u8, register as u8, 0, 0, constant);
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP, 0, 0, 0, 0);
    }

    pub(crate) fn call(&mut self, helper: Helper) {
        self.push(CALL, 0, 0, 0, helper as i32);
    }

    /// Ends the program with the result 0.
    pub(crate) fn exit(&mut self) {
        self.move_constant(Register::R0, 0);
        self.push(EXIT, 0, 0, 0, 0);
    }
}
