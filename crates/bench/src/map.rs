//! Mapping and unmapping memory by each road, in this process and by the host's own IOMMU.

mod result;
mod road;

pub use result::{Bytes, Cell, MAP_SCHEMA, MapBenchmark, MapSettings, PerPair, Row};

use crate::{Machine, Origin, Summary};
use dma::{Bill, Direction, DmaError, Mapper, MemoryAddress};
use road::Stand;
use std::hint::black_box;
use std::time::{Duration, Instant};
use toll::Evidence;

/// Pairs of the first attempt to find out how many a round takes.
const FIRST_PAIRS: u64 = 16;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// There is no such road.
    #[error("there is no road {name:?}; there are {}", roads().join(", "))]
    UnknownRoad {
        /// What was asked for.
        name: String,
    },
    /// A road can't be made.
    #[error("{road} can't be made: {why}")]
    NotReady {
        /// Which.
        road: String,
        /// Why.
        why: String,
    },
    /// A road does not work.
    #[error("{road}, {bytes}")]
    Road {
        /// Which.
        road: String,
        /// With so much memory at once.
        bytes: Bytes,
        /// Why.
        source: DmaError,
    },
}

/// The roads that are measured in this process.
pub fn roads() -> Vec<&'static str> {
    road::ROADS.iter().map(|road| road.name).collect()
}

/// Measures. Roads and sizes take turns within each round; `progress` hears of each.
///
/// # Errors
/// [`MapError`]
pub fn run_map(
    settings: MapSettings,
    origin: Origin,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<MapBenchmark, MapError> {
    let machine = Machine::here();
    let (stands, absent) = road::stands(&settings.roads)?;
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
    let how = origin.command.join(" ");
    let on = machine.cpu.clone().unwrap_or_else(|| machine.architecture.clone());
    Ok(MapBenchmark {
        schema: MAP_SCHEMA,
        made_by: origin.made_by,
        command: origin.command,
        date: origin.date,
        evidence: Evidence::Measured { how, on },
        warnings: warnings(&machine),
        absent,
        machine,
        settings,
        rows,
    })
}

/// A road with a size.
struct Lane<'a> {
    stand: &'a Stand,
    bytes: Bytes,
    pairs: u64,
    times_ns: Vec<f64>,
    bill: Bill,
    absent: Option<String>,
}

impl<'a> Lane<'a> {
    fn new(stand: &'a Stand, bytes: Bytes) -> Self {
        let absent =
            (bytes.0 > stand.bytes_max).then(|| format!("no more than {} at once", Bytes(stand.bytes_max)));
        Self { stand, bytes, pairs: FIRST_PAIRS, times_ns: Vec::new(), bill: Bill::default(), absent }
    }

    /// Works until a round takes its time.
    fn warm(&mut self, round_ms: u64) -> Result<(), MapError> {
        let wanted = Duration::from_millis(round_ms);
        while self.absent.is_none() {
            let took = self.work()?;
            if took >= wanted / 2 {
                break;
            }
            let more = wanted.as_nanos() as u64 / (took.as_nanos() as u64 / self.pairs).max(1);
            self.pairs = more.clamp(self.pairs * 2, self.pairs * 64);
        }
        self.bill = Bill::default();
        Ok(())
    }

    fn round(&mut self) -> Result<(), MapError> {
        if self.absent.is_none() {
            let took = self.work()?;
            self.times_ns.push(took.as_nanos() as f64 / self.pairs as f64);
        }
        Ok(())
    }

    fn work(&mut self) -> Result<Duration, MapError> {
        let Stand { mapper, memory, .. } = self.stand;
        let start = Instant::now();
        let done = (0..self.pairs).try_for_each(|_| pair(mapper, *memory, self.bytes.0, &mut self.bill));
        done.map_err(|source| MapError::Road { road: self.stand.name.clone(), bytes: self.bytes, source })?;
        Ok(start.elapsed())
    }

    fn cell(&self) -> Cell {
        Cell {
            bytes: self.bytes,
            absent: self.absent.clone(),
            ns_per_pair: Summary::of(self.times_ns.iter().copied()),
            per_pair: PerPair::of(&self.bill),
        }
    }
}

/// What a receive buffer costs: mapped for the adapter to write, unmapped.
#[inline]
fn pair(mapper: &Mapper, memory: MemoryAddress, bytes: u64, bill: &mut Bill) -> Result<(), DmaError> {
    let at = mapper.map(memory, bytes, Direction::FromDevice, bill)?;
    mapper.unmap(black_box(at), bytes, Direction::FromDevice, bill)
}

fn row(stand: &Stand, lanes: &[Lane<'_>]) -> Row {
    let mine = lanes.iter().filter(|lane| lane.stand.name == stand.name);
    Row { road: stand.name.clone(), what: stand.what.clone(), cells: mine.map(Lane::cell).collect() }
}

fn warnings(machine: &Machine) -> Vec<String> {
    let built = cfg!(debug_assertions)
        .then(|| "this program was built without optimisation: build it with --release".to_owned());
    built.into_iter().chain(crate::warning::of_load(machine)).collect()
}
