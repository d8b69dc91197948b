//! Formats amounts for reports.

/// A number with thousands separators: `12,345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && index % 3 == lead {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A value with about three significant digits: `0.50`, `13.2`, `1,234`. Values of 100 and more are rounded to whole numbers.
pub fn figure(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "?".to_owned(),
        ..0.0 => format!("-{}", figure(-value)),
        100.0.. => grouped(value.round() as u64),
        10.0.. => format!("{value:.1}"),
        0.01.. => format!("{value:.2}"),
        0.000_1.. => format!("{value:.4}").trim_end_matches('0').to_owned(),
        0.0 => "0".to_owned(),
        _ => format!("{value:.0e}"),
    }
}

/// A time with the unit that suits its size: `13.2 ns`, `1.05 ms`.
pub fn time(ns: f64) -> String {
    match ns {
        1e9.. => format!("{} s", figure(ns / 1e9)),
        1e6.. => format!("{} ms", figure(ns / 1e6)),
        1e3.. => format!("{} µs", figure(ns / 1e3)),
        _ => format!("{} ns", figure(ns)),
    }
}

/// A time with half of its interval, `940 ns ±88.9 ns`, unless that is less than one percent.
pub fn time_within(ns: f64, half_width_ns: f64) -> String {
    match half_width_ns > 0.0 && half_width_ns >= 0.01 * ns.abs() {
        true => format!("{} ±{}", time(ns), time(half_width_ns)),
        false => time(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_shown_from_one_percent_on() {
        for (ns, half_width_ns, words) in [
            (940.0, 88.9, "940 ns ±88.9 ns"),
            (940.0, 9.3, "940 ns"),
            (940.0, 0.0, "940 ns"),
            (0.0, 0.0, "0 ns"),
        ] {
            assert_eq!(time_within(ns, half_width_ns), words);
        }
    }

    #[test]
    fn thousands_are_separated() {
        for (number, words) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), words);
        }
    }

    #[test]
    fn values_have_about_three_digits() {
        assert_eq!(
            [0.0, 0.000_07, 0.001, 0.5, 13.24, 1234.4].map(figure),
            ["0", "7e-5", "0.001", "0.50", "13.2", "1,234"]
        );
        assert_eq!([13.24, 1050.0, 2.5e6, 3e9].map(time), ["13.2 ns", "1.05 µs", "2.50 ms", "3.00 s"]);
    }
}
