//! Numbers, sizes and times as uperf writes them.

use super::Size;
use des::Span;

/// What uperf holds a number in.
const NUMBER_MAX: f64 = i32::MAX as f64;
/// Virtual time ends after 1.8e19 ps; this is 115 days.
const PS_MAX: f64 = 1e19;

pub(super) const NUMBER: &str = "a number from 1 to 2147483647, in units of 1024 with k, of 1048576 with m";
pub(super) const NUMBER_OR_NONE: &str = "a number from 0 to 2147483647";
pub(super) const SIZE: &str =
    "bytes from 1 to 2147483647 such as 90 or 64k, or rand(1,64k): least and most, without spaces";
pub(super) const SPAN: &str = "a time of 115 days at most, in s, ms, us or ns such as 30s, more than none";

/// A number of at least one.
pub(super) fn number(text: &str) -> Option<u32> {
    number_or_none(text).filter(|number| *number > 0)
}

/// A number. With a suffix each is so many powers of 1024; what is left of a fraction is dropped.
pub(super) fn number_or_none(text: &str) -> Option<u32> {
    let (value, suffix) = decimal(text)?;
    let power = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 1,
        "m" | "mb" => 2,
        "g" | "gb" => 3,
        _ => return None,
    };
    let value = (value * 1024_f64.powi(power)).trunc();
    (value <= NUMBER_MAX).then_some(value as u32)
}

/// How much is transferred at a time.
pub(super) fn size(text: &str) -> Option<Size> {
    let lower = text.to_ascii_lowercase();
    let Some(bounds) = lower.strip_prefix("rand(") else { return number(text).map(Size::Bytes) };
    let (least, most) = bounds.strip_suffix(')')?.split_once(',')?;
    let (bytes_min, bytes_max) = (number(least)?, number(most)?);
    (bytes_min <= bytes_max).then_some(Size::Random { bytes_min, bytes_max })
}

/// A time; seconds where the unit is absent. uperf looks at the unit's first letter alone, so that `5m`, and `5min` too, are 5 ms
/// there: neither is taken here.
pub(super) fn span(text: &str) -> Option<Span> {
    let (value, unit) = decimal(text)?;
    let ps_per_unit = match unit.to_ascii_lowercase().as_str() {
        "" | "s" => 1e12,
        "ms" => 1e9,
        "us" => 1e6,
        "ns" => 1e3,
        _ => return None,
    };
    let ps = value * ps_per_unit;
    let span = Span::from_ps_f64(ps);
    (ps <= PS_MAX && span > Span::ZERO).then_some(span)
}

/// A decimal number without a sign, and what follows it.
fn decimal(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    Some((digits.parse().ok()?, suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes() {
        let good = ["1", "90", "8k", "50K", "1.5k", "64kb", "2m", "1g", ".5k", "2147483647", "0.9999k"];
        let numbers =
            [1, 90, 8192, 51200, 1536, 65536, 2 << 20, 1 << 30, 512, i32::MAX as u32, 1023].map(Some);
        assert_eq!(good.map(number), numbers);
        let bad =
            ["", ".", "0", "0.5", "k", "-1", "+1", "1e3", "inf", "1.2.3", "2147483648", "2g", "9t", "1 k"];
        for text in bad {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(number(&"9".repeat(4000)), None);
        assert_eq!(number_or_none("0"), Some(0));
    }

    #[test]
    fn sizes_may_be_random() {
        assert_eq!(size("8k"), Some(Size::Bytes(8192)));
        assert_eq!(size("RAND(1,8k)"), Some(Size::Random { bytes_min: 1, bytes_max: 8192 }));
        for text in ["rand(", "rand(1,", "rand(1)", "rand(0,4)", "rand(5,4)", "rand(1,2)x", "0"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        let check = |text, ps| assert_eq!(span(text).map(Span::as_ps), ps, "{text}");
        check("30s", Some(30_000_000_000_000));
        check("30", Some(30_000_000_000_000));
        check("1.5ms", Some(1_500_000_000));
        check("20us", Some(20_000_000));
        check("1NS", Some(1_000));
        for text in ["0s", "5m", "5min", "1h", "", "s", "-1s", "10000001s", "0.0000001ns"] {
            check(text, None);
        }
    }
}
