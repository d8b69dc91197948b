//! Benchmark of memory accesses: cached, flushed and non-temporal, in ordinary memory and in an adapter's BAR.

mod access;
mod bar;
pub(crate) mod instruction;
mod line;
mod result;

pub use access::Access;
pub use bar::BarError;
pub(crate) use instruction::{fence, flush};
pub use result::{
    Area, AreaKind, MEMTYPE_SCHEMA, MemtypeBenchmark, MemtypeCell, MemtypeRow, MemtypeSettings,
};

use crate::bytes::Bytes;
use crate::head::{Head, Origin};
use crate::pace::Pace;
use crate::{HostSummary, warning};
use bar::{Bar, BarOptions};
use line::{LINE_BYTES, Line};
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum MemtypeError {
    /// A size is not a multiple of a cache line.
    #[error("{0} are not whole cache lines; expected a multiple of {LINE_BYTES} bytes")]
    NoLines(Bytes),
    /// A BAR can't be measured.
    #[error("can't measure the adapter's memory")]
    Bar(#[from] BarError),
}

/// Measures each kind of access with each size in turn, round by round. `progress` gets the number of steps done and of
/// all steps.
///
/// # Errors
/// [`MemtypeError`]
pub fn run_memtype(
    settings: MemtypeSettings,
    origin: Origin,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<MemtypeBenchmark, MemtypeError> {
    if let Some(bytes) = settings.bytes.iter().find(|bytes| !bytes.0.is_multiple_of(LINE_BYTES as u64)) {
        return Err(MemtypeError::NoLines(*bytes));
    }
    let machine = HostSummary::here();
    let memories = memories(&settings)?;
    let mut measurements: Vec<Vec<Measurement<'_>>> =
        memories.iter().map(|memory| memory.measurements(&settings)).collect();
    let steps = (settings.rounds as u64 + 1) * measurements.iter().flatten().count() as u64;
    let mut done = 0;
    for round in 0..=settings.rounds {
        for measurement in measurements.iter_mut().flatten() {
            progress(done, steps);
            measurement.round(round == 0, settings.round_ms);
            done += 1;
        }
    }
    let areas = memories
        .iter()
        .zip(&measurements)
        .map(|(memory, measurements)| memory.area(measurements, &settings))
        .collect();
    let mut head = Head::new(MEMTYPE_SCHEMA, origin, machine);
    head.warnings = warning::of_machine(&head.machine);
    let absent = Access::ALL.iter().filter_map(|access| Some((access, access.absent()?)));
    let absent = absent.map(|(access, why)| format!("{}: {why}", access.words())).collect();
    Ok(MemtypeBenchmark { head, settings, areas, absent })
}

/// The memory that is accessed.
struct MeasuredMemory {
    name: String,
    memory: Memory,
}

enum Memory {
    /// Ordinary memory of this process.
    Own(Vec<Line>),
    /// An adapter's BAR.
    Bar(Bar),
}

/// Allocates ordinary memory and opens the BARs.
fn memories(settings: &MemtypeSettings) -> Result<Vec<MeasuredMemory>, MemtypeError> {
    let most = settings.bytes.iter().map(|bytes| bytes.0).max().unwrap_or(0);
    // Filled, so that each page has memory of its own instead of the shared zero page.
    let lines = (0..most as usize / LINE_BYTES).map(Line::filled).collect();
    let own = MeasuredMemory { name: "memory".to_owned(), memory: Memory::Own(lines) };
    let options = BarOptions { stores: settings.bar_stores, in_use: settings.in_use };
    let bars = settings.bars.iter().map(|path| {
        let memory = Memory::Bar(Bar::open(path, options)?);
        Ok(MeasuredMemory { name: path.display().to_string(), memory })
    });
    std::iter::once(Ok(own)).chain(bars).collect()
}

impl MeasuredMemory {
    fn lines(&self) -> &[Line] {
        match &self.memory {
            Memory::Own(lines) => lines,
            Memory::Bar(bar) => bar,
        }
    }

    fn kind(&self) -> AreaKind {
        match &self.memory {
            Memory::Own(_) => AreaKind::WriteBack,
            Memory::Bar(bar) => bar.kind,
        }
    }

    /// The kinds of access that the settings allow and that this memory and CPU support.
    fn accesses(&self, settings: &MemtypeSettings) -> Vec<Access> {
        let is_own = self.kind() == AreaKind::WriteBack;
        let may = |access: &Access| {
            let is_allowed = is_own || settings.bar_stores || !access.is_store();
            is_allowed && (is_own || !access.is_flushed()) && access.absent().is_none()
        };
        Access::ALL.into_iter().filter(may).collect()
    }

    /// A measurement for each size that fits, and each kind of access.
    fn measurements<'a>(&'a self, settings: &MemtypeSettings) -> Vec<Measurement<'a>> {
        let sizes = settings.bytes.iter().filter_map(|bytes| {
            let lines = self.lines().get(..bytes.0 as usize / LINE_BYTES)?;
            Some((*bytes, lines))
        });
        let accesses = self.accesses(settings);
        let measurement = |(bytes, lines), access: &Access| Measurement {
            access: *access,
            bytes,
            lines,
            pace: Pace::from(1),
        };
        sizes.flat_map(|size| accesses.iter().map(move |access| measurement(size, access))).collect()
    }

    /// The results of all measurements of this memory.
    fn area(&self, measurements: &[Measurement<'_>], settings: &MemtypeSettings) -> Area {
        let cell = |access: Access, bytes: &Bytes| {
            let is_it =
                |measurement: &&Measurement<'_>| measurement.access == access && measurement.bytes == *bytes;
            let ns = measurements.iter().find(is_it).and_then(Measurement::ns_per_access);
            let streams = ns.filter(|_| access != Access::LoadInTurn);
            let gigabytes_per_second = streams.map(|ns| access.bytes() as f64 / ns.median);
            MemtypeCell { bytes: *bytes, ns_per_access: ns, gigabytes_per_second }
        };
        let row = |access: Access| MemtypeRow {
            access,
            cells: settings.bytes.iter().map(|bytes| cell(access, bytes)).collect(),
        };
        let rows = self.accesses(settings).into_iter().map(row).collect();
        Area { name: self.name.clone(), kind: self.kind(), rows }
    }
}

/// The measurement of one kind of access with one size.
struct Measurement<'a> {
    access: Access,
    bytes: Bytes,
    lines: &'a [Line],
    pace: Pace,
}

