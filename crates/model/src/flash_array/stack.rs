//! Instructions that the host executes per I/O.

/// Instructions of the kernel's I/O stack, without mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stack {
    /// A system call, entry and exit.
    pub system_call: f64,
    /// The file system and page cache; 0 for a raw device.
    pub file_system: f64,
    /// The disk driver, including path selection. Its lock is the disk's.
    pub disk: Module,
    /// The protocol module, if separate. Its lock is the port's.
    pub protocol: Option<Module>,
    /// The adapter's driver. Its lock is the queue's, and pages are mapped and unmapped while it is held.
    pub adapter: Module,
    /// An interrupt, entry and exit.
    pub interrupt: f64,
    /// Putting a thread to sleep.
    pub sleep: f64,
    /// Waking a thread.
    pub wake: f64,
}

/// Instructions of a kernel module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Module {
    /// Submission of a command.
    pub submit: f64,
    /// Completion of a command.
    pub complete: f64,
    /// Share of these executed with the module's lock held.
    pub locked_share: f64,
    /// Cache lines that move between cores with the lock: its own and those of the protected data.
    pub lines: f64,
}

/// Instructions of a user-space library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Library {
    /// Submission of a command.
    pub submit: f64,
    /// Processing of a completion.
    pub complete: f64,
    /// A poll that finds nothing.
    pub poll: f64,
}
