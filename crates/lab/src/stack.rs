//! Call stacks, concluded from the sequence of what ran.
//!
//! The record says which instructions ran, and not which were calls and returns. Where control arrives tells
//! them apart well enough:
//!
//! ```text
//!   arrives                                            is                    what becomes of the stack
//!   ------------------------------------------------   -------------------   -----------------------------
//!   in the function on top                             a loop or a jump      nothing
//!   at a function's first instruction                  a call                pushed
//!   there, behind the last instruction that ran        falling into it       takes the place of the top
//!   behind the last instruction of one on the stack    a return              popped to it
//!   in the middle of another one on the stack          an odd return         popped to it
//!   in the middle of one that is not on the stack      a jump                pushed, gives way to calls
//!   at an interrupt's entry, from the kernel           an interrupt          set on top as a new root
//!   below such a root                                  its return            popped to what it interrupted
//!   outside `__switch_to_asm` and its like             a switch of tasks     set aside, another one begins
//!   in a program                                       a return to it        emptied: that is the root
//!   in the kernel, from a program                      system call or        emptied: what is entered is
//!                                                      interrupt             the root
//! ```
//!
//! What follows from it:
//!
//! - A tail call stands on its caller, though its return skips that: the graph says who asked for it.
//! - Direct recursion is one frame, and so is a loop back to a function's first instruction.
//! - Trampolines (`__x86_indirect_thunk_*`, `__SCT__*`) and what was jumped into (a stub between module and kernel)
//!   make way for what they call: the graph shows that under the real caller. Not so `.cold` parts of functions.
//! - On POWER a function has two entries: its first instruction, and the one 8 bytes later for callers with the
//!   same table of contents (64-bit ELF V2 ABI, 2.3.2.1).
//! - An interrupt is a root of its own, because what it interrupted did not ask for it. Tables of entries
//!   (`irq_entries_start`, `vectors`) make way for the entry they lead to.
//!
//! A switch of tasks is the hard part: the record does not say to which task. What runs next is in the middle of
//! the scheduler on a stack of unknown depth, and its callers show only as it returns to them:
//!
//! ```text
//!   set aside           after the switch, bottom unknown              next switch, user mode, or the end
//!
//!   __schedule          __schedule                      __schedule    are the frames that it returned to, in
//!   schedule             (nobody called it)   returns   schedule      order, those of a stack set aside?
//!   io_schedule                               ------->  io_schedule   yes: it is that task; what ran goes
//!   ...                                                 (unknown)          where it was set aside
//!   entry_SYSCALL_64                                                  no:  a task not seen before; its root
//!                                                                          is the last frame found
//! ```
//!
//! Tasks that never end their window are thus rooted where they loop: `do_idle`, `worker_thread`.

use crate::Arch;
use crate::symbols::{Code, FunctionId, KERNEL_START, Symbols};
use std::collections::{BTreeMap, HashMap};

/// Deeper stacks than any kernel's of 16 KiB: further calls take the place of the top.
const DEPTH_MAX: usize = 256;
/// More tasks than take turns in one I/O: the oldest is forgotten.
const TASKS_MAX: usize = 64;
/// The longest instruction, of x86: a return address is at most so far behind its call.
const INSTRUCTION_BYTES_MAX: u64 = 15;
/// From a function's global to its local entry on POWER.
const LOCAL_ENTRY_BYTES: u64 = 8;

/// Instructions by stack, the root first.
pub type Folded = BTreeMap<Vec<Code>, u64>;

/// What control does at a function, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Landmark {
    None,
    /// Entered at its first instruction.
    InterruptEntry,
    /// Many entries in one symbol.
    InterruptTable,
    /// Only returns from an interrupt, and calls nobody.
    InterruptExit,
    /// Leaves on the stack of another task.
    Switch,
    Trampoline,
    /// A part of a function that is seldom run, put elsewhere by the compiler and jumped to.
    Cold,
}

/// The functions that stacks turn on, of some symbols.
pub struct Landmarks {
    of: Vec<Landmark>,
    local_entry_bytes: Option<u64>,
}

impl Landmarks {
    /// Looks every function up once.
    pub fn new(symbols: &Symbols, arch: Arch) -> Self {
        let of = (0..symbols.len()).map(|id| landmark(&symbols.function(FunctionId(id)).name)).collect();
        Self { of, local_entry_bytes: (arch == Arch::Ppc).then_some(LOCAL_ENTRY_BYTES) }
    }

    /// Whether a function is entered at an address in it.
    pub fn is_entry(&self, symbols: &Symbols, address: u64) -> bool {
        let local = self.local_entry_bytes.and_then(|bytes| address.checked_sub(bytes));
        symbols.entry(address).is_some() || local.is_some_and(|global| symbols.entry(global).is_some())
    }

