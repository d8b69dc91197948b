//! Picoseconds as text, in the unit that fits.

use std::fmt::{self, Alignment};

/// Units, smallest first, with the power of ten of their picoseconds.
const UNITS: [(u32, &str); 5] = [(0, "ps"), (3, "ns"), (6, "µs"), (9, "ms"), (12, "s")];
/// As many as a reader compares at a glance. Whole seconds may have more.
const SIGNIFICANT_DIGITS: u32 = 4;

/// How many digits are shown after the point.
#[derive(Debug, Clone, Copy)]
enum Digits {
    /// All, without zeros at the end.
    Exact,
    /// What [`SIGNIFICANT_DIGITS`] leaves, without zeros at the end.
    Significant,
    /// This many.
    Fraction(usize),
}

impl Digits {
    /// The power of ten to which picoseconds are rounded in a unit.
    fn quantum_log10(self, ps: u64, unit_log10: u32) -> u32 {
        let shown = match self {
            Self::Exact => unit_log10,
            Self::Significant => {
                let whole = (ps / 10u64.pow(unit_log10)).checked_ilog10().unwrap_or(0) + 1;
                SIGNIFICANT_DIGITS.saturating_sub(whole)
            }
            Self::Fraction(digits) => u32::try_from(digits).unwrap_or(u32::MAX),
        };
        unit_log10.saturating_sub(shown)
    }
}

/// Writes picoseconds, rounded to four significant digits or to the formatter's precision.
pub(crate) fn write_rounded(ps: u64, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    pad(&text(ps, formatter.precision().map_or(Digits::Significant, Digits::Fraction)), formatter)
}

/// Writes all digits, or those of the formatter's precision.
pub(crate) fn write_exact(ps: u64, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    pad(&text(ps, formatter.precision().map_or(Digits::Exact, Digits::Fraction)), formatter)
}

/// The text in the largest unit with a whole part of at least 1 after rounding, so 999.96 ns is never `1000 ns`.
fn text(ps: u64, digits: Digits) -> String {
    let fits = UNITS.iter().rposition(|(log10, _)| ps >= 10u64.pow(*log10)).unwrap_or(0);
    let rounded = round(ps, digits, fits);
    let reached = UNITS.get(fits + 1).is_some_and(|(log10, _)| rounded >= 10u128.pow(*log10));
    if reached {
        return join(round(ps, digits, fits + 1), digits, fits + 1);
    }
    join(rounded, digits, fits)
}

/// Rounds to the digits shown; halves up. The largest 64-bit numbers may be rounded to more than 64 bits.
fn round(ps: u64, digits: Digits, unit: usize) -> u128 {
    let quantum = 10u128.pow(digits.quantum_log10(ps, UNITS[unit].0));
    (u128::from(ps) + quantum / 2) / quantum * quantum
}

