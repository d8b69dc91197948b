//! Findings, with their fixes and what these are predicted to save.

use crate::estimate::EventCount;
use host::diagnose::finding::Finding as Facts;
use host::diagnose::{
    AreaForecast, Distance, DmaPath, Id, IoCost, Prediction as PredictionFacts, Severity, TimeGain,
};
use host::{Bdf, Citation};
use serde::Serialize;
use toll::{Event, Evidence, Gain, Given};

/// A finding: something that is wrong or could be better.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of finding.
    pub id: Id,
    /// Its severity.
    pub severity: Severity,
    /// The adapter; null for the host as a whole.
    pub address: Option<Bdf>,
    /// Its description.
    pub what: String,
    /// The lines that it is based on.
    pub evidence: Vec<Citation>,
    /// The fix, in words.
    pub fix: String,
    /// The commands in `fix`, each as a shell command to run as root.
    pub commands: Vec<String>,
    /// The risk of the fix.
    pub risk: String,
    /// How to verify that the fix worked.
    pub verify: String,
    /// The commands in `verify`.
    pub verify_commands: Vec<String>,
    /// The gain that a publication reports for such a fix; null if there is none.
    pub gain: Option<Gain>,
    /// The predicted change of the cost of an I/O by the fix, for each workload.
    pub predicted: Vec<Prediction>,
    /// The expected throughput and corruption of transfers, for findings about an area of `memmap=`.
    pub forecast: Option<Forecast>,
}

impl Finding {
    /// Converts a finding with its predictions and its forecast.
    pub(crate) fn new(facts: &Facts) -> Self {
        let commands =
            |advice: &host::diagnose::Advice| advice.commands().iter().map(ToString::to_string).collect();
        Self {
            id: facts.id,
            severity: facts.severity,
            address: facts.address,
            what: facts.what.clone(),
            evidence: facts.evidence.clone(),
            fix: facts.fix.to_string(),
            commands: commands(&facts.fix),
            risk: facts.risk.clone(),
            verify: facts.verify.to_string(),
            verify_commands: commands(&facts.verify),
            gain: facts.gain.clone(),
            predicted: facts.predicted.iter().map(Prediction::new).collect(),
            forecast: facts.forecast.as_ref().map(Forecast::new),
        }
    }
}

/// The difference between two toll sheets of one machine and kernel, those most similar to the host.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The difference, in words.
    pub what: String,
    /// The names of the sheets and their differences from this host, in words.
    pub sheets: String,
    /// The workload.
    pub workload: String,
    /// The driver it was measured with.
    pub driver: String,
    /// On the adapter's present DMA path.
    pub now: Cost,
    /// On the DMA path after the fix.
    pub then: Cost,
    /// Instructions per I/O that are saved in the stages of DMA mapping; negative if there are more.
    pub saved_dma_instructions: toll::Estimate,
    /// Instructions per I/O that are saved in all other stages: side effects, and chance.
    pub saved_other_instructions: toll::Estimate,
    /// The differences between the sheets' machine and the host.
    pub distance: Distance,
    /// How the sheets were obtained.
    pub evidence: Evidence,
    /// The change in CPU time; null without a price list of the architecture.
    pub time: Option<PredictedTime>,
}

/// The cost of an I/O on a DMA path.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// The sheet's preset.
    pub preset: String,
    /// The DMA path.
    pub dma_path: DmaPath,
    /// Instructions per I/O, by the mean.
    pub instructions: f64,
    /// Events per I/O, by the mean.
    pub events: Vec<EventCount>,
}

/// The CPU time that a change of DMA path saves per I/O, without the adapter's own time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedTime {
    /// The saving in words.
    pub what: String,
    /// The prices used, with their evidence, in words.
    pub prices: String,
    /// The machine that the prices are of.
    pub platform: String,
    /// On the adapter's present DMA path.
    pub now_ns: f64,
    /// On the DMA path after the fix.
    pub then_ns: f64,
    /// The difference; negative if the fix costs time.
    pub saved_ns: f64,
    /// Half of the interval that chance between boots leaves for it; 0 with a single boot.
    pub saved_half_width_ns: f64,
    /// The parts of the difference.
    pub charges: Vec<Charge>,
    /// Events that differ and have no price. Their time is not included.
    pub unpriced: Vec<EventCount>,
    /// The load for which `cpu_saved` is calculated.
    pub load_per_second: u32,
    /// Share of one CPU's time at that load; negative if the fix costs time.
    pub cpu_saved: f64,
}

