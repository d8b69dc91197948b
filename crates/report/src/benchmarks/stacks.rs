//! What sampled call stacks say of DMA mapping: its stages with their intervals, the functions that ran, and a flame graph.

use super::watch::cores;
use super::watch_drawings::{colour, frames};
use crate::page::drawing::{Drawing, Flame, Frame, Kind};
use crate::page::fact::Fact;
use crate::page::quantity::{count, figure, grouped, time};
use crate::page::table::{Row, Table};
use crate::page::{Block, Page};
use escape::terminal::plain;
use std::collections::BTreeMap;
use toll::Stage;
use watch::{Evidence, SampledPath, SampledTime, Stacks};

/// Functions that are listed, those with the most samples.
const FUNCTIONS_SHOWN: usize = 12;

/// Adds what samples say, or why they say nothing.
pub(super) fn add_stacks(page: &mut Page, stacks: &Stacks) {
    page.heading("CPU time by sampled call stacks");
    let Some(all) = stacks.all.filter(|_| stacks.unknown.is_none()) else {
        let why = stacks.unknown.as_deref().unwrap_or("nothing was sampled");
        page.prose(format!("Unknown, because {}.", plain(why)), 2);
        add_counts(page, stacks);
        return;
    };
    page.prose(sentence(&all, stacks), 2);
    if all.samples > 0 {
        add_stages(page, &all, stacks);
        add_functions(page, stacks);
        page.push(Block::Drawing(flame(stacks)));
    }
    add_counts(page, stacks);
    page.remark(
        "Samples say nothing of single calls and of adapters. Intervals are those of chance alone. A function that the compiler inlined is part of its \
         caller. Time of an interrupt's handler that came within a function is not that function's.",
    );
}

/// `DMA mapping took 0.124 of a core (0.117 to 0.131), 1.24 µs per request (1.17 µs to 1.31 µs).`
fn sentence(all: &SampledTime, stacks: &Stacks) -> String {
    let io = match (stacks.io, all.ns_per_io.zip(all.ns_per_io_interval)) {
        (Some(io), Some((ns, [low, high]))) => {
            format!(", {} per {} ({} to {})", time(ns), io.name, time(low), time(high))
        }
        _ => String::new(),
    };
    let [low, high] = all.cores_interval;
    format!("DMA mapping took {} of a core ({} to {}){io}.", cores(all.cores), cores(low), cores(high))
}

fn add_stages(page: &mut Page, all: &SampledTime, stacks: &Stacks) {
    let mut titles = vec!["samples".to_owned(), "of a core".to_owned(), "95 % interval".to_owned()];
    titles.extend(stacks.io.iter().flat_map(|io| [format!("per {}", io.name), "95 % interval".to_owned()]));
    let row = |name: &str, time: &SampledTime| {
        let [low, high] = time.cores_interval.map(cores);
        let mut cells = vec![grouped(time.samples), cores(time.cores), format!("{low} to {high}")];
        if let Some((ns, [low, high])) = time.ns_per_io.zip(time.ns_per_io_interval) {
            let words = crate::page::quantity::time;
            cells.extend([words(ns), format!("{} to {}", words(low), words(high))]);
        }
        Row { name: name.to_owned(), ink: None, cells }
    };
    let mut rows: Vec<Row> = stacks.stages.iter().map(|one| row(one.stage.word(), &one.time)).collect();
    rows.push(row("all of them", all));
    page.table(Table { names: "CPU time by stage", wraps_names: false, titles, rows });
}

