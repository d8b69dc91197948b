//! Amounts in words.

/// Bytes with a unit: `1.9 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = bytes.max(1).ilog2() / 10;
    let unit = UNITS.get(step as usize).copied().unwrap_or("EiB");
    let whole = bytes >> (10 * step);
    // Two digits tell enough; exact amounts are shown without a fraction.
    let tenth = if step == 0 { 0 } else { ((bytes >> (10 * (step - 1))) & 1023) * 10 / 1024 };
    match (tenth, whole) {
        (0, _) | (_, 100..) => format!("{whole} {unit}"),
        _ => format!("{whole}.{tenth} {unit}"),
    }
}

/// A number with its noun: `1 finding`, `3 findings`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", grouped(number as u64)),
    }
}

/// A number with its thousands apart: `12,345`.
pub(crate) fn grouped(number: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
    }
}
