//! A user's file: registers, an area of `memmap=`, a kernel, a card.

use super::line::LINE_BYTES;
use super::mapping_source::{Card, MappingSource, Obtained};
use super::memory_system::{Cpu, Snoop};
use super::price::Prices;
use super::transfer::{Comparison, Direction, Throughput, Transfer};
use crate::link::Link;
use crate::user_file::{self, ExperimentError, InvalidField, wrong_link};
use host::Text;
use host::kernel::KernelVersion;
use host::memory::effective::Call;
use host::memory::memmap::parse_cmdline;
use host::memory::{DefaultType, MemoryType, PhysRange, parse_mtrr};
use serde::{Deserialize, Serialize};

/// What a file says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryExperiment {
    /// What it is about, for people.
    pub what: String,
    /// The registers, as `/proc/mtrr` shows them.
    pub mtrr: String,
    /// The type outside of them, as `/proc/mtrr` would write it.
    #[serde(default = "default_type")]
    pub mtrr_default: String,
    /// The value of the kernel's parameter `memmap=`.
    pub memmap: String,
    /// The kernel whose rules count.
    pub kernel: String,
    /// How the driver maps the area.
    #[serde(default = "default_call")]
    pub call: Call,
    /// Where memory of the DMA API is, as much as the test takes.
    pub dma_address: u64,
    /// The card's link.
    pub link: Link,
    /// The card.
    pub card: Card,
    /// The CPU.
    pub cpu: Cpu,
    /// What accesses take.
    pub prices: Prices,
    /// The test.
    pub test: Test,
}

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Bytes of the buffer, of which one half is sent and the other received where data is compared.
    pub buffer_bytes: u64,
    /// How often data is sent, received and compared.
    pub passes: u32,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryAnswer {
    /// What it is about.
    pub what: String,
    /// The kernel.
    pub kernel: String,
    /// What the link carries after its line code.
    pub link_gigabits_per_second: f64,
    /// What the driver gets, and how it does with that.
    pub memories: Vec<MemoryOutcome>,
}

/// One kind of memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryOutcome {
    /// What the driver gets.
    #[serde(flatten)]
    pub obtained: Obtained,
    /// Its addresses.
    pub range: PhysRange,
    /// Whether the card's accesses to it snoop.
    pub snoop: Snoop,
    /// How that does; `None` where the driver gets no mapping.
    pub test: Option<TestOutcome>,
}

/// What the test found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestOutcome {
    /// Data that the CPU stores and the card reads.
    pub to_card: Throughput,
    /// Data that the card writes and the CPU loads.
    pub from_card: Throughput,
    /// What was sent and came back.
    pub comparison: Comparison,
}

const BUFFER_MIN: u64 = 2 * LINE_BYTES;
const BUFFER_MAX: u64 = 16 << 20;
const PASSES_MAX: u32 = 16;
const CACHE_MAX: u64 = 256 << 20;
const WAYS_MAX: usize = 64;
const BUFFERS_MAX: usize = 64;
/// A second, in nanoseconds.
const TIME_MAX: f64 = 1e9;
/// The smallest time that is told from none.
const TIME_MIN: f64 = 1e-3;
/// As far as physical addresses reach (Intel SDM vol. 3, section 4.1.4).
const ADDRESS_MAX: u64 = 1 << 52;