    fn takes_interrupts(&self, code: Code) -> bool {
        matches!(self.at(code), Landmark::InterruptEntry | Landmark::InterruptTable)
    }

    fn at(&self, code: Code) -> Landmark {
        match code {
            Code::Kernel(id) => self.of.get(id.0).copied().unwrap_or(Landmark::None),
            Code::User | Code::Program(_) | Code::Unknown => Landmark::None,
        }
    }
}

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

/// A stretch of instructions of one function, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Whose they are.
    pub code: Code,
    /// Where control arrived.
    pub arrival: Arrival,
    /// The address of the first.
    pub first: u64,
    /// The address of the last.
    pub last: u64,
    /// How many.
    pub instructions: u64,
}

/// Where in a function control arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// At an entry.
    Entry,
    /// Elsewhere.
    Middle,
}

/// A node of the call tree.
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

#[derive(Debug, Clone, Copy)]
struct Frame {
    code: Code,
    node: usize,
    /// The last of its instructions that ran.
    site: u64,
    entered: Entered,
}

impl Frame {
    fn is_returned_to(&self, code: Code, address: u64) -> bool {
        self.code == code && is_behind(self.site, address)
    }
}

/// Whether an address can be that of the instruction behind another.
fn is_behind(instruction: u64, address: u64) -> bool {
    (1..=INSTRUCTION_BYTES_MAX).contains(&address.wrapping_sub(instruction))
}

/// What is below the lowest frame.
enum Bottom {
    Known,
    /// Not yet known: which frames were found by returns to them.
    Unknown(Vec<Found>),
}

#[derive(Clone, Copy)]
struct Found {
    code: Code,
    address: u64,
    node: usize,
}

/// Follows one virtual CPU from call to call.
pub struct Walker<'a> {
    landmarks: &'a Landmarks,
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, Code), usize>,
    frames: Vec<Frame>,
    bottom: Bottom,
    /// The stacks of other tasks, the one set aside last at the end.
    aside: Vec<Vec<Frame>>,
}

impl<'a> Walker<'a> {
    /// Begins, on a stack of which nothing is known.
    pub fn new(landmarks: &'a Landmarks) -> Self {
        Self {
            landmarks,
            nodes: Vec::new(),
            children: HashMap::new(),
            frames: Vec::new(),
            bottom: Bottom::Unknown(Vec::new()),
            aside: Vec::new(),
        }
    }

    /// Takes what ran next.
    pub fn ran(&mut self, piece: Piece) {
        if piece.instructions == 0 {
            return;
        }
        self.arrive(piece);
        if let Some(top) = self.frames.last_mut() {
            top.site = piece.last;
            self.nodes[top.node].instructions += piece.instructions;
        }
    }

    /// The instructions of each stack.
    pub fn finish(mut self) -> Folded {
        self.settle();
        let mut folded = Folded::new();
        for (id, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.instructions > 0) {
            *folded.entry(self.path(id)).or_default() += node.instructions;
        }
        folded
    }

    fn path(&self, node: usize) -> Vec<Code> {
        let upwards = std::iter::successors(Some(node), |node| self.nodes[*node].parent);
        let mut path: Vec<Code> = upwards.map(|node| self.nodes[node].code).collect();
        path.reverse();
        path
    }

    /// Makes the piece's function the top.
    fn arrive(&mut self, piece: Piece) {
        let Some(top) = self.frames.last().copied() else { return self.begin(piece) };
        match (top.code, piece.code) {
            (before, now) if before == now => {}
            (before, now) if before.is_user() != now.is_user() => self.root(piece),
            // Of a program without symbols nothing is known but that it was called.
            (_, Code::User) => self.put(piece, Entered::Called),
            (before, _) if self.interrupts(piece) && !self.landmarks.takes_interrupts(before) => {
                self.interrupt(piece);
            }
            _ if piece.arrival == Arrival::Entry && is_behind(top.site, piece.first) => {
                self.replace(piece, self.nodes[top.node].parent);
            }
            (before, _) if self.landmarks.at(before) == Landmark::InterruptExit && self.resume() => {
                self.arrive(piece);
            }
            (before, _) if self.landmarks.at(before) == Landmark::InterruptTable => self.replace(piece, None),
            _ if piece.arrival == Arrival::Entry => self.call(piece),
            _ => self.land(piece),
        }
    }

    fn interrupts(&self, piece: Piece) -> bool {
        match (self.landmarks.at(piece.code), piece.arrival) {
            (Landmark::InterruptTable, _) | (Landmark::InterruptEntry, Arrival::Entry) => true,
            // POWER's vectors with translation off.
            _ => piece.code == Code::Unknown && piece.first < KERNEL_START,
        }
    }

    /// The first that runs on a stack.
    fn begin(&mut self, piece: Piece) {
        if piece.code.is_user() { self.root(piece) } else { self.find(piece) }
    }

