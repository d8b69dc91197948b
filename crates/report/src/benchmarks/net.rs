//! The page of a benchmark of the network to another host: rates, round trips and CPU time, by size and number of instances.

use super::net_drawings;
use crate::page::drawing::Drawing;
use crate::page::fact::Fact;
use crate::page::quantity::{count, figure, grouped, time};
use crate::page::table::{Row, Table};
use crate::page::{Block, Page};
use bench::net::{NetAdapter, NetBenchmark, NetCell, NetHost, NetModel, NetPath, NetTest, SideCpu};
use bench::{Bytes, Latency, Summary};
use escape::terminal::plain;
use toll::Estimate;

/// Columns for the names of facts.
const NAMES: usize = 10;

/// A percentile of the round trips, in nanoseconds.
type Percentile = fn(&Latency) -> Option<u64>;

/// Both sides and what is between, then for each test its rates, round trips, losses and CPU time; drawings where they can be shown.
pub fn net_benchmark(benchmark: &NetBenchmark) -> Page {
    let mut page = Page::titled(title(benchmark));
    page.warnings(&benchmark.head.warnings);
    page.facts([Fact::known("evidence", &benchmark.head.evidence.to_string())], NAMES);
    page.facts(
        benchmark.settings.profile.iter().map(|name| Fact::known("profile", &format!("{name} (uperf)"))),
        NAMES,
    );
    for (side, host) in [("client", &benchmark.client), ("server", &benchmark.server)] {
        page.facts([Fact::known(side, &host_words(host))], NAMES);
    }
    for test in &benchmark.settings.tests {
        add_test(&mut page, benchmark, *test);
    }
    if let (Some(model), [cell]) = (&benchmark.model, &benchmark.cells[..]) {
        add_model(&mut page, model, cell);
    }
    page.blank();
    page.remark(legend(benchmark));
    page
}

/// What a model says of the profile, beside what was measured.
fn add_model(page: &mut Page, model: &NetModel, cell: &NetCell) {
    page.heading(format!("The same profile in the model of {}", plain(&model.file)));
    let row = |name: &str, measured: Option<f64>, modelled: Option<f64>, words: fn(f64) -> String| {
        let (measured, modelled) = (measured?, modelled?);
        let cells = vec![words(measured), words(modelled), figure(modelled / measured)];
        Some(Row { name: name.to_owned(), ink: None, cells })
    };
    let mean = |estimate: Option<Estimate>| estimate.map(|estimate| estimate.mean);
    let rate = cell.transactions_per_second.map(|rate| rate.median);
    let gigabits = cell.bytes_per_second.map(|bytes| bytes.median * 8.0 / 1e9);
    let p99 = cell.round_trip.as_ref().and_then(|latency| latency.p99_ns).map(|ns| ns as f64);
    let rows = match cell.test.has_answers() {
        true => vec![
            row("transactions in a second", rate, Some(model.transactions_per_second.mean), figure),
            row("round trip of 99 in 100", p99, mean(model.round_trip_p99_ns), time),
        ],
        false => vec![row("gigabits in a second", gigabits, mean(model.gigabits_per_second), figure)],
    };
    page.table(Table {
        names: "figure",
        wraps_names: false,
        titles: ["measured", "model", "model / measured"].map(str::to_owned).to_vec(),
        rows: rows.into_iter().flatten().collect(),
    });
    page.prose(
        format!(
            "{} of its {} parameters are assumed. It predicts these hosts only as far as the file describes them.",
            model.parameters_assumed, model.parameters
        ),
        2,
    );
}

fn title(benchmark: &NetBenchmark) -> String {
    let cells = count(benchmark.cells.len(), "cell");
    format!("Network from {} to {}: {cells}", benchmark.client.path.address, benchmark.server.path.address)
}

/// Address, interface, adapters and machine of a side.
fn host_words(host: &NetHost) -> String {
    let NetHost { made_by, machine, path, busy_cpus_before } = host;
    let mut words = vec![path.address.clone(), path_words(path)];
    words.extend(machine.cpu.clone());
    words.push(count(machine.cpus, "CPU"));
    words.extend(machine.kernel.as_ref().map(|kernel| format!("Linux {kernel}")));
    words.extend(busy_cpus_before.map(|busy| format!("{busy:.2} CPUs busy before")));
    words.push(made_by.clone());
    words.join(" · ")
}

/// The interface and what carries it.
fn path_words(path: &NetPath) -> String {
    let Some(interface) = &path.interface else { return "unknown interface".to_owned() };
    let mtu = path.mtu.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
    let carried = match (&path.adapters[..], path.is_local) {
        (_, true) => ", loopback: no adapter".to_owned(),
        ([], false) => ", virtual: no adapter".to_owned(),
        (adapters, false) => {
            format!(", {}", adapters.iter().map(adapter_words).collect::<Vec<_>>().join(" and "))
        }
    };
    format!("{interface}{carried}{mtu}")
}

fn adapter_words(adapter: &NetAdapter) -> String {
    let NetAdapter { interface, driver, pci_address, megabits_per_second } = adapter;
    let mut words = vec![pci_address.clone().unwrap_or_else(|| format!("{interface} (no PCI device)"))];
    words.extend(driver.clone());
    words.extend(megabits_per_second.map(|speed| format!("{} Mbit/s", grouped(u64::from(speed)))));
    words.join(" ")
}

/// What a test is, in words.
fn test_words(test: NetTest) -> &'static str {
    match test {
        NetTest::UdpRr => "udp-rr: requests and answers of the same size over UDP",
        NetTest::TcpRr => "tcp-rr: requests and answers of the same size over TCP",
        NetTest::TcpStream => "tcp-stream: streams to the server over TCP",
    }
}