impl MemoryExperiment {
    /// Reads a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        user_file::read(text, file, Self::invalid_field)
    }

    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let mapping_source = match self.mapping_source() {
            Ok(mapping_source) => mapping_source,
            Err(wrong) => return Some(wrong),
        };
        let Some(area) = mapping_source.area() else {
            return InvalidField::unless(
                false,
                "memmap",
                &self.memmap,
                "an area that is set aside, as 80M$256M",
            );
        };
        self.test
            .invalid_field(area)
            .or_else(|| invalid_cpu_field(self.cpu))
            .or_else(|| invalid_price_field(&self.prices))
            .or_else(|| wrong_link(&self.link))
            .or_else(|| self.invalid_dma_address(area))
    }

    /// Checks that the DMA API's memory lies outside the reserved area.
    fn invalid_dma_address(&self, area: PhysRange) -> Option<InvalidField> {
        let is_aligned = self.dma_address.is_multiple_of(LINE_BYTES);
        let is_there = is_aligned && (area.last() < ADDRESS_MAX) && self.dma_address < ADDRESS_MAX;
        let is_apart = self.dma_range().is_some_and(|range| !range.overlaps(area));
        let expected = "a multiple of 64 below 2^52, with the buffer outside the area of memmap";
        InvalidField::unless(
            is_there && is_apart,
            "dma_address",
            format!("{:#x}", self.dma_address),
            expected,
        )
    }

    fn dma_range(&self) -> Option<PhysRange> {
        PhysRange::from_base_and_size(self.dma_address, self.test.buffer_bytes)
    }

    fn mapping_source(&self) -> Result<MappingSource, InvalidField> {
        let wrong = |field: &'static str, value: String, expected: &'static str| InvalidField {
            field: field.into(),
            value,
            expected: expected.into(),
        };
        let (mtrr, problems) = parse_mtrr(&Text::new("mtrr", self.mtrr.as_str()));
        if let Some(problem) = problems.first() {
            let expected =
                "lines of /proc/mtrr, as reg00: base=0x00000000 (   0MB), size=4096MB: write-back, count=1";
            return Err(wrong("mtrr", problem.to_string(), expected));
        }
        let kernel = KernelVersion::parse(&self.kernel)
            .ok_or_else(|| wrong("kernel", self.kernel.clone(), "a version, as 2.6.32"))?
            .numbers();
        let kind = MemoryType::from_mtrr_keyword(&self.mtrr_default).ok_or_else(|| {
            let expected = "uncachable, write-combining, write-through, write-protect or write-back";
            wrong("mtrr_default", self.mtrr_default.clone(), expected)
        })?;
        let memmap = parse_cmdline(&Text::new("memmap", format!("memmap={}", self.memmap)), kernel);
        Ok(MappingSource { mtrr, default: DefaultType::given(kind), memmap, kernel })
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`ExperimentError`] where the file could not have been read.
    pub fn run(&self) -> Result<MemoryAnswer, ExperimentError> {
        let mapping_source = self.mapping_source().map_err(|wrong| wrong.at("", &self.what))?;
        let area =
            mapping_source.area().into_iter().map(|area| (mapping_source.static_area(area, self.call), area));
        let dma = self.dma_range().into_iter().map(|range| (mapping_source.dma_memory(range), range));
        Ok(MemoryAnswer {
            what: self.what.clone(),
            kernel: self.kernel.clone(),
            link_gigabits_per_second: self.link.raw_bits_per_second() / 1e9,
            memories: area.chain(dma).map(|(obtained, range)| self.outcome(obtained, range)).collect(),
        })
    }

    fn outcome(&self, obtained: Obtained, range: PhysRange) -> MemoryOutcome {
        let snoop = self.card.snoop(obtained.memory);
        let buffer = PhysRange::from_base_and_size(range.base(), self.test.buffer_bytes);
        let test = buffer.filter(|_| !obtained.parts.is_empty()).map(|buffer| {
            let Self { cpu, prices, link, card, .. } = *self;
            let transfer = Transfer { cpu, prices, link, card, obtained: &obtained, buffer };
            TestOutcome {
                to_card: transfer.throughput(Direction::ToCard),
                from_card: transfer.throughput(Direction::FromCard),
                comparison: transfer.compare(self.test.passes),
            }
        });
        MemoryOutcome { obtained, range, snoop, test }
    }
}