    fn root(&mut self, piece: Piece) {
        self.settle();
        self.frames.clear();
        self.push(piece, None, Entered::Called);
    }

    fn interrupt(&mut self, piece: Piece) {
        self.make_room();
        self.push(piece, None, Entered::Interrupting);
    }

    /// Takes the place of the top.
    fn replace(&mut self, piece: Piece, parent: Option<usize>) {
        let entered = self.frames.pop().map_or(Entered::Called, |top| top.entered);
        self.push(piece, parent, entered);
    }

    fn call(&mut self, piece: Piece) {
        let gives_way = |frame: &Frame| {
            frame.entered == Entered::Jumped || self.landmarks.at(frame.code) == Landmark::Trampoline
        };
        if self.frames.len() > 1 && self.frames.last().is_some_and(gives_way) {
            self.frames.pop();
        }
        self.put(piece, Entered::Called);
    }

    /// Control arrives in the middle of another function.
    fn land(&mut self, piece: Piece) {
        let level = self.level();
        let switch = (level..self.frames.len())
            .rev()
            .find(|at| self.landmarks.at(self.frames[*at].code) == Landmark::Switch);
        let found = self.resumed(level..self.frames.len(), piece);
        match (switch, found) {
            (Some(switch), found) if found.is_none_or(|at| at < switch) => self.switch(switch, piece),
            (_, Some(at)) => self.frames.truncate(at + 1),
            (_, None) => match self.resumed(0..level, piece) {
                Some(at) => self.frames.truncate(at + 1),
                None if self.landmarks.at(piece.code) == Landmark::Cold => self.put(piece, Entered::Called),
                None if self.is_bottom_near() => self.find(piece),
                None => self.put(piece, Entered::Jumped),
            },
        }
    }

    /// Where the frames of the latest interrupt begin.
    fn level(&self) -> usize {
        let interrupting = |frame: &Frame| frame.entered == Entered::Interrupting;
        self.frames.iter().rposition(interrupting).unwrap_or(0)
    }

    fn is_bottom_near(&self) -> bool {
        matches!(self.bottom, Bottom::Unknown(_))
            && self.frames.iter().all(|frame| frame.entered != Entered::Interrupting)
    }

    /// The frame that goes on, of some: that which called last, else the nearest of the function.
    fn resumed(&self, among: std::ops::Range<usize>, piece: Piece) -> Option<usize> {
        let frames = &self.frames[among.clone()];
        let exact = frames.iter().rposition(|frame| frame.is_returned_to(piece.code, piece.first));
        let found = exact.or_else(|| frames.iter().rposition(|frame| frame.code == piece.code));
        found.map(|at| among.start + at)
    }

    /// Returns from an interrupt, if one is active.
    fn resume(&mut self) -> bool {
        let interrupting = |frame: &Frame| frame.entered == Entered::Interrupting;
        let Some(at) = self.frames.iter().rposition(interrupting) else { return false };
        self.frames.truncate(at);
        true
    }

    /// Leaves a task whose frame `at` switches to another.
    fn switch(&mut self, at: usize, piece: Piece) {
        self.frames.truncate(at);
        self.settle();
        if self.aside.len() == TASKS_MAX {
            self.aside.remove(0);
        }
        self.aside.push(std::mem::take(&mut self.frames));
        self.bottom = Bottom::Unknown(Vec::new());
        self.find(piece);
    }

    /// The lowest frame returned to a function: that is the lowest from now on.
    fn find(&mut self, piece: Piece) {
        let node = self.new_node(piece.code, None);
        let below = self.frames.first().copied();
        self.frames = vec![Frame { code: piece.code, node, site: piece.last, entered: Entered::Called }];
        let Bottom::Unknown(found) = &mut self.bottom else { return };
        if found.len() == DEPTH_MAX {
            self.bottom = Bottom::Known;
            return;
        }
        found.push(Found { code: piece.code, address: piece.first, node });
        // What an interrupt interrupted did not call it.
        if let Some(lowest) = below.filter(|below| !self.landmarks.takes_interrupts(below.code)) {
            self.nodes[lowest.node].parent = Some(node);
        }
    }