/// The functions that ran in DMA mapping, whatever they are, by their own samples.
fn add_functions(page: &mut Page, stacks: &Stacks) {
    let mut functions: BTreeMap<(&str, Stage), u64> = BTreeMap::new();
    for path in &stacks.paths {
        if let Some(function) = path.functions.last() {
            *functions.entry((function, path.stage)).or_default() += path.samples;
        }
    }
    let all: u64 = stacks.stages.iter().map(|one| one.time.samples).sum();
    let mut functions: Vec<((&str, Stage), u64)> = functions.into_iter().collect();
    functions.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let row = |((name, stage), samples): ((&str, Stage), u64)| {
        let share = format!("{:.0} %", samples as f64 / all.max(1) as f64 * 100.0);
        Row { name: plain(name), ink: None, cells: vec![stage.word().to_owned(), grouped(samples), share] }
    };
    let titles = ["stage", "samples", "of DMA mapping"].map(str::to_owned).to_vec();
    let rows = functions.into_iter().take(FUNCTIONS_SHOWN).map(row).collect();
    page.table(Table { names: "functions that ran", wraps_names: false, titles, rows });
}

fn flame(stacks: &Stacks) -> Drawing {
    let all: Vec<&SampledPath> = stacks.paths.iter().collect();
    let samples = all.iter().map(|path| path.samples).sum();
    let name =
        "Samples in DMA mapping: each function stands on its caller, as wide as its samples".to_owned();
    let frames = frames(&all, 0, &|name, through, depth| frame(name, through, depth, samples));
    Drawing(Kind::Flame(Flame { name, frames }))
}

/// A function, by the paths through it.
fn frame(name: &str, through: &[&SampledPath], depth: usize, all: u64) -> Frame {
    let samples: u64 = through.iter().map(|path| path.samples).sum();
    let itself = through.iter().filter(|path| path.functions.len() == depth + 1);
    let own: u64 = itself.map(|path| path.samples).sum();
    let share = samples as f64 / all.max(1) as f64 * 100.0;
    let name = plain(name);
    let label = format!("{name}: {}, {share:.1} %; {own} in itself", count(samples as usize, "sample"));
    let colour = through.first().map_or(0, |path| colour(path.stage));
    Frame { name, time: samples as f64, label, colour, frames: Vec::new() }
}

/// How it was sampled, and what was lost.
fn add_counts(page: &mut Page, stacks: &Stacks) {
    if stacks.samples == 0 {
        return;
    }
    let off = format!(
        "{} of {} in the kernel",
        grouped(stacks.interrupts_off_samples),
        count(stacks.kernel_samples as usize, "sample")
    );
    let evidence = match stacks.evidence {
        Some(Evidence::Seen) => "; so it is not blind there",
        Some(Evidence::ByKind) => "; that it is not blind there is known by the kind of the counter alone",
        _ => "",
    };
    let [first, last] = stacks.cycle_ns;
    let mut facts = vec![
        Fact::known(
            "sampled",
            &format!(
                "{} on {}, one every {} cycles",
                count(stacks.samples as usize, "sample"),
                count(stacks.cpus, "CPU"),
                grouped(stacks.cycles_per_sample)
            ),
        ),
        Fact::known("with interrupts off", &format!("{off}{evidence}")),
        Fact::known(
            "a cycle",
            &format!(
                "{} ns at the begin and {} ns at the end, of iotoll's own work",
                figure(first),
                figure(last)
            ),
        ),
    ];
    let losses = [
        (stacks.lost_samples, "samples found no room"),
        (
            stacks.throttled,
            "times the kernel stopped a counter until its next tick; the times above are too short",
        ),
        (stacks.malformed_bytes, "bytes of records were not understood"),
        (stacks.program_samples, "samples in programs that watch these functions, in no stage"),
    ];
    let told = losses.iter().filter(|(number, _)| *number > 0);
    let told: Vec<String> = told.map(|(number, words)| format!("{} {words}", grouped(*number))).collect();
    let told = if told.is_empty() { "nothing".to_owned() } else { told.join("; ") };
    facts.push(Fact::known("left out", &told));
    let widest = facts.iter().map(|fact| fact.label.chars().count()).max().unwrap_or(0);
    page.facts(facts, widest + 2);
}