impl Test {
    fn invalid_field(self, area: PhysRange) -> Option<InvalidField> {
        let Self { buffer_bytes, passes } = self;
        let is_buffer =
            buffer_bytes.is_multiple_of(BUFFER_MIN) && (BUFFER_MIN..=BUFFER_MAX).contains(&buffer_bytes);
        let is_within =
            u128::from(buffer_bytes) <= area.size_bytes() && area.base().is_multiple_of(LINE_BYTES);
        let wrong = [
            InvalidField::unless(
                is_buffer,
                "test.buffer_bytes",
                buffer_bytes,
                "a multiple of 128 to 16777216",
            ),
            InvalidField::unless(
                is_within,
                "test.buffer_bytes",
                buffer_bytes,
                "no more than the area of memmap has",
            ),
            InvalidField::unless((1..=PASSES_MAX).contains(&passes), "test.passes", passes, "1 to 16"),
        ];
        wrong.into_iter().flatten().next()
    }
}

/// The first CPU parameter out of range, if any.
fn invalid_cpu_field(cpu: Cpu) -> Option<InvalidField> {
    let Cpu { cache_bytes, ways, combining_buffers } = cpu;
    // Ways beyond the next check may be any number: the product must not overflow before that is told.
    let is_cache = ((ways.get() as u64).saturating_mul(LINE_BYTES)..=CACHE_MAX).contains(&cache_bytes);
    let wrong = [
        InvalidField::unless(ways.get() <= WAYS_MAX, "cpu.ways", ways, "1 to 64"),
        InvalidField::unless(is_cache, "cpu.cache_bytes", cache_bytes, "64 bytes for each way to 268435456"),
        InvalidField::unless(
            (1..=BUFFERS_MAX).contains(&combining_buffers),
            "cpu.combining_buffers",
            combining_buffers,
            "1 to 64",
        ),
    ];
    wrong.into_iter().flatten().next()
}

/// The first access time out of range, if any.
fn invalid_price_field(prices: &Prices) -> Option<InvalidField> {
    let Prices { uncached_load_ns, uncached_store_ns, hit_ns, miss_ns, streamed_line_ns, access_bytes } =
        *prices;
    let time = |field, value: f64| {
        InvalidField::unless((TIME_MIN..=TIME_MAX).contains(&value), field, value, "0.001 to 1e9")
    };
    let wrong = [
        time("prices.uncached_load_ns", uncached_load_ns),
        time("prices.uncached_store_ns", uncached_store_ns),
        time("prices.hit_ns", hit_ns),
        time("prices.miss_ns", miss_ns),
        time("prices.streamed_line_ns", streamed_line_ns),
        InvalidField::unless(
            (1..=LINE_BYTES).contains(&access_bytes),
            "prices.access_bytes",
            access_bytes,
            "1 to 64",
        ),
    ];
    wrong.into_iter().flatten().next()
}

/// The default type of memory without an MTRR.
fn default_type() -> String {
    "uncachable".to_owned()
}

