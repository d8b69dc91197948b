//! Benchmark of random reads and writes of a disk through each kernel interface, and by this project's user-space driver.

mod kernel;
mod library;
mod result;
mod submitter;

pub use result::{BLK_SCHEMA, BlkBenchmark, BlkCell, BlkOperation, BlkRow, BlkSettings};

use crate::clock::TickClock;
use crate::head::{Head, Origin};
use crate::latency::Latencies;
use crate::random::Random;
use crate::summary::Summary;
use crate::{HostSummary, warning};
use library::Library;
use nvme::{Controller, Namespace, NvmeError, QueueError};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use submitter::{Submitter, cpu_time};

/// Seed of the random positions.
const SEED: u64 = 1;
/// Seed of the random data.
const DATA_SEED: u64 = 2;

/// Is told of each step before it is done: how many are done, how many there are, and what is measured next.
pub type BlkProgress<'a> = dyn FnMut(u64, u64, &str) + 'a;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BlkError {
    /// The disk can't be read or written.
    #[error("{}", file.display())]
    Disk {
        /// The disk's file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The disk does not support requests of this size.
    #[error("invalid size of requests: {bytes} bytes; expected a multiple of 512 up to {bytes_max}")]
    Size {
        /// The requested size.
        bytes: u64,
        /// The size of the disk, or of its longest request.
        bytes_max: u64,
    },
    /// Commands of this size are not possible.
    #[error("commands of {bytes} bytes; expected a multiple of {step} up to {bytes_max}")]
    CommandSize {
        /// The requested size.
        bytes: u64,
        /// The page or block size, whichever is larger.
        step: u64,
        /// The largest transfer.
        bytes_max: u64,
    },
    /// A buffer of this size is not possible.
    #[error(
        "a buffer of {bytes} bytes; expected a multiple of {command_bytes}, the commands' size, up to {bytes_max}"
    )]
    BufferSize {
        /// The requested size.
        bytes: u64,
        /// The size of each command.
        command_bytes: u64,
        /// Bytes of the disk from the first block on, or the largest buffer.
        bytes_max: u64,
    },
    /// The data to compare with are too short.
    #[error("{expected} bytes to compare with; expected at least {bytes}, the buffer's size")]
    Expected {
        /// The buffer's size.
        bytes: u64,
        /// The size of the data.
        expected: u64,
    },
    /// The controller failed.
    #[error(transparent)]
    Controller(#[from] NvmeError),
    /// The queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A command can't be built.
    #[error(transparent)]
    Block(#[from] nvme::BlockError),
    /// A command completed with an error.
    #[error("the controller failed a command: {0}")]
    Status(nvme::spec::status::Status),
    /// No request completed in time.
    #[error("no request completed within {} s", limit.as_secs())]
    Late {
        /// The time limit.
        limit: Duration,
    },
}

/// Measures every kernel interface by each operation at each depth. `disk` is a block device or file, opened for them; what it reads and writes
/// bypasses the page cache from now on (`O_DIRECT`). `path` is its path, for errors, and finds it in sysfs.
///
/// Writes destroy what is on the disk. Nothing is locked or checked: claim the disk before ([`nvme::takeover::Claim`]).
///
/// # Errors
/// [`BlkError`]. An interface that the kernel lacks is reported as absent and is not an error.
pub fn measure_kernel_interfaces(
    settings: &BlkSettings,
    disk: &File,
    path: &Path,
    progress: &mut BlkProgress<'_>,
) -> Result<Vec<BlkRow>, BlkError> {
    let BlkSettings { operations, bytes, .. } = settings;
    let mut steps = Steps { done: 0, all: kernel::INTERFACES.len() * settings.steps(), progress };
    let mut rows = Vec::new();
    for interface in kernel::INTERFACES {
        for operation in operations.iter().copied() {
            let way = interface.name(operation);
            let cell = |depth| {
                steps.begin(way, operation, depth);
                match interface.open(disk, path, operation, depth, *bytes)? {
                    Ok(mut submitter) => measure(&mut *submitter, operation, depth, settings),
                    Err(absent) => Ok(BlkCell::absent(depth, absent)),
                }
            };
            rows.push(row(settings, way, operation, interface.what, cell)?);
        }
    }
    Ok(rows)
}

/// Measures the user-space driver by each operation at each depth, with a queue pair that it polls.
///
/// Writes destroy what is on the namespace.
///
/// # Errors
/// [`BlkError`]
pub fn measure_user_space_driver(
    settings: &BlkSettings,
    controller: &Arc<Mutex<Controller>>,
    namespace: Namespace,
    progress: &mut BlkProgress<'_>,
) -> Result<Vec<BlkRow>, BlkError> {
    let (way, what) =
        ("nvme", "iotoll's user-space driver: memory mapped once, queues polled, no system call");
    let mut steps = Steps { done: 0, all: settings.steps(), progress };
    let of_operation = |operation| {
        let cell = |depth| {
            steps.begin(way, operation, depth);
            let controller = Arc::clone(controller);
            let mut queue = Library::open(controller, namespace, operation, depth, settings.bytes)?;
            let cell = measure(&mut queue, operation, depth, settings)?;
            queue.close().map(|()| cell)
        };
        row(settings, way, operation, what, cell)
    };
    settings.operations.iter().copied().map(of_operation).collect()
}

/// A row with a cell for each depth.
fn row(
    settings: &BlkSettings,
    way: &str,
    operation: BlkOperation,
    what: &str,
    cell: impl FnMut(u16) -> Result<BlkCell, BlkError>,
) -> Result<BlkRow, BlkError> {
    let cells = settings.depths.iter().copied().map(cell).collect::<Result<_, _>>()?;
    Ok(BlkRow { way: way.to_owned(), operation, what: what.to_owned(), cells })
}

/// The steps of a measurement, of which somebody is told.
struct Steps<'a, 'p> {
    done: usize,
    all: usize,
    progress: &'a mut BlkProgress<'p>,
}

impl Steps<'_, '_> {
    /// Tells of the next one.
    fn begin(&mut self, way: &str, operation: BlkOperation, depth: u16) {
        let what = format!("{way}, {operation}, depth {depth}");
        (self.progress)(self.done as u64, self.all as u64, &what);
        self.done += 1;
    }
}

/// Random data to write: a disk could compress zeros, or not store them at all.
fn random_data(bytes: u64) -> Vec<u8> {
    Random::of_thread(DATA_SEED, 0).bytes(bytes as usize)
}

/// The document with the results.
pub fn blk_benchmark(settings: BlkSettings, origin: Origin, disk: String, rows: Vec<BlkRow>) -> BlkBenchmark {
    let mut head = Head::new(BLK_SCHEMA, origin, HostSummary::here());
    head.warnings = warning::of_machine(&head.machine);
    BlkBenchmark { head, settings, disk, rows }
}

/// The results of one round.
struct Round {
    requests: u64,
    wall: Duration,
    cpu: Duration,
}

/// Runs a warm-up round and all measured rounds.
fn measure(
    submitter: &mut dyn Submitter,
    operation: BlkOperation,
    depth: u16,
    settings: &BlkSettings,
) -> Result<BlkCell, BlkError> {
    let (clock, mut latencies) = (TickClock::new(), Latencies::new());
    let mut random = Random::of_thread(SEED, 0);
    let length = Duration::from_millis(settings.round_ms);
    let mut round =
        |latencies: &mut Latencies| round(submitter, depth, length, &clock, &mut random, latencies);
    // Warm-up.
    round(&mut Latencies::new())?;
    let rounds = (0..settings.rounds).map(|_| round(&mut latencies)).collect::<Result<Vec<_>, _>>()?;
    let per_second = |time: fn(&Round) -> Duration| {
        Summary::of(
            rounds
                .iter()
                .filter(|round| time(round) > Duration::ZERO)
                .map(|round| round.requests as f64 / time(round).as_secs_f64()),
        )
    };
    let rates = [per_second(|round| round.wall), per_second(|round| round.cpu)];
    Ok(BlkCell::measured(operation, depth, rates, latencies.percentiles()))
}

/// Keeps `depth` requests in flight for the time `length`, and waits for the last of them.
fn round(
    submitter: &mut dyn Submitter,
    depth: u16,
    length: Duration,
    clock: &TickClock,
    random: &mut Random,
    latencies: &mut Latencies,
) -> Result<Round, BlkError> {
    let positions = submitter.positions();
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut begun = vec![0; depth.into()];
    let mut free: Vec<u16> = (0..depth).collect();
    let (mut requests, mut done) = (0, Vec::with_capacity(depth.into()));
    let mut goes_on = true;
    loop {
        if goes_on {
            for slot in free.drain(..) {
                begun[usize::from(slot)] = clock.now();
                submitter.begin(slot, random.below(positions))?;
            }
        } else if free.len() == usize::from(depth) {
            break;
        }
        submitter.wait(&mut done)?;
        let now = clock.now();
        requests += done.len() as u64;
        for slot in done.drain(..) {
            latencies.record(&[now.saturating_sub(begun[usize::from(slot)])], clock);
            free.push(slot);
        }
        // Looked at last: a thread that had no CPU for a whole round has still made requests.
        goes_on = start.elapsed() < length;
    }
    Ok(Round { requests, wall: start.elapsed(), cpu: cpu_time().saturating_sub(cpu) })
}
