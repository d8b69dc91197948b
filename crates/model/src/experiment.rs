//! An experiment of a user: a file that describes an engine, its link and its IOMMU.

use crate::engine::{IommuSetup, Operation, Outcome, Setup, TRANSFERS, run_steady};
use crate::iommu::Hardware;
use crate::link::Link;
use crate::part::Part;
use crate::replications::{Replications, SEEDS, SEEDS_MAX};
use crate::steady::{CountedRunsAnswer, Unsteady};
use crate::user_file::{self, ExperimentError, InvalidField, wrong_link};
use des::Span;
use serde::{Deserialize, Serialize};
use toll::Estimate;

/// What a file says.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is about, for people.
    pub what: String,
    /// The link.
    pub link: Link,
    /// The engine.
    pub engine: Engine,
    /// The IOMMU; none without.
    pub iommu: Option<Iommu>,
    /// Of all random choices of the first run.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of runs, with consecutive seeds.
    pub seeds: Option<u32>,
    /// Transfers that are measured, after those that fill the IOTLB.
    #[serde(default = "default_transfers")]
    pub transfers: u64,
}

/// A DMA engine.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// What it does.
    pub operation: Operation,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
    /// Transfers begin at multiples of this.
    pub alignment_bytes: u64,
    /// The window that they fall into at random.
    pub window_bytes: u64,
    /// Transfers in flight at most.
    pub in_flight_max: u32,
    /// Time between two beginnings, at least.
    pub gap_ns: f64,
    /// What a transfer takes besides the link, where the IOTLB has its page.
    pub path_ns: f64,
    /// What the engine takes for each byte.
    #[serde(default)]
    pub copy_ps_per_byte: f64,
}

/// An IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Iommu {
    /// Entries of the IOTLB.
    pub entries: usize,
    /// Ways of a set; as many as entries if any page may take any.
    pub ways: usize,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What a walk takes.
    pub walk_ns: f64,
    /// Time between two walks' beginnings.
    pub walk_gap_ns: f64,
}

/// What came out of several runs, and what limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineAnswer {
    /// What it is about.
    pub what: String,
    /// How it was measured.
    pub runs: CountedRunsAnswer,
    /// Mean time of a transfer.
    pub latency_mean_ns: Estimate,
    /// Transfers in a second.
    pub transfers_per_second: Estimate,
    /// Payload in a second.
    pub gigabits_per_second: Estimate,
    /// Of lookups, those that missed.
    pub miss_share: Estimate,
    /// How busy each part was, 0 to 1, and how many transfers were in flight of those that could be.
    pub parts: Vec<Part>,
    /// The part that has no more to give.
    pub limit: String,
}

