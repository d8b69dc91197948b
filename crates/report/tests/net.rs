//! A benchmark of the network as tables and as a page, from made-up figures.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use bench::net::{
    HostCpu, NET_SCHEMA, NetAdapter, NetBenchmark, NetCell, NetCpu, NetHost, NetModel, NetPath, NetRound,
    NetSettings, NetTest, SideCpu, Usage,
};
use bench::{Bytes, Head, HostSummary, Latency, Origin, Summary};
use report::{Length, Style};

fn summary(median: f64) -> Option<Summary> {
    Some(Summary {
        min: median * 0.8,
        lower_quartile: median * 0.98,
        median,
        upper_quartile: median * 1.02,
        max: median * 1.2,
    })
}

fn cell(test: NetTest, bytes: u64, instances: u16) -> NetCell {
    let ns = 20_000.0 + bytes as f64;
    let cpu = SideCpu { process_ns: summary(3000.0), host_ns: summary(ns / 4.0), interrupts_ns: None };
    let host = Some(HostCpu { busy_ns: 5, interrupts_ns: 1, steal_ns: 0 });
    let usage = Usage { wall_ns: 10, received_bytes: 0, process_ns: Some(3), host };
    let round = NetRound {
        seconds: 0.5,
        transactions: 10,
        bytes: 640,
        lost: 1,
        round_trip_p50_ns: Some(ns as u64),
        client: usage,
        server: usage,
    };
    let has_answers = test.has_answers();
    NetCell {
        test,
        bytes: Bytes(bytes),
        instances,
        transactions_per_second: summary(1e9 / ns * f64::from(instances)),
        bytes_per_second: summary(1.25e9),
        round_trip_p50_ns: summary(ns).filter(|_| has_answers),
        round_trip: has_answers.then_some(Latency {
            samples: 20,
            p50_ns: Some(ns as u64),
            p90_ns: None,
            p99_ns: None,
            p99_9_ns: None,
            p99_99_ns: None,
            max_ns: Some(99_000),
        }),
        cpu: NetCpu { client: cpu, server: cpu },
        lost: u64::from(has_answers),
        rounds: vec![round; 2],
    }
}

fn made_up() -> NetBenchmark {
    let settings = NetSettings {
        tests: vec![NetTest::UdpRr, NetTest::TcpStream],
        bytes: vec![Bytes(64), Bytes(1024)],
        instances: vec![1, 8],
        rounds: 2,
        ..NetSettings::default()
    };
    let mut cells = Vec::new();
    for test in &settings.tests {
        for bytes in &settings.bytes {
            cells.extend(settings.instances.iter().map(|instances| cell(*test, bytes.0, *instances)));
        }
    }
    let machine = HostSummary {
        cpu: Some("A CPU <b>".to_owned()),
        cpus: 8,
        architecture: "x86_64".to_owned(),
        kernel: Some("6.12.1".to_owned()),
        governor: None,
        is_virtual: None,
        load_average: None,
    };
    let host = |address: &str, adapters: Vec<NetAdapter>| NetHost {
        made_by: "iotoll\u{1b}[31m".to_owned(),
        machine: machine.clone(),
        path: NetPath {
            address: address.to_owned(),
            interface: Some("eth0".to_owned()),
            mtu: Some(1500),
            is_local: false,
            adapters,
        },
        busy_cpus_before: Some(0.05),
    };
    let adapter = NetAdapter {
        interface: "eth0".to_owned(),
        driver: Some("mlx5_core".to_owned()),
        pci_address: Some("0000:3b:00.0".to_owned()),
        megabits_per_second: Some(25_000),
    };
    let origin = Origin { made_by: "iotoll".to_owned(), command: Vec::new(), date: "2026-11-27".to_owned() };
    NetBenchmark {
        head: Head::new(NET_SCHEMA, origin, machine.clone()),
        settings,
        client: host("192.0.2.1:40000", vec![adapter]),
        server: host("192.0.2.2:9417", Vec::new()),
        is_same_kernel: Some(false),
        cells,
        model: None,
    }
}

