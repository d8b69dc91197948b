//! What casts doubt on figures.

use crate::machine::Machine;
use crate::result::{Benchmark, Case, Measured};

/// Other work than this share of a CPU is worth a word.
const LOAD_MAX: f64 = 0.5;
/// Quartiles further apart than this share of the median are.
const SPREAD_MAX: f64 = 0.2;
/// So much of the elapsed time should be CPU time where a thread has a CPU to itself.
const CPU_SHARE_MIN: f64 = 0.9;

/// All that is to be said, the gravest first.
pub(crate) fn of(benchmark: &Benchmark) -> Vec<String> {
    let mut warnings = failures(benchmark);
    let machine = &benchmark.head.machine;
    warnings.extend(of_any(machine));
    if let Some(governor) = machine.governor.as_ref().filter(|governor| *governor != "performance") {
        warnings.push(format!("the CPUs' frequency varies (governor {governor}); `performance` holds it"));
    }
    warnings.extend(taken_away(benchmark));
    warnings.extend(spread(benchmark));
    let crowded =
        benchmark.cases.iter().map(|case| case.threads).filter(|threads| *threads > machine.cpus).min();
    if let Some(threads) = crowded {
        warnings.push(format!(
            "more threads than CPUs ({}): from {threads} threads on, figures are the scheduler's too",
            machine.cpus
        ));
    }
    warnings
}

/// What casts doubt on any measurement.
pub(crate) fn of_any(machine: &Machine) -> Vec<String> {
    let built = cfg!(debug_assertions)
        .then(|| "this program was built without optimisation: build it with --release".to_owned());
    built.into_iter().chain(of_load(machine)).collect()
}

/// Others used the machine.
fn of_load(machine: &Machine) -> Option<String> {
    let load = machine.load_average.filter(|load| *load > LOAD_MAX)?;
    Some(format!(
        "the machine was busy: a load of {load} on {} CPUs in the minute before; medians and ratios bear it better than \
         maxima",
        machine.cpus
    ))
}

fn measured(benchmark: &Benchmark) -> impl Iterator<Item = (&Case, &str, &Measured)> {
    benchmark.cases.iter().flat_map(|case| {
        case.entries.iter().filter_map(move |entry| {
            entry.measured.as_ref().map(|measured| (case, entry.contestant.as_str(), measured))
        })
    })
}

fn failures(benchmark: &Benchmark) -> Vec<String> {
    let mut found = Vec::new();
    for (case, name, measured) in measured(benchmark) {
        let at = format!("{name}, {}, {}", case.scenario, threads(case.threads));
        if measured.failed > 0 {
            found.push(format!(
                "{at}: {} allocations FAILED although there was room; its times are worth nothing",
                measured.failed
            ));
        }
        if measured.refused > 0 {
            found.push(format!("{at}: {} frees of what it had handed out were REFUSED", measured.refused));
        }
    }
    found
}

fn threads(number: usize) -> String {
    if number == 1 { "1 thread".to_owned() } else { format!("{number} threads") }
}

/// Of one thread alone, elapsed time is CPU time, unless somebody else had the CPU.
fn taken_away(benchmark: &Benchmark) -> Option<String> {
    let share = |measured: &Measured| measured.cpu_ns_per_pair.median / measured.ns_per_pair.median;
    let alone = measured(benchmark).filter(|(case, ..)| case.threads == 1);
    let worst = alone.map(|(_, _, measured)| share(measured)).min_by(f64::total_cmp)?;
    (worst < CPU_SHARE_MIN).then(|| {
        format!(
            "a single thread had its CPU only {:.0} % of the time: see the CPU time of each round",
            worst * 100.0
        )
    })
}

fn spread(benchmark: &Benchmark) -> Option<String> {
    let all: Vec<_> = measured(benchmark).collect();
    let wide: Vec<_> =
        all.iter().filter(|(_, _, measured)| measured.ns_per_pair.spread() > SPREAD_MAX).collect();
    let (case, name, worst) =
        wide.iter().max_by(|(.., a), (.., b)| a.ns_per_pair.spread().total_cmp(&b.ns_per_pair.spread()))?;
    Some(format!(
        "rounds differ: of {} of {} medians the quartiles are more than {:.0} % apart, most for {name} in {} with {} ({:.0} %)",
        wide.len(),
        all.len(),
        SPREAD_MAX * 100.0,
        case.scenario,
        threads(case.threads),
        worst.ns_per_pair.spread() * 100.0
    ))
}
