//! Documents of `iotoll bench`, as far as they are compared: medians of each case and contestant, and the rounds where a document has them.

use crate::document::{Benchmark, Checked, DocumentError, Flaw, Kind, read};
use crate::quantity::{Quantity, Unit};
use bench::Bytes;
use bench::net::{NetCpu, NetRound, NetTest, SideCpu, Usage};
use bench::{RoundTime, Summary, TransferRound};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was measured of a contestant in a case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// The case: a scenario with a number of threads, a size, a depth.
    pub(crate) case: String,
    pub(crate) contestant: String,
    pub(crate) quantity: Quantity,
    /// What it is divided by.
    pub(crate) unit: Unit,
    pub(crate) median: f64,
    /// The figure of each round; empty if the document has none.
    pub(crate) rounds: Vec<f64>,
}

/// The figures of a document, in its order.
pub(crate) fn figures(of: Benchmark, text: &str, file: &str) -> Result<Vec<Figure>, DocumentError> {
    let kind = Kind::Bench(of);
    Ok(match of {
        Benchmark::Iova | Benchmark::MapThreads => read::<Threads>(text, file, kind)?.figures(),
        Benchmark::Map => read::<Map>(text, file, kind)?.figures(),
        Benchmark::Memtype => read::<Memtype>(text, file, kind)?.figures(),
        Benchmark::Blk => read::<Blk>(text, file, kind)?.figures(),
        Benchmark::Transfer => read::<Transfers>(text, file, kind)?.figures(),
        Benchmark::Net => read::<Net>(text, file, kind)?.figures(),
    })
}

/// A document whose figures are compared.
trait Figures {
    fn figures(&self) -> Vec<Figure>;
}

impl<T: Figures> Checked for T {
    /// Fails if a contestant has a figure twice in a case.
    fn check(&self) -> Result<(), Flaw> {
        let mut seen = BTreeSet::new();
        for Figure { case, contestant, quantity, .. } in self.figures() {
            let place = if contestant.is_empty() { case.clone() } else { format!("{case}, {contestant}") };
            if !seen.insert((case, contestant, quantity)) {
                return Err(Flaw::new(place, "measured twice; expected each case once"));
            }
        }
        Ok(())
    }
}

/// `iotoll bench iova` and `iotoll bench map --threads`.
#[derive(Deserialize)]
struct Threads {
    cases: Vec<ThreadsCase>,
}

#[derive(Deserialize)]
struct ThreadsCase {
    /// Of allocators only.
    scenario: Option<String>,
    threads: u64,
    cpus: u64,
    entries: Vec<ThreadsEntry>,
}

#[derive(Deserialize)]
struct ThreadsEntry {
    contestant: String,
    measured: Option<ThreadsMeasured>,
}

#[derive(Deserialize)]
struct ThreadsMeasured {
    ns_per_pair: Summary,
    cpu_ns_per_pair: Summary,
    rounds: Vec<RoundTime>,
}

impl ThreadsCase {
    fn figures_of(&self, contestant: &str, measured: &ThreadsMeasured) -> [Figure; 2] {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        let scenario = self.scenario.as_ref().map(|scenario| format!("{scenario}, ")).unwrap_or_default();
        let case = format!("{scenario}{} {threads}", self.threads);
        let cpus = self.threads.min(self.cpus) as usize;
        let figure = |quantity, summary: &Summary, ns: &dyn Fn(&RoundTime) -> f64| Figure {
            case: case.clone(),
            contestant: contestant.to_owned(),
            quantity,
            unit: Unit::None,
            median: summary.median,
            rounds: measured.rounds.iter().map(ns).collect(),
        };
        [
            figure(Quantity::NsPerPair, &measured.ns_per_pair, &|round| round.ns_per_pair(cpus)),
            figure(Quantity::CpuNsPerPair, &measured.cpu_ns_per_pair, &RoundTime::cpu_ns_per_pair),
        ]
    }
}

impl Figures for Threads {
    fn figures(&self) -> Vec<Figure> {
        let of_case = |case: &ThreadsCase| -> Vec<Figure> {
            let measured = case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)));
            measured.flat_map(|(entry, measured)| case.figures_of(&entry.contestant, measured)).collect()
        };
        self.cases.iter().flat_map(of_case).collect()
    }
}

