//! Predictions in words.

use super::change::Change;
use super::nearest::{Pair, Side};
use super::number_text::{EVENTS_MIN, count, event_name, listed, percent};
use super::place::Environment;
use super::time;
use crate::diagnose::mapping_counts::MappingCounts;
use crate::diagnose::prediction::{IoCost, Prediction, Saved};
use crate::digest::{BootDigest, EVENTS, SheetDigest, TollDigest};
use crate::kernel::{Family, KernelVersion};
use ddw::TceCalls;
use std::cmp::Ordering;
use toll::{Estimate, Event, Evidence, PriceList};

/// Puts the pair of sheets nearest to a place into words.
pub(super) fn prediction(
    pair: &Pair<'_>,
    place: &Environment<'_>,
    change: Change,
    prices: Option<&PriceList>,
) -> Prediction {
    let io = io(&pair.now.toll.what, change.only);
    let (now, then) = (pays(pair.now, pair.then.toll), pays(pair.then, pair.now.toll));
    let saved = saved(pair, &now);
    Prediction {
        what: format!("{io}: {}", what(&now, &saved)),
        sheets: sheets(pair, place),
        workload: pair.now.toll.workload.clone(),
        driver: pair.now.toll.driver.clone(),
        time: prices.map(|prices| time::gain(&io, &now, &saved, prices)),
        now,
        then,
        saved,
        distance: pair.distance,
        evidence: evidence(&pair.now.toll.evidence, &pair.then.toll.evidence),
    }
}

/// What the I/O pays, in the kinds of events that were counted on the other DMA path as well.
fn pays(side: Side<'_>, other: &TollDigest) -> IoCost {
    let counted = |event: &Event| other.events_per_io(*event).is_some();
    let events = EVENTS.iter().filter(|event| counted(event));
    IoCost {
        preset: side.sheet.preset.clone(),
        dma_path: side.sheet.dma_path,
        instructions: side.toll.instructions_per_io(),
        events: events.filter_map(|event| Some((*event, side.toll.events_per_io(*event)?))).collect(),
        mapping: MappingCounts::of(side.toll),
    }
}

/// The I/O, and which of them where not all change.
fn io(workload: &str, only: Option<&str>) -> String {
    only.map_or_else(|| workload.to_owned(), |only| format!("{workload} {only}"))
}

/// What is saved of the cost on the present DMA path, by the boots of both sheets.
fn saved(pair: &Pair<'_>, now: &IoCost) -> Saved {
    let less = |total: &dyn Fn(&BootDigest) -> Option<u64>| {
        let by_boot = |toll: &TollDigest| toll.by_boot(total);
        Estimate::difference(&by_boot(pair.now.toll), &by_boot(pair.then.toll)).unwrap_or_default()
    };
    let event = |event: &Event| {
        let less = less(&|boot| boot.events.get(event).copied());
        (!less.may_be_chance() && less.mean.abs() >= EVENTS_MIN).then_some((*event, less))
    };
    Saved {
        dma: less(&|boot| Some(boot.dma)),
        elsewhere: less(&|boot| Some(boot.elsewhere)),
        events: now.events.keys().filter_map(event).collect(),
    }
}

/// `440 instructions of DMA mapping (3.3 % of the I/O's 13,181) and 1 IOTLB invalidation less`, and what changes elsewhere.
fn what(now: &IoCost, saved: &Saved) -> String {
    let (mut less, mut more) = (Vec::new(), Vec::new());
    let mut uncertain = Vec::new();
    if count(saved.dma.mean.abs()) != "0" {
        let mapping = format!(
            "{}{} instructions of DMA mapping ({} of the I/O's {})",
            count(saved.dma.mean.abs()),
            margin(saved.dma),
            percent(saved.dma.mean.abs(), now.instructions),
            count(now.instructions)
        );
        match saved.dma.sign() {
            None => uncertain.push(doubtful("DMA mapping", saved.dma)),
            Some(Ordering::Greater) => less.push(mapping),
            Some(_) => more.push(mapping),
        }
    }
    for (event, saved) in &saved.events {
        let list = if saved.mean > 0.0 { &mut less } else { &mut more };
        list.push(count_events(*event, saved.mean.abs()));
    }
    let elsewhere = saved.elsewhere;
    if matters(elsewhere, now.instructions) {
        let instructions = || {
            format!(
                "{}{} instructions elsewhere in the kernel",
                count(elsewhere.mean.abs()),
                margin(elsewhere)
            )
        };
        match elsewhere.sign() {
            None => uncertain.push(doubtful("the rest of the I/O", elsewhere)),
            Some(Ordering::Greater) => less.push(instructions()),
            Some(_) => more.push(instructions()),
        }
    }
    let sides = [(less, "less"), (more, "more")];
    let said = sides.iter().filter(|(list, _)| !list.is_empty());
    let mut said: Vec<String> =
        said.map(|(list, direction)| format!("{} {direction}", listed(list))).collect();
    said.extend(uncertain);
    if said.is_empty() { "no difference".to_owned() } else { said.join("; ") }
}

