//! Setup of a simulation: host, adapters, array, and load.

use super::array::Array;
use super::array_adapter::ArrayAdapter;
use super::fault::Fault;
use super::load::{IoInterface, Job};
use super::multipath::Multipath;
use super::path::PathId;
use super::stack::{Library, Stack};
use crate::host::{Cpus, DmaPath, HostError, MappingCost};
use crate::steady::Unsteady;
use des::Span;

/// Host, adapters, array, and load.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The host's CPUs.
    pub cpus: Cpus,
    /// Instructions of the kernel's I/O stack.
    pub stack: Stack,
    /// Instructions of a user-space library with its own queues.
    pub library: Library,
    /// How memory is mapped for adapters; `None` if they use virtual addresses.
    pub translation: Option<Translation>,
    /// Number of adapters, all alike.
    pub adapters: u32,
    /// Their parameters.
    pub adapter: ArrayAdapter,
    /// Selection and checks of paths.
    pub multipath: Multipath,
    /// The flash array.
    pub array: Array,
    /// Disks of the array, each reachable on every port.
    pub disks: u32,
    /// Loads that run at the same time.
    pub jobs: Vec<Job>,
    /// Faults of cables.
    pub faults: Vec<Fault>,
    /// Warm-up time before measuring, at least.
    pub warm_up: Span,
    /// Measured time, at least.
    pub measured: Span,
    /// Seed of all random choices.
    pub seed: u64,
}

/// How memory is mapped for adapters. Each adapter has its own table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Translation {
    /// DMA path.
    pub dma_path: DmaPath,
    /// Costs of mapping.
    pub cost: MappingCost,
}

/// An invalid setup.
#[derive(Debug, thiserror::Error)]
pub enum FlashArrayError {
    /// A number is out of range.
    #[error("{what} is {value}; expected {expected}")]
    Number {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: String,
        /// The allowed range.
        expected: &'static str,
    },
    /// More threads need their own queue than the adapters have left.
    #[error(
        "{threads} threads need their own queue of an adapter; expected at most {queues}, those that the kernel does not use"
    )]
    Queues {
        /// Threads that need a queue.
        threads: u64,
        /// Queues available.
        queues: u64,
    },
    /// No window was steady.
    #[error(transparent)]
    Unsteady(#[from] Unsteady),
    /// An invalid host.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Limits that no machine exceeds, and that keep the simulation's memory bounded.
const ADAPTERS_MAX: u32 = 64;
const PORTS_MAX: u32 = 16;
const QUEUES_MAX: u32 = 4096;
const DISKS_MAX: u32 = 65_536;
const MODULES_MAX: u32 = 65_536;
const THREADS_MAX: u64 = 16_384;
const DEPTH_MAX: u32 = 4096;
const IO_BYTES_MAX: u64 = 16 << 20;

impl Setup {
    /// Number of paths of each disk.
    pub fn paths(&self) -> u32 {
        self.adapters * self.adapter.ports
    }

    /// Number of the kernel's queues on all adapters.
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

    /// Number of threads with this interface.
    pub(super) fn threads(&self, way: IoInterface) -> u64 {
        self.jobs.iter().filter(|job| job.way == way).map(|job| u64::from(job.threads)).sum()
    }

    /// # Errors
    /// [`FlashArrayError`]: the first number that makes no sense.
    pub(super) fn check(&self) -> Result<(), FlashArrayError> {
        let adapter = &self.adapter;
        check_count("adapters", self.adapters, ADAPTERS_MAX)?;
        check_count("adapter.ports", adapter.ports, PORTS_MAX)?;
        check_count("adapter.queues_max", adapter.queues_max, QUEUES_MAX)?;
        check_count("adapter.kernel_queues", adapter.kernel_queues, adapter.queues_max)?;
        check_count("disks", self.disks, DISKS_MAX)?;
        check_count("array.modules", self.array.modules, MODULES_MAX)?;
        check_rate("adapter.bus_bytes_per_second", adapter.bus_bytes_per_second)?;
        check_rate("adapter.port_bytes_per_second", adapter.port_bytes_per_second)?;
        check_rate("array.read.per_second", self.array.read.per_second)?;
        check_rate("array.write.per_second", self.array.write.per_second)?;
        number(
            "multipath.health_check",
            self.multipath.health_check,
            self.multipath.health_check > Span::ZERO,
            "more than 0",
        )?;
        number("measured", self.measured, self.measured > Span::ZERO, "more than 0")?;
        for fault in &self.faults {
            number("a fault's path", fault.path.0, fault.path.0 < self.paths(), "an existing path")?;
        }
        self.jobs.iter().try_for_each(check_job)?;
        self.check_threads()
    }

    fn check_threads(&self) -> Result<(), FlashArrayError> {
        let user = self.threads(IoInterface::User);
        let all = user + self.threads(IoInterface::Kernel);
        number("threads of all jobs", all, all <= THREADS_MAX, "at most 16384")?;
        let queues = u64::from(self.adapters) * u64::from(self.adapter.user_queues());
        if user > queues {
            return Err(FlashArrayError::Queues { threads: user, queues });
        }
        let polls = self.library.poll * self.cpus.instruction_ns;
        number(
            "library.poll",
            self.library.poll,
            user == 0 || polls >= 1.0,
            "enough instructions for at least 1 ns per poll",
        )
    }
}

fn check_job(job: &Job) -> Result<(), FlashArrayError> {
    check_count("a job's depth", job.depth, DEPTH_MAX)?;
    number("a job's read_share", job.read_share, (0.0..=1.0).contains(&job.read_share), "0 to 1")?;
    let is_size =
        job.io_bytes.is_multiple_of(super::SECTOR_BYTES) && (1..=IO_BYTES_MAX).contains(&job.io_bytes);
    number("a job's io_bytes", job.io_bytes, is_size, "a multiple of 4096 up to 16 MiB")
}

/// Checks that a count is at least 1 and at most `most`.
fn check_count(what: &'static str, value: u32, most: u32) -> Result<(), FlashArrayError> {
    number(what, value, (1..=most).contains(&value), "at least 1, and no more than any machine has")
}

/// Checks that a rate is positive and finite.
fn check_rate(what: &'static str, value: f64) -> Result<(), FlashArrayError> {
    number(what, value, (1.0..=1e15).contains(&value), "1 to 1e15")
}

/// Fails with [`FlashArrayError::Number`] unless `holds`.
fn number(
    what: &'static str,
    value: impl ToString,
    holds: bool,
    expected: &'static str,
) -> Result<(), FlashArrayError> {
    if holds { Ok(()) } else { Err(FlashArrayError::Number { what, value: value.to_string(), expected }) }
}