/// A figure without rounds, if it was measured.
fn figure(case: String, contestant: &str, quantity: Quantity, summary: Option<&Summary>) -> Option<Figure> {
    let contestant = contestant.to_owned();
    let unit = Unit::None;
    Some(Figure { case, contestant, quantity, unit, median: summary?.median, rounds: Vec::new() })
}

/// `iotoll bench map`.
#[derive(Deserialize)]
struct Map {
    rows: Vec<MapRow>,
}

#[derive(Deserialize)]
struct MapRow {
    dma_path: String,
    cells: Vec<MapCell>,
}

#[derive(Deserialize)]
struct MapCell {
    bytes: u64,
    ns_per_pair: Option<Summary>,
}

impl Figures for Map {
    fn figures(&self) -> Vec<Figure> {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
        let figure = |(row, cell): (&MapRow, &MapCell)| {
            let case = format!("{} bytes", cell.bytes);
            figure(case, &row.dma_path, Quantity::NsPerPair, cell.ns_per_pair.as_ref())
        };
        cells.filter_map(figure).collect()
    }
}

/// `iotoll bench memtype`.
#[derive(Deserialize)]
struct Memtype {
    areas: Vec<Area>,
}

#[derive(Deserialize)]
struct Area {
    name: String,
    rows: Vec<AccessRow>,
}

#[derive(Deserialize)]
struct AccessRow {
    access: String,
    cells: Vec<AccessCell>,
}

#[derive(Deserialize)]
struct AccessCell {
    bytes: u64,
    ns_per_access: Option<Summary>,
}

impl Figures for Memtype {
    fn figures(&self) -> Vec<Figure> {
        let rows = self.areas.iter().flat_map(|area| area.rows.iter().map(move |row| (area, row)));
        let cells = rows.flat_map(|(area, row)| row.cells.iter().map(move |cell| (area, row, cell)));
        let figure = |(area, row, cell): (&Area, &AccessRow, &AccessCell)| {
            let case = format!("{}, {} bytes", area.name, cell.bytes);
            figure(case, &row.access, Quantity::NsPerAccess, cell.ns_per_access.as_ref())
        };
        cells.filter_map(figure).collect()
    }
}

/// `iotoll bench blk`.
#[derive(Deserialize)]
struct Blk {
    rows: Vec<BlkRow>,
}

#[derive(Deserialize)]
struct BlkRow {
    way: String,
    cells: Vec<BlkCell>,
}

#[derive(Deserialize)]
struct BlkCell {
    depth: u16,
    reads_per_second: Option<Summary>,
    reads_per_cpu_second: Option<Summary>,
    // Documents of before writes were measured have none.
    writes_per_second: Option<Summary>,
    writes_per_cpu_second: Option<Summary>,
}

impl Figures for Blk {
    fn figures(&self) -> Vec<Figure> {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
        let figures = |(row, cell): (&BlkRow, &BlkCell)| {
            let case = || format!("{} in flight", cell.depth);
            [
                (Quantity::ReadsPerSecond, cell.reads_per_second),
                (Quantity::ReadsPerCpuSecond, cell.reads_per_cpu_second),
                (Quantity::WritesPerSecond, cell.writes_per_second),
                (Quantity::WritesPerCpuSecond, cell.writes_per_cpu_second),
            ]
            .map(|(quantity, summary)| figure(case(), &row.way, quantity, summary.as_ref()))
        };
        cells.flat_map(figures).flatten().collect()
    }
}

/// `iotoll bench transfer`.
#[derive(Deserialize)]
struct Transfers {
    memories: Vec<TransferMemory>,
}

#[derive(Deserialize)]
struct TransferMemory {
    name: String,
    memory_type: Option<String>,
    rounds: Vec<TransferRound>,
}

/// The memory type of each memory of a document that has them, by name.
pub(crate) fn memory_types(
    of: Benchmark,
    text: &str,
    file: &str,
) -> Result<BTreeMap<String, Option<String>>, DocumentError> {
    match of {
        Benchmark::Transfer => {
            let memories = read::<Transfers>(text, file, Kind::Bench(of))?.memories;
            Ok(memories.into_iter().map(|memory| (memory.name, memory.memory_type)).collect())
        }
        _ => Ok(BTreeMap::new()),
    }
}

