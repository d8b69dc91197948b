//! What a job file says.

/// A job file: jobs that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFile {
    /// Its jobs, in their order; at least one.
    pub jobs: Vec<Job>,
    /// Options that say nothing of the load.
    pub set_aside: Vec<SetAside>,
}

/// Threads that all do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its section's name.
    pub name: String,
    /// Reads, writes or both.
    pub access: Access,
    /// Places are drawn at random; if not, they follow each other.
    pub is_random: bool,
    /// Bytes of each read or write.
    pub block_bytes: u64,
    /// Of each thread, how many are in flight at once at most.
    pub depth: u32,
    /// Its threads, or processes.
    pub threads: u32,
    /// How it asks for them.
    pub engine: Engine,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// Each time one or the other.
    Mixed {
        /// Reads of 100.
        read_percent: u32,
    },
}

/// How a job asks for reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// One system call for each, which sleeps until it is done: `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`.
    Sync,
    /// A call that doesn't wait, up to the depth: `libaio`, `io_uring`.
    Asynchronous,
}

/// An option of which nothing is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Its name.
    pub option: String,
    /// The line, from 1.
    pub line: u32,
}
