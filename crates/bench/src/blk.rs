//! Random reads of a disk by each way there is to it, through the kernel and past it.

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
use crate::{Machine, warning};
use nvme::{Controller, Namespace, NvmeError, QueueError};
use reader::Reader;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Of all random places.
const SEED: u64 = 1;

/// Why a way was not measured to its end.
#[derive(Debug, thiserror::Error)]
pub enum BlkError {
    /// The disk can't be read.
    #[error("{}", file.display())]
    Disk {
        /// Its file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk has no block of that size.
    #[error("reads of {bytes} bytes; expected a multiple of 512 that is no more than {bytes_max}")]
    Size {
        /// What was asked for.
        bytes: u64,
        /// What the disk has, or takes.
        bytes_max: u64,
    },
    /// A controller can't be driven.
    #[error(transparent)]
    Controller(#[from] NvmeError),
    /// A queue can't go on.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A command can't be built.
    #[error(transparent)]
    Block(#[from] nvme::BlockError),
    /// A command has failed.
    #[error("a read failed: {0}")]
    Status(nvme::spec::status::Status),
    /// Nothing comes.
    #[error("a read has not come back within {} s", limit.as_secs())]
    Late {
        /// How long it had.
        limit: Duration,
    },
}

/// The kernel's ways to a disk by its file in `/dev`, at each depth.
///
/// # Errors
/// [`BlkError`]. A way that the kernel does not have is absent, and no error.
pub fn through_the_kernel(
    settings: &BlkSettings,
    disk: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<BlkRow>, BlkError> {
    let steps = (kernel::WAYS.len() * settings.depths.len()) as u64;
    let mut rows = Vec::new();
    for (place, way) in kernel::WAYS.iter().enumerate() {
        let mut cells = Vec::new();
        for (step, depth) in settings.depths.iter().enumerate() {
            progress((place * settings.depths.len() + step) as u64, steps);
            cells.push(match way.open(disk, *depth, settings.bytes)? {
                Ok(mut reader) => measure(&mut *reader, *depth, settings)?,
                Err(absent) => BlkCell::absent(*depth, absent),
            });
        }
        rows.push(BlkRow { way: way.name.to_owned(), what: way.what.to_owned(), cells });
    }
    Ok(rows)
}

/// The way past the kernel, at each depth: a queue pair that is polled.
///
/// # Errors
/// [`BlkError`]
pub fn past_the_kernel(
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
    let what = "iotoll's own driver past the kernel: memory mapped once, queues polled, no system call";
    Ok(BlkRow { way: "nvme".to_owned(), what: what.to_owned(), cells })
}

/// What came out, as a document.
pub fn blk_benchmark(settings: BlkSettings, origin: Origin, disk: String, rows: Vec<BlkRow>) -> BlkBenchmark {
    let mut head = Head::new(BLK_SCHEMA, origin, Machine::here());
    head.warnings = warning::of_any(&head.machine);
    BlkBenchmark { head, settings, disk, rows }
}

/// What one round came to.
struct Round {
    reads: u64,
    wall: Duration,
    cpu: Duration,
}

fn measure(reader: &mut dyn Reader, depth: u16, settings: &BlkSettings) -> Result<BlkCell, BlkError> {
    let (clock, mut latencies) = (TickClock::new(), Latencies::new());
    let mut random = Random::of_thread(SEED, 0);
    let length = Duration::from_millis(settings.round_ms);
    let mut round = |latencies: &mut Latencies| round(reader, depth, length, &clock, &mut random, latencies);
    // One that does not count.
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
        latency: Some(latencies.told()),
    })
}

/// Keeps so many reads in flight for a time, and waits for the last of them.
fn round(
    reader: &mut dyn Reader,
    depth: u16,
    length: Duration,
    clock: &TickClock,
    random: &mut Random,
    latencies: &mut Latencies,
) -> Result<Round, BlkError> {
    let places = reader.places();
    let (start, cpu) = (Instant::now(), reader::cpu_time());
    let mut begun = vec![0; depth.into()];
    let mut free: Vec<u16> = (0..depth).collect();
    let (mut reads, mut done) = (0, Vec::with_capacity(depth.into()));
    loop {
        let goes_on = start.elapsed() < length;
        if goes_on {
            for slot in free.drain(..) {
                begun[usize::from(slot)] = clock.now();
                reader.begin(slot, random.below(places))?;
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
