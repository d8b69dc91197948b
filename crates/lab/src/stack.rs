//! Reconstructs call stacks from the sequence of executed instructions.
//!
//! The record contains the executed instructions, without saying which were calls and returns. The place where
//! execution continues distinguishes them well enough:
//!
//! ```text
//!   execution continues                                this is               effect on the stack
//!   ------------------------------------------------   -------------------   -----------------------------
//!   in the function on top                             a loop or a jump      none
//!   at a function's first instruction                  a call                push
//!   there, directly behind the last instruction        a fall-through        replace the top
//!   behind the last instruction of a lower frame       a return              pop to that frame
//!   elsewhere in the function of a lower frame         an unusual return     pop to that frame
//!   in the middle of a function without a frame        a jump                push; the next call replaces it
//!   at an interrupt's entry, from the kernel           an interrupt          push as a new root
//!   in a frame below such a root                       return from it        pop to the interrupted frame
//!   outside `__switch_to_asm` or its like              a task switch         save the stack, start another
//!   in user mode                                       a return to it        clear; it is the root
//!   in the kernel, from user mode                      system call or        clear; the function entered is
//!                                                      interrupt             the root
//! ```
//!
//! Consequences:
//!
//! - A function entered by a tail call is above the function that jumped to it, although it returns past that one.
//! - Direct recursion is one frame, and so is a loop back to a function's first instruction.
//! - Trampolines (`__x86_indirect_thunk_*`, `__SCT__*`) and functions entered by a jump (stubs between a module and
//!   the kernel) are replaced by the function they call, so that it appears under its real caller. `.cold` parts of
//!   functions are not replaced.
//! - On POWER a function has two entries: its first instruction, and the one 8 bytes later for callers with the
//!   same table of contents (64-bit ELF V2 ABI, 2.3.2.1).
//! - An interrupt is a root of its own, because the interrupted function did not call it. Tables of entries
//!   (`irq_entries_start`, `vectors`) are replaced by the entry that they lead to.
//!
//! At a task switch, the record does not say which task runs next. Execution continues in the middle of the
//! scheduler on a stack of unknown depth, and the callers appear only when execution returns to them:
//!
//! ```text
//!   saved stack         after the switch, bottom unknown              at the next switch, user mode, or the end
//!
//!   __schedule          __schedule                      __schedule    Do the frames that it returned to match
//!   schedule             (no caller known)    returns   schedule      a saved stack, in this order?
//!   io_schedule                               ------->  io_schedule   yes: it is that task; its instructions
//!   ...                                                 (unknown)          count on the saved stack
//!   entry_SYSCALL_64                                                  no:  a new task; its root is the last
//!                                                                          frame that it returned to
//! ```
//!
//! The root of a task that does not return further in its window is therefore its loop: `do_idle`, `worker_thread`.

use crate::Arch;
use crate::symbols::{Code, FunctionId, KERNEL_START, Symbols};
use std::collections::{BTreeMap, HashMap};

/// Frames of a stack, more than fit into the kernel's 16 KiB. Further calls replace the top.
const DEPTH_MAX: usize = 256;
/// Saved stacks, more than tasks take part in one I/O. Beyond that the oldest is dropped.
const TASKS_MAX: usize = 64;
/// The longest x86 instruction: a return address is at most this far behind its call.
const INSTRUCTION_BYTES_MAX: u64 = 15;
/// Bytes from a function's global entry to its local entry on POWER.
const LOCAL_ENTRY_BYTES: u64 = 8;

/// Instructions by call stack, the root first.
pub type Folded = BTreeMap<Vec<Code>, u64>;

/// The role of a function in calls, interrupts and task switches, recognised by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Landmark {
    /// An ordinary function.
    None,
    /// Interrupts enter it at its first instruction.
    InterruptEntry,
    /// A symbol with many interrupt entries.
    InterruptTable,
    /// Only returns from an interrupt, and calls no function.
    InterruptExit,
    /// Continues on the stack of another task.
    Switch,
    /// Jumps to the function that its caller wants to call.
    Trampoline,
    /// The rarely executed part of a function, which the compiler placed elsewhere.
    Cold,
}

