//! What the host executes for an I/O, in instructions.

/// The kernel's stack, without what translation takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stack {
    /// The system call, there and back.
    pub system_call: f64,
    /// A file system and its cache; none for a raw device.
    pub file_system: f64,
    /// The disk's driver, with what chooses a path. Its lock is the disk's.
    pub disk: Module,
    /// The protocol's, where it is a module of its own. Its lock is the port's.
    pub protocol: Option<Module>,
    /// The adapter's. Its lock is the queue's, and pages are mapped and unmapped with it held.
    pub adapter: Module,
    /// An interrupt, there and back.
    pub interrupt: f64,
    /// For a thread to go to sleep.
    pub sleep: f64,
    /// To be woken.
    pub wake: f64,
}

/// A module of the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Module {
    /// For a command on its way to the disk.
    pub submit: f64,
    /// And back.
    pub complete: f64,
    /// Of either, how much is executed with the module's lock held.
    pub locked_share: f64,
    /// Cache lines that go with the lock from core to core: its own and those of what it guards.
    pub lines: f64,
}

/// A library in a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Library {
    /// To put a command into its queue.
    pub submit: f64,
    /// To take a completion.
    pub complete: f64,
    /// To look for one where there is none.
    pub poll: f64,
}