impl Experiment {
    /// Reads a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        user_file::read(text, file, Self::invalid_field)
    }

    /// The first value that no machine has.
    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let is_measured = (TRANSFERS_MIN..=TRANSFERS_MAX).contains(&self.transfers);
        let transfers = InvalidField::unless(is_measured, "transfers", self.transfers, "100 to 1000000000");
        let seeds = || InvalidField::unless_count("seeds", self.seeds?.into(), SEEDS_MAX.into());
        let machine = || {
            self.engine
                .invalid_field()
                .or_else(|| self.iommu?.invalid_field())
                .or_else(|| wrong_link(&self.link))
        };
        transfers.or_else(seeds).or_else(machine)
    }

    /// Runs it once for each of the seeds, until its transfers are in a steady state.
    ///
    /// # Errors
    /// [`Unsteady`]
    pub fn run(&self) -> Result<EngineAnswer, Unsteady> {
        let (setup, seeds) = (self.setup(), self.seeds.unwrap_or(SEEDS));
        let runs = Replications::run(self.seed, seeds, |seed| run_steady(&Setup { seed, ..setup.clone() }))?;
        let parts = runs.parts(|(outcome, _)| parts(outcome, &setup));
        let gigabits = |outcome: &Outcome| outcome.gigabits_per_second(setup.transfer_bytes);
        Ok(EngineAnswer {
            what: self.what.clone(),
            runs: CountedRunsAnswer::of(&runs, true, |(_, window)| *window),
            latency_mean_ns: runs.estimate(|(outcome, _)| outcome.latency_mean.as_ns_f64()),
            transfers_per_second: runs.estimate(|(outcome, _)| outcome.transfers_per_second),
            gigabits_per_second: runs.estimate(|(outcome, _)| gigabits(outcome)),
            miss_share: runs.estimate(|(outcome, _)| outcome.miss_share),
            limit: limit(&parts),
            parts,
        })
    }

    fn setup(&self) -> Setup {
        let engine = &self.engine;
        Setup {
            operation: engine.operation,
            link: self.link,
            transfer_bytes: engine.transfer_bytes,
            alignment_bytes: engine.alignment_bytes,
            offset_bytes: 0,
            window_bytes: engine.window_bytes,
            in_flight_max: engine.in_flight_max,
            gap: Span::from_ns_f64(engine.gap_ns),
            path: Span::from_ns_f64(engine.path_ns),
            copy_ps_per_byte: engine.copy_ps_per_byte,
            iommu: self.iommu.map(|iommu| IommuSetup {
                hardware: Hardware {
                    entries: iommu.entries,
                    ways: iommu.ways,
                    walk: Span::from_ns_f64(iommu.walk_ns),
                    walk_gap: Span::from_ns_f64(iommu.walk_gap_ns),
                },
                page_bytes: iommu.page_bytes,
            }),
            seed: self.seed,
            transfers: self.transfers,
        }
    }
}

const TRANSFER_MAX: u64 = 1 << 24;
const WINDOW_MAX: u64 = 1 << 52;
const IN_FLIGHT_MAX: u32 = 1 << 12;
const TRANSFERS_MIN: u64 = 100;
const TRANSFERS_MAX: u64 = 1_000_000_000;