/// Whole part, fraction and unit of rounded picoseconds.
fn join(rounded: u128, digits: Digits, unit: usize) -> String {
    let (log10, name) = UNITS[unit];
    let (whole, rest) = (rounded / 10u128.pow(log10), rounded % 10u128.pow(log10));
    let all = match log10 {
        0 => String::new(),
        log10 => format!("{rest:0width$}", width = log10 as usize),
    };
    let fraction = match digits {
        Digits::Fraction(shown) => format!("{all:0<shown$.shown$}"),
        _ => all.trim_end_matches('0').to_owned(),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{whole}{point}{fraction} {name}")
}

/// Writes a text in the formatter's width, to the right as numbers are. Its precision is not for the text.
pub(crate) fn pad(text: &str, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let missing = formatter.width().unwrap_or(0).saturating_sub(text.chars().count());
    let before = match formatter.align() {
        Some(Alignment::Left) => 0,
        Some(Alignment::Center) => missing / 2,
        _ => missing,
    };
    let fill = |times| String::from(formatter.fill()).repeat(times);
    let (before, after) = (fill(before), fill(missing - before));
    write!(formatter, "{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use crate::{Span, Time};
    use proptest::prelude::*;

    #[test]
    fn spans_have_four_digits_in_the_unit_that_fits() {
        let check = |ps: u64, expected: &str| assert_eq!(Span::from_ps(ps).to_string(), expected);
        check(0, "0 ps");
        check(999, "999 ps");
        check(1_000, "1 ns");
        check(1_234, "1.234 ns");
        check(42_100, "42.1 ns");
        check(999_960, "1 µs");
        check(999_900, "999.9 ns");
        check(999_949, "999.9 ns");
        check(999_950, "1 µs");
        check(1_234_500, "1.235 µs");
        check(1_500_000, "1.5 µs");
        check(999_999_999, "1 ms");
        check(12_345_678_901, "12.35 ms");
        check(1_000_000_000_001, "1 s");
        check(12_345_600_000_000_000, "12346 s");
        check(u64::MAX, "18446744 s");
        assert_eq!(Time::from_ps(42_100).to_string(), "42.1 ns");
    }

    #[test]
    fn a_precision_is_the_number_of_digits_after_the_point() {
        let check = |ps: u64, precision: usize, expected: &str| {
            assert_eq!(format!("{:.precision$}", Span::from_ps(ps)), expected);
        };
        check(1_250_000, 0, "1 µs");
        check(1_250_000, 1, "1.3 µs");
        check(1_250_000, 4, "1.2500 µs");
        check(1_250_000, 9, "1.250000000 µs");
        check(999_949, 1, "999.9 ns");
        check(999_950, 1, "1.0 µs");
        check(999_500, 0, "1 µs");
        check(5, 2, "5.00 ps");
        check(u64::MAX, 12, "18446744.073709551615 s");
    }

    #[test]
    fn debug_shows_every_picosecond() {
        let exact = [0, 999, 1_500_000, 999_999_999, 1_000_000_000_001].map(Span::from_ps);
        assert_eq!(
            exact.map(|span| format!("{span:?}")),
            ["0 ps", "999 ps", "1.5 µs", "999.999999 µs", "1.000000000001 s"]
        );
        assert_eq!(format!("{:?}", Time::MAX), "18446744.073709551615 s");
        assert_eq!(format!("{:.1?}", Time::from_ps(999_999)), "1.0 µs");
    }

    #[test]
    fn a_width_pads() {
        let span = Span::from_ns(15);
        assert_eq!(format!("[{span:8}] [{span:<8}] [{span:*^9.1}]"), "[   15 ns] [15 ns   ] [*15.0 ns*]");
    }

    /// Reads a text back as picoseconds.
    fn read(text: &str) -> f64 {
        let (number, unit) = text.split_once(' ').unwrap();
        let (log10, _) = super::UNITS.iter().find(|(_, name)| *name == unit).unwrap();
        number.parse::<f64>().unwrap() * 10f64.powi(*log10 as i32)
    }

    /// The same, exactly.
    fn read_exactly(text: &str) -> u64 {
        let (number, unit) = text.split_once(' ').unwrap();
        let (log10, _) = super::UNITS.iter().find(|(_, name)| *name == unit).unwrap();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        format!("{whole}{fraction:0<width$}", width = *log10 as usize).parse().unwrap()
    }

    proptest! {
        #[test]
        fn texts_are_read_back_as_what_they_were(bits in 0u32..64, low: u64) {
            let ps = low >> bits;
            prop_assert_eq!(read_exactly(&format!("{:?}", Span::from_ps(ps))), ps);
            let rounded = Span::from_ps(ps).to_string();
            prop_assert!((read(&rounded) - ps as f64).abs() <= 5e-4 * ps as f64, "{} of {} ps", rounded, ps);
            let number = rounded.split_once(' ').unwrap().0;
            prop_assert!(number.parse::<f64>().unwrap() < 1000.0 || rounded.ends_with(" s"), "{}", rounded);
        }
    }
}
