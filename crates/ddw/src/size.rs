//! Sizes in words.

/// Writes bytes in the largest binary unit that divides them, so that no digit is lost: `96 GiB`.
pub fn binary(bytes: u128) -> String {
    const UNITS: [(&str, u32); 6] =
        [("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    UNITS
        .iter()
        .find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(|| format!("{bytes} B"), |(unit, shift)| format!("{} {unit}", bytes >> shift))
}

/// Writes two to the power `shift` bytes.
pub fn power_of_two(shift: u32) -> String {
    1u128.checked_shl(shift).map_or_else(|| format!("2^{shift} B"), binary)
}

/// The smallest power of two not below `value`, as its exponent (Linux: `order_base_2`).
pub fn log2_ceil(value: u128) -> u32 {
    match value {
        0 | 1 => 0,
        _ => u128::BITS - (value - 1).leading_zeros(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        for (bytes, expect) in
            [(0, "0 B"), (1, "1 B"), (65536, "64 KiB"), (96 << 30, "96 GiB"), (1 << 41, "2 TiB")]
        {
            assert_eq!(binary(bytes), expect);
        }
        assert_eq!(power_of_two(36), "64 GiB");
        assert_eq!(power_of_two(200), "2^200 B");
    }

    #[test]
    fn exponents() {
        for (value, expect) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (96 << 30, 37), (1 << 37, 37)]
        {
            assert_eq!(log2_ceil(value), expect, "{value}");
        }
        assert_eq!(log2_ceil(u128::MAX), 128);
    }
}
