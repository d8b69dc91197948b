//! The page of a benchmark of transfers between an NVMe controller and memory: miscompares and rates, by memory.

use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{self, figure, grouped};
use crate::page::table::{Row, Table};
use bench::{ExpectedFrom, Miscompare, Summary, TransferBenchmark, TransferRow};
use escape::terminal::plain;

/// Columns for the names of facts.
const NAMES: usize = 22;

/// What differed, then the rates of the adapter and of the CPU, by memory.
pub fn transfer_benchmark(benchmark: &TransferBenchmark) -> Page {
    let settings = &benchmark.settings;
    let controller = format!("{} ({})", plain(&benchmark.adapter), plain(&benchmark.model));
    let mut page = Page::titled(match benchmark.has_miscompares() {
        false => format!("Transfers between {controller} and memory: no byte differed"),
        true => format!("Transfers between {controller} and memory: DATA DIFFERED"),
    });
    benchmark.memories.iter().flat_map(differences).for_each(|text| page.bullet(text));
    page.warnings(&benchmark.head.warnings);
    page.facts(facts(benchmark), NAMES);
    page.heading("What was compared");
    page.table(table(
        benchmark,
        &["words by the CPU", "differ", "commands by the controller", "differ"],
        |row| {
            let (writes, reads) = (&row.controller_writes, row.controller_reads.as_ref());
            let of_reads =
                |number: fn(&bench::ControllerReads) -> u64| reads.map(number).map_or(String::new(), grouped);
            vec![
                grouped(writes.words),
                grouped(writes.miscompares),
                of_reads(|reads| reads.commands),
                of_reads(|reads| reads.miscompares),
            ]
        },
    ));
    page.heading(format!(
        "Rates in MB/s, median of {} rounds of {} ms; one thread, one step after the other",
        settings.rounds, settings.round_ms
    ));
    let titles = ["controller writes", "CPU loads", "CPU stores", "controller reads"];
    page.table(table(benchmark, &titles, |row| {
        let reads = row.controller_reads.as_ref().and_then(|reads| reads.bytes_per_second);
        let rates = [
            row.controller_writes.bytes_per_second,
            row.cpu_load_bytes_per_second,
            row.cpu_store_bytes_per_second,
            reads,
        ];
        rates.into_iter().map(megabytes).collect()
    }));
    page.prose(
        "A controller that reads compares memory with its disk, so the disk may be what limits it. The CPU's accesses are of eight bytes.",
        0,
    );
    page
}

/// Everything that holds for all memories.
fn facts(benchmark: &TransferBenchmark) -> Vec<Fact> {
    let settings = &benchmark.settings;
    let expected = match benchmark.expected_from {
        ExpectedFrom::Kernel => "what the kernel's driver read before it was unbound",
        ExpectedFrom::ThisProgram => "what iotoll's own driver read first, into ordinary DMA memory",
    };
    let snooping = match benchmark.forces_snooping {
        Some(true) => {
            Fact::known("snooping", "the IOMMU makes every access of the controller snoop the CPU's caches")
        }
        Some(false) => {
            Fact::known("snooping", "each access snoops the CPU's caches unless the controller asks not to")
        }
        None => Fact::unknown("snooping", "the kernel does not say whether the IOMMU makes accesses snoop"),
    };
    let mut facts = vec![
        Fact::known("evidence", &benchmark.head.evidence.to_string()),
        Fact::known(
            "transfers",
            &format!(
                "buffers of {}, from block {} of the disk, by commands of {}, {} in flight",
                quantity::bytes(settings.bytes),
                settings.first,
                quantity::bytes(settings.command_bytes),
                settings.depth
            ),
        ),
        Fact::known("expected", expected),
        snooping,
    ];
    facts.extend(benchmark.memories.iter().map(|row| Fact::known(&plain(&row.name), &mapping(row))));
    facts.extend(
        benchmark.memories.iter().any(|row| row.controller_reads.is_none()).then(|| {
            Fact::absent("controller reads", "not measured: the controller does not support Compare")
        }),
    );
    facts
}

/// How the memory was mapped, and its type.
fn mapping(row: &TransferRow) -> String {
    match &row.memory_type {
        Some(kind) => format!("{}: {kind}", row.mapping),
        None => row.mapping.clone(),
    }
}

/// What differed in a memory, a sentence for each direction.
fn differences(row: &TransferRow) -> Vec<String> {
    let name = format!("{} ({})", plain(&row.name), mapping(row));
    let (writes, mut found) = (&row.controller_writes, Vec::new());
    if let Some(first) = writes.first_miscompare {
        found.push(format!(
            "{name}: {} of {} words are not what the controller wrote; {}",
            grouped(writes.miscompares),
            grouped(writes.words),
            first_words(first, row.memory_type.as_deref())
        ));
    }
    if let Some(reads) = row.controller_reads.as_ref().filter(|reads| reads.miscompares > 0) {
        found.push(format!(
            "{name}: in {} of {} commands the controller read other data than the CPU had stored",
            grouped(reads.miscompares),
            grouped(reads.commands)
        ));
    }
    found
}

/// The first word that differed.
fn first_words(first: Miscompare, memory_type: Option<&str>) -> String {
    let Miscompare { offset, expected, found, is_stale } = first;
    let cause = match is_stale {
        true => "that is what the CPU had stored before the transfer",
        false => "the CPU had stored neither",
    };
    // Memory that is not cached has no line to hide a transfer.
    let is_cached = !matches!(memory_type, Some("UC" | "UC-" | "WC"));
    let reason = match is_stale && is_cached {
        true => ": a line of its cache hid the transfer, or the data came after the completion",
        false => "",
    };
    format!("the first, at byte {offset}, is {found:#018x} in place of {expected:#018x}: {cause}{reason}")
}

/// A table with a row for each memory.
fn table(
    benchmark: &TransferBenchmark,
    titles: &[&str],
    cells: impl Fn(&TransferRow) -> Vec<String>,
) -> Table {
    let row = |row: &TransferRow| Row {
        name: match &row.memory_type {
            Some(kind) => format!("{}, {kind}", plain(&row.name)),
            None => plain(&row.name),
        },
        ink: None,
        cells: cells(row),
    };
    Table {
        names: "memory",
        wraps_names: false,
        titles: titles.iter().map(|title| (*title).to_owned()).collect(),
        rows: benchmark.memories.iter().map(row).collect(),
    }
}

/// Megabytes per second; empty if there is no rate.
fn megabytes(rate: Option<Summary>) -> String {
    rate.map(|rate| figure(rate.median / 1e6)).unwrap_or_default()
}
