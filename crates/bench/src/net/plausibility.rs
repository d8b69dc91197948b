//! Bounds of what a server says of itself and of what it counted.
//!
//! A server that knows the secret can still be broken or lie. Its texts are cut before anything shows them. Its counts are held against what
//! the client knows: how long it waited, and how many CPUs the server has. Impossible values are left out, and a warning says so.

use super::message::Welcome;
use super::result::{HostCpu, Usage};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Characters of a text at most; the names of CPUs have some 50.
const TEXT_MAX: usize = 200;
/// Warnings of a server about itself at most.
const WARNINGS_MAX: usize = 16;
/// Interfaces on the way at most, as a server reads them.
const ADAPTERS_MAX: usize = 16;
/// The most CPUs that Linux can be built for (NR_CPUS on x86-64).
const CPUS_MAX: usize = 8192;
/// A load average is at most the number of threads, which is at most PID_MAX_LIMIT.
const LOAD_MAX: f64 = 4_194_304.0;
/// Two clocks may differ by this share: chrony slews one by up to 8.3 % (its `maxslewrate`). A reading takes some time on top.
const CLOCK_TOLERANCE: f64 = 0.1;
const CLOCK_SLACK_NS: f64 = 20e6;
/// `/proc/stat` counts in steps of 10 ms on each CPU, at both ends.
const CPU_TICK_SLACK_NS: f64 = 20e6;

/// Cuts what a server says of itself. Returns a warning if something was cut or changed.
pub(super) fn bound(welcome: &mut Welcome) -> Option<String> {
    let mut changed: Vec<&str> = Vec::new();
    let mut bound_text = |name, text: &mut String| {
        let bounded = bounded(text);
        if bounded != *text {
            changed.push(name);
            *text = bounded;
        }
    };
    bound_text("its version", &mut welcome.made_by);
    bound_text("its architecture", &mut welcome.machine.architecture);
    bound_text("its address", &mut welcome.path.address);
    let optional = [
        ("its CPU", &mut welcome.machine.cpu),
        ("its kernel", &mut welcome.machine.kernel),
        ("its governor", &mut welcome.machine.governor),
        ("its interface", &mut welcome.path.interface),
    ];
    for (name, text) in optional {
        text.iter_mut().for_each(|text| bound_text(name, text));
    }
    for adapter in &mut welcome.path.adapters {
        bound_text("an adapter", &mut adapter.interface);
        adapter
            .driver
            .iter_mut()
            .chain(&mut adapter.pci_address)
            .for_each(|text| bound_text("an adapter", text));
    }
    welcome.warnings.iter_mut().for_each(|words| bound_text("a warning", words));
    let mut is_more = |name, is_more: bool| changed.extend(is_more.then_some(name));
    is_more("the number of warnings", welcome.warnings.len() > WARNINGS_MAX);
    welcome.warnings.truncate(WARNINGS_MAX);
    is_more("the number of adapters", welcome.path.adapters.len() > ADAPTERS_MAX);
    welcome.path.adapters.truncate(ADAPTERS_MAX);
    for cpus in std::iter::once(&mut welcome.machine.cpus).chain(&mut welcome.host_cpus) {
        is_more("the number of CPUs", !(1..=CPUS_MAX).contains(cpus));
        *cpus = (*cpus).clamp(1, CPUS_MAX);
    }
    let load = &mut welcome.machine.load_average;
    is_more("its load average", load.is_some_and(|load| !(0.0..=LOAD_MAX).contains(&load)));
    *load = load.filter(|load| (0.0..=LOAD_MAX).contains(load));
    changed.dedup();
    (!changed.is_empty()).then(|| {
        format!("what it says of itself was not plausible, and was cut or left out: {}", changed.join(", "))
    })
}

/// A text without control characters and of at most [`TEXT_MAX`] characters.
pub(super) fn bounded(text: &str) -> String {
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(printable).take(TEXT_MAX).collect()
}

/// How many CPUs a server has.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerCpus {
    /// Those that its process may run on.
    pub(super) process: usize,
    /// All of the host.
    pub(super) host: usize,
}

impl ServerCpus {
    /// Of a server whose welcome was [bounded](bound).
    pub(super) fn of(welcome: &Welcome) -> Self {
        Self { process: welcome.machine.cpus, host: welcome.host_cpus.unwrap_or(CPUS_MAX) }
    }
}

/// What can be wrong with a server's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Flaw {
    Clock,
    Process,
    Host,
}

