//! A benchmark of made-up figures.

use bench::{
    Benchmark, Case, Clock, Entry, Head, HostSummary, Latency, Measured, Named, Round, SCHEMA, Scenario,
    Settings, Summary,
};
use toll::Evidence;

fn summary(median: f64) -> Summary {
    let [min, lower_quartile, upper_quartile, max] = [0.9, 0.96, 1.04, 1.2].map(|share| share * median);
    Summary { min, lower_quartile, median, upper_quartile, max }
}

fn latency(ns: u64) -> Latency {
    Latency {
        samples: 20_000,
        p50_ns: Some(ns),
        p90_ns: Some(2 * ns),
        p99_ns: Some(4 * ns),
        p99_9_ns: Some(50 * ns),
        p99_99_ns: None,
        max_ns: Some(90_000 * ns),
    }
}

fn measured(ns: f64, base: f64, cpus: usize) -> Measured {
    let round = |cached| Round {
        pairs: 1000,
        wall_ns: (ns * 1000.0) as u64 / cpus as u64,
        cpu_ns: 0,
        failed: 0,
        cached_pages: Some(cached),
    };
    Measured {
        ns_per_pair: summary(ns),
        cpu_ns_per_pair: summary(ns * 0.98),
        pairs_per_second: summary(1e9 * cpus as f64 / ns),
        over_baseline: Some(summary(ns / base)),
        cpu_over_baseline: Some(summary(ns / base)),
        allocate: latency(ns as u64 / 2),
        free: latency(ns as u64 / 3),
        memory_bytes: Some(70_000),
        cached_pages: Some(128),
        failed: 0,
        refused: 0,
        pairs_per_thread: 1000,
        rounds: vec![round(128), round(16_384)],
    }
}

fn case(scenario: Scenario, threads: usize, times: [f64; 2]) -> Case {
    let cpus = threads.min(4);
    let entry = |(name, ns): (&str, f64)| Entry {
        contestant: name.to_owned(),
        absent: None,
        measured: Some(measured(ns, times[1], cpus)),
    };
    let mut entries: Vec<Entry> = ["fast", "linux"].into_iter().zip(times).map(entry).collect();
    entries.push(Entry {
        contestant: "small".to_owned(),
        absent: Some("the space has too many pages".to_owned()),
        measured: None,
    });
    Case {
        scenario,
        what: "what threads do".to_owned(),
        sizes: scenario.sizes().describe(),
        threads,
        cpus: 4,
        queue_ns_per_pair: (scenario == Scenario::Drift).then_some(1.5),
        entries,
    }
}

pub(crate) fn made_up() -> Benchmark {
    let named = |name: &str| Named { name: name.to_owned(), what: format!("what {name} is") };
    let mut cases = vec![
        case(Scenario::Pairs, 1, [5.25, 13.0]),
        case(Scenario::Pairs, 4, [5.5, 13.5]),
        case(Scenario::Pairs, 8, [6.0, 92_000.0]),
        case(Scenario::Drift, 2, [1234.0, 2500.0]),
    ];
    cases[2].entries[0].measured.as_mut().unwrap().failed = 7;
    Benchmark {
        head: Head {
            schema: SCHEMA,
            made_by: "iotoll 0.0.0".to_owned(),
            command: ["iotoll", "bench", "iova\u{1b}[2J"].map(str::to_owned).to_vec(),
            date: "2000-01-01".to_owned(),
            evidence: Evidence::Measured { how: "iotoll bench iova".to_owned(), on: "a CPU".to_owned() },
            machine: HostSummary {
                cpu: Some("A CPU <b>".to_owned()),
                cpus: 4,
                architecture: "x86_64".to_owned(),
                kernel: None,
                governor: None,
                is_virtual: Some(true),
                load_average: Some(0.0),
            },
            warnings: vec!["fast, pairs, 8 threads: 7 allocations FAILED".to_owned()],
        },
        clock: Clock { name: "time stamp counter", overhead_ns: 12.3, sample_every: 61 },
        settings: Settings {
            scenarios: vec![Scenario::Pairs, Scenario::Held, Scenario::Drift],
            ..Settings::default()
        },
        baseline: "linux".to_owned(),
        contestants: ["fast", "linux", "small"].map(named).to_vec(),
        cases,
    }
}
