//! What accesses to memory take by how they are made, and by the memory's type where an adapter's is at hand.

mod access;
mod bar;
mod instruction;
mod result;

pub use access::Access;
pub use bar::BarError;
pub use result::{
    Area, AreaKind, MEMTYPE_SCHEMA, MemtypeBenchmark, MemtypeCell, MemtypeRow, MemtypeSettings,
};

use crate::bytes::Bytes;
use crate::head::{Head, Origin};
use crate::pace::Pace;
use crate::{Machine, warning};
use access::{LINE_BYTES, Line};
use bar::{Bar, Wish};
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MemtypeError {
    /// Less than a line, or parts of one.
    #[error("{0} are no whole number of cache lines of {LINE_BYTES} bytes")]
    NoLines(Bytes),
    /// A BAR that can't be measured.
    #[error("an adapter's memory")]
    Bar(#[from] BarError),
}

/// Measures. Accesses and sizes take turns within each round; `progress` hears of each.
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
    let machine = Machine::here();
    let memories = memories(&settings)?;
    let mut lanes: Vec<Vec<Lane<'_>>> = memories.iter().map(|memory| memory.lanes(&settings)).collect();
    let steps = (settings.rounds as u64 + 1) * lanes.iter().flatten().count() as u64;
    let mut done = 0;
    for round in 0..=settings.rounds {
        for lane in lanes.iter_mut().flatten() {
            progress(done, steps);
            lane.round(round == 0, settings.round_ms);
            done += 1;
        }
    }
    let areas = memories.iter().zip(&lanes).map(|(memory, lanes)| memory.area(lanes, &settings)).collect();
    let mut head = Head::new(MEMTYPE_SCHEMA, origin, machine);
    head.warnings = warning::of_any(&head.machine);
    let absent = Access::ALL.iter().filter_map(|access| Some((access, access.absent()?)));
    let absent = absent.map(|(access, why)| format!("{}: {why}", access.words())).collect();
    Ok(MemtypeBenchmark { head, settings, areas, absent })
}

/// Memory to walk through.
struct MeasuredMemory {
    name: String,
    memory: Memory,
}

enum Memory {
    Own(Vec<Line>),
    Adapters(Bar),
}

fn memories(settings: &MemtypeSettings) -> Result<Vec<MeasuredMemory>, MemtypeError> {
    let most = settings.bytes.iter().map(|bytes| bytes.0).max().unwrap_or(0);
    // Written to, so that each page is memory of its own.
    let lines = (0..most as usize / LINE_BYTES).map(Line::filled).collect();
    let own = MeasuredMemory { name: "memory".to_owned(), memory: Memory::Own(lines) };
    let wish = Wish { stores: settings.bar_stores, in_use: settings.in_use };
    let bars = settings.bars.iter().map(|path| {
        let memory = Memory::Adapters(Bar::open(path, wish)?);
        Ok(MeasuredMemory { name: path.display().to_string(), memory })
    });
    std::iter::once(Ok(own)).chain(bars).collect()
}

impl MeasuredMemory {
    fn lines(&self) -> &[Line] {
        match &self.memory {
            Memory::Own(lines) => lines,
            Memory::Adapters(bar) => bar,
        }
    }

    fn kind(&self) -> AreaKind {
        match &self.memory {
            Memory::Own(_) => AreaKind::WriteBack,
            Memory::Adapters(bar) => bar.kind,
        }
    }

    /// Ways of access that make sense here, and are allowed.
    fn accesses(&self, settings: &MemtypeSettings) -> Vec<Access> {
        let is_own = self.kind() == AreaKind::WriteBack;
        let may = |access: &Access| {
            let is_allowed = is_own || settings.bar_stores || !access.is_store();
            is_allowed && (is_own || !access.is_flushed()) && access.absent().is_none()
        };
        Access::ALL.into_iter().filter(may).collect()
    }

    fn lanes<'a>(&'a self, settings: &MemtypeSettings) -> Vec<Lane<'a>> {
        let sizes = settings.bytes.iter().filter_map(|bytes| {
            let lines = self.lines().get(..bytes.0 as usize / LINE_BYTES)?;
            Some((*bytes, lines))
        });
        let accesses = self.accesses(settings);
        let lane =
            |(bytes, lines), access: &Access| Lane { access: *access, bytes, lines, pace: Pace::from(1) };
        sizes.flat_map(|size| accesses.iter().map(move |access| lane(size, access))).collect()
    }

    fn area(&self, lanes: &[Lane<'_>], settings: &MemtypeSettings) -> Area {
        let cell = |access: Access, bytes: &Bytes| {
            let is_it = |lane: &&Lane<'_>| lane.access == access && lane.bytes == *bytes;
            let ns = lanes.iter().find(is_it).and_then(Lane::ns_per_access);
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

/// A way of access to so much of it.
struct Lane<'a> {
    access: Access,
    bytes: Bytes,
    lines: &'a [Line],
    pace: Pace,
}

impl Lane<'_> {
    fn round(&mut self, is_first: bool, round_ms: u64) {
        let Self { access, lines, .. } = *self;
        let work = |walks: u64| -> Result<Duration, Infallible> {
            let start = Instant::now();
            (0..walks).for_each(|_| access.walk(lines));
            Ok(start.elapsed())
        };
        let Ok(()) = if is_first { self.pace.warm(round_ms, work) } else { self.pace.round(work) };
    }

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
    fn every_way_is_measured_with_every_size() {
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
    fn parts_of_lines_are_refused() {
        assert_eq!(
            measure(&[100]).unwrap_err().to_string(),
            "100 B are no whole number of cache lines of 64 bytes"
        );
    }
}