impl Engine {
    fn invalid_field(&self) -> Option<InvalidField> {
        let Self { transfer_bytes, alignment_bytes, window_bytes, in_flight_max, .. } = *self;
        let is_transfer = (1..=TRANSFER_MAX).contains(&transfer_bytes);
        let is_window = (transfer_bytes..=WINDOW_MAX).contains(&window_bytes);
        let is_number = (1..=IN_FLIGHT_MAX).contains(&in_flight_max);
        let wrong = [
            InvalidField::unless(is_transfer, "engine.transfer_bytes", transfer_bytes, "1 to 16777216"),
            InvalidField::unless(alignment_bytes > 0, "engine.alignment_bytes", alignment_bytes, "1 or more"),
            InvalidField::unless(
                is_window,
                "engine.window_bytes",
                window_bytes,
                "a transfer's bytes to 2^52",
            ),
            InvalidField::unless(is_number, "engine.in_flight_max", in_flight_max, "1 to 4096"),
            InvalidField::unless_time("engine.gap_ns", self.gap_ns),
            InvalidField::unless_time("engine.path_ns", self.path_ns),
            InvalidField::unless_time("engine.copy_ps_per_byte", self.copy_ps_per_byte),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl Iommu {
    fn invalid_field(&self) -> Option<InvalidField> {
        let Self { entries, ways, page_bytes, walk_ns, walk_gap_ns } = *self;
        let is_page = page_bytes.is_power_of_two() && (4096..=WINDOW_MAX).contains(&page_bytes);
        let page = InvalidField::unless(is_page, "iommu.page_bytes", page_bytes, "a power of two from 4096");
        Hardware::invalid_field(entries, ways, walk_ns, walk_gap_ns).or(page)
    }
}

/// The parts of the machine that may limit the rate, each with its busy share.
pub(crate) fn parts(outcome: &Outcome, setup: &Setup) -> Vec<Part> {
    let begins = outcome.transfers_per_second * setup.gap.as_ps_f64() / 1e12;
    let mut parts = vec![
        Part::new("the engine's beginning of transfers", begins),
        Part::new("the link towards memory", outcome.up_busy_share),
        Part::new("the link from memory", outcome.down_busy_share),
    ];
    if setup.iommu.is_some() {
        parts.push(Part::new("the walker's beginning of walks", outcome.walker_busy_share));
    }
    parts
}

/// The part that limits.
fn limit(parts: &[Part]) -> String {
    Part::limiting(parts).unwrap_or_else(|| "how many transfers are in flight".to_owned())
}

/// The default of counts in experiments.
fn one() -> u64 {
    1
}

/// The default number of transfers.
fn default_transfers() -> u64 {
    TRANSFERS
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../experiments/engine.toml");

    #[test]
    fn the_example_is_limited_by_its_walker() {
        let result = Experiment::read(TEXT, "engine.toml").unwrap().run().unwrap();
        assert_eq!(result.limit, "the walker's beginning of walks", "{result:?}");
        assert_eq!(result.parts.len(), 4);
        let without = TEXT.split("[iommu]").next().unwrap();
        let result = Experiment::read(without, "engine.toml").unwrap().run().unwrap();
        assert_eq!(result.limit, "the engine's beginning of transfers", "{result:?}");
        let slow = without
            .replace("gap_ns = 16.03", "gap_ns = 0.0")
            .replace("in_flight_max = 34", "in_flight_max = 2");
        assert_eq!(
            Experiment::read(&slow, "").unwrap().run().unwrap().limit,
            "how many transfers are in flight"
        );
    }

    #[test]
    fn an_iotlb_that_still_fills_is_not_steady() {
        // 16,384 pages at random take more than eleven times as many transfers until all were seen.
        let text = TEXT
            .replace("window_bytes = 1048576", "window_bytes = 67108864")
            .replace("entries = 126", "entries = 16384")
            .replace("\nways = 126", "\nways = 4096")
            .replace("# transfers = 40000", "transfers = 3000");
        let result = Experiment::read(&text, "").unwrap().run().unwrap();
        assert!(result.runs.is_warm_up_extended && result.miss_share.mean < 0.001, "{result:?}");
    }

    #[test]
    fn values_of_no_machine_are_errors_with_their_place() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(TEXT.contains(from), "{from}");
            let error = Experiment::read(&TEXT.replacen(from, to, 1), "x.toml").unwrap_err();
            let told = error.to_string();
            assert!(std::error::Error::source(&error).is_none());
            assert!(told.starts_with("x.toml:") && told.contains(expected), "{told}");
        };
        check(
            "transfer_bytes = 64",
            "transfer_bytes = 0",
            "x.toml:18: engine.transfer_bytes is 0; expected 1 to",
        );
        check("window_bytes = 1048576", "window_bytes = 63", "engine.window_bytes is 63");
        check("in_flight_max = 34", "in_flight_max = 0", "engine.in_flight_max");
        check("path_ns = 540.0", "path_ns = -1.0", "engine.path_ns is -1");
        check("path_ns = 540.0", "path_ns = nan", "engine.path_ns is NaN");
        check("walk_ns = 299.0", "walk_ns = inf", "iommu.walk_ns is inf");
        check("ways = 126", "ways = 127", "iommu.ways is 127");
        check("page_bytes = 4096", "page_bytes = 5000", "iommu.page_bytes is 5000");
        check("lanes = 8", "lanes = 0", "link.lanes");
        check("payload_bytes_max = 256", "payload_bytes_max = 100", "link.payload_bytes_max is 100");
        check("overhead_share = 0.055", "overhead_share = 1.0", "link.overhead_share");
        check("generation = 3", "generation = 9", "there is no PCIe generation 9");
        check("[engine]", "[engines]", "unknown field `engines`");
        check("what =", "transfers = 99\nwhat =", "transfers is 99; expected 100 to");
        check("what =", "", "x.toml:4: key with no value, expected `=`");
    }
}