/// The roles of all functions of some symbols.
pub struct Landmarks {
    /// By function number.
    of: Vec<Landmark>,
    local_entry_bytes: Option<u64>,
}

impl Landmarks {
    /// Determines the role of every function.
    pub fn new(symbols: &Symbols, arch: Arch) -> Self {
        let of = (0..symbols.len()).map(|id| landmark(&symbols.function(FunctionId(id)).name)).collect();
        Self { of, local_entry_bytes: (arch == Arch::Ppc).then_some(LOCAL_ENTRY_BYTES) }
    }

    /// Whether calls enter a function at this address.
    pub fn is_entry(&self, symbols: &Symbols, address: u64) -> bool {
        let local = self.local_entry_bytes.and_then(|bytes| address.checked_sub(bytes));
        symbols.entry(address).is_some() || local.is_some_and(|global| symbols.entry(global).is_some())
    }

    /// Whether interrupts enter the kernel in this function.
    fn is_interrupt_entry(&self, code: Code) -> bool {
        matches!(self.of(code), Landmark::InterruptEntry | Landmark::InterruptTable)
    }

    /// The role of a function.
    fn of(&self, code: Code) -> Landmark {
        match code {
            Code::Kernel(id) => self.of.get(id.0).copied().unwrap_or(Landmark::None),
            Code::User | Code::Program(_) | Code::Unknown => Landmark::None,
        }
    }
}

/// The role of the function of a name.
fn landmark(name: &str) -> Landmark {
    let begins = |fronts: &[&str]| fronts.iter().any(|front| name.starts_with(front));
    match name {
        // arch/x86/entry/entry_64.S, arch/arm64/kernel/entry.S, arch/powerpc/kernel/entry_64.S
        "__switch_to_asm" | "cpu_switch_to" | "_switch" => Landmark::Switch,
        "irq_entries_start" | "spurious_entries_start" => Landmark::InterruptTable,
        "vectors" | "tramp_vectors" | "__bp_harden_el1_vectors" => Landmark::InterruptTable,
        "asm_common_interrupt" | "asm_spurious_interrupt" => Landmark::InterruptEntry,
        // `iretq` and `eret`
        "native_irq_return_iret" | "ret_to_kernel" => Landmark::InterruptExit,
        // arch/powerpc/kernel/exceptions-64s.S names the vectors by their offset.
        _ if begins(&["asm_sysvec_", "asm_exc_", "exc_real_0x", "exc_virt_0x"]) => Landmark::InterruptEntry,
        _ if begins(&["__x86_indirect_", "__SCT__"]) => Landmark::Trampoline,
        _ if name.ends_with(".cold") => Landmark::Cold,
        _ => Landmark::None,
    }
}

/// Consecutive executed instructions of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The function.
    pub code: Code,
    /// Whether the piece begins at the function's entry.
    pub arrival: Arrival,
    /// The address of the first instruction.
    pub first: u64,
    /// The address of the last instruction.
    pub last: u64,
    /// The number of instructions.
    pub instructions: u64,
}

/// Where in its function a piece begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// At an entry of the function.
    Entry,
    /// Elsewhere in the function.
    Middle,
}

/// A node of the call tree: a function under the functions that called it.
struct Node {
    code: Code,
    parent: Option<usize>,
    instructions: u64,
}

/// How a frame got on its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entered {
    Called,
    Jumped,
    Interrupting,
}

/// A stack frame.
#[derive(Debug, Clone, Copy)]
struct Frame {
    code: Code,
    /// Index of its node in the call tree.
    node: usize,
    /// The address of its instruction that was executed last.
    site: u64,
    entered: Entered,
}

impl Frame {
    /// Whether a piece of `code` that begins at `address` can be a return to this frame.
    fn is_returned_to(&self, code: Code, address: u64) -> bool {
        self.code == code && is_behind(self.site, address)
    }
}

/// Whether `address` can be that of the instruction directly behind `instruction`.
fn is_behind(instruction: u64, address: u64) -> bool {
    (1..=INSTRUCTION_BYTES_MAX).contains(&address.wrapping_sub(instruction))
}

