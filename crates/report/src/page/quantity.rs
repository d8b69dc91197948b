//! Amounts in words.

use toll::Estimate;
pub(crate) use toll::{figure, grouped, time};

/// A time without sign, with half of its interval: `2.69 µs ±86.8 ns`, and with a `?` where the interval contains zero.
pub(crate) fn time_or_doubt(ns: f64, half_width_ns: f64) -> String {
    let doubt = if half_width_ns > 0.0 && half_width_ns >= ns { " ?" } else { "" };
    format!("{}{doubt}", toll::time_within(ns, half_width_ns))
}

/// Bytes with a unit: `1.9 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = bytes.max(1).ilog2() / 10;
    let unit = UNITS.get(step as usize).copied().unwrap_or("EiB");
    let whole = bytes >> (10 * step);
    // From 100 on the tenths don't matter; exact amounts have none.
    let tenth = if step == 0 { 0 } else { ((bytes >> (10 * (step - 1))) & 1023) * 10 / 1024 };
    match (tenth, whole) {
        (0, _) | (_, 100..) => format!("{whole} {unit}"),
        _ => format!("{whole}.{tenth} {unit}"),
    }
}

/// A number with its noun: `1 finding`, `3 findings`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", grouped(number as u64)),
    }
}

/// The first `shown_max` texts, and how many more there are.
pub(crate) fn listed(all: &[String], shown_max: usize) -> String {
    let shown = all.iter().take(shown_max).cloned().collect::<Vec<_>>().join(", ");
    match all.len().checked_sub(shown_max) {
        Some(more @ 1..) => format!("{shown} and {} more", grouped(more as u64)),
        _ => shown,
    }
}

/// An amount per I/O: `1`, `20.9`, `0.0625`. Small amounts have up to four decimals.
pub(crate) fn per_io(amount: f64) -> String {
    let size = amount.abs();
    let digits = match size {
        _ if size.fract() == 0.0 => format!("{size:.0}"),
        10.0.. => format!("{size:.1}"),
        0.000_05.. => format!("{size:.4}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => format!("{size:.0e}"),
    };
    let (whole, rest) = digits.split_at(digits.find(['.', 'e']).unwrap_or(digits.len()));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    let sign = if amount < 0.0 { "-" } else { "" };
    format!("{sign}{whole}{rest}")
}

/// A change per I/O, like [`per_io`] with a sign: `+719`.
pub(crate) fn change(amount: f64) -> String {
    let sign = if amount > 0.0 { "+" } else { "" };
    format!("{sign}{}", per_io(amount))
}

/// A change per I/O with half of its 95 % interval: `+719 ±12`, or `+719` where that is zero when rounded. `?` follows where the sign is
/// uncertain, and `±?` stands where a single boot gives no interval.
pub(crate) fn estimate(estimate: &Estimate) -> String {
    let mean = change(rounded(estimate.mean));
    match estimate.half_width() {
        None => format!("{mean} ±?"),
        Some(half) if rounded(half) == 0.0 => mean,
        Some(half) => {
            let doubt = if estimate.sign().is_none() && mean != "0" { " ?" } else { "" };
            format!("{mean} ±{}{doubt}", per_io(rounded(half)))
        }
    }
}

/// A figure with half of its interval: `12.3 ±0.2`, `12.3` where that has no width, and `12.3 ±?` of a single run.
pub(crate) fn with_interval(estimate: &Estimate, words: impl Fn(f64) -> String) -> String {
    let mean = words(estimate.mean);
    match estimate.half_width().map(&words) {
        None => format!("{mean} ±?"),
        Some(half) if half == words(0.0) => mean,
        Some(half) => format!("{mean} ±{half}"),
    }
}

/// An amount without decimals that say nothing: from 10 on there are none.
fn rounded(amount: f64) -> f64 {
    if amount.abs() >= 10.0 { amount.round() } else { (amount * 10.0).round() / 10.0 }
}

/// The change from one amount to another in percent: `-5.0 %`. Empty if the first is zero.
pub(crate) fn percent(from: f64, to: f64) -> String {
    if from == 0.0 { String::new() } else { signed_percent((to - from) / from) }
}

/// A share in percent, with a sign: `+14.3 %`; without one where it is rounded to zero.
pub(crate) fn signed_percent(part: f64) -> String {
    match part * 100.0 {
        percent if percent.abs() < 0.05 => "0.0 %".to_owned(),
        percent @ 1000.0.. => format!("{percent:+.0} %"),
        percent => format!("{percent:+.1} %"),
    }
}

/// A part of a whole in brackets: ` (12.5 %)`. Empty if the whole is zero.
pub(crate) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!(" ({:.1} %)", part / whole * 100.0) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_width_is_not_shown() {
        let words = |values: &[f64]| with_interval(&Estimate::of(values).unwrap(), figure);
        assert_eq!(words(&[2.0, 2.0]), "2.00");
        assert_eq!(words(&[2.0]), "2.00 ±?");
        assert_eq!(words(&[1.0, 2.0, 3.0]), "2.00 ±2.48");
    }

    #[test]
    fn an_estimate_says_whether_its_sign_is_certain() {
        let check = |boots: &[f64], expected: &str| {
            assert_eq!(estimate(&Estimate::of(boots).unwrap()), expected);
        };
        check(&[1198.25, 1198.25], "+1,198");
        check(&[-3.04, -3.04], "-3");
        check(&[0.003, 0.001, 0.003], "0");
        check(&[100.0, 102.0, 104.0], "+102 ±5");
        check(&[-10.0, 30.0, 40.0], "+20 ±66 ?");
        check(&[7.0], "+7 ±?");
    }

    #[test]
    fn shares_have_a_sign_unless_they_are_rounded_to_zero() {
        assert_eq!(
            [0.143, -0.0006, 0.0004, -0.0004, 0.0].map(signed_percent),
            ["+14.3 %", "-0.1 %", "0.0 %", "0.0 %", "0.0 %"]
        );
    }

    #[test]
    fn amounts() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(2 << 30), "2 GiB");
        assert_eq!(bytes(2_025_000 << 10), "1.9 GiB");
        assert_eq!(bytes(1_056_763_000 << 10), "1007 GiB");
        assert_eq!(bytes(u64::MAX), "15.9 EiB");
        assert_eq!(count(1, "finding"), "1 finding");
        assert_eq!(count(1000, "adapter"), "1,000 adapters");
    }

    #[test]
    fn counts_per_io() {
        let check = |amount: f64, expect: &str| assert_eq!(per_io(amount), expect);
        check(0.0, "0");
        check(20_894.0, "20,894");
        check(-8506.25, "-8,506.2");
        check(1.0015, "1.0015");
        check(0.0625, "0.0625");
        check(2.5, "2.5");
        check(0.000_02, "2e-5");
        check(1e18, "1,000,000,000,000,000,000");
        check(1e22, "10000000000000000000000");
        assert_eq!((change(719.0), change(-15.5), change(0.0)), ("+719".into(), "-15.5".into(), "0".into()));
        assert_eq!((percent(200.0, 190.0), percent(0.0, 5.0)), ("-5.0 %".into(), String::new()));
    }
}
