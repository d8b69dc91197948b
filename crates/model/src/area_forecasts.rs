//! Forecasts of the throughput and corruption of a host's `memmap=` areas, for the findings about them.

use crate::memory_type::{Comparison, Limit, Throughput};
use crate::{AreaExpectation, Parameter, StudyError, expect_of_area};
use ::host::Host;
use ::host::diagnose::{AreaForecast, Rest};
use ::host::memory::PhysRange;
use ::host::memory::effective::Call;

/// Areas that are modelled. A real host has one or two; the limit bounds the time that a made-up capture can take.
const AREAS_MAX: usize = 16;

/// A forecast for each `memmap=` area of a host, as a driver would map it with `ioremap`.
///
/// # Errors
/// [`StudyError`]
pub fn area_forecasts(host: &Host) -> Result<Vec<AreaForecast>, StudyError> {
    let Some(memory) = &host.memory else { return Ok(Vec::new()) };
    let mut forecasts = Vec::new();
    for area in memory.memmap.iter().filter_map(|area| area.set_aside()).take(AREAS_MAX) {
        let effective = memory.effective(area);
        let Some(mapping) = effective.mapped_by(Call::Ioremap) else { continue };
        forecasts.extend(expect_of_area(mapping, area)?.map(|expected| area_forecast(area, expected)));
    }
    Ok(forecasts)
}

/// The model's expectation of an area as sentences and numbers.
fn area_forecast(area: PhysRange, expected: AreaExpectation) -> AreaForecast {
    let rest = |parameter: Parameter| Rest {
        name: parameter.name,
        value: parameter.value,
        evidence: parameter.evidence,
    };
    let link = expected.parameters.iter().find(|parameter| parameter.name == "link_gigabits_per_second");
    let link = link.map_or("unknown".to_owned(), |link| link.value.to_string());
    AreaForecast {
        area,
        what: format!(
            "{} to a card, and {} with memory of the DMA API; {}",
            throughput_words(&expected.to_card),
            throughput_words(&expected.dma_api),
            corruption_words(&expected.snooped, &expected.unsnooped)
        ),
        basis: format!(
            "the model of `iotoll reproduce memmap`, with a processor of 2010 and a link of {link} Gb/s; an uncached store is \
             calibrated, the link assumed, and that page and the JSON document say what each value rests on"
        ),
        to_card_bytes_per_second: expected.to_card.bytes_per_second,
        dma_api_bytes_per_second: expected.dma_api.bytes_per_second,
        miscompare_share_snooped: expected.snooped.share(),
        miscompare_share_unsnooped: expected.unsnooped.share(),
        rests_on: expected.parameters.into_iter().map(rest).collect(),
    }
}

/// Throughput and what limits it.
fn throughput_words(one: &Throughput) -> String {
    let limit = match one.limit {
        Limit::Cpu => "limited by the CPU's stores",
        Limit::Link => "limited by the link",
    };
    format!("{:.0} MB/s ({limit})", one.bytes_per_second / 1e6)
}

/// Whether data is corrupted if the card's accesses snoop the CPU's caches, and if they do not.
fn corruption_words(snooped: &Comparison, unsnooped: &Comparison) -> String {
    let wrong = |one: &Comparison| {
        format!("{:.0} % of the words miscompare in a buffer that the caches hold", one.share() * 100.0)
    };
    match (snooped.miscompares, unsnooped.miscompares) {
        (0, 0) => "no data is corrupted, whether the card's accesses snoop or not".to_owned(),
        (0, _) => {
            let causes: Vec<&str> = unsnooped.stale.iter().map(|one| one.why).collect();
            format!(
                "no data is corrupted if the card's accesses snoop; if they do not, {}: {}",
                wrong(unsnooped),
                causes.join("; ")
            )
        }
        _ => format!("{} even if the card's accesses snoop", wrong(snooped)),
    }
}
