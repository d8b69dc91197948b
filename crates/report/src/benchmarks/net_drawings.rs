//! Drawings of a benchmark of the network: round trips by size, throughput by instances, and CPU time per transaction.

use crate::page::drawing::{Drawing, Kind, Line, Plot};
use crate::page::quantity::count;
use bench::Summary;
use bench::net::{NetBenchmark, NetCell, NetTest};

/// Lines in a drawing, at most: the style sheet has as many colours.
const LINES_MAX: usize = 8;

/// What is drawn of a cell.
type Value = fn(&NetCell) -> Option<Summary>;

/// The median round trips of a test by size.
pub(super) fn round_trips(benchmark: &NetBenchmark, test: NetTest) -> Option<Drawing> {
    let lines = lines_by_size(benchmark, test, |cell| cell.round_trip_p50_ns);
    plot(format!("{test}: median round trip by message size"), SIZE, "round trip, microseconds", lines)
}

/// The throughput of a test by number of instances.
pub(super) fn throughput(benchmark: &NetBenchmark, test: NetTest) -> Option<Drawing> {
    let lines = lines_by_instances(benchmark, test);
    plot(format!("{test}: throughput by instances"), "instances", "gigabits per second", lines)
}

/// CPU time of each side per transaction of a test by size.
pub(super) fn cpu_times(benchmark: &NetBenchmark, test: NetTest) -> Vec<Drawing> {
    let sides: [(&str, Value); 2] =
        [("client", |cell| cell.cpu.client.host_ns), ("server", |cell| cell.cpu.server.host_ns)];
    let drawing = |(side, value): (&str, Value)| {
        let each = unit(test);
        let name = format!("{test}: CPU time of the {side}'s whole host per {each} by message size");
        let y_title = format!("CPU time of the whole host per {each}, µs");
        plot(name, SIZE, &y_title, lines_by_size(benchmark, test, value))
    };
    sides.into_iter().filter_map(drawing).collect()
}

/// What CPU time is divided by.
pub(super) fn unit(test: NetTest) -> &'static str {
    if test.has_answers() { "transaction" } else { "message" }
}

/// The title of an axis of sizes.
const SIZE: &str = "bytes of a message";

/// A plot, if a line has two points: a single one says no more than the table.
fn plot(name: String, x_title: &str, y_title: &str, lines: Vec<Line>) -> Option<Drawing> {
    let has_points = lines.iter().any(|line| line.points.len() > 1);
    let (x_title, y_title) = (x_title.to_owned(), y_title.to_owned());
    has_points.then_some(Drawing(Kind::Plot(Plot { name, x_title, y_title, lines, mark: None })))
}

/// A line for each number of instances, with a point for each size, in microseconds.
fn lines_by_size(benchmark: &NetBenchmark, test: NetTest, value: Value) -> Vec<Line> {
    let line = |instances: &u16| {
        let cells = benchmark.cells.iter().filter(|cell| cell.test == test && cell.instances == *instances);
        let point = |cell: &NetCell| Some((cell.bytes.0 as f64, value(cell)?.median / 1e3));
        Line { name: count(usize::from(*instances), "instance"), points: sorted(cells.filter_map(point)) }
    };
    benchmark.settings.instances.iter().take(LINES_MAX).map(line).collect()
}

/// A line for each size, with a point for each number of instances.
fn lines_by_instances(benchmark: &NetBenchmark, test: NetTest) -> Vec<Line> {
    let line = |bytes: &bench::Bytes| {
        let cells = benchmark.cells.iter().filter(|cell| cell.test == test && cell.bytes == *bytes);
        let point =
            |cell: &NetCell| Some((f64::from(cell.instances), cell.bytes_per_second?.median * 8.0 / 1e9));
        Line { name: bytes.to_string(), points: sorted(cells.filter_map(point)) }
    };
    benchmark.settings.bytes.iter().take(LINES_MAX).map(line).collect()
}

/// Points by increasing x.
fn sorted(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