/// Whether the callers of the lowest frame are known.
enum Bottom {
    /// The lowest frame is the root.
    Known,
    /// After a task switch: the frames found so far by returns to them, the innermost first.
    Unknown(Vec<FoundFrame>),
}

/// A frame that became known when execution returned to it.
#[derive(Clone, Copy)]
struct FoundFrame {
    code: Code,
    /// The address that execution returned to.
    address: u64,
    /// Index of its node in the call tree.
    node: usize,
}

/// Reconstructs the call stacks of one virtual CPU.
pub struct Walker<'a> {
    landmarks: &'a Landmarks,
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, Code), usize>,
    frames: Vec<Frame>,
    bottom: Bottom,
    /// The stacks of other tasks, the latest at the end.
    saved: Vec<Vec<Frame>>,
}

impl<'a> Walker<'a> {
    /// Starts with an unknown stack.
    pub fn new(landmarks: &'a Landmarks) -> Self {
        Self {
            landmarks,
            nodes: Vec::new(),
            children: HashMap::new(),
            frames: Vec::new(),
            bottom: Bottom::Unknown(Vec::new()),
            saved: Vec::new(),
        }
    }

    /// Processes the instructions that were executed next.
    pub fn execute(&mut self, piece: Piece) {
        if piece.instructions == 0 {
            return;
        }
        self.arrive(piece);
        if let Some(top) = self.frames.last_mut() {
            top.site = piece.last;
            self.nodes[top.node].instructions += piece.instructions;
        }
    }

    /// Ends the reconstruction and returns the instructions of each stack.
    pub fn finish(mut self) -> Folded {
        self.resolve_bottom();
        let mut folded = Folded::new();
        for (id, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.instructions > 0) {
            *folded.entry(self.path(id)).or_default() += node.instructions;
        }
        folded
    }

    /// The functions from the root to a node of the call tree.
    fn path(&self, node: usize) -> Vec<Code> {
        let upwards = std::iter::successors(Some(node), |node| self.nodes[*node].parent);
        let mut path: Vec<Code> = upwards.map(|node| self.nodes[node].code).collect();
        path.reverse();
        path
    }

    /// Changes the stack so that the piece's function is on top, by the table in the module's documentation.
    fn arrive(&mut self, piece: Piece) {
        let Some(top) = self.frames.last().copied() else { return self.begin(piece) };
        match (top.code, piece.code) {
            (before, now) if before == now => {}
            (before, now) if before.is_user() != now.is_user() => self.start_at_root(piece),
            // User code without symbols: every arrival counts as a call.
            (_, Code::User) => self.push_on_top(piece, Entered::Called),
            (before, _) if self.is_interrupt(piece) && !self.landmarks.is_interrupt_entry(before) => {
                self.push_interrupt(piece);
            }
            _ if piece.arrival == Arrival::Entry && is_behind(top.site, piece.first) => {
                self.replace(piece, self.nodes[top.node].parent);
            }
            (before, _)
                if self.landmarks.of(before) == Landmark::InterruptExit && self.return_from_interrupt() =>
            {
                self.arrive(piece);
            }
            (before, _) if self.landmarks.of(before) == Landmark::InterruptTable => self.replace(piece, None),
            _ if piece.arrival == Arrival::Entry => self.call(piece),
            _ => self.return_or_jump(piece),
        }
    }

    /// Whether an interrupt begins with this piece.
    fn is_interrupt(&self, piece: Piece) -> bool {
        match (self.landmarks.of(piece.code), piece.arrival) {
            (Landmark::InterruptTable, _) | (Landmark::InterruptEntry, Arrival::Entry) => true,
            // POWER's interrupt vectors, which run with address translation off.
            _ => piece.code == Code::Unknown && piece.first < KERNEL_START,
        }
    }

    /// Processes the first piece on an empty stack.
    fn begin(&mut self, piece: Piece) {
        if piece.code.is_user() { self.start_at_root(piece) } else { self.find_caller(piece) }
    }

    /// Clears the stack and makes the piece its root.
    fn start_at_root(&mut self, piece: Piece) {
        self.resolve_bottom();
        self.frames.clear();
        self.push(piece, None, Entered::Called);
    }