impl Measurement<'_> {
    /// Measures a round. The first one only warms up and finds the number of walks that fill a round.
    fn round(&mut self, is_first: bool, round_ms: u64) {
        let Self { access, lines, .. } = *self;
        let work = |walks: u64| -> Result<Duration, Infallible> {
            let start = Instant::now();
            (0..walks).for_each(|_| access.walk(lines));
            Ok(start.elapsed())
        };
        let Ok(()) = if is_first { self.pace.warm(round_ms, work) } else { self.pace.round(work) };
    }

    /// Time per access over all rounds.
    fn ns_per_access(&self) -> Option<crate::Summary> {
        self.pace.each_ns(self.access.count(self.lines) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin { made_by: "test".to_owned(), command: vec!["test".to_owned()], date: "2000-01-01".to_owned() }
    }

    fn measure(bytes: &[u64]) -> Result<MemtypeBenchmark, MemtypeError> {
        let bytes = bytes.iter().copied().map(Bytes).collect();
        let settings = MemtypeSettings { bytes, rounds: 2, round_ms: 1, ..MemtypeSettings::default() };
        run_memtype(settings, origin(), &mut |done, steps| assert!(done < steps))
    }

    #[test]
    fn every_kind_of_access_is_measured_with_every_size() {
        let benchmark = measure(&[64, 8192]).unwrap();
        let [area] = &benchmark.areas[..] else { panic!("{benchmark:?}") };
        assert_eq!(area.rows.len() + benchmark.absent.len(), Access::ALL.len());
        for row in &area.rows {
            assert!(
                row.cells.iter().all(|cell| cell.ns_per_access.is_some_and(|ns| ns.median > 0.0)),
                "{row:?}"
            );
        }
    }

    #[test]
    fn sizes_that_are_not_whole_cache_lines_are_refused() {
        assert_eq!(
            measure(&[100]).unwrap_err().to_string(),
            "100 B are not whole cache lines; expected a multiple of 64 bytes"
        );
    }
}
