//! What threads ask for.

/// Threads that do the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// By which way.
    pub way: Way,
    /// Threads, spread over cores.
    pub threads: u32,
    /// What each has in flight. With one it waits for each.
    pub depth: u32,
    /// Of what it asks for, how much is read.
    pub read_share: f64,
    /// Bytes of each.
    pub io_bytes: u64,
}

/// How a thread reaches a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By system calls; it is woken by interrupts.
    Kernel,
    /// By a library in its process, through a queue of its own; it looks for completions.
    User,
}