    /// Pushes the root of an interrupt's frames.
    fn push_interrupt(&mut self, piece: Piece) {
        self.limit_depth();
        self.push(piece, None, Entered::Interrupting);
    }

    /// Replaces the top; `parent` is the new frame's parent in the call tree.
    fn replace(&mut self, piece: Piece, parent: Option<usize>) {
        let entered = self.frames.pop().map_or(Entered::Called, |top| top.entered);
        self.push(piece, parent, entered);
    }

    /// Pushes a called function. It replaces a trampoline, or a function that was entered by a jump.
    fn call(&mut self, piece: Piece) {
        let is_replaced = |frame: &Frame| {
            frame.entered == Entered::Jumped || self.landmarks.of(frame.code) == Landmark::Trampoline
        };
        if self.frames.len() > 1 && self.frames.last().is_some_and(is_replaced) {
            self.frames.pop();
        }
        self.push_on_top(piece, Entered::Called);
    }

    /// Execution continues in the middle of another function: a return, a task switch or a jump.
    fn return_or_jump(&mut self, piece: Piece) {
        let level = self.interrupt_level();
        let switch = (level..self.frames.len())
            .rev()
            .find(|at| self.landmarks.of(self.frames[*at].code) == Landmark::Switch);
        let found = self.frame_returned_to(level..self.frames.len(), piece);
        match (switch, found) {
            (Some(switch), found) if found.is_none_or(|at| at < switch) => self.switch_task(switch, piece),
            (_, Some(at)) => self.frames.truncate(at + 1),
            (_, None) => match self.frame_returned_to(0..level, piece) {
                Some(at) => self.frames.truncate(at + 1),
                None if self.landmarks.of(piece.code) == Landmark::Cold => {
                    self.push_on_top(piece, Entered::Called);
                }
                None if self.may_return_below_bottom() => self.find_caller(piece),
                None => self.push_on_top(piece, Entered::Jumped),
            },
        }
    }

    /// Index of the latest interrupt's root frame; 0 without an interrupt.
    fn interrupt_level(&self) -> usize {
        let interrupting = |frame: &Frame| frame.entered == Entered::Interrupting;
        self.frames.iter().rposition(interrupting).unwrap_or(0)
    }

    /// Whether execution can return to a frame below the lowest known one.
    fn may_return_below_bottom(&self) -> bool {
        matches!(self.bottom, Bottom::Unknown(_))
            && self.frames.iter().all(|frame| frame.entered != Entered::Interrupting)
    }

    /// Index of the frame that the piece returns to, among a range of frames: one whose last instruction is directly
    /// before the piece, or else the topmost one of the piece's function.
    fn frame_returned_to(&self, among: std::ops::Range<usize>, piece: Piece) -> Option<usize> {
        let frames = &self.frames[among.clone()];
        let exact = frames.iter().rposition(|frame| frame.is_returned_to(piece.code, piece.first));
        let found = exact.or_else(|| frames.iter().rposition(|frame| frame.code == piece.code));
        found.map(|at| among.start + at)
    }

    /// Removes the frames of the latest interrupt. False if there is none.
    fn return_from_interrupt(&mut self) -> bool {
        let interrupting = |frame: &Frame| frame.entered == Entered::Interrupting;
        let Some(at) = self.frames.iter().rposition(interrupting) else { return false };
        self.frames.truncate(at);
        true
    }

    /// Saves the stack below the switching frame `at`, and starts an unknown one with `piece`.
    fn switch_task(&mut self, at: usize, piece: Piece) {
        self.frames.truncate(at);
        self.resolve_bottom();
        if self.saved.len() == TASKS_MAX {
            self.saved.remove(0);
        }
        self.saved.push(std::mem::take(&mut self.frames));
        self.bottom = Bottom::Unknown(Vec::new());
        self.find_caller(piece);
    }

