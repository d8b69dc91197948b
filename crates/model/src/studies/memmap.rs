//! Compares a DMA buffer in an area reserved by `memmap=` with one from the DMA API: speed and data integrity.

use super::about::{self, About, StudyResults};
use super::model_value::ModelValue;
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::link::Link;
use crate::memory_type::{
    Card, Comparison, Cpu, Direction, LINE_BYTES, Limit, MappingSource, Memory, MemorySystem, NoSnoop,
    Obtained, Prices, Snoop, Throughput, Transfer,
};
use crate::part::Part;
use crate::{Bounds, Chart, Curve, FigureKind, Given, Line, Parameter, Reference, Reproduction, Row};
use host::Text;
use host::kernel::KernelVersion;
use host::memory::effective::{Call, MappedPart, Mapping};
use host::memory::memmap::parse_cmdline;
use host::memory::{DefaultType, MemoryType, PhysRange, parse_mtrr};
use serde::Deserialize;
use toll::Evidence;

pub(super) const NAME: &str = "memmap";
const FILE: &str = "memmap.toml";
const TEXT: &str = include_str!("../../experiments/memmap.toml");
const MIB: f64 = (1 << 20) as f64;
/// Buffer of a throughput test: many pages, but within the DMA API's largest allocation.
const BUFFER_BYTES: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    memmap: String,
    dma_address: u64,
    link: Given<Link>,
    cpu: Given<Cpu>,
    card: Given<Card>,
    parameters: Parameters,
    mtrr: Tables,
    memset: Memset,
    throughput: Vec<ThroughputFile>,
    miscompares: Miscompares,
    grid: Grid,
    links: Links,
    payloads: Payloads,
}

/// Times of the CPU's accesses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    uncached_load_ns: Given,
    uncached_store_ns: Given,
    hit_ns: Given,
    miss_ns: Given,
    streamed_line_ns: Given,
    access_bytes: Given,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Tables {
    write_back: String,
    uncachable: String,
}