/// What was left out of a server's counts, with the first case of each flaw and the number of cases.
#[derive(Debug, Default)]
pub(super) struct Implausible(BTreeMap<Flaw, (String, usize)>);

impl Implausible {
    fn add(&mut self, flaw: Flaw, words: String) {
        self.0.entry(flaw).or_insert((words, 0)).1 += 1;
    }

    /// A warning for each flaw.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.values().map(|(words, number)| match number {
            1 => words.clone(),
            _ => format!("{words}; {number} readings are like this"),
        })
    }

    /// What a server took between two readings, without what can't be. `span` has the least and the most nanoseconds that can have passed
    /// between them, by the client's clock.
    pub(super) fn between(
        &mut self,
        before: &Usage,
        after: &Usage,
        span: &RangeInclusive<u64>,
        cpus: ServerCpus,
    ) -> Usage {
        let mut usage = after.since(before);
        let (least, most) = (*span.start() as f64, *span.end() as f64);
        let possible = least * (1.0 - CLOCK_TOLERANCE) - CLOCK_SLACK_NS
            ..=most * (1.0 + CLOCK_TOLERANCE) + CLOCK_SLACK_NS;
        let seconds = |ns: f64| format!("{:.3} s", ns / 1e9);
        if after.wall_ns < before.wall_ns || !possible.contains(&(usage.wall_ns as f64)) {
            let counted = after.wall_ns as f64 - before.wall_ns as f64;
            self.add(
                Flaw::Clock,
                format!(
                    "its clock counted {} in {}; the client's clock is taken",
                    seconds(counted),
                    seconds(most)
                ),
            );
            usage.wall_ns = usage.wall_ns.clamp(*span.start(), *span.end());
        }
        let wall = usage.wall_ns as f64;
        let most = |cpus: usize| (wall * (1.0 + CLOCK_TOLERANCE) + CPU_TICK_SLACK_NS) * cpus as f64;
        if after.process_ns < before.process_ns
            || usage.process_ns.is_some_and(|ns| ns as f64 > most(cpus.process))
        {
            let taken = usage.process_ns.unwrap_or(0) as f64;
            self.add(
                Flaw::Process,
                left_out("CPU time of iotoll", &seconds(taken), &seconds(wall), cpus.process),
            );
            usage.process_ns = None;
        }
        let is_impossible = |host: &HostCpu| {
            let sum = host.busy_ns as f64 + host.steal_ns as f64;
            sum > most(cpus.host) || host.interrupts_ns > host.busy_ns
        };
        if before.host.zip(after.host).is_some_and(|(before, after)| after.busy_ns < before.busy_ns)
            || usage.host.is_some_and(|host| is_impossible(&host))
        {
            let taken = usage.host.map_or(0.0, |host| host.busy_ns as f64);
            self.add(
                Flaw::Host,
                left_out("CPU time of the whole host", &seconds(taken), &seconds(wall), cpus.host),
            );
            usage.host = None;
        }
        usage
    }
}

fn left_out(what: &str, taken: &str, wall: &str, cpus: usize) -> String {
    let word = if cpus == 1 { "CPU" } else { "CPUs" };
    format!("its {what} is not plausible ({taken} in {wall} on {cpus} {word}), and was left out")
}

#[cfg(test)]
mod tests {
    use super::super::path::{NetAdapter, NetPath};
    use super::*;
    use crate::host_summary::HostSummary;

    const CPUS: ServerCpus = ServerCpus { process: 2, host: 4 };
    const MS: u64 = 1_000_000;

    fn usage(wall_ms: u64, process_ms: u64, busy_ms: u64, interrupts_ms: u64) -> Usage {
        let host = HostCpu { busy_ns: busy_ms * MS, interrupts_ns: interrupts_ms * MS, steal_ns: 0 };
        Usage {
            wall_ns: wall_ms * MS,
            received_bytes: 0,
            process_ns: Some(process_ms * MS),
            host: Some(host),
        }
    }

    /// What is taken from a reading half a second after one of zeros, and the warnings.
    fn taken(after: Usage) -> (Usage, Vec<String>) {
        let mut implausible = Implausible::default();
        let usage = implausible.between(&usage(0, 0, 0, 0), &after, &(500 * MS..=510 * MS), CPUS);
        (usage, implausible.warnings().collect())
    }