/// The default call that maps the area.
fn default_call() -> Call {
    Call::Ioremap
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../experiments/memory-types.toml");

    fn run(changes: &[(&str, &str)]) -> MemoryAnswer {
        let changed = changes.iter().fold(TEXT.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        MemoryExperiment::read(&changed, "x.toml").unwrap().run().unwrap()
    }

    /// Types, and whether data is right: of the area, and of the DMA API's memory.
    fn told(answer: &MemoryAnswer) -> Vec<(String, Option<bool>)> {
        let is_right = |outcome: &MemoryOutcome| Some(outcome.test.as_ref()?.comparison.miscompares == 0);
        answer.memories.iter().map(|outcome| (outcome.obtained.kinds(), is_right(outcome))).collect()
    }

    fn check(changes: &[(&str, &str)], expected: [(&str, Option<bool>); 2]) {
        let expected = expected.map(|(kinds, is_right)| (kinds.to_owned(), is_right));
        assert_eq!(told(&run(changes)), expected, "{changes:?}");
    }

    const RHEL_6: (&str, &str) = ("kernel = \"2.6.18\"", "kernel = \"2.6.32\"");

    #[test]
    fn the_articles_table_by_its_rules() {
        check(&[], [("WB", Some(false)), ("WB", Some(true))]);
        check(&[RHEL_6], [("UC", Some(true)), ("WB", Some(true))]);
        // A register over the area, as the article's script writes it, and a card that is coherent.
        let uncachable =
            "reg04: base=0x10000000 ( 256MB), size= 128MB: uncachable, count=1\nreg08: base=0xae000000";
        check(&[("reg04: base=0xae000000", uncachable)], [("UC", Some(true)), ("WB", Some(true))]);
        let never = ("\"outside-dma-api\"  ", "\"never\"");
        check(&[never], [("WB", Some(true)), ("WB", Some(true))]);
    }

    #[test]
    fn options_change_types_and_coherence() {
        let always = ("\"outside-dma-api\"  ", "\"always\"");
        check(&[always], [("WB", Some(false)), ("WB", Some(false))]);
        let enforced = ("# iommu_enforces_snoop", "iommu_enforces_snoop");
        check(&[always, enforced], [("WB", Some(false)), ("WB", Some(true))]);
        let combined = ("# call = \"ioremap\"            ", "call = \"ioremap-wc\"");
        check(&[combined, RHEL_6], [("WC", Some(true)), ("WB", Some(true))]);
        let answer = run(&[combined]);
        assert!(
            answer.memories[0].test.is_none() && answer.memories[0].obtained.reasons[1].contains("has no")
        );
    }

    #[test]
    fn each_stale_byte_is_reported() {
        let answer = run(&[]);
        let test = answer.memories[0].test.as_ref().unwrap();
        let stale: Vec<_> = test.comparison.stale.iter().map(|one| (one.reader, one.bytes)).collect();
        // Each pass sends half a MiB from dirty lines; each but the first reads what the pass before has left in the cache.
        assert_eq!(
            stale,
            [(crate::memory_type::Party::Device, 4 << 19), (crate::memory_type::Party::Cpu, 3 << 19)]
        );
    }

    #[test]
    fn mistakes_are_errors_with_their_place() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(TEXT.contains(from), "{from}");
            let error = MemoryExperiment::read(&TEXT.replacen(from, to, 1), "x.toml").unwrap_err();
            let told = error.to_string();
            assert!(told.starts_with("x.toml:") && told.contains(expected), "{told}");
        };
        check("size=32768MB: write-back", "size=32768MB: cached", "mtrr is mtrr:1: reg00");
        check("80M$256M", "80M@256M", "memmap is 80M@256M; expected an area that is set aside");
        check("80M$256M", "", "memmap is ; expected");
        check("80M$256M", "64K$256M", "test.buffer_bytes is 1048576; expected no more than the area");
        check("\"2.6.18\"", "\"new\"", "kernel is new; expected a version");
        check("# mtrr_default = \"uncachable\"", "mtrr_default = \"cached\"", "mtrr_default is cached");
        check(
            "0x40000000",
            "0x10000000",
            "dma_address is 0x10000000; expected a multiple of 64 below 2^52, with",
        );
        check("0x40000000", "0x40000001", "dma_address");
        check("no_snoop = \"outside-dma-api\"", "no_snoop = \"often\"", "unknown variant `often`");
        check("ways = 16", "ways = 0", "invalid value");
        check("ways = 16", "ways = 65", "cpu.ways is 65; expected 1 to 64");
        check("ways = 16", "ways = 9223372036854775807", "cpu.ways is 9223372036854775807; expected 1 to 64");
        check("cache_bytes = 8388608", "cache_bytes = 1023", "cpu.cache_bytes is 1023");
        check("combining_buffers = 10", "combining_buffers = 0", "cpu.combining_buffers is 0");
        check("hit_ns = 0.34", "hit_ns = 0.0", "prices.hit_ns is 0; expected 0.001 to 1e9");
        check("miss_ns = 81.0", "miss_ns = nan", "prices.miss_ns is NaN");
        check("access_bytes = 8", "access_bytes = 0", "prices.access_bytes is 0; expected 1 to 64");
        check(
            "buffer_bytes = 1048576",
            "buffer_bytes = 100",
            "test.buffer_bytes is 100; expected a multiple of 128",
        );
        check("passes = 4", "passes = 17", "test.passes is 17; expected 1 to 16");
        check("lanes = 8", "lanes = 0", "link.lanes is 0");
        check("[test]", "[tests]", "unknown field `tests`");
    }
}
