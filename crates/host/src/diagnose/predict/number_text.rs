//! Numbers, events and lists as a prediction prints them.

use toll::{Event, grouped};

/// Smallest difference in events per I/O that is reported: less would be printed as 0.
pub(super) const EVENTS_MIN: f64 = 0.005;

/// The name of an event, in the singular if `amount` is 1.
pub(super) fn event_name(event: Event, amount: f64) -> &'static str {
    let (one, many) = match event {
        Event::Hypercalls => ("hypercall", "hypercalls"),
        Event::Invalidations => ("IOTLB invalidation", "IOTLB invalidations"),
        Event::TableEntries => ("table entry", "table entries"),
        Event::StringIterations => {
            ("repetition of string instructions", "repetitions of string instructions")
        }
        _ => (event.word(), event.word()),
    };
    if amount == 1.0 { one } else { many }
}

/// A number of instructions or events: from 100 on without decimals, below with at most two.
pub(super) fn count(amount: f64) -> String {
    let hundredths = (amount * 100.0).round() / 100.0;
    match hundredths {
        _ if amount >= 100.0 || hundredths.fract() == 0.0 => grouped(amount.round() as u64),
        _ => hundredths.to_string(),
    }
}

/// `part` as a percentage of `whole`.
pub(super) fn percent(part: f64, whole: f64) -> String {
    let percent = part / whole * 100.0;
    match percent {
        10.0.. => format!("{percent:.0} %"),
        0.1.. => format!("{percent:.1} %"),
        _ => "under 0.1 %".to_owned(),
    }
}

/// Joins parts as in `a, b and c`.
pub(super) fn listed(parts: &[String]) -> String {
    match parts {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => parts.concat(),
    }
}