/// Who accesses memory how, and the rate of that.
type TransferRate = (&'static str, fn(&TransferRound) -> Option<f64>);

const TRANSFER_RATES: [TransferRate; 4] = [
    ("controller writes", |round| Some(round.controller_writes)),
    ("controller reads", |round| round.controller_reads),
    ("CPU loads", |round| Some(round.cpu_loads)),
    ("CPU stores", |round| Some(round.cpu_stores)),
];

impl Figures for Transfers {
    fn figures(&self) -> Vec<Figure> {
        let of_memory = |memory: &TransferMemory, (case, rate): TransferRate| {
            let rounds: Vec<f64> = memory.rounds.iter().filter_map(rate).collect();
            Some(Figure {
                case: case.to_owned(),
                contestant: memory.name.clone(),
                quantity: Quantity::TransferBytesPerSecond,
                unit: Unit::None,
                median: Summary::of(rounds.iter().copied())?.median,
                rounds,
            })
        };
        let of_rate = |rate| self.memories.iter().filter_map(move |memory| of_memory(memory, rate));
        TRANSFER_RATES.into_iter().flat_map(of_rate).collect()
    }
}

/// `iotoll bench net`.
#[derive(Deserialize)]
struct Net {
    cells: Vec<NetCell>,
}

#[derive(Deserialize)]
struct NetCell {
    test: NetTest,
    bytes: u64,
    instances: u16,
    transactions_per_second: Option<Summary>,
    bytes_per_second: Option<Summary>,
    round_trip_p50_ns: Option<Summary>,
    cpu: NetCpu,
    rounds: Vec<NetRound>,
}

impl NetCell {
    /// A figure of this cell with its rounds, if it was measured. A round without it leaves the figure without rounds.
    fn figure(
        &self,
        side: &str,
        quantity: Quantity,
        summary: Option<Summary>,
        of_round: &dyn Fn(&NetRound) -> Option<f64>,
    ) -> Option<Figure> {
        let rounds: Option<Vec<f64>> = self.rounds.iter().map(of_round).collect();
        let rounds = rounds.filter(|rounds| rounds.iter().all(|round| round.is_finite())).unwrap_or_default();
        Some(Figure { rounds, ..figure(self.case(), side, quantity, summary.as_ref())? })
    }

    /// `tcp-stream, 8 KiB messages, 4 instances`
    fn case(&self) -> String {
        let word = if self.instances == 1 { "instance" } else { "instances" };
        let messages = if self.test.has_answers() { "" } else { " messages" };
        format!("{}, {}{messages}, {} {word}", self.test, Bytes(self.bytes), self.instances)
    }

    /// CPU time of a side.
    fn cpu(&self, side: &str, cpu: &SideCpu, usage: fn(&NetRound) -> &Usage) -> Vec<Option<Figure>> {
        let part = |quantity, summary, ns: fn(&Usage) -> Option<u64>| {
            let each = |round: &NetRound| round.per_transaction(usage(round), ns(usage(round))?);
            let unit = if self.test.has_answers() { Unit::Transaction } else { Unit::Message };
            Some(Figure { unit, ..self.figure(side, quantity, summary, &each)? })
        };
        vec![
            part(Quantity::ProcessCpuNs, cpu.process_ns, |usage| usage.process_ns),
            part(Quantity::HostCpuNs, cpu.host_ns, |usage| usage.host.map(|host| host.busy_ns)),
            part(Quantity::InterruptsCpuNs, cpu.interrupts_ns, |usage| {
                usage.host.map(|host| host.interrupts_ns)
            }),
        ]
    }
}

impl Figures for Net {
    fn figures(&self) -> Vec<Figure> {
        let of_cell = |cell: &NetCell| -> Vec<Option<Figure>> {
            let rate = match cell.test.has_answers() {
                true => {
                    let rate = cell.transactions_per_second;
                    cell.figure("", Quantity::TransactionsPerSecond, rate, &|round| Some(round.rate()))
                }
                // What a message of a stream is, only this program knows.
                false => cell.figure("", Quantity::StreamBytesPerSecond, cell.bytes_per_second, &|round| {
                    Some(round.bytes as f64 / round.seconds)
                }),
            };
            let trip = cell.round_trip_p50_ns;
            let trip_of = |round: &NetRound| round.round_trip_p50_ns.map(|ns| ns as f64);
            let mut figures = vec![rate, cell.figure("", Quantity::RoundTripNs, trip, &trip_of)];
            figures.extend(cell.cpu("client", &cell.cpu.client, |round| &round.client));
            figures.extend(cell.cpu("server", &cell.cpu.server, |round| &round.server));
            figures
        };
        self.cells.iter().flat_map(of_cell).flatten().collect()
    }
}
