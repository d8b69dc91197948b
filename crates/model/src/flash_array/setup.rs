//! A host, its adapters and its array, and what is asked of them.

use super::adapter::Adapter;
use super::array::Array;
use super::fault::Fault;
use super::load::{Job, Way};
use super::multipath::Multipath;
use super::path::PathId;
use super::stack::{Library, Stack};
use crate::host::{Cpus, DmaPath, HostError, MappingCost};
use des::Span;

/// A host, its adapters and its array, and what is asked of them.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its CPUs.
    pub cpus: Cpus,
    /// What its kernel executes.
    pub stack: Stack,
    /// What a process with queues of its own executes.
    pub library: Library,
    /// How memory is mapped for adapters; none where they reach it by the addresses that programs have.
    pub translation: Option<Translation>,
    /// Adapters, all alike.
    pub adapters: u32,
    /// What they are.
    pub adapter: Adapter,
    /// How paths are chosen and watched.
    pub multipath: Multipath,
    /// Where the data is.
    pub array: Array,
    /// Disks that the array offers, on each of its ports.
    pub disks: u32,
    /// What runs at the same time.
    pub jobs: Vec<Job>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Time before anything is measured.
    pub warm_up: Span,
    /// Time that is measured.
    pub measured: Span,
    /// Of all random choices.
    pub seed: u64,
}

/// How memory is mapped for adapters, each with a table of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Translation {
    /// By which DMA path.
    pub dma_path: DmaPath,
    /// What that costs.
    pub cost: MappingCost,
}

/// What can't be built or carried out.
#[derive(Debug, thiserror::Error)]
pub enum FlashArrayError {
    /// A number that makes no sense.
    #[error("{what} is {value}; expected {expected}")]
    Number {
        /// Of what.
        what: &'static str,
        /// What it is.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// More threads want a queue than adapters have left.
    #[error(
        "{threads} threads want a queue of an adapter each; there are {queues} besides those of the kernel"
    )]
    Queues {
        /// Threads.
        threads: u64,
        /// Queues.
        queues: u64,
    },
    /// The host.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// More than any machine has, and than a simulation has room for.
const ADAPTERS_MAX: u32 = 64;
const PORTS_MAX: u32 = 16;
const QUEUES_MAX: u32 = 4096;
const DISKS_MAX: u32 = 65_536;
const MODULES_MAX: u32 = 65_536;
const THREADS_MAX: u64 = 16_384;
const DEPTH_MAX: u32 = 4096;
const IO_BYTES_MAX: u64 = 16 << 20;

impl Setup {
    /// Paths of each disk.
    pub fn paths(&self) -> u32 {
        self.adapters * self.adapter.ports
    }

    /// Queues of the kernel, of all adapters.
    pub(super) fn kernel_queues(&self) -> u32 {
        self.adapters * self.adapter.kernel_queues
    }

    /// The kernel's queue for a disk on a path.
    pub(super) fn queue_of(&self, disk: u32, path: PathId) -> u32 {
        let of_adapter = disk % self.adapter.kernel_queues;
        self.adapter_of(path) * self.adapter.kernel_queues + of_adapter
    }

    pub(super) fn adapter_of(&self, path: PathId) -> u32 {
        path.0 / self.adapter.ports
    }

    /// Threads of all jobs that go one way.
    pub(super) fn threads(&self, way: Way) -> u64 {
        self.jobs.iter().filter(|job| job.way == way).map(|job| u64::from(job.threads)).sum()
    }

    /// # Errors
    /// [`FlashArrayError`]: the first number that makes no sense.
    pub(super) fn check(&self) -> Result<(), FlashArrayError> {
        let adapter = &self.adapter;
        count("adapters", self.adapters, ADAPTERS_MAX)?;
        count("adapter.ports", adapter.ports, PORTS_MAX)?;
        count("adapter.queues_max", adapter.queues_max, QUEUES_MAX)?;
        count("adapter.kernel_queues", adapter.kernel_queues, adapter.queues_max)?;
        count("disks", self.disks, DISKS_MAX)?;
        count("array.modules", self.array.modules, MODULES_MAX)?;
        rate("adapter.bus_bytes_per_second", adapter.bus_bytes_per_second)?;
        rate("adapter.port_bytes_per_second", adapter.port_bytes_per_second)?;
        rate("array.read.per_second", self.array.read.per_second)?;
        rate("array.write.per_second", self.array.write.per_second)?;
        number(
            "multipath.health_check",
            self.multipath.health_check,
            self.multipath.health_check > Span::ZERO,
            "more than nothing",
        )?;
        number("measured", self.measured, self.measured > Span::ZERO, "more than nothing")?;
        for fault in &self.faults {
            number("a fault's path", fault.path.0, fault.path.0 < self.paths(), "one that there is")?;
        }
        self.jobs.iter().try_for_each(check_job)?;
        self.check_threads()
    }

    fn check_threads(&self) -> Result<(), FlashArrayError> {
        let user = self.threads(Way::User);
        let all = user + self.threads(Way::Kernel);
        number("threads of all jobs", all, all <= THREADS_MAX, "16384 at most")?;
        let queues = u64::from(self.adapters) * u64::from(self.adapter.user_queues());
        if user > queues {
            return Err(FlashArrayError::Queues { threads: user, queues });
        }
        let polls = self.library.poll * self.cpus.instruction_ns;
        number(
            "library.poll",
            self.library.poll,
            user == 0 || polls >= 1.0,
            "so much that looking takes 1 ns or more",
        )
    }
}

fn check_job(job: &Job) -> Result<(), FlashArrayError> {
    count("a job's depth", job.depth, DEPTH_MAX)?;
    number("a job's read_share", job.read_share, (0.0..=1.0).contains(&job.read_share), "0 to 1")?;
    let is_size =
        job.io_bytes.is_multiple_of(super::SECTOR_BYTES) && (1..=IO_BYTES_MAX).contains(&job.io_bytes);
    number("a job's io_bytes", job.io_bytes, is_size, "a multiple of 4096 up to 16 MiB")
}

fn count(what: &'static str, value: u32, most: u32) -> Result<(), FlashArrayError> {
    number(what, value, (1..=most).contains(&value), "1 or more, and no more than any machine has")
}

fn rate(what: &'static str, value: f64) -> Result<(), FlashArrayError> {
    number(what, value, (1.0..=1e15).contains(&value), "1 to 1e15")
}

fn number(
    what: &'static str,
    value: impl ToString,
    holds: bool,
    expected: &'static str,
) -> Result<(), FlashArrayError> {
    if holds { Ok(()) } else { Err(FlashArrayError::Number { what, value: value.to_string(), expected }) }
}
