//! Mapping and unmapping memory by each DMA path, in this process and by the host's own IOMMU.

mod dma_path;
mod result;

pub use result::{Cell, MAP_SCHEMA, MapBenchmark, MapSettings, PerPair, Row};

use crate::bytes::Bytes;
use crate::head::{Head, Origin};
use crate::pace::Pace;
use crate::{Machine, warning};
use dma::{Direction, DmaCounters, DmaError, Mapper, MemoryAddress};
use dma_path::Stand;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The most that is mapped at once.
const BYTES_MAX: Bytes = Bytes(2 << 20);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// There is no such DMA path.
    #[error("there is no DMA path {name:?}; there are {}", dma_paths().join(", "))]
    UnknownDmaPath {
        /// What was asked for.
        name: String,
    },
    /// More memory than DMA paths are made for.
    #[error("{0} are too much to be mapped at once; expected 2 MiB or less")]
    TooMuch(Bytes),
    /// A DMA path can't be made.
    #[error("{dma_path} can't be made: {why}")]
    NotReady {
        /// Which.
        dma_path: String,
        /// Why.
        why: String,
    },
    /// A DMA path does not work.
    #[error("{dma_path}, {bytes}")]
    DmaPath {
        /// Which.
        dma_path: String,
        /// With so much memory at once.
        bytes: Bytes,
        /// Why.
        source: DmaError,
    },
}

/// The DMA paths that are measured in this process.
pub fn dma_paths() -> Vec<&'static str> {
    dma_path::DMA_PATHS.iter().map(|dma_path| dma_path.name).collect()
}

/// Measures. DMA paths and sizes take turns within each round; `progress` hears of each.
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
    let machine = Machine::here();
    let (stands, absent) = dma_path::stands(&settings.dma_paths)?;
    let mut lanes: Vec<Lane<'_>> =
        stands.iter().flat_map(|stand| settings.bytes.iter().map(|bytes| Lane::new(stand, *bytes))).collect();
    let steps = (settings.rounds as u64 + 1) * lanes.len() as u64;
    for round in 0..=settings.rounds {
        for (place, lane) in (0_u64..).zip(&mut lanes) {
            progress(round as u64 * settings.bytes.len() as u64 * stands.len() as u64 + place, steps);
            match round {
                0 => lane.warm(settings.round_ms)?,
                _ => lane.round()?,
            }
        }
    }
    let rows = stands.iter().map(|stand| row(stand, &lanes)).collect();
    let mut head = Head::new(MAP_SCHEMA, origin, machine);
    head.warnings = warning::of_any(&head.machine);
    Ok(MapBenchmark { head, absent, settings, rows })
}

/// A DMA path with a size.
struct Lane<'a> {
    stand: &'a Stand,
    bytes: Bytes,
    pace: Pace,
    counters: DmaCounters,
    absent: Option<String>,
}

impl<'a> Lane<'a> {
    fn new(stand: &'a Stand, bytes: Bytes) -> Self {
        let absent =
            (bytes.0 > stand.bytes_max).then(|| format!("no more than {} at once", Bytes(stand.bytes_max)));
        Self { stand, bytes, pace: Pace::new(), counters: DmaCounters::default(), absent }
    }

    fn warm(&mut self, round_ms: u64) -> Result<(), MapError> {
        if self.absent.is_none() {
            let Self { stand, bytes, pace, counters, .. } = self;
            pace.warm(round_ms, |pairs| work(stand, *bytes, pairs, counters))?;
        }
        self.counters = DmaCounters::default();
        Ok(())
    }

    fn round(&mut self) -> Result<(), MapError> {
        if self.absent.is_some() {
            return Ok(());
        }
        let Self { stand, bytes, pace, counters, .. } = self;
        pace.round(|pairs| work(stand, *bytes, pairs, counters))
    }

    fn cell(&self) -> Cell {
        Cell {
            bytes: self.bytes,
            absent: self.absent.clone(),
            ns_per_pair: self.pace.each_ns(1.0),
            per_pair: PerPair::of(&self.counters),
        }
    }
}

fn work(stand: &Stand, bytes: Bytes, pairs: u64, counters: &mut DmaCounters) -> Result<Duration, MapError> {
    let Stand { mapper, memory, .. } = stand;
    let start = Instant::now();
    let done = (0..pairs).try_for_each(|_| pair(mapper, *memory, bytes.0, counters));
    done.map_err(|source| MapError::DmaPath { dma_path: stand.name.clone(), bytes, source })?;
    Ok(start.elapsed())
}

/// What a receive buffer costs: mapped for the adapter to write, unmapped.
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

fn row(stand: &Stand, lanes: &[Lane<'_>]) -> Row {
    let mine = lanes.iter().filter(|lane| lane.stand.name == stand.name);
    Row { dma_path: stand.name.clone(), what: stand.what.clone(), cells: mine.map(Lane::cell).collect() }
}
