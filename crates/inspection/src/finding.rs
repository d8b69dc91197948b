//! Findings, with their fixes and what these are predicted to save.

use crate::estimate::EventCount;
use host::diagnose::finding::Finding as Facts;
use host::diagnose::{
    AreaForecast, Distance, DmaPath, Id, Pays, Prediction as PredictionFacts, Severity, TimeGain,
};
use host::{Bdf, Citation};
use serde::Serialize;
use toll::{Event, Evidence, Gain, Given};

/// What is wrong or could be better.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What kind.
    pub id: Id,
    /// How much it matters.
    pub severity: Severity,
    /// The adapter; null for the host as a whole.
    pub address: Option<Bdf>,
    /// What it is.
    pub what: String,
    /// The lines that it was concluded from.
    pub evidence: Vec<Citation>,
    /// What to do.
    pub fix: String,
    /// The commands in `fix`, each as it can be given to a shell. They run as root.
    pub commands: Vec<String>,
    /// What the fix gives up or may break.
    pub risk: String,
    /// How to see that it worked.
    pub verify: String,
    /// The commands in `verify`.
    pub verify_commands: Vec<String>,
    /// What it gave somebody, where a published figure fits.
    pub gain: Option<Gain>,
    /// What an I/O is predicted to pay less or more after it, one for each workload.
    pub predicted: Vec<Prediction>,
    /// What transfers with an area of `memmap=` are expected to do, for findings about one.
    pub forecast: Option<Forecast>,
}

impl Finding {
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

/// The difference between two toll sheets of one machine and kernel, the nearest to the host that there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The difference, in words.
    pub what: String,
    /// Which sheets they are and what is different on this host, in words.
    pub sheets: String,
    /// The workload.
    pub workload: String,
    /// The driver it was measured with.
    pub driver: String,
    /// On the DMA path that the adapter is on.
    pub now: Cost,
    /// On the DMA path that the fix leads to.
    pub then: Cost,
    /// How far the sheets are from the host.
    pub distance: Distance,
    /// How the sheets were obtained.
    pub evidence: Evidence,
    /// The same in time; null without a price list of the architecture.
    pub time: Option<PredictedTime>,
}

/// What an I/O pays on a DMA path.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// The sheet's preset.
    pub preset: String,
    /// The DMA path.
    pub dma_path: DmaPath,
    /// Instructions per I/O, by the median.
    pub instructions: f64,
    /// Events per I/O, by the mean.
    pub events: Vec<EventCount>,
}

/// What a change of DMA path saves of a CPU's time, per I/O. The adapter's own time is not in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PredictedTime {
    /// In words.
    pub what: String,
    /// The prices that it rests on, with their evidence, in words.
    pub prices: String,
    /// The machine that the prices are of.
    pub platform: String,
    /// On the DMA path that the adapter is on.
    pub now_ns: f64,
    /// On the DMA path that the fix leads to.
    pub then_ns: f64,
    /// The difference; negative if the fix costs time.
    pub saved_ns: f64,
    /// What the difference is made of.
    pub charges: Vec<Charge>,
    /// Events that differ and have no price: what they take is in none of these times.
    pub unpriced: Vec<EventCount>,
    /// The load that `cpu_saved` is told for.
    pub load_per_second: u32,
    /// Share of one CPU's time at that load; negative if the fix costs time.
    pub cpu_saved: f64,
}

/// The part of one count in a difference of times.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Charge {
    /// The kind of event; null for instructions.
    pub event: Option<Event>,
    /// How many.
    pub amount: f64,
    /// What one takes, and where that comes from.
    pub price_ns: Given,
    /// What all take.
    pub ns: f64,
}

impl Prediction {
    fn new(facts: &PredictionFacts) -> Self {
        Self {
            what: facts.what.clone(),
            sheets: facts.sheets.clone(),
            workload: facts.workload.clone(),
            driver: facts.driver.clone(),
            now: Cost::new(&facts.now),
            then: Cost::new(&facts.then),
            distance: facts.distance,
            evidence: facts.evidence.clone(),
            time: facts.time.as_ref().map(PredictedTime::new),
        }
    }
}

impl Cost {
    fn new(pays: &Pays) -> Self {
        Self {
            preset: pays.preset.clone(),
            dma_path: pays.dma_path,
            instructions: pays.instructions,
            events: EventCount::all(&pays.events),
        }
    }
}

impl PredictedTime {
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
            charges: gain.saved.charges.iter().map(charge).collect(),
            unpriced: EventCount::all(&gain.saved.unpriced),
            load_per_second: gain.load_per_second,
            cpu_saved: gain.cpu_saved,
        }
    }
}

/// What transfers between a driver and a card are expected to do with an area that `memmap=` sets aside.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Forecast {
    /// First and last address: `0x10000000-0x14ffffff`.
    pub area: String,
    /// All of it in words.
    pub what: String,
    /// What it was calculated with, in words.
    pub basis: String,
    /// Payload that the CPU stores and the card reads.
    pub to_card_bytes_per_second: f64,
    /// The same with memory of the DMA API.
    pub dma_api_bytes_per_second: f64,
    /// Share of words that come back wrong, with a card whose accesses snoop the CPU's cache.
    pub miscompare_share_snooped: f64,
    /// The same with one whose accesses do not.
    pub miscompare_share_unsnooped: f64,
    /// What each value of the model rests on.
    pub rests_on: Vec<ForecastParameter>,
}

/// A value that a forecast rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ForecastParameter {
    /// Its name, the unit last.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Where that comes from.
    pub evidence: Evidence,
}

impl Forecast {
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
