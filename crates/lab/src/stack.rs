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
//!   behind the last instruction of one on the stack    a return              popped to it
//!   in the middle of another one on the stack          an odd return         popped to it
//!   in the middle of one that is not on the stack      a jump                pushed, gives way to calls
//!   at an interrupt's entry, from the kernel           an interrupt          set on top as a new root
//!   below such a root                                  its return            popped to what it interrupted
//!   outside `__switch_to_asm` and its like             a switch of tasks     set aside, another one begins
//!   in a program                                       a return to it        emptied: the root is (user)
//!   in the kernel, from a program                      system call or        emptied: what is entered is
//!                                                      interrupt             the root
//! ```
//!
//! What follows from it:
//!
//! - A tail call stands on its caller, though its return skips that: the graph says who asked for it.
//! - Direct recursion is one frame, and so is a loop back to a function's first instruction.
//! - Trampolines (`__x86_indirect_thunk_*`, `__SCT__*`) and what was jumped into (a `.cold` part, a stub between
//!   module and kernel) make way for what they call: the graph shows that under the real caller.
//! - On POWER a function has two entries: its first instruction, and the one 8 bytes later for callers with the
//!   same table of contents (64-bit ELF V2 ABI, 2.3.2.1).
//! - An interrupt is a root of its own, because what it interrupted did not ask for it.
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
/// A return address is at most so far behind its call: the longest instruction of x86.
const CALL_BYTES_MAX: u64 = 15;
/// From a function's global to its local entry on POWER.
const LOCAL_ENTRY_BYTES: u64 = 8;

/// Instructions by stack, the root first.
pub type Folded = BTreeMap<Vec<Code>, u64>;

/// What control does at a function, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Landmark {
    None,
    InterruptEntry,
    /// Only returns from an interrupt, and calls nobody.
    InterruptExit,
    /// Leaves on the stack of another task.
    Switch,
    Trampoline,
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

    fn at(&self, code: Code) -> Landmark {
        match code {
            Code::Kernel(id) => self.of.get(id.0).copied().unwrap_or(Landmark::None),
            Code::User | Code::Unknown => Landmark::None,
        }
    }
}

fn landmark(name: &str) -> Landmark {
    let begins = |fronts: &[&str]| fronts.iter().any(|front| name.starts_with(front));
    match name {
        // arch/x86/entry/entry_64.S, arch/arm64/kernel/entry.S, arch/powerpc/kernel/entry_64.S
        "__switch_to_asm" | "cpu_switch_to" | "_switch" => Landmark::Switch,
        "irq_entries_start"
        | "spurious_entries_start"
        | "asm_common_interrupt"
        | "asm_spurious_interrupt" => Landmark::InterruptEntry,
        "vectors" | "tramp_vectors" | "__bp_harden_el1_vectors" => Landmark::InterruptEntry,
        "restore_regs_and_return_to_kernel" | "native_irq_return_iret" | "native_iret" => {
            Landmark::InterruptExit
        }
        "ret_to_kernel" => Landmark::InterruptExit,
        // arch/powerpc/kernel/exceptions-64s.S names the vectors by their offset.
        _ if begins(&["asm_sysvec_", "asm_exc_", "exc_real_0x", "exc_virt_0x"]) => Landmark::InterruptEntry,
        _ if begins(&["__x86_indirect_", "__SCT__"]) => Landmark::Trampoline,
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
        let behind = address.wrapping_sub(self.site);
        self.code == code && (1..=CALL_BYTES_MAX).contains(&behind)
    }
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
        let entry = |code, address| {
            let real_mode = code == Code::Unknown && address < KERNEL_START;
            real_mode || self.landmarks.at(code) == Landmark::InterruptEntry
        };
        match (top.code, piece.code) {
            (before, now) if before == now => {}
            (_, Code::User) | (Code::User, _) => self.root(piece),
            (before, now) if entry(now, piece.first) && !entry(before, top.site) => self.interrupt(piece),
            (before, _) if self.landmarks.at(before) == Landmark::InterruptExit && self.resume() => {
                self.arrive(piece);
            }
            _ if piece.arrival == Arrival::Entry => self.call(piece),
            _ => self.land(piece),
        }
    }

    /// The first that runs on a stack.
    fn begin(&mut self, piece: Piece) {
        if piece.code == Code::User { self.root(piece) } else { self.find(piece) }
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

    /// Returns from an interrupt, if one is under way.
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
        if let Some(lowest) = below.filter(|below| self.landmarks.at(below.code) != Landmark::InterruptEntry)
        {
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
