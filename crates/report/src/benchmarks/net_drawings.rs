//! Drawings of a benchmark of the network: round trips by size, throughput by instances, and CPU time per transaction.

use crate::page::drawing::{Drawing, Kind, Line, Plot};
use crate::page::quantity::count;
use bench::Summary;
use bench::net::{NetBenchmark, NetCell, NetTest};

/// Lines in a drawing, at most: the style sheet has as many colours.
const LINES_MAX: usize = 8;

/// What is drawn of a cell.
type Value = fn(&NetCell) -> Option<Summary>;

/// All drawings, those of each test together.
pub(super) fn net_drawings(benchmark: &NetBenchmark) -> Vec<Drawing> {
    benchmark.settings.tests.iter().flat_map(|test| of_test(benchmark, *test)).collect()
}

fn of_test(benchmark: &NetBenchmark, test: NetTest) -> Vec<Drawing> {
    let first = if test.has_answers() {
        let value: Value = |cell| cell.round_trip_p50_ns;
        plot(
            format!("{test}: median round trip by message size"),
            "microseconds",
            lines_by_size(benchmark, test, value, 1e-3),
        )
    } else {
        Plot {
            x_title: "instances".to_owned(),
            ..plot(
                format!("{test}: throughput by instances"),
                "gigabits per second",
                lines_by_instances(benchmark, test),
            )
        }
    };
    let sides: [(&str, Value); 2] =
        [("client", |cell| cell.cpu.client.host_ns), ("server", |cell| cell.cpu.server.host_ns)];
    let cpu = sides.map(|(side, value)| {
        let name = format!("{test}: CPU time of the {side}'s whole host per transaction by message size");
        plot(name, "microseconds of CPU", lines_by_size(benchmark, test, value, 1e-3))
    });
    let plots =
        [first].into_iter().chain(cpu).filter(|plot| plot.lines.iter().any(|line| !line.points.is_empty()));
    plots.map(|plot| Drawing(Kind::Plot(plot))).collect()
}

fn plot(name: String, y_title: &str, lines: Vec<Line>) -> Plot {
    Plot { name, x_title: "bytes of a message".to_owned(), y_title: y_title.to_owned(), lines, mark: None }
}

/// A line for each number of instances, with a point for each size.
fn lines_by_size(benchmark: &NetBenchmark, test: NetTest, value: Value, scale: f64) -> Vec<Line> {
    let line = |instances: &u16| {
        let cells = benchmark.cells.iter().filter(|cell| cell.test == test && cell.instances == *instances);
        let point = |cell: &NetCell| Some((cell.bytes.0 as f64, value(cell)?.median * scale));
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