/// ` ±30`: half of the interval, if that is one percent or more.
fn margin(saved: Estimate) -> String {
    let half = saved.half_width().filter(|half| *half >= 0.01 * saved.mean.abs());
    half.map(|half| format!(" ±{}", count(if half >= 10.0 { half.round() } else { half })))
        .unwrap_or_default()
}

/// Whether a difference, or the doubt about it, is as large as one percent of an I/O.
fn matters(difference: Estimate, instructions: f64) -> bool {
    let size = [Some(difference.mean), difference.low, difference.high].into_iter().flatten().map(f64::abs);
    size.fold(0.0, f64::max) >= 0.01 * instructions
}

/// A difference of which the sign is uncertain: `whether DMA mapping takes fewer instructions is uncertain (between 120 less and 30 more)`.
fn doubtful(what: &str, saved: Estimate) -> String {
    let range = match (saved.low, saved.high) {
        (Some(low), Some(high)) => {
            format!(
                "between {} less and {} more",
                count(high.max(0.0).round()),
                count((-low.min(0.0)).round())
            )
        }
        _ => "the sheets have a single boot".to_owned(),
    };
    format!("whether {what} takes fewer instructions is uncertain ({range})")
}

/// A number of events in words: `2 IOTLB invalidations`.
fn count_events(event: Event, amount: f64) -> String {
    let words = count(amount);
    let name = event_name(event, if words == "1" { 1.0 } else { amount });
    format!("{words} {name}")
}

/// Which sheets they are, and what is different here.
fn sheets(pair: &Pair<'_>, place: &Environment<'_>) -> String {
    let (now, then) = (pair.now.sheet, pair.then.sheet);
    let made = format!(
        "toll sheets {} and {} (Linux {}, {}, driver {}) in QEMU",
        now.preset,
        then.preset,
        now.kernel.release,
        pair.iommu().map_or("no IOMMU".to_owned(), |kind| kind.to_string()),
        pair.now.toll.driver
    );
    let differs = differences(pair, place);
    match differs.is_empty() {
        true => format!("{made}; this host has the same IOMMU and version of Linux"),
        false => format!("{made}; this host has {}", listed(&differs)),
    }
}

/// In what the host differs from the machine of the toll sheets, in words.
fn differences(pair: &Pair<'_>, place: &Environment<'_>) -> Vec<String> {
    let distance = pair.distance;
    let iommu = || match (place.iommu, pair.iommu()) {
        (Some(kind), _) => kind.to_string(),
        (None, Some(_)) => "an IOMMU of which the kind was not read".to_owned(),
        (None, None) => "no IOMMU".to_owned(),
    };
    let calls = || match place.tce_calls {
        Some(TceCalls::Single) => "one TCE hypercall for each entry",
        Some(TceCalls::Multi) => "TCE hypercalls for many entries",
        None => "TCE hypercalls of a kind that was not read",
    };
    let driver =
        || place.driver.map_or("a driver that was not read".to_owned(), |name| format!("driver {name}"));
    [
        distance.other_iommu.then(iommu),
        distance.other_tce_calls.then(|| calls().to_owned()),
        distance.other_driver.then(driver),
        kernel(pair.now.sheet, place.kernel, distance.kernel_releases),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Nothing if it is the same release.
fn kernel(sheet: &SheetDigest, host: Option<&KernelVersion>, releases: Option<u32>) -> Option<String> {
    let Some(host) = host else { return Some("a kernel that was not read".to_owned()) };
    let far = match releases {
        Some(0) => return None,
        Some(1) => "1 release".to_owned(),
        Some(many) => format!("{many} releases"),
        None => return Some(format!("Linux {}", host.release)),
    };
    let sheet = KernelVersion::parse(&sheet.kernel.release)?;
    let side = if host.numbers() < sheet.numbers() { "before" } else { "after" };
    let number = match host.family {
        Family::Rhel(_) | Family::Suse => " by its number, with newer code taken in",
        _ => "",
    };
    Some(format!("Linux {}, {far} {side} it{number}", host.release))
}

/// Both were measured, or the one that was not tells what the difference is worth.
fn evidence(now: &Evidence, then: &Evidence) -> Evidence {
    match (now, then) {
        (Evidence::Measured { how, on }, Evidence::Measured { how: other, .. }) => {
            let how = if how == other { how.clone() } else { format!("{how}, {other}") };
            Evidence::Measured { how, on: on.clone() }
        }
        (Evidence::Measured { .. }, other) => other.clone(),
        (other, _) => other.clone(),
    }
}
