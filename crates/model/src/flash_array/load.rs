//! The load: what threads read and write.

/// Threads with the same load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// Through the kernel, or through a user-space library.
    pub way: IoInterface,
    /// Number of threads, spread over the cores.
    pub threads: u32,
    /// Requests in flight per thread.
    pub depth: u32,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Bytes per request.
    pub io_bytes: u64,
}

/// The interface through which a thread does I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoInterface {
    /// System calls; interrupts wake the thread.
    Kernel,
    /// A library in the process with its own queue; the thread polls.
    User,
}