#[test]
fn a_model_s_answer_stands_beside_what_was_measured() {
    let estimate = |mean: f64| toll::Estimate { mean, low: None, high: None };
    let model = NetModel {
        file: "hosts\u{1b}.toml".to_owned(),
        parameters: 40,
        parameters_assumed: 18,
        transactions_per_second: estimate(100_000.0),
        gigabits_per_second: Some(estimate(5.0)),
        round_trip_mean_ns: Some(estimate(40_000.0)),
        round_trip_p99_ns: Some(estimate(50_000.0)),
    };
    for (test, words) in [
        (NetTest::UdpRr, ["transactions in a second", "round trip of 99 in 100"]),
        (NetTest::TcpStream, ["gigabits in a second", "18 of its 40 parameters are assumed"]),
    ] {
        let whole = made_up();
        let mut cells: Vec<NetCell> =
            whole.cells.iter().filter(|cell| cell.test == test).take(1).cloned().collect();
        let trips = cells.iter_mut().filter_map(|cell| cell.round_trip.as_mut());
        trips.for_each(|trip| trip.p99_ns = Some(25_000));
        let settings = NetSettings {
            tests: vec![test],
            bytes: vec![Bytes(64)],
            instances: vec![1],
            ..whole.settings.clone()
        };
        let benchmark = NetBenchmark { cells: cells.clone(), settings, model: Some(model.clone()), ..whole };
        let shown = report::text(&report::net_benchmark(&benchmark), 100, Style::Plain, Length::Full);
        for words in words {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(shown.contains("The same profile in the model of hosts"), "{shown}");
        let (measured, modelled) = match test.has_answers() {
            true => (cells[0].transactions_per_second.unwrap().median, 100_000.0),
            false => (cells[0].bytes_per_second.unwrap().median * 8e-9, 5.0),
        };
        let row = shown.lines().find(|line| line.trim_start().starts_with(words[0])).unwrap();
        let ratio: f64 = row.split_whitespace().last().unwrap().replace(',', "").parse().unwrap();
        assert!((ratio / (modelled / measured) - 1.0).abs() < 0.01, "{row}: {modelled} / {measured}");
    }
}

#[test]
fn on_a_terminal_and_on_a_page() {
    let page = report::net_benchmark(&made_up());
    let shown = report::text(&page, 100, Style::Plain, Length::Full);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    for words in [
        "eth0, 0000:3b:00.0 mlx5_core 25,000 Mbit/s, MTU 1500",
        "eth0, virtual: no adapter, MTU 1500",
        "20.1 µs ±2 %",
        "10.0 ±2 %",
        "Datagrams without an answer",
        "64 B, client, whole host",
        "a closed loop",
    ] {
        let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "{words}: {shown}");
    }
    let html = report::html(&page, "iotoll · bench net", "iotoll");
    assert!(html.contains("A CPU &lt;b&gt;") && !html.contains('\u{1b}'));
    // Two tests: round trips or throughput, and the CPU time of each side.
    assert_eq!(html.matches("<svg class=\"plot\"").count(), 6);
    // Two lines of two points in each, and a point beside each name.
    assert_eq!(html.matches(" class=\"point line").count(), 36);
    for name in ["udp-rr: median round trip by message size", "tcp-stream: throughput by instances"] {
        assert!(html.contains(name), "{name}");
    }
}

#[test]
fn what_was_not_counted_is_not_zero() {
    let mut benchmark = made_up();
    for cell in &mut benchmark.cells {
        cell.cpu.client.host_ns = None;
        cell.transactions_per_second = None;
    }
    let shown = report::text(&report::net_benchmark(&benchmark), 100, Style::Plain, Length::Full);
    assert!(shown.contains('?') && !shown.contains("NaN"), "{shown}");
}