    /// Decides which task a stack of unknown bottom is, and puts what ran where it belongs.
    fn settle(&mut self) {
        let Bottom::Unknown(found) = std::mem::replace(&mut self.bottom, Bottom::Known) else { return };
        let matching = |stack: &Vec<Frame>| same_frames(stack, &found);
        let same = (0..self.aside.len()).rev().find_map(|task| Some((task, matching(&self.aside[task])?)));
        let Some((task, places)) = same else { return };
        let stack = self.aside.remove(task);
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

    fn put(&mut self, piece: Piece, entered: Entered) {
        self.make_room();
        let parent = self.frames.last().map(|frame| frame.node);
        self.push(piece, parent, entered);
    }

    fn make_room(&mut self) {
        self.frames.truncate(DEPTH_MAX - 1);
    }

    fn push(&mut self, piece: Piece, parent: Option<usize>, entered: Entered) {
        let key = (parent, piece.code);
        let node = self.children.get(&key).copied().unwrap_or_else(|| self.new_node(piece.code, parent));
        self.children.insert(key, node);
        self.frames.push(Frame { code: piece.code, node, site: piece.last, entered });
    }

    fn new_node(&mut self, code: Code, parent: Option<usize>) -> usize {
        self.nodes.push(Node { code, parent, instructions: 0 });
        self.nodes.len() - 1
    }
}

/// Where in a stack that was set aside each frame is that was found since; none if it is another task's.
fn same_frames(stack: &[Frame], found: &[Found]) -> Option<Vec<usize>> {
    let mut places: Vec<usize> = Vec::new();
    for found in found {
        let above = places.last().copied().unwrap_or(stack.len());
        let is_same = |at: &usize| {
            let interrupted = stack.get(at + 1).is_some_and(|above| above.entered == Entered::Interrupting);
            stack[*at].is_returned_to(found.code, found.address)
                || interrupted && stack[*at].code == found.code
        };
        // Tail calls are skipped by returns, but the one that switched is always returned to.
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

    /// Functions of 0x100 bytes, in this order from the kernel's begin.
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

    /// Functions of a program, of as many bytes each, in this order from here on.
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
        Symbols::read(&text).unwrap().with_program(program)
    }

    /// A piece from words like `vfs_read+10`: two instructions from there on, so that a return lands 9 later.
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
        steps.split_whitespace().for_each(|step| walker.ran(piece(step, &symbols, &landmarks)));
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
    fn calls_and_returns() {
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
    fn a_program_s_functions_call_each_other_and_what_has_no_symbol() {
        check(
            "main+9 poll pop user poll+9 pop poll+9 main+12 entry_SYSCALL_64 main+20",
            &["entry_SYSCALL_64 2", "main 6", "main;poll 6", "main;poll;pop 4", "main;poll;pop;(user) 2"],
        );
    }

    #[test]
    fn a_tail_call_stands_on_its_caller_and_returns_past_it() {
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
    fn trampolines_make_way_and_cold_parts_stay() {
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
    fn an_interrupt_is_a_root_and_returns_to_what_it_interrupted() {
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
    fn an_interrupt_of_an_interrupt_returns_to_that() {
        // The exit falls into its last part; the third comes before anything of what the second interrupted ran.
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
    fn an_interrupt_between_a_call_and_its_first_instruction() {
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
    fn a_task_that_was_switched_away_comes_back_to_its_own_stack() {
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
    fn a_task_not_seen_before_is_not_taken_for_another() {
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
    fn what_falls_into_the_next_function_is_that_one_from_then_on() {
        check(
            "user entry_SYSCALL_64+f8 vfs_read schedule vfs_read+9 user+8",
            &["(user) 4", "entry_SYSCALL_64 2", "vfs_read 4", "vfs_read;schedule 2"],
        );
    }

    #[test]
    fn recursion_of_a_function_with_itself_is_one_frame() {
        check(
            "user entry_SYSCALL_64 vfs_read vfs_read vfs_read+9 entry_SYSCALL_64+9",
            &["(user) 2", "entry_SYSCALL_64 4", "entry_SYSCALL_64;vfs_read 6"],
        );
    }

    #[test]
    fn power_s_functions_have_two_entries() {
        let steps = "user exc_virt_0x4500_hardware_interrupt nvme_irq+8 exc_virt_0x4500_hardware_interrupt+9";
        let root = "exc_virt_0x4500_hardware_interrupt";
        assert_eq!(
            folded(steps, Arch::Ppc),
            ["(user) 2", &format!("{root} 4"), &format!("{root};nvme_irq 2")]
        );
    }

    #[test]
    fn calls_without_end_stay_bounded() {
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
        fn stacks_add_up_and_stay_bounded(pieces in proptest::collection::vec(any_piece(), 0..600)) {
            let symbols = symbols();
            let landmarks = Landmarks::new(&symbols, Arch::X86);
            let mut walker = Walker::new(&landmarks);
            pieces.iter().for_each(|piece| walker.ran(*piece));
            let folded = walker.finish();
            let ran: u64 = pieces.iter().map(|piece| piece.instructions).sum();
            prop_assert_eq!(folded.values().sum::<u64>(), ran);
            prop_assert!(folded.keys().all(|stack| !stack.is_empty() && stack.len() <= 2 * DEPTH_MAX));
            let is_apart = |stack: &Vec<Code>| stack.iter().all(|code| code.is_user() == stack[0].is_user());
            prop_assert!(folded.keys().all(is_apart), "a program does not call the kernel's functions, nor is called");
        }
    }
}
