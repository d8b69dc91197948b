//! Drawings of what was watched: the course of time, and where the time went.

use crate::page::drawing::{Course, Drawing, Flame, Frame, Kind, Line};
use crate::page::quantity::{count, time};
use std::collections::BTreeMap;
use toll::Stage;
use watch::{Activity, AdapterSummary, Interval, Mapping, Path, Record, SampledPath};

/// Adapters in a drawing, at most: the style sheet has as many colours.
const LINES_MAX: usize = 8;

/// I/O and the CPU time of mapping over time, for the adapters whose mapping took the most; nothing with less than two intervals.
pub(super) fn courses(record: &Record) -> Vec<Drawing> {
    if record.intervals.len() < 2 {
        return Vec::new();
    }
    let cores = |activity: &Activity| {
        mapping(activity, |mapping| mapping.net_ns().unwrap_or(mapping.ns) as f64 / 1e9)
    };
    let maps = |activity: &Activity| mapping(activity, |mapping| mapping.maps as f64);
    let drawings = [
        ("I/O in the course of time", "I/O per second", io_lines(record)),
        ("Mappings in the course of time", "mappings per second", lines(record, maps)),
        ("CPU time of DMA mapping in the course of time", "cores", lines(record, cores)),
    ];
    let has_values = |lines: &[Line]| lines.iter().any(|line| line.points.iter().any(|point| point.1 > 0.0));
    let drawing = |(name, y_title, lines): (&str, &str, Vec<Line>)| {
        has_values(&lines).then(|| {
            Drawing(Kind::Course(Course { name: name.to_owned(), y_title: y_title.to_owned(), lines }))
        })
    };
    drawings.into_iter().filter_map(drawing).collect()
}

fn mapping(activity: &Activity, value: impl Fn(&Mapping) -> f64) -> f64 {
    activity.mapping.as_ref().map_or(0.0, value)
}

/// A value per second of each adapter in each interval.
fn lines(record: &Record, value: impl Fn(&Activity) -> f64) -> Vec<Line> {
    let step = |adapter: &AdapterSummary, interval: &Interval| {
        let rate = activity(adapter, interval).map_or(0.0, &value) / interval.seconds;
        [((interval.end_s - interval.seconds).max(0.0), rate), (interval.end_s, rate)]
    };
    steps(record, |adapter| record.intervals.iter().flat_map(|interval| step(adapter, interval)).collect())
}

/// I/O per second of each adapter in the time that each interval stands for, one after the other.
fn io_lines(record: &Record) -> Vec<Line> {
    steps(record, |adapter| {
        let mut begin_s = 0.0;
        let step = |interval: &Interval| {
            let seconds = interval.seconds * interval.weight();
            let io = |one| interval.io_of_period(one, &adapter.completed);
            let rate = activity(adapter, interval).map_or(0.0, io) / seconds;
            let step = [(begin_s, rate), (begin_s + seconds, rate)];
            begin_s += seconds;
            step
        };
        record.intervals.iter().flat_map(step).collect()
    })
}

/// What an adapter did in an interval, if it did anything.
fn activity<'i>(adapter: &AdapterSummary, interval: &'i Interval) -> Option<&'i Activity> {
    interval.adapters.iter().find(|one| one.adapter == adapter.adapter)
}

/// A line of steps for each of the adapters that are drawn.
fn steps(record: &Record, of: impl Fn(&AdapterSummary) -> Vec<(f64, f64)>) -> Vec<Line> {
    let line =
        |adapter: &AdapterSummary| Line { name: super::watch::device(&adapter.adapter), points: of(adapter) };
    record.adapters.iter().take(LINES_MAX).map(line).collect()
}

/// The kernel's functions that worked for an adapter, as a flame graph; `None` if nothing was counted.
pub(super) fn flame(adapter: &AdapterSummary) -> Option<Drawing> {
    let all: Vec<&Path> = adapter.paths.iter().collect();
    let all_ns = all.iter().map(|path| own_ns(path)).sum();
    let frames = frames(&all, 0, &|name, through, depth| frame(name, through, depth, all_ns));
    let name = format!(
        "CPU time of DMA mapping for {}: each function stands on its caller, as wide as its time",
        super::watch::device(&adapter.adapter)
    );
    (!frames.is_empty()).then_some(Drawing(Kind::Flame(Flame { name, frames })))
}

/// A function's own time, without what watching added where that is known.
fn own_ns(path: &Path) -> u64 {
    path.own_ns.saturating_sub(path.programs_ns.unwrap_or_default())
}

/// A function of an adapter's, by the paths through it.
fn frame(name: &str, through: &[&Path], depth: usize, all_ns: u64) -> Frame {
    let ns: u64 = through.iter().map(|path| own_ns(path)).sum();
    let itself = through.iter().filter(|path| path.functions.len() == depth + 1);
    let (calls, itself_ns) = itself.fold((0, 0), |(calls, ns), path| (calls + path.calls, ns + own_ns(path)));
    let share = ns as f64 / all_ns.max(1) as f64 * 100.0;
    let stage = watch::FUNCTIONS.iter().find(|function| function.name == name).map(|function| function.stage);
    let stage_name = stage.map_or("", Stage::word);
    let label = format!(
        "{name} ({stage_name}): {}, {share:.1} % of the time; {} by itself, {}",
        time(ns as f64),
        time(itself_ns as f64),
        count(calls as usize, "call"),
    );
    let colour = stage.map_or(0, colour);
    Frame { name: name.to_owned(), time: ns as f64, label, colour, frames: Vec::new() }
}

/// The functions at this depth of paths, by name, each with those that it called. `frame` makes one without them, of its name, the paths
/// through it and the depth.
pub(super) fn frames<P: CallPath>(
    paths: &[&P],
    depth: usize,
    frame: &dyn Fn(&str, &[&P], usize) -> Frame,
) -> Vec<Frame> {
    let mut by_name: BTreeMap<&str, Vec<&P>> = BTreeMap::new();
    for path in paths {
        if let Some(name) = path.function(depth) {
            by_name.entry(name).or_default().push(path);
        }
    }
    let with_callees = |(name, through): (&str, Vec<&P>)| Frame {
        frames: frames(&through, depth + 1, frame),
        ..frame(name, &through, depth)
    };
    by_name.into_iter().map(with_callees).collect()
}

/// Functions that called each other.
pub(super) trait CallPath {
    /// The one at this depth, the outermost at 0.
    fn function(&self, depth: usize) -> Option<&str>;
}

impl CallPath for Path {
    fn function(&self, depth: usize) -> Option<&str> {
        self.functions.get(depth).copied()
    }
}

impl CallPath for SampledPath {
    fn function(&self, depth: usize) -> Option<&str> {
        self.functions.get(depth).map(String::as_str)
    }
}

/// Stages of DMA mapping have a colour each.
pub(super) fn colour(stage: Stage) -> usize {
    match stage {
        Stage::DmaMap => 0,
        Stage::DmaUnmap => 5,
        Stage::Iova => 2,
        Stage::TableWrite => 4,
        Stage::Invalidation => 1,
        Stage::Bounce => 3,
        _ => 6,
    }
}