    /// Execution returned from the lowest known frame: the piece's function is its caller and the new lowest frame.
    fn find_caller(&mut self, piece: Piece) {
        let node = self.new_node(piece.code, None);
        let below = self.frames.first().copied();
        self.frames = vec![Frame { code: piece.code, node, site: piece.last, entered: Entered::Called }];
        let Bottom::Unknown(found) = &mut self.bottom else { return };
        if found.len() == DEPTH_MAX {
            self.bottom = Bottom::Known;
            return;
        }
        found.push(FoundFrame { code: piece.code, address: piece.first, node });
        // The function that an interrupt returns to is not its caller.
        if let Some(lowest) = below.filter(|below| !self.landmarks.is_interrupt_entry(below.code)) {
            self.nodes[lowest.node].parent = Some(node);
        }
    }

    /// If the bottom is unknown, searches the saved stacks for the one that execution continued on, and restores it.
    fn resolve_bottom(&mut self) {
        let Bottom::Unknown(found) = std::mem::replace(&mut self.bottom, Bottom::Known) else { return };
        let matching = |stack: &Vec<Frame>| match_frames(stack, &found);
        let same = (0..self.saved.len()).rev().find_map(|task| Some((task, matching(&self.saved[task])?)));
        let Some((task, places)) = same else { return };
        let stack = self.saved.remove(task);
        for (found, place) in found.iter().zip(&places) {
            self.nodes[found.node].parent = self.nodes[stack[*place].node].parent;
        }
        let lowest = places.last().copied().unwrap_or_default();
        if lowest + self.frames.len() <= DEPTH_MAX {
            if let Some(frame) = self.frames.first_mut() {
                frame.entered = stack[lowest].entered;
            }
            self.frames.splice(0..0, stack[..lowest].iter().copied());
        }
    }

    /// Pushes a frame whose parent is the current top.
    fn push_on_top(&mut self, piece: Piece, entered: Entered) {
        self.limit_depth();
        let parent = self.frames.last().map(|frame| frame.node);
        self.push(piece, parent, entered);
    }

    /// Removes the top if the stack has reached [`DEPTH_MAX`].
    fn limit_depth(&mut self) {
        self.frames.truncate(DEPTH_MAX - 1);
    }

    /// Pushes a frame under a parent in the call tree.
    fn push(&mut self, piece: Piece, parent: Option<usize>, entered: Entered) {
        let key = (parent, piece.code);
        let node = self.children.get(&key).copied().unwrap_or_else(|| self.new_node(piece.code, parent));
        self.children.insert(key, node);
        self.frames.push(Frame { code: piece.code, node, site: piece.last, entered });
    }

    /// Appends a node to the call tree and returns its index.
    fn new_node(&mut self, code: Code, parent: Option<usize>) -> usize {
        self.nodes.push(Node { code, parent, instructions: 0 });
        self.nodes.len() - 1
    }
}