    #[test]
    fn what_two_hosts_can_count_is_taken_as_it_is() {
        for possible in [usage(500, 0, 0, 0), usage(505, 1000, 2000, 2000), usage(520, 1030, 2070, 10)] {
            assert_eq!(taken(possible), (possible, Vec::new()));
        }
    }

    #[test]
    fn time_that_no_cpu_had_is_left_out_with_a_warning() {
        let (found, warnings) = taken(usage(505, 3000, 90_000, 10));
        assert_eq!((found.process_ns, found.host, found.wall_ns), (None, None, 505 * MS));
        assert_eq!(
            warnings,
            [
                "its CPU time of iotoll is not plausible (3.000 s in 0.505 s on 2 CPUs), and was left out",
                "its CPU time of the whole host is not plausible (90.000 s in 0.505 s on 4 CPUs), and was left out"
            ]
        );
        // More interrupts than CPU time, and counts that overflow when they are added.
        assert_eq!(taken(usage(505, 10, 10, 11)).0.host, None);
        let all = HostCpu { busy_ns: u64::MAX, interrupts_ns: 0, steal_ns: u64::MAX };
        assert_eq!(taken(Usage { host: Some(all), ..usage(505, 10, 0, 0) }).0.host, None);
    }

    #[test]
    fn a_clock_that_runs_differently_is_replaced_by_the_client_s() {
        for (wrong, taken_ms) in [(0, 500), (5, 500), (60_000, 510)] {
            let (found, warnings) = taken(usage(wrong, 10, 10, 1));
            assert_eq!((found.wall_ns, warnings.len()), (taken_ms * MS, 1), "{warnings:?}");
            assert!(warnings[0].starts_with("its clock counted "), "{warnings:?}");
        }
    }

    #[test]
    fn counters_that_run_backwards_are_left_out_and_counted() {
        let mut implausible = Implausible::default();
        for _ in 0..3 {
            let before = usage(1000, 700, 700, 0);
            let after = usage(1505, 600, 600, 0);
            let found = implausible.between(&before, &after, &(500 * MS..=510 * MS), CPUS);
            assert_eq!((found.process_ns, found.host), (None, None));
        }
        let warnings: Vec<String> = implausible.warnings().collect();
        assert_eq!(warnings.len(), 2);
        assert!(warnings.iter().all(|words| words.ends_with("; 3 readings are like this")), "{warnings:?}");
    }

    fn welcome() -> Welcome {
        let machine = HostSummary {
            cpu: Some("a CPU".to_owned()),
            cpus: 2,
            architecture: "x86_64".to_owned(),
            kernel: None,
            governor: None,
            is_virtual: None,
            load_average: Some(0.5),
        };
        let path = NetPath {
            address: "192.0.2.1:9417".to_owned(),
            interface: Some("eth0".to_owned()),
            mtu: Some(1500),
            is_local: false,
            adapters: Vec::new(),
        };
        let made_by = "iotoll 0.1.0".to_owned();
        Welcome {
            made_by,
            machine,
            host_cpus: Some(4),
            path,
            boot: None,
            warnings: Vec::new(),
            seconds_max: 1.0,
        }
    }

    #[test]
    fn a_server_s_words_are_cut() {
        let mut honest = welcome();
        assert_eq!((bound(&mut honest), honest.machine.cpus), (None, 2));
        let mut other = welcome();
        let adapter = NetAdapter {
            interface: "e\u{7}".to_owned(),
            driver: None,
            pci_address: Some("9".repeat(1000)),
            megabits_per_second: None,
        };
        other.path.adapters = vec![adapter; 300];
        other.warnings = vec!["w".repeat(5000); 300];
        other.machine.cpu = Some("c".repeat(TEXT_MAX + 1));
        (other.machine.cpus, other.host_cpus) = (0, Some(usize::MAX));
        other.machine.load_average = Some(-1.0);
        let words = bound(&mut other).unwrap_or_default();
        for part in [
            "its CPU",
            "an adapter",
            "a warning",
            "number of warnings",
            "number of adapters",
            "number of CPUs",
            "load average",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(words.len() < 1000, "{words}");
        assert_eq!((other.path.adapters.len(), other.warnings.len()), (ADAPTERS_MAX, WARNINGS_MAX));
        assert_eq!(
            (other.machine.cpus, other.host_cpus, other.machine.load_average),
            (1, Some(CPUS_MAX), None)
        );
        assert_eq!(other.path.adapters[0].interface, "e\u{fffd}");
        assert!(other.warnings.iter().all(|words| words.len() == TEXT_MAX));
    }
}