/// The tables of a test.
fn add_test(page: &mut Page, benchmark: &NetBenchmark, test: NetTest) {
    let cells: Vec<&NetCell> = benchmark.cells.iter().filter(|cell| cell.test == test).collect();
    page.heading(test_words(test));
    if test.has_answers() {
        page.prose("Transactions in a second, of all instances:", 2);
        page.table(by_size(benchmark, &cells, &|cell| spread(cell.transactions_per_second, figure)));
        page.prose("Median round trip:", 2);
        page.table(by_size(benchmark, &cells, &|cell| spread(cell.round_trip_p50_ns, time)));
        add_drawings(page, net_drawings::round_trips(benchmark, test));
        let percentiles: [(&str, Percentile); 2] =
            [("99 of 100", |latency| latency.p99_ns), ("999 of 1,000", |latency| latency.p99_9_ns)];
        for (words, percentile) in percentiles {
            page.prose(format!("Round trip within which {words} answers came:"), 2);
            page.table(by_size(benchmark, &cells, &|cell| {
                let ns = cell.round_trip.as_ref().and_then(percentile);
                ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64))
            }));
        }
    } else {
        page.prose(
            "Gigabits (10^9) of payload in a second, of all instances, as the server received them:",
            2,
        );
        page.table(by_size(benchmark, &cells, &|cell| {
            spread(cell.bytes_per_second, |bytes| figure(bytes * 8.0 / 1e9))
        }));
        add_drawings(page, net_drawings::throughput(benchmark, test));
    }
    if cells.iter().any(|cell| cell.lost > 0) {
        page.prose("Datagrams without an answer within 200 ms, of all rounds:", 2);
        page.table(by_size(benchmark, &cells, &|cell| grouped(cell.lost)));
    }
    page.prose(format!("CPU time per {}:", net_drawings::unit(test)), 2);
    page.table(cpu_table(benchmark, &cells));
    add_drawings(page, net_drawings::cpu_times(benchmark, test));
}

/// Adds drawings, for renderers that can draw.
fn add_drawings(page: &mut Page, drawings: impl IntoIterator<Item = Drawing>) {
    drawings.into_iter().for_each(|drawing| page.push(Block::Drawing(drawing)));
}

/// A value of each cell: a row for each size, a column for each number of instances.
fn by_size(benchmark: &NetBenchmark, cells: &[&NetCell], value: &dyn Fn(&NetCell) -> String) -> Table {
    let rows =
        benchmark.settings.bytes.iter().map(|bytes| row(bytes.to_string(), benchmark, cells, *bytes, value));
    table(benchmark, "size", rows.collect())
}

/// CPU time: for each size a row for each side and what is counted.
fn cpu_table(benchmark: &NetBenchmark, cells: &[&NetCell]) -> Table {
    type Side = fn(&NetCell) -> &SideCpu;
    type Part = fn(&SideCpu) -> Option<Summary>;
    let sides: [(&str, Side); 2] = [("client", |cell| &cell.cpu.client), ("server", |cell| &cell.cpu.server)];
    let parts: [(&str, Part); 3] = [
        ("iotoll", |cpu| cpu.process_ns),
        ("whole host", |cpu| cpu.host_ns),
        ("of which interrupts", |cpu| cpu.interrupts_ns),
    ];
    let mut rows = Vec::new();
    for bytes in &benchmark.settings.bytes {
        for (side, cpu) in sides {
            for (words, part) in parts {
                let name = format!("{bytes}, {side}, {words}");
                rows.push(row(name, benchmark, cells, *bytes, &|cell| spread(part(cpu(cell)), time)));
            }
        }
    }
    table(benchmark, "size, side", rows)
}

fn row(
    name: String,
    benchmark: &NetBenchmark,
    cells: &[&NetCell],
    bytes: Bytes,
    value: &dyn Fn(&NetCell) -> String,
) -> Row {
    let of = |instances: &u16| {
        let cell = cells.iter().find(|cell| cell.bytes == bytes && cell.instances == *instances);
        cell.map(|cell| value(cell)).unwrap_or_default()
    };
    Row { name, ink: None, cells: benchmark.settings.instances.iter().map(of).collect() }
}

fn table(benchmark: &NetBenchmark, names: &'static str, rows: Vec<Row>) -> Table {
    let titles = benchmark.settings.instances.iter().map(|number| count(usize::from(*number), "instance"));
    Table { names, wraps_names: false, titles: titles.collect(), rows }
}

/// The median over rounds, with half the distance of the quartiles in percent: `12.3 µs ±2 %`.
fn spread(summary: Option<Summary>, words: impl Fn(f64) -> String) -> String {
    let Some(summary) = summary else { return "?".to_owned() };
    match summary.median > 0.0 && summary.min < summary.max {
        true => format!("{} ±{:.0} %", words(summary.median), summary.spread() * 50.0),
        // A single round has no spread.
        false => words(summary.median),
    }
}

/// How it was measured.
fn legend(benchmark: &NetBenchmark) -> String {
    let settings = &benchmark.settings;
    format!(
        "Medians of {} of {} s, after {} s of warm-up; all cells take turns. ± is half the distance of the quartiles of the rounds. A round trip \
         is an application's, from before the call that sends to after the one that receives. Each instance is a thread with a socket and one \
         message in flight (a closed loop): latencies are service times under this load, and a slow answer delays the requests after it. A lost \
         datagram is sent again after 200 ms and is in no latency. CPU time of the whole host is read from /proc/stat in steps of 10 ms: it \
         contains interrupts, softirqs and other programs. That of iotoll is the kernel's account of the process. Sizes are without headers.",
        count(settings.rounds, "round"),
        settings.seconds,
        settings.warm_up_seconds
    )
}
