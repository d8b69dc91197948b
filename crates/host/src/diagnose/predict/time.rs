//! Predictions in time: the toll that a change of DMA path takes off, at the prices of a platform.

use super::number_text::{event_name, listed, percent};
use crate::diagnose::prediction::{IoCost, LOAD_PER_SECOND, Saved, TimeGain};
use toll::{Charge, Estimate, Expense, PriceList, figure, grouped, time, time_within};

/// The time that an I/O, described by `io`, saves between two DMA paths at these prices.
///
/// Of the instructions, those of DMA mapping are priced, unless the sign of their difference is uncertain; whatever changes
/// elsewhere is side effects and chance.
pub(super) fn gain(io: &str, now: &IoCost, fewer: &Saved, prices: &PriceList) -> TimeGain {
    let dma = if fewer.dma.may_be_chance() { Estimate::default() } else { fewer.dma };
    let (saved, half_width_ns) = prices.price_difference(dma, &fewer.events);
    let now_ns = prices.price(now.instructions, &now.events).ns;
    let then_ns = now_ns - saved.ns;
    TimeGain {
        what: format!("{io}: {}", what(now_ns, &saved, half_width_ns)),
        prices: prices_of(prices, &saved),
        platform: prices.platform.clone(),
        now_ns,
        then_ns,
        load_per_second: LOAD_PER_SECOND,
        cpu_saved: cpu_share(saved.ns),
        half_width_ns,
        saved,
    }
}

/// The share of one CPU's time that I/Os of `ns` nanoseconds each take at the load [`LOAD_PER_SECOND`].
fn cpu_share(ns: f64) -> f64 {
    ns * f64::from(LOAD_PER_SECOND) / 1e9
}

/// `850 ns of 5.05 µs less (17 %): IOTLB invalidations 700 ns, instructions 150 ns; at 100,000 a second 8.5 % of a CPU`.
fn what(now_ns: f64, saved: &Expense, half_width_ns: f64) -> String {
    let (sign, direction) = if saved.ns < 0.0 { (-1.0, "more") } else { (1.0, "less") };
    let ns = sign * saved.ns;
    let mut charges: Vec<&Charge> = nonzero_charges(saved).collect();
    charges.sort_by(|a, b| b.ns.abs().total_cmp(&a.ns.abs()));
    let part = |charge: &&Charge| format!("{} {}", charge_name(charge), signed(sign * charge.ns));
    let parts: Vec<String> = charges.iter().map(part).collect();
    let unpriced: Vec<String> =
        saved.unpriced.keys().map(|event| event_name(*event, 2.0).to_owned()).collect();
    let unpriced =
        if unpriced.is_empty() { String::new() } else { format!("; not priced: {}", listed(&unpriced)) };
    if parts.is_empty() {
        return format!("no difference in what has a price{unpriced}");
    }
    if half_width_ns >= ns && half_width_ns > 0.0 {
        let (less, more) = (saved.ns + half_width_ns, half_width_ns - saved.ns);
        return format!(
            "whether it takes less time is uncertain (between {} less and {} more){unpriced}",
            time(less),
            time(more)
        );
    }
    format!(
        "{} of {} {direction} ({}): {}; at {} a second {} % of a CPU{unpriced}",
        time_within(ns, half_width_ns),
        time(now_ns),
        percent(ns, now_ns),
        parts.join(", "),
        grouped(u64::from(LOAD_PER_SECOND)),
        figure(cpu_share(ns) * 100.0)
    )
}

/// The charges that are not zero.
fn nonzero_charges(expense: &Expense) -> impl Iterator<Item = &Charge> {
    expense.charges.iter().filter(|charge| charge.ns != 0.0)
}

/// What a charge is for, in words: `instructions`, `IOTLB invalidations`.
fn charge_name(charge: &Charge) -> &'static str {
    charge.count.event().map_or("instructions", |event| event_name(event, 2.0))
}

fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", time(-ns)) } else { time(ns) }
}

/// The platform, and the price of what makes a difference with where it comes from.
fn prices_of(prices: &PriceList, saved: &Expense) -> String {
    let one = |charge: &Charge| match charge.count.event() {
        None => "instruction",
        Some(event) => event_name(event, 1.0),
    };
    let price = |charge: &Charge| {
        let Charge { price_ns, .. } = charge;
        format!("{} {} ({})", one(charge), time(price_ns.value), price_ns.evidence)
    };
    let each: Vec<String> = nonzero_charges(saved).map(price).collect();
    format!("prices of {}: {}", prices.platform, each.join("; "))
}