/// The memory type that the MTRRs give the area.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Registers {
    WriteBack,
    Uncachable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memset {
    mib: u32,
    name: String,
    source: String,
    points: Vec<about::PointFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThroughputFile {
    name: String,
    source: String,
    remark: Option<String>,
    kernel: String,
    memory: Memory,
    points: Vec<PointFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointFile {
    mtrr: Registers,
    published: f64,
    kind: FigureKind,
    /// The row that it repeats.
    of: Option<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Miscompares {
    name: String,
    source: String,
    remark: String,
    buffers_kib: Vec<u32>,
    passes: u32,
    lines: Vec<LineFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineFile {
    name: String,
    kernel: String,
    mtrr: Registers,
    memory: Memory,
    no_snoop: Option<NoSnoop>,
    bounds: Option<Bounds>,
}

/// The chart data for every combination of memory, MTRRs, card and kernel release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grid {
    throughput: String,
    miscompares: String,
    source: String,
    remark: String,
    buffer_kib: u32,
    releases: Vec<Release>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    number: u32,
    kernel: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Links {
    name: String,
    source: String,
    remark: String,
    lanes: Vec<u32>,
    generations: Vec<crate::Generation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payloads {
    name: String,
    source: String,
    remark: String,
    bytes: Vec<u32>,
}

/// Runs the study. Nothing in it is random.
pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let file = read(of.changes)?;
    let mut curves = vec![file.memset_curve()];
    curves.extend(file.throughput.iter().map(|one| file.throughput_curve(one)));
    let [throughput, wrong] = file.grid_charts();
    let charts = vec![file.miscompare_chart(), throughput, wrong, file.lanes_chart(), file.payloads_chart()];
    let parameters = file.parameter_list();
    Ok(file.about.into_reproduction(NAME, StudyResults { parameters, curves, charts }))
}

/// The study's parameters.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    Ok(read(changes)?.parameter_list())
}

/// Parses the study file with the changes applied.
fn read(changes: &Changes) -> Result<File, StudyError> {
    changes.read(FILE, TEXT, &["parameters"])
}

/// What transfers are expected to do with an area of `memmap=` that a driver has mapped.
#[derive(Debug, Clone, PartialEq)]
pub struct AreaExpectation {
    /// Data that the CPU stores and the card reads.
    pub to_card: Throughput,
    /// The same with memory of the DMA API.
    pub dma_api: Throughput,
    /// What was sent and came back, with a card whose accesses snoop.
    pub snooped: Comparison,
    /// The same with one whose accesses don't.
    pub unsnooped: Comparison,
    /// What the model takes as given.
    pub parameters: Vec<Parameter>,
}

/// Bytes of an expectation's buffer: it fits every cache, so that all that can be stale is.
const EXPECTED_BYTES: u64 = 256 << 10;

/// Predicts transfers with a given area. `mapping` supplies the memory types; the study supplies everything else. Returns
/// `None` without a mapping or without space for a buffer.
///
/// # Errors
/// [`StudyError`]
pub fn expect_of_area(mapping: &Mapping, area: PhysRange) -> Result<Option<AreaExpectation>, StudyError> {
    let file: File = Changes::default().read(FILE, TEXT, &[])?;
    let obtained = Obtained::of_mapping(mapping);
    let bytes =
        area.size_bytes().min(u128::from(EXPECTED_BYTES)) as u64 / (2 * LINE_BYTES) * (2 * LINE_BYTES);
    let buffer = PhysRange::from_base_and_size(area.base(), bytes);
    let buffer = buffer.filter(|_| area.base().is_multiple_of(LINE_BYTES) && !obtained.parts.is_empty());
    Ok(buffer.map(|buffer| file.expectation(&obtained, buffer)))
}

impl Registers {
    /// The number of the type in an MTRR (Intel SDM vol. 3, table 11-8).
    fn encoding(self) -> f64 {
        match self {
            Self::Uncachable => 0.0,
            Self::WriteBack => 6.0,
        }
    }
}

impl File {
    /// The MTRRs, kernel version and `memmap=` areas that decide on memory types.
    fn mapping_source(&self, registers: Registers, kernel: &str) -> MappingSource {
        let table = match registers {
            Registers::WriteBack => &self.mtrr.write_back,
            Registers::Uncachable => &self.mtrr.uncachable,
        };
        let (mtrr, _) = parse_mtrr(&Text::new("proc/mtrr", table.as_str()));
        // A kernel of the file that has no number would have the rules of the oldest, and its figures would be off.
        let kernel = KernelVersion::parse(kernel).map_or((0, 0, 0), |version| version.numbers());
        let memmap = parse_cmdline(&Text::new("proc/cmdline", format!("memmap={}", self.memmap)), kernel);
        MappingSource { mtrr, default: DefaultType::given(MemoryType::Uncacheable), memmap, kernel }
    }

    /// The memory that a driver obtains, and a buffer of this size in it.
    fn obtain_memory(
        &self,
        mapping_source: &MappingSource,
        memory: Memory,
        bytes: u64,
    ) -> (Obtained, Option<PhysRange>) {
        let from = |base| PhysRange::from_base_and_size(base, bytes);
        match (memory, mapping_source.area(), from(self.dma_address)) {
            (Memory::Static, Some(area), _) => {
                (mapping_source.static_area(area, Call::Ioremap), from(area.base()))
            }
            (Memory::DmaApi, _, Some(range)) => (mapping_source.dma_memory(range), Some(range)),
            _ => (Obtained { memory, parts: Vec::new(), reasons: Vec::new() }, None),
        }
    }

    /// Rate of a `memset` on uncached memory.
    fn memset_curve(&self) -> Curve {
        let Memset { mib, name, source, points } = &self.memset;
        let mut machine = MemorySystem::new(self.cpu.value, self.parameters.prices(), self.link.value);
        for address in (0..u64::from(*mib) << 20).step_by(4096) {
            machine.store(address, &[0xab; 4096], MemoryType::Uncacheable);
        }
        let ours = f64::from(*mib) * 1e12 / machine.cpu_busy().as_ps_f64();
        Curve {
            name: name.clone(),
            x_title: "GiB".to_owned(),
            y_title: "MiB/s".to_owned(),
            reference: Reference::Published,
            source: source.clone(),
            within: None,
            remark: None,
            points: points.iter().map(|point| point.with_model_value(ours)).collect(),
        }
    }

    /// Computes a curve of throughputs, in percent of the link's rate.
    fn throughput_curve(&self, one: &ThroughputFile) -> Curve {
        let point = |point: &PointFile| {
            let ours =
                self.link_throughput(point.mtrr, &one.kernel, one.memory, self.link.value, Direction::ToCard);
            let (x, of) = (point.mtrr.encoding(), point.of.clone());
            about::PointFile { x, published: point.published, kind: point.kind, of }.with_model_value(ours)
        };
        Curve {
            name: one.name.clone(),
            x_title: "type of the area's MTRR: 6 write-back, 0 uncachable".to_owned(),
            y_title: "% of the link".to_owned(),
            reference: Reference::Published,
            source: one.source.clone(),
            within: None,
            remark: one.remark.clone(),
            points: one.points.iter().map(point).collect(),
        }
    }

    /// A throughput in percent of the link's rate; NaN if the driver gets no buffer.
    fn link_percent(
        &self,
        registers: Registers,
        kernel: &str,
        memory: Memory,
        link: Link,
        direction: Direction,
    ) -> f64 {
        self.link_throughput(registers, kernel, memory, link, direction).value
    }

    /// The same, with what limits it.
    fn link_throughput(
        &self,
        registers: Registers,
        kernel: &str,
        memory: Memory,
        link: Link,
        direction: Direction,
    ) -> ModelValue {
        let (obtained, buffer) =
            self.obtain_memory(&self.mapping_source(registers, kernel), memory, BUFFER_BYTES);
        let Some(buffer) = buffer else { return f64::NAN.into() };
        let Throughput { of_link, limit, .. } =
            self.transfer(&obtained, buffer, self.card.value, link).throughput(direction);
        let name = match limit {
            Limit::Cpu => "the CPU's accesses",
            Limit::Link => "the link",
        };
        ModelValue { value: of_link * 100.0, limit: Some(Part::new(name, 1.0)) }
    }

    /// A transfer test in this buffer, with the study's CPU.
    fn transfer<'a>(
        &self,
        obtained: &'a Obtained,
        buffer: PhysRange,
        card: Card,
        link: Link,
    ) -> Transfer<'a> {
        Transfer { cpu: self.cpu.value, prices: self.parameters.prices(), link, card, obtained, buffer }
    }

    /// Runs the throughput and data comparison tests on a mapped area.
    fn expectation(&self, obtained: &Obtained, buffer: PhysRange) -> AreaExpectation {
        let link = self.link.value;
        let with = |obtained, no_snoop| {
            let card = Card { no_snoop, ..self.card.value };
            self.transfer(obtained, buffer, card, link)
        };
        let parts = vec![MappedPart { range: buffer, kind: MemoryType::WriteBack }];
        let dma_api = Obtained { memory: Memory::DmaApi, parts, reasons: Vec::new() };
        AreaExpectation {
            to_card: with(obtained, NoSnoop::Never).throughput(Direction::ToCard),
            dma_api: with(&dma_api, NoSnoop::Never).throughput(Direction::ToCard),
            snooped: with(obtained, NoSnoop::Never).compare(self.miscompares.passes),
            unsnooped: with(obtained, NoSnoop::Always).compare(self.miscompares.passes),
            parameters: self.parameter_list(),
        }
    }

    /// Percent of wrong words against the buffer's size.
    fn miscompare_chart(&self) -> Chart {
        let Miscompares { name, source, remark, buffers_kib, passes, lines } = &self.miscompares;
        let line = |line: &LineFile| {
            let ours =
                |kib: &u32| (f64::from(*kib), self.wrong_share(line, u64::from(*kib) << 10, *passes) * 100.0);
            Line {
                name: line.name.clone(),
                bounds: line.bounds,
                points: buffers_kib.iter().map(ours).collect(),
            }
        };
        Chart {
            categories: Vec::new(),
            name: name.clone(),
            x_title: "buffer, KiB".to_owned(),
            y_title: "% of the words".to_owned(),
            source: source.clone(),
            remark: Some(remark.clone()),
            lines: lines.iter().map(line).collect(),
        }
    }

    /// Share of the compared words that were wrong; NaN if the driver gets no buffer.
    fn wrong_share(&self, line: &LineFile, bytes: u64, passes: u32) -> f64 {
        let (obtained, buffer) =
            self.obtain_memory(&self.mapping_source(line.mtrr, &line.kernel), line.memory, bytes);
        let no_snoop = line.no_snoop.unwrap_or(self.card.value.no_snoop);
        let card = Card { no_snoop, ..self.card.value };
        let transfer = buffer.map(|buffer| self.transfer(&obtained, buffer, card, self.link.value));
        transfer.map_or(f64::NAN, |transfer| transfer.compare(passes).share())
    }

    /// Two charts, throughput and miscompares, over all combinations and releases.
    fn grid_charts(&self) -> [Chart; 2] {
        let Grid { throughput, miscompares, source, remark, buffer_kib, releases } = &self.grid;
        let lines = |y: &dyn Fn(&LineFile) -> f64| -> Vec<Line> {
            let line = |(memory, mtrr, no_snoop): (Memory, Registers, Option<NoSnoop>)| {
                let one = |release: &Release| LineFile {
                    name: combination_name(memory, mtrr, no_snoop),
                    kernel: release.kernel.clone(),
                    mtrr,
                    memory,
                    no_snoop,
                    bounds: None,
                };
                let points = releases.iter().map(|release| (f64::from(release.number), y(&one(release))));
                Line {
                    name: combination_name(memory, mtrr, no_snoop),
                    bounds: None,
                    points: points.collect(),
                }
            };
            combinations().map(line).collect()
        };
        let chart = |name: &str, y_title: &str, lines| Chart {
            categories: Vec::new(),
            name: name.to_owned(),
            x_title: "RHEL".to_owned(),
            y_title: y_title.to_owned(),
            source: source.clone(),
            remark: Some(remark.clone()),
            lines,
        };
        let bytes = u64::from(*buffer_kib) << 10;
        let of_link = |line: &LineFile| {
            self.link_percent(line.mtrr, &line.kernel, line.memory, self.link.value, Direction::ToCard)
        };
        let wrong = |line: &LineFile| self.wrong_share(line, bytes, self.miscompares.passes) * 100.0;
        [
            chart(throughput, "% of the link", lines(&of_link)),
            chart(miscompares, "% of the words", lines(&wrong)),
        ]
    }

    /// Throughput of the static area against PCIe lanes, per generation.
    fn lanes_chart(&self) -> Chart {
        let Links { name, source, remark, lanes, generations } = &self.links;
        let line = |generation: &crate::Generation| {
            let ours = |lanes: &u32| {
                let link = Link { generation: *generation, lanes: *lanes, ..self.link.value };
                let share = self.link_percent(
                    Registers::Uncachable,
                    "2.6.18",
                    Memory::Static,
                    link,
                    Direction::ToCard,
                );
                (f64::from(*lanes), share)
            };
            Line {
                name: format!("generation {}", u8::from(*generation)),
                bounds: None,
                points: lanes.iter().map(ours).collect(),
            }
        };
        Chart {
            categories: Vec::new(),
            name: name.clone(),
            x_title: "lanes".to_owned(),
            y_title: "% of the link".to_owned(),
            source: source.clone(),
            remark: Some(remark.clone()),
            lines: generations.iter().map(line).collect(),
        }
    }

    /// Throughput of the DMA API's memory against the maximum payload, per direction.
    fn payloads_chart(&self) -> Chart {
        let Payloads { name, source, remark, bytes } = &self.payloads;
        let line = |(name, direction): (&str, Direction)| {
            let ours = |bytes: &u32| {
                let payload_bytes_max = u64::from(*bytes);
                let read_request_bytes_max = payload_bytes_max.max(self.link.value.read_request_bytes_max);
                let link = Link { payload_bytes_max, read_request_bytes_max, ..self.link.value };
                let share =
                    self.link_percent(Registers::WriteBack, "2.6.32", Memory::DmaApi, link, direction);
                (f64::from(*bytes), share)
            };
            Line { name: name.to_owned(), bounds: None, points: bytes.iter().map(ours).collect() }
        };
        let lines = [("to the card", Direction::ToCard), ("from the card", Direction::FromCard)];
        Chart {
            categories: Vec::new(),
            name: name.clone(),
            x_title: "payload at most, bytes".to_owned(),
            y_title: "% of the link".to_owned(),
            source: source.clone(),
            remark: Some(remark.clone()),
            lines: lines.into_iter().map(line).collect(),
        }
    }

    fn parameter_list(&self) -> Vec<Parameter> {
        let one = |name: &str, value: f64, evidence: &Evidence| Parameter {
            name: name.to_owned(),
            value,
            evidence: evidence.clone(),
        };
        let Parameters {
            uncached_load_ns,
            uncached_store_ns,
            hit_ns,
            miss_ns,
            streamed_line_ns,
            access_bytes,
        } = &self.parameters;
        let prices = [
            ("uncached_store_ns", uncached_store_ns),
            ("access_bytes", access_bytes),
            ("uncached_load_ns", uncached_load_ns),
            ("miss_ns", miss_ns),
            ("streamed_line_ns", streamed_line_ns),
            ("hit_ns", hit_ns),
        ];
        let mut all: Vec<Parameter> =
            prices.iter().map(|(name, given)| one(name, given.value, &given.evidence)).collect();
        let raw = self.link.value.raw_bits_per_second() / 1e9;
        let snoops = self.card.value.snoop(Memory::DmaApi) == Snoop::Snooped;
        all.push(one("link_gigabits_per_second", raw, &self.link.evidence));
        all.push(one("cache_mib", self.cpu.value.cache_bytes as f64 / MIB, &self.cpu.evidence));
        all.push(one("card_snoops_dma_api", f64::from(u8::from(snoops)), &self.card.evidence));
        all
    }
}

/// All combinations of memory, MTRRs and card. `None` is the card of the study; the other card always snoops.
fn combinations() -> impl Iterator<Item = (Memory, Registers, Option<NoSnoop>)> {
    let registers = [Registers::WriteBack, Registers::Uncachable];
    let cards = [None, Some(NoSnoop::Never)];
    let of = move |memory| registers.into_iter().flat_map(move |mtrr| cards.map(|card| (memory, mtrr, card)));
    [Memory::Static, Memory::DmaApi].into_iter().flat_map(of)
}

/// The name of a line for a combination.
fn combination_name(memory: Memory, mtrr: Registers, no_snoop: Option<NoSnoop>) -> String {
    let memory = if memory == Memory::Static { "area" } else { "DMA API" };
    let mtrr = if matches!(mtrr, Registers::WriteBack) { "WB" } else { "UC" };
    format!("{memory}, {mtrr}{}", if no_snoop.is_some() { ", coherent" } else { "" })
}

impl Parameters {
    /// The access times in the form that the machine model takes.
    fn prices(&self) -> Prices {
        Prices {
            uncached_load_ns: self.uncached_load_ns.value,
            uncached_store_ns: self.uncached_store_ns.value,
            hit_ns: self.hit_ns.value,
            miss_ns: self.miss_ns.value,
            streamed_line_ns: self.streamed_line_ns.value,
            access_bytes: self.access_bytes.value as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_kernels_of_the_file_can_be_read() {
        let file: File = toml::from_str(TEXT).unwrap();
        for (table, registers) in [(&file.mtrr.write_back, 7), (&file.mtrr.uncachable, 9)] {
            let (read, problems) = parse_mtrr(&Text::new("proc/mtrr", table.as_str()));
            assert!(problems.is_empty() && read.registers.len() == registers, "{problems:?}");
        }
        let kernels = file.throughput.iter().map(|one| &one.kernel);
        for kernel in kernels.chain(file.miscompares.lines.iter().map(|line| &line.kernel)) {
            assert!(KernelVersion::parse(kernel).is_some(), "{kernel}");
        }
    }

    #[test]
    fn an_area_of_another_host_is_expected_by_its_types() {
        let file: File = toml::from_str(TEXT).unwrap();
        let expect = |kernel| {
            let mapping_source = file.mapping_source(Registers::WriteBack, kernel);
            let (obtained, buffer) = file.obtain_memory(&mapping_source, Memory::Static, EXPECTED_BYTES);
            file.expectation(&obtained, buffer.unwrap())
        };
        let (old, new) = (expect("2.6.18"), expect("2.6.32"));
        assert_eq!((old.snooped.miscompares, new.unsnooped.miscompares), (0, 0));
        assert_eq!(old.unsnooped.miscompares, old.unsnooped.words);
        assert!(old.to_card.of_link > 20.0 * new.to_card.of_link, "{old:?} {new:?}");
    }
}
