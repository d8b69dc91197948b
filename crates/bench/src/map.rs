//! Benchmark of mapping and unmapping memory on each DMA path: models in this process, and the host's own IOMMU.

mod dma_path;
mod host_prices;
mod result;
mod threads;

pub use host_prices::{AbsentPrice, HostPrice, HostPrices, measure_host_prices};
pub use result::{Cell, MAP_SCHEMA, MapBenchmark, MapSettings, PerPair, Row};
pub use threads::{
    MAP_THREADS_SCHEMA, MapCase, MapCheckError, MapContestant, MapEntry, MapMeasured, MapThreads,
    MapThreadsError, MapThreadsSettings, map_contestants, run_map_threads, select_map,
};

use crate::bytes::Bytes;
use crate::head::{Head, Origin};
use crate::pace::Pace;
use crate::{HostSummary, warning};
use dma::{Direction, DmaCounters, DmaError, Mapper, MemoryAddress};
use dma_path::ReadyPath;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The largest size of a mapping.
const BYTES_MAX: Bytes = Bytes(2 << 20);

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// There is no DMA path of this name.
    #[error("unknown DMA path {name:?}; expected one of {}", dma_paths().join(", "))]
    UnknownDmaPath {
        /// The unknown name.
        name: String,
    },
    /// A mapping is larger than the models support.
    #[error("{0} are too much for one mapping; expected 2 MiB or less")]
    TooMuch(Bytes),
    /// The model of a DMA path can't be created.
    #[error("can't create the DMA path {dma_path}: {why}")]
    NotReady {
        /// The DMA path.
        dma_path: String,
        /// The reason.
        why: String,
    },
    /// Mapping or unmapping failed.
    #[error("DMA path {dma_path}, mapping of {bytes}")]
    DmaPath {
        /// The DMA path.
        dma_path: String,
        /// The size of the mapping.
        bytes: Bytes,
        /// The error.
        source: DmaError,
    },
}

/// The names of the DMA paths that are modelled in this process.
pub fn dma_paths() -> Vec<&'static str> {
    dma_path::DMA_PATHS.iter().map(|dma_path| dma_path.name).collect()
}

/// Measures each DMA path with each size in turn, round by round. `progress` gets the number of steps done and of all
/// steps.
///
/// # Errors
/// [`MapError`]
pub fn run_map(
    settings: MapSettings,
    origin: Origin,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<MapBenchmark, MapError> {
    if let Some(bytes) = settings.bytes.iter().find(|bytes| **bytes > BYTES_MAX) {
        return Err(MapError::TooMuch(*bytes));
    }
    let machine = HostSummary::here();
    let (paths, absent) = dma_path::open_paths(&settings.dma_paths)?;
    let mut measurements: Vec<Measurement<'_>> = paths
        .iter()
        .flat_map(|path| settings.bytes.iter().map(|bytes| Measurement::new(path, *bytes)))
        .collect();
    let steps = (settings.rounds as u64 + 1) * measurements.len() as u64;
    for round in 0..=settings.rounds {
        for (place, measurement) in (0_u64..).zip(&mut measurements) {
            progress(round as u64 * settings.bytes.len() as u64 * paths.len() as u64 + place, steps);
            match round {
                0 => measurement.warm(settings.round_ms)?,
                _ => measurement.round()?,
            }
        }
    }
    let rows = paths.iter().map(|path| row(path, &measurements)).collect();
    let mut head = Head::new(MAP_SCHEMA, origin, machine);
    head.warnings = warning::of_machine(&head.machine);
    Ok(MapBenchmark { head, absent, settings, rows })
}

/// The measurement of a DMA path with one size.
struct Measurement<'a> {
    path: &'a ReadyPath,
    bytes: Bytes,
    pace: Pace,
    counters: DmaCounters,
    absent: Option<String>,
}

impl<'a> Measurement<'a> {
    fn new(path: &'a ReadyPath, bytes: Bytes) -> Self {
        let absent =
            (bytes.0 > path.bytes_max).then(|| format!("at most {} per mapping", Bytes(path.bytes_max)));
        Self { path, bytes, pace: Pace::new(), counters: DmaCounters::default(), absent }
    }

    /// Warms up, and finds the number of mappings and unmappings that fill a round.
    fn warm(&mut self, round_ms: u64) -> Result<(), MapError> {
        if self.absent.is_none() {
            let Self { path, bytes, pace, counters, .. } = self;
            pace.warm(round_ms, |pairs| work(path, *bytes, pairs, counters))?;
        }
        self.counters = DmaCounters::default();
        Ok(())
    }

    /// Measures one round.
    fn round(&mut self) -> Result<(), MapError> {
        if self.absent.is_some() {
            return Ok(());
        }
        let Self { path, bytes, pace, counters, .. } = self;
        pace.round(|pairs| work(path, *bytes, pairs, counters))
    }

    /// The results of all rounds.
    fn cell(&self) -> Cell {
        Cell {
            bytes: self.bytes,
            absent: self.absent.clone(),
            ns_per_pair: self.pace.each_ns(1.0),
            per_pair: PerPair::of(&self.counters),
        }
    }
}

/// Maps and unmaps `pairs` times, and returns the elapsed time.
fn work(
    path: &ReadyPath,
    bytes: Bytes,
    pairs: u64,
    counters: &mut DmaCounters,
) -> Result<Duration, MapError> {
    let ReadyPath { mapper, memory, .. } = path;
    let start = Instant::now();
    let done = (0..pairs).try_for_each(|_| pair(mapper, *memory, bytes.0, counters));
    done.map_err(|source| MapError::DmaPath { dma_path: path.name.clone(), bytes, source })?;
    Ok(start.elapsed())
}

/// Maps memory for a device to write, as a receive buffer, and unmaps it.
#[inline]
fn pair(
    mapper: &Mapper,
    memory: MemoryAddress,
    bytes: u64,
    counters: &mut DmaCounters,
) -> Result<(), DmaError> {
    let at = mapper.map(memory, bytes, Direction::FromDevice, counters)?;
    mapper.unmap(black_box(at), bytes, Direction::FromDevice, counters)
}

/// The results of a DMA path with all sizes.
fn row(path: &ReadyPath, measurements: &[Measurement<'_>]) -> Row {
    let mine = measurements.iter().filter(|measurement| measurement.path.name == path.name);
    Row { dma_path: path.name.clone(), what: path.what.clone(), cells: mine.map(Measurement::cell).collect() }
}
