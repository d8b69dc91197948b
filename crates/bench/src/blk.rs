//! Benchmark of random disk reads through each kernel interface, and by this project's user-space driver.

mod kernel;
mod library;
mod reader;
mod result;

pub use result::{BLK_SCHEMA, BlkBenchmark, BlkCell, BlkRow, BlkSettings};

use crate::clock::TickClock;
use crate::head::{Head, Origin};
use crate::latency::Latencies;
use crate::random::Random;
use crate::summary::Summary;
use crate::{HostSummary, warning};
use nvme::{Controller, Namespace, NvmeError, QueueError};
use reader::Reader;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Seed of the random positions.
const SEED: u64 = 1;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BlkError {
    /// The disk can't be read.
    #[error("{}", file.display())]
    Disk {
        /// The disk's file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The disk does not support reads of this size.
    #[error("invalid size of reads: {bytes} bytes; expected a multiple of 512 up to {bytes_max}")]
    Size {
        /// The requested size.
        bytes: u64,
        /// The size of the disk, or of its longest read.
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
    /// No read completed in time.
    #[error("no read completed within {} s", limit.as_secs())]
    Late {
        /// The time limit.
        limit: Duration,
    },
}

/// Measures every kernel interface at each depth; `disk` is a file in `/dev`. `progress` gets the number of steps done
/// and of all steps.
///
/// # Errors
/// [`BlkError`]. An interface that the kernel lacks is reported as absent and is not an error.
pub fn measure_kernel_interfaces(
    settings: &BlkSettings,
    disk: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<BlkRow>, BlkError> {
    let steps = (kernel::INTERFACES.len() * settings.depths.len()) as u64;
    let mut rows = Vec::new();
    for (place, interface) in kernel::INTERFACES.iter().enumerate() {
        let mut cells = Vec::new();
        for (step, depth) in settings.depths.iter().enumerate() {
            progress((place * settings.depths.len() + step) as u64, steps);
            cells.push(match interface.open(disk, *depth, settings.bytes)? {
                Ok(mut reader) => measure(&mut *reader, *depth, settings)?,
                Err(absent) => BlkCell::absent(*depth, absent),
            });
        }
        rows.push(BlkRow { way: interface.name.to_owned(), what: interface.what.to_owned(), cells });
    }
    Ok(rows)
}

/// Measures the user-space driver at each depth, with a queue pair that it polls.
///
/// # Errors
/// [`BlkError`]
pub fn measure_user_space_driver(
    settings: &BlkSettings,
    controller: &Arc<Mutex<Controller>>,
    namespace: Namespace,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BlkRow, BlkError> {
    let mut cells = Vec::new();
    for (step, depth) in (0..).zip(&settings.depths) {
        progress(step, settings.depths.len() as u64);
        let mut reader = library::Library::open(Arc::clone(controller), namespace, *depth, settings.bytes)?;
        let cell = measure(&mut reader, *depth, settings)?;
        reader.close()?;
        cells.push(cell);
    }
    let what = "iotoll's user-space driver: memory mapped once, queues polled, no system call";
    Ok(BlkRow { way: "nvme".to_owned(), what: what.to_owned(), cells })
}

/// The document with the results.
pub fn blk_benchmark(settings: BlkSettings, origin: Origin, disk: String, rows: Vec<BlkRow>) -> BlkBenchmark {
    let mut head = Head::new(BLK_SCHEMA, origin, HostSummary::here());
    head.warnings = warning::of_machine(&head.machine);
    BlkBenchmark { head, settings, disk, rows }
}

/// The results of one round.
struct Round {
    reads: u64,
    wall: Duration,
    cpu: Duration,
}

/// Runs a warm-up round and all measured rounds.
fn measure(reader: &mut dyn Reader, depth: u16, settings: &BlkSettings) -> Result<BlkCell, BlkError> {
    let (clock, mut latencies) = (TickClock::new(), Latencies::new());
    let mut random = Random::of_thread(SEED, 0);
    let length = Duration::from_millis(settings.round_ms);
    let mut round = |latencies: &mut Latencies| round(reader, depth, length, &clock, &mut random, latencies);
    // Warm-up.
    round(&mut Latencies::new())?;
    let rounds = (0..settings.rounds).map(|_| round(&mut latencies)).collect::<Result<Vec<_>, _>>()?;
    let per_second = |time: fn(&Round) -> Duration| {
        Summary::of(
            rounds
                .iter()
                .filter(|round| time(round) > Duration::ZERO)
                .map(|round| round.reads as f64 / time(round).as_secs_f64()),
        )
    };
    Ok(BlkCell {
        depth,
        absent: None,
        reads_per_second: per_second(|round| round.wall),
        reads_per_cpu_second: per_second(|round| round.cpu),
        latency: Some(latencies.percentiles()),
    })
}

/// Keeps `depth` reads in flight for the time `length`, and waits for the last of them.
fn round(
    reader: &mut dyn Reader,
    depth: u16,
    length: Duration,
    clock: &TickClock,
    random: &mut Random,
    latencies: &mut Latencies,
) -> Result<Round, BlkError> {
    let positions = reader.positions();
    let (start, cpu) = (Instant::now(), reader::cpu_time());
    let mut begun = vec![0; depth.into()];
    let mut free: Vec<u16> = (0..depth).collect();
    let (mut reads, mut done) = (0, Vec::with_capacity(depth.into()));
    loop {
        let goes_on = start.elapsed() < length;
        if goes_on {
            for slot in free.drain(..) {
                begun[usize::from(slot)] = clock.now();
                reader.begin(slot, random.below(positions))?;
            }
        } else if free.len() == usize::from(depth) {
            break;
        }
        reader.wait(&mut done)?;
        let now = clock.now();
        reads += done.len() as u64;
        for slot in done.drain(..) {
            latencies.record(&[now.saturating_sub(begun[usize::from(slot)])], clock);
            free.push(slot);
        }
    }
    Ok(Round { reads, wall: start.elapsed(), cpu: reader::cpu_time().saturating_sub(cpu) })
}
