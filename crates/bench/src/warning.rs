//! Warnings: reasons to doubt the figures of a benchmark.

use crate::host_summary::HostSummary;
use crate::result::{Benchmark, Case, Measured};

/// A higher load average before the run causes a warning.
const LOAD_MAX: f64 = 0.5;
/// Quartiles further apart than this share of the median cause a warning.
const SPREAD_MAX: f64 = 0.2;
/// A single thread with a smaller share of CPU time in its elapsed time causes a warning.
const CPU_SHARE_MIN: f64 = 0.9;

/// All warnings of an allocator benchmark, the most serious first.
pub(crate) fn of_benchmark(benchmark: &Benchmark) -> Vec<String> {
    let mut warnings = failures(benchmark);
    let machine = &benchmark.head.machine;
    warnings.extend(of_machine(machine));
    if let Some(governor) = machine.governor.as_ref().filter(|governor| *governor != "performance") {
        warnings.push(format!("the CPUs' frequency varies (governor {governor}); `performance` holds it"));
    }
    warnings.extend(preempted(benchmark));
    warnings.extend(spread(benchmark));
    let threads: Vec<usize> = benchmark.cases.iter().map(|case| case.threads).collect();
    warnings.extend(of_threads(machine, &threads));
    warnings
}

/// A warning if some cases have more threads than CPUs.
pub(crate) fn of_threads(machine: &HostSummary, threads: &[usize]) -> Option<String> {
    let threads = threads.iter().filter(|threads| **threads > machine.cpus).min()?;
    Some(format!(
        "more threads than CPUs ({}): from {threads} threads on, the figures include the scheduler",
        machine.cpus
    ))
}

/// Warnings that apply to every benchmark: a debug build, or a busy host.
pub(crate) fn of_machine(machine: &HostSummary) -> Vec<String> {
    let built = cfg!(debug_assertions)
        .then(|| "this program was built without optimisation: build it with --release".to_owned());
    built.into_iter().chain(of_load(machine)).collect()
}

/// A warning if other programs used the host.
fn of_load(machine: &HostSummary) -> Option<String> {
    let load = machine.load_average.filter(|load| *load > LOAD_MAX)?;
    Some(format!(
        "the machine was busy: load average {load} on {} CPUs in the minute before; medians and ratios are more reliable \
         than maxima",
        machine.cpus
    ))
}

/// All measured results, each with its case and contestant.
fn measured(benchmark: &Benchmark) -> impl Iterator<Item = (&Case, &str, &Measured)> {
    benchmark.cases.iter().flat_map(|case| {
        case.entries.iter().filter_map(move |entry| {
            entry.measured.as_ref().map(|measured| (case, entry.contestant.as_str(), measured))
        })
    })
}

/// A warning for each result with failed calls.
fn failures(benchmark: &Benchmark) -> Vec<String> {
    let mut found = Vec::new();
    for (case, name, measured) in measured(benchmark) {
        let at = format!("{name}, {}, {}", case.scenario, thread_count(case.threads));
        if measured.failed > 0 {
            found.push(format!(
                "{at}: {} allocations FAILED although pages were free; its times are not valid",
                measured.failed
            ));
        }
        if measured.refused > 0 {
            found.push(format!("{at}: {} frees of allocated ranges FAILED", measured.refused));
        }
    }
    found
}

/// `1 thread`, or `N threads`.
fn thread_count(number: usize) -> String {
    if number == 1 { "1 thread".to_owned() } else { format!("{number} threads") }
}

/// A warning if a single thread's CPU time was less than its elapsed time, so other work preempted it.
fn preempted(benchmark: &Benchmark) -> Option<String> {
    let share = |measured: &Measured| measured.cpu_ns_per_pair.median / measured.ns_per_pair.median;
    let alone = measured(benchmark).filter(|(case, ..)| case.threads == 1);
    let worst = alone.map(|(_, _, measured)| share(measured)).min_by(f64::total_cmp)?;
    (worst < CPU_SHARE_MIN).then(|| {
        format!(
            "a single thread had a CPU only {:.0} % of the time; see the CPU time of each round",
            worst * 100.0
        )
    })
}

/// A warning if rounds of the same result differ much.
fn spread(benchmark: &Benchmark) -> Option<String> {
    let all: Vec<_> = measured(benchmark).collect();
    let wide: Vec<_> =
        all.iter().filter(|(_, _, measured)| measured.ns_per_pair.spread() > SPREAD_MAX).collect();
    let (case, name, worst) =
        wide.iter().max_by(|(.., a), (.., b)| a.ns_per_pair.spread().total_cmp(&b.ns_per_pair.spread()))?;
    Some(format!(
        "rounds differ: in {} of {} results the quartiles are more than {:.0} % of the median apart, most for {name} in {} with {} ({:.0} %)",
        wide.len(),
        all.len(),
        SPREAD_MAX * 100.0,
        case.scenario,
        thread_count(case.threads),
        worst.ns_per_pair.spread() * 100.0
    ))
}
