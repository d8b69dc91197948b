//! Figures of a benchmark of IOVA allocators in words, the same on a terminal and in HTML.

use crate::page::quantity::{self, figure, time};
use crate::page::{Lead, Page};
use bench::{Benchmark, Case, Entry, Head, Measured, Scenario, Summary};
use escape::terminal::plain;

/// `4 threads`.
pub(crate) fn threads(number: usize) -> String {
    quantity::count(number, "thread")
}

/// Nanoseconds of an allocation and its free, with the spread, and in brackets the ratio to the baseline.
pub(crate) fn pair_time(measured: &Measured) -> String {
    let spread = (measured.ns_per_pair.spread() * 50.0).round();
    let ratio = ratio(measured.over_baseline);
    let failed = if measured.failed + measured.refused > 0 { "FAILED " } else { "" };
    format!("{failed}{} ±{spread} %{ratio}", figure(measured.ns_per_pair.median))
}

/// The median of a ratio in brackets; empty if there is none.
fn ratio(over: Option<Summary>) -> String {
    over.map(|over| format!(" ({})", figure(over.median))).unwrap_or_default()
}

/// Explains the figures of [`pair_time`].
pub(crate) fn legend(benchmark: &Benchmark) -> String {
    format!(
        "Nanoseconds of a CPU per allocation and free: elapsed time x CPUs in use / pairs, median of {} rounds; ± is half of \
         what lies between the quartiles. In brackets: over {}, the median of each round's ratio.",
        benchmark.settings.rounds,
        plain(&benchmark.baseline)
    )
}

/// Titles of the columns of [`details`].
pub(crate) const DETAILS: [&str; 9] =
    ["M pairs/s", "CPU ns", "alloc p50", "p99", "p99.99", "max", "free p50", "p99.99", "memory"];

/// The cells of an allocator's row in the table of details, one for each of [`DETAILS`].
pub(crate) fn details(measured: &Measured) -> Vec<String> {
    let ns = |value: Option<u64>| value.map(|ns| time(ns as f64)).unwrap_or_default();
    let (allocate, free) = (&measured.allocate, &measured.free);
    vec![
        figure(measured.pairs_per_second.median / 1e6),
        figure(measured.cpu_ns_per_pair.median) + &ratio(measured.cpu_over_baseline),
        ns(allocate.p50_ns),
        ns(allocate.p99_ns),
        ns(allocate.p99_99_ns),
        ns(allocate.max_ns),
        ns(free.p50_ns),
        ns(free.p99_99_ns),
        measured.memory_bytes.map(quantity::bytes).unwrap_or_default(),
    ]
}

/// The cases of one scenario, by number of threads.
pub(crate) fn cases_of(benchmark: &Benchmark, scenario: Scenario) -> Vec<&Case> {
    benchmark.cases.iter().filter(|case| case.scenario == scenario).collect()
}

/// The case to show in detail: the one with most threads, but with no more threads than CPUs.
pub(crate) fn case_to_detail<'c>(cases: &[&'c Case]) -> Option<&'c Case> {
    let fitting = cases.iter().rev().find(|case| case.threads <= case.cpus);
    fitting.or(cases.first()).copied()
}

/// Nanoseconds of an allocation and its free, and pages in the allocator's caches where it reports them, round by round.
pub(crate) fn by_round(case: &Case, measured: &Measured) -> (Vec<String>, Vec<String>) {
    let rounds = &measured.rounds;
    let times = rounds.iter().map(|round| figure(round.ns_per_pair(case.cpus_used())));
    let cached = rounds.iter().filter_map(|round| round.cached_pages).map(quantity::grouped);
    (times.collect(), cached.collect())
}

/// Allocators that were not measured in a scenario, with the reason, each once.
pub(crate) fn not_measured<'c>(cases: &[&'c Case]) -> Vec<(&'c str, &'c str)> {
    let of = |entry: &'c Entry| entry.absent.as_deref().map(|why| (entry.contestant.as_str(), why));
    let mut absent: Vec<_> = cases.iter().flat_map(|case| case.entries.iter().filter_map(of)).collect();
    absent.dedup();
    absent.sort_unstable();
    absent.dedup();
    absent
}

/// The machine and its system, as names and values.
pub(super) fn machine(head: &Head) -> [(&'static str, String); 2] {
    let machine = &head.machine;
    let known = |text: &Option<String>| text.as_deref().map_or_else(|| "unknown".to_owned(), plain);
    let virtual_ = if machine.is_virtual == Some(true) { ", virtual" } else { "" };
    let (cpu, cpus) = (known(&machine.cpu), quantity::count(machine.cpus, "CPU"));
    [
        ("machine", format!("{cpu}, {cpus}{virtual_}, {}", machine.architecture)),
        ("system", format!("Linux {}, governor {}", known(&machine.kernel), known(&machine.governor))),
    ]
}

/// The program, the day and the command.
pub(super) fn made_by(head: &Head) -> (&'static str, String) {
    ("made by", format!("{}, {}: {}", plain(&head.made_by), head.date, plain(&head.command.join(" "))))
}

/// The machine, the clock and the settings, as names and values.
pub(crate) fn facts(benchmark: &Benchmark) -> Vec<(&'static str, String)> {
    let settings = &benchmark.settings;
    let length = match settings.pairs {
        Some(pairs) => format!("{} pairs", quantity::grouped(pairs)),
        None => format!("about {} ms", settings.round_ms),
    };
    let pinned = if settings.pin { "pinned to a CPU each" } else { "not pinned" };
    let clock = &benchmark.clock;
    let rounds = format!(
        "{} of {length} for each, taking turns; threads {pinned}; window of {} bits; seed {}",
        settings.rounds, settings.bits, settings.seed
    );
    let clock = format!(
        "{}, adds {:.0} ns to each latency; one call in {} timed",
        clock.name, clock.overhead_ns, clock.sample_every
    );
    let mut facts = machine(&benchmark.head).to_vec();
    facts.extend([("rounds", rounds), ("clock", clock), made_by(&benchmark.head)]);
    facts
}

/// Adds what could not be measured, and why.
pub(super) fn add_not_measured<S: Into<String>>(page: &mut Page, reasons: impl IntoIterator<Item = S>) {
    for reason in reasons {
        page.item(Lead::Mark("not measured ".to_owned()), reason);
    }
}