/// The index in a saved stack of each frame found after the switch. `None` if the stack is another task's.
fn match_frames(stack: &[Frame], found: &[FoundFrame]) -> Option<Vec<usize>> {
    let mut places: Vec<usize> = Vec::new();
    for found in found {
        let above = places.last().copied().unwrap_or(stack.len());
        let is_same = |at: &usize| {
            let interrupted = stack.get(at + 1).is_some_and(|above| above.entered == Entered::Interrupting);
            stack[*at].is_returned_to(found.code, found.address)
                || interrupted && stack[*at].code == found.code
        };
        // Returns skip frames that made a tail call, but the function that called the switch is always returned to.
        places.push((0..above).rev().find(is_same).filter(|at| !places.is_empty() || at + 1 == stack.len())?);
    }
    (!places.is_empty()).then_some(places)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::guest::program::ProgramFunction;
    use proptest::prelude::*;

    /// Kernel functions of 0x100 bytes each, in this order from the kernel's lowest address.
    const NAMES: [&str; 18] = [
        "entry_SYSCALL_64",
        "vfs_read",
        "schedule",
        "__schedule",
        "__switch_to_asm",
        "__switch_to",
        "do_idle",
        "schedule_idle",
        "irq_entries_start",
        "asm_common_interrupt",
        "native_irq_return_iret",
        "nvme_irq",
        "__x86_indirect_thunk_rax",
        "worker_thread",
        "printk",
        "vfs_read.cold",
        "vectors",
        "exc_virt_0x4500_hardware_interrupt",
    ];
    const FUNCTION_BYTES: u64 = 0x100;

    /// Functions of a program, 0x100 bytes each, in this order from [`PROGRAM_START`].
    const PROGRAM: [&str; 3] = ["main", "poll", "pop"];
    const PROGRAM_START: u64 = 0x40_0000;

    fn symbols() -> Symbols {
        let line = |(at, name): (u64, &&str)| format!("{:x} {name}\n", KERNEL_START + at * FUNCTION_BYTES);
        let text: String = (0..).zip(NAMES.iter()).map(line).collect();
        let function = |(at, name): (u64, &&str)| {
            let start = PROGRAM_START + at * FUNCTION_BYTES;
            ProgramFunction { name: (*name).to_owned(), addresses: start..start + FUNCTION_BYTES }
        };
        let program = (0..).zip(PROGRAM.iter()).map(function).collect();
        Symbols::parse(&text).unwrap().with_program(program)
    }

    /// A piece from text like `vfs_read+10` (hexadecimal): two instructions there, 4 bytes apart. A return to the
    /// function is therefore written as an offset 9 higher.
    fn piece(text: &str, symbols: &Symbols, landmarks: &Landmarks) -> Piece {
        let (name, offset) = text.split_once('+').unwrap_or((text, "0"));
        let offset = u64::from_str_radix(offset, 16).unwrap();
        let place = |names: &[&str]| names.iter().position(|known| *known == name).map(|at| at as u64);
        let first = match (place(&NAMES), place(&PROGRAM)) {
            (Some(at), _) => KERNEL_START + at * FUNCTION_BYTES + offset,
            (None, Some(at)) => PROGRAM_START + at * FUNCTION_BYTES + offset,
            (None, None) => 0x70_0000 + offset,
        };
        let is_entry = landmarks.is_entry(symbols, first);
        let arrival = if is_entry { Arrival::Entry } else { Arrival::Middle };
        Piece { code: symbols.code(first), arrival, first, last: first + 4, instructions: 2 }
    }

    fn folded(steps: &str, arch: Arch) -> Vec<String> {
        let symbols = symbols();
        let landmarks = Landmarks::new(&symbols, arch);
        let mut walker = Walker::new(&landmarks);
        steps.split_whitespace().for_each(|step| walker.execute(piece(step, &symbols, &landmarks)));
        let name = |code: &Code| symbols.name(*code);
        let line = |(stack, count): (&Vec<Code>, &u64)| {
            format!("{} {count}", stack.iter().map(name).collect::<Vec<_>>().join(";"))
        };
        let mut lines: Vec<String> = walker.finish().iter().map(line).collect();
        lines.sort();
        lines
    }

    fn check(steps: &str, expected: &[&str]) {
        assert_eq!(folded(steps, Arch::X86), expected, "{steps}");
    }

    #[test]
    fn calls_push_and_returns_pop() {
        check(
            "user entry_SYSCALL_64 vfs_read printk vfs_read+9 entry_SYSCALL_64+9 user+8",
            &[
                "(user) 4",
                "entry_SYSCALL_64 4",
                "entry_SYSCALL_64;vfs_read 4",
                "entry_SYSCALL_64;vfs_read;printk 2",
            ],
        );
    }

    #[test]
    fn a_program_s_functions_call_each_other_and_code_without_symbols() {
        check(
            "main+9 poll pop user poll+9 pop poll+9 main+12 entry_SYSCALL_64 main+20",
            &["entry_SYSCALL_64 2", "main 6", "main;poll 6", "main;poll;pop 4", "main;poll;pop;(user) 2"],
        );
    }

    #[test]
    fn a_tail_called_function_is_above_its_caller_and_returns_past_it() {
        check(
            "user entry_SYSCALL_64 vfs_read printk entry_SYSCALL_64+9 schedule",
            &[
                "(user) 2",
                "entry_SYSCALL_64 4",
                "entry_SYSCALL_64;schedule 2",
                "entry_SYSCALL_64;vfs_read 2",
                "entry_SYSCALL_64;vfs_read;printk 2",
            ],
        );
    }

    #[test]
    fn calls_replace_trampolines_but_not_cold_parts() {
        check(
            "user entry_SYSCALL_64 vfs_read __x86_indirect_thunk_rax schedule vfs_read+9 vfs_read.cold+20 printk \
             vfs_read.cold+29 vfs_read+40",
            &[
                "(user) 2",
                "entry_SYSCALL_64 2",
                "entry_SYSCALL_64;vfs_read 6",
                "entry_SYSCALL_64;vfs_read;__x86_indirect_thunk_rax 2",
                "entry_SYSCALL_64;vfs_read;schedule 2",
                "entry_SYSCALL_64;vfs_read;vfs_read.cold 4",
                "entry_SYSCALL_64;vfs_read;vfs_read.cold;printk 2",
            ],
        );
    }

    #[test]
    fn an_interrupt_is_a_root_and_returns_to_the_interrupted_function() {
        check(
            "user entry_SYSCALL_64 vfs_read irq_entries_start+38 asm_common_interrupt nvme_irq \
             asm_common_interrupt+9 native_irq_return_iret vfs_read+9 entry_SYSCALL_64+9",
            &[
                "(user) 2",
                "asm_common_interrupt 4",
                "asm_common_interrupt;native_irq_return_iret 2",
                "asm_common_interrupt;nvme_irq 2",
                "entry_SYSCALL_64 4",
                "entry_SYSCALL_64;vfs_read 4",
                "irq_entries_start 2",
            ],
        );
    }

    #[test]
    fn a_nested_interrupt_returns_to_the_first_interrupt() {
        // Two nested interrupts, the second before any instruction of the interrupted handler. The exit path falls
        // through into its last symbol.
        let exit = "asm_common_interrupt+f8 native_irq_return_iret";
        check(
            &format!(
                "user entry_SYSCALL_64 vfs_read asm_common_interrupt nvme_irq irq_entries_start+8 \
                 asm_common_interrupt {exit} irq_entries_start+10 asm_common_interrupt {exit} nvme_irq+9 printk \
                 nvme_irq+12 asm_common_interrupt+9 {exit} vfs_read+9 entry_SYSCALL_64+9"
            ),
            &[
                "(user) 2",
                "asm_common_interrupt 14",
                "asm_common_interrupt;nvme_irq 6",
                "asm_common_interrupt;nvme_irq;printk 2",
                "entry_SYSCALL_64 4",
                "entry_SYSCALL_64;vfs_read 4",
                "irq_entries_start 4",
                "native_irq_return_iret 6",
            ],
        );
    }

    #[test]
    fn an_interrupt_between_a_call_and_the_callee_keeps_the_caller() {
        check(
            "user entry_SYSCALL_64 asm_common_interrupt native_irq_return_iret vfs_read entry_SYSCALL_64+9",
            &[
                "(user) 2",
                "asm_common_interrupt 2",
                "asm_common_interrupt;native_irq_return_iret 2",
                "entry_SYSCALL_64 4",
                "entry_SYSCALL_64;vfs_read 2",
            ],
        );
    }

    #[test]
    fn a_task_continues_on_its_saved_stack_when_it_runs_again() {
        check(
            "user entry_SYSCALL_64 vfs_read schedule __schedule __switch_to_asm __switch_to \
             __schedule+9 schedule_idle+9 do_idle+9 schedule_idle __schedule __switch_to_asm __switch_to \
             __schedule+9 schedule+9 vfs_read+9 printk vfs_read+12 entry_SYSCALL_64+9 user+8",
            &[
                "(user) 4",
                "do_idle 2",
                "do_idle;schedule_idle 4",
                "do_idle;schedule_idle;__schedule 4",
                "do_idle;schedule_idle;__schedule;__switch_to_asm 2",
                "do_idle;schedule_idle;__schedule;__switch_to_asm;__switch_to 2",
                "entry_SYSCALL_64 4",
                "entry_SYSCALL_64;vfs_read 6",
                "entry_SYSCALL_64;vfs_read;printk 2",
                "entry_SYSCALL_64;vfs_read;schedule 4",
                "entry_SYSCALL_64;vfs_read;schedule;__schedule 4",
                "entry_SYSCALL_64;vfs_read;schedule;__schedule;__switch_to_asm 2",
                "entry_SYSCALL_64;vfs_read;schedule;__schedule;__switch_to_asm;__switch_to 2",
            ],
        );
    }

    #[test]
    fn a_new_task_gets_a_stack_of_its_own() {
        check(
            "user entry_SYSCALL_64 schedule __schedule __switch_to_asm __schedule+9 schedule+9 worker_thread+9 printk",
            &[
                "(user) 2",
                "entry_SYSCALL_64 2",
                "entry_SYSCALL_64;schedule 2",
                "entry_SYSCALL_64;schedule;__schedule 2",
                "entry_SYSCALL_64;schedule;__schedule;__switch_to_asm 2",
                "worker_thread 2",
                "worker_thread;printk 2",
                "worker_thread;schedule 2",
                "worker_thread;schedule;__schedule 2",
            ],
        );
    }

    #[test]
    fn a_fall_through_replaces_the_function_on_top() {
        check(
            "user entry_SYSCALL_64+f8 vfs_read schedule vfs_read+9 user+8",
            &["(user) 4", "entry_SYSCALL_64 2", "vfs_read 4", "vfs_read;schedule 2"],
        );
    }

    #[test]
    fn direct_recursion_is_one_frame() {
        check(
            "user entry_SYSCALL_64 vfs_read vfs_read vfs_read+9 entry_SYSCALL_64+9",
            &["(user) 2", "entry_SYSCALL_64 4", "entry_SYSCALL_64;vfs_read 6"],
        );
    }

    #[test]
    fn functions_on_power_have_two_entries() {
        let steps = "user exc_virt_0x4500_hardware_interrupt nvme_irq+8 exc_virt_0x4500_hardware_interrupt+9";
        let root = "exc_virt_0x4500_hardware_interrupt";
        assert_eq!(
            folded(steps, Arch::Ppc),
            ["(user) 2", &format!("{root} 4"), &format!("{root};nvme_irq 2")]
        );
    }

    #[test]
    fn endless_calls_do_not_exceed_the_depth_limit() {
        let steps = "vfs_read printk ".repeat(10 * DEPTH_MAX);
        let lines = folded(&format!("user entry_SYSCALL_64 {steps}"), Arch::X86);
        assert!(lines.iter().all(|line| line.matches(';').count() < DEPTH_MAX));
    }

    fn any_piece() -> impl Strategy<Value = Piece> {
        let place = (0..(NAMES.len() + 2 + PROGRAM.len()) as u64, 0..4_u64, 0..6_u64);
        place.prop_map(|(function, offset, instructions)| {
            let symbols = symbols();
            let first = match function.checked_sub(NAMES.len() as u64) {
                Some(0) => 0x70_0000 + offset,
                Some(1) => 0x500 + offset,
                Some(function) => PROGRAM_START + (function - 2) * FUNCTION_BYTES + offset * 8,
                None => KERNEL_START + function * FUNCTION_BYTES + offset * 8,
            };
            let arrival = if offset == 0 { Arrival::Entry } else { Arrival::Middle };
            let last = first + instructions.saturating_sub(1);
            Piece { code: symbols.code(first), arrival, first, last, instructions }
        })
    }

    proptest! {
        #[test]
        fn stacks_contain_every_instruction_and_stay_bounded(pieces in proptest::collection::vec(any_piece(), 0..600)) {
            let symbols = symbols();
            let landmarks = Landmarks::new(&symbols, Arch::X86);
            let mut walker = Walker::new(&landmarks);
            pieces.iter().for_each(|piece| walker.execute(*piece));
            let folded = walker.finish();
            let ran: u64 = pieces.iter().map(|piece| piece.instructions).sum();
            prop_assert_eq!(folded.values().sum::<u64>(), ran);
            prop_assert!(folded.keys().all(|stack| !stack.is_empty() && stack.len() <= 2 * DEPTH_MAX));
            let is_unmixed = |stack: &Vec<Code>| stack.iter().all(|code| code.is_user() == stack[0].is_user());
            prop_assert!(folded.keys().all(is_unmixed), "user and kernel functions are never on the same stack");
        }
    }
}