/// The part of one count in a difference of times.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Charge {
    /// The kind of event; null for instructions.
    pub event: Option<Event>,
    /// The number of instructions or events.
    pub amount: f64,
    /// The price of one, with its evidence.
    pub price_ns: Given,
    /// The time of all.
    pub ns: f64,
}

impl Prediction {
    /// Converts a prediction.
    fn new(facts: &PredictionFacts) -> Self {
        Self {
            what: facts.what.clone(),
            sheets: facts.sheets.clone(),
            workload: facts.workload.clone(),
            driver: facts.driver.clone(),
            now: Cost::new(&facts.now),
            then: Cost::new(&facts.then),
            saved_dma_instructions: facts.saved.dma,
            saved_other_instructions: facts.saved.elsewhere,
            distance: facts.distance,
            evidence: facts.evidence.clone(),
            time: facts.time.as_ref().map(PredictedTime::new),
        }
    }
}

impl Cost {
    /// Converts a cost.
    fn new(pays: &IoCost) -> Self {
        Self {
            preset: pays.preset.clone(),
            dma_path: pays.dma_path,
            instructions: pays.instructions,
            events: EventCount::all(&pays.events),
        }
    }
}

impl PredictedTime {
    /// Converts a gain in CPU time.
    fn new(gain: &TimeGain) -> Self {
        let charge = |charge: &toll::Charge| Charge {
            event: charge.count.event(),
            amount: charge.amount,
            price_ns: charge.price_ns.clone(),
            ns: charge.ns,
        };
        Self {
            what: gain.what.clone(),
            prices: gain.prices.clone(),
            platform: gain.platform.clone(),
            now_ns: gain.now_ns,
            then_ns: gain.then_ns,
            saved_ns: gain.saved.ns,
            saved_half_width_ns: gain.half_width_ns,
            charges: gain.saved.charges.iter().map(charge).collect(),
            unpriced: EventCount::all(&gain.saved.unpriced),
            load_per_second: gain.load_per_second,
            cpu_saved: gain.cpu_saved,
        }
    }
}

/// The expected behaviour of transfers between a driver and a card through an area that `memmap=` sets aside.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// First and last address: `0x10000000-0x14ffffff`.
    pub area: String,
    /// The forecast in words.
    pub what: String,
    /// The model and its main assumptions, in words.
    pub basis: String,
    /// Throughput of data that the CPU stores and the card reads.
    pub to_card_bytes_per_second: f64,
    /// The same throughput with memory of the DMA API.
    pub dma_api_bytes_per_second: f64,
    /// Share of words that are wrong when read back, if the card's accesses snoop the CPU's cache.
    pub miscompare_share_snooped: f64,
    /// The same share if the card's accesses do not snoop.
    pub miscompare_share_unsnooped: f64,
    /// The model's values with their evidence.
    pub rests_on: Vec<ForecastParameter>,
}

/// A value that a forecast depends on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForecastParameter {
    /// Its name, the unit last.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its evidence.
    pub evidence: Evidence,
}

impl Forecast {
    /// Converts a forecast about a `memmap=` area.
    fn new(facts: &AreaForecast) -> Self {
        let parameter = |rest: &host::diagnose::Rest| ForecastParameter {
            name: rest.name.clone(),
            value: rest.value,
            evidence: rest.evidence.clone(),
        };
        Self {
            area: facts.area.to_string(),
            what: facts.what.clone(),
            basis: facts.basis.clone(),
            to_card_bytes_per_second: facts.to_card_bytes_per_second,
            dma_api_bytes_per_second: facts.dma_api_bytes_per_second,
            miscompare_share_snooped: facts.miscompare_share_snooped,
            miscompare_share_unsnooped: facts.miscompare_share_unsnooped,
            rests_on: facts.rests_on.iter().map(parameter).collect(),
        }
    }
}
