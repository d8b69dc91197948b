//! A range of physical addresses.

use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr};

/// Bytes of the smallest page, and of the finest step of an MTRR.
pub const PAGE_BYTES: u64 = 4096;

/// A range of physical addresses that holds at least one byte.
///
/// It is kept as first and last address, like the lines of `/proc/iomem`: an exclusive end would not
/// fit 64 bits for a range that reaches the top of the address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysRange {
    base: u64,
    last: u64,
}

/// Text that is not a range of physical addresses, or a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeError {
    /// Neither `BASE-LAST` nor `BASE+SIZE`.
    #[error("`{0}` is not a range; expected BASE-LAST in hexadecimal as in /proc/iomem, or BASE+SIZE")]
    NotARange(String),
    /// The last address is below the first, or beyond 64 bits.
    #[error("range `{0}` is empty, ends before it begins, or ends beyond 64 bits")]
    Bounds(String),
}

impl PhysRange {
    /// The range from `base` to `last`, both included; `None` if `last` is below `base`.
    pub fn from_first_to_last(base: u64, last: u64) -> Option<Self> {
        (base <= last).then_some(Self { base, last })
    }

    /// The range of `size_bytes` bytes at `base`; `None` if it is empty or ends beyond 64 bits.
    pub fn from_base_and_size(base: u64, size_bytes: u64) -> Option<Self> {
        let last = base.checked_add(size_bytes.checked_sub(1)?)?;
        Some(Self { base, last })
    }

    /// First address.
    pub fn base(self) -> u64 {
        self.base
    }

    /// Last address, included.
    pub fn last(self) -> u64 {
        self.last
    }

    /// First address after the range: 65 bits wide at most.
    pub fn end(self) -> u128 {
        u128::from(self.last) + 1
    }

    /// Length in bytes.
    pub fn size_bytes(self) -> u128 {
        self.end() - u128::from(self.base)
    }

    /// Whether both ranges have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.base <= other.last && other.base <= self.last
    }

    /// Whether every address of `other` is in this range.
    pub fn contains(self, other: Self) -> bool {
        self.base <= other.base && other.last <= self.last
    }

    /// The addresses that both ranges have.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::from_first_to_last(self.base.max(other.base), self.last.min(other.last))
    }

    /// Whether both ends lie on 4 KiB boundaries.
    pub fn is_page_aligned(self) -> bool {
        self.base % PAGE_BYTES == 0 && self.last % PAGE_BYTES == PAGE_BYTES - 1
    }

    /// Whether it is a power of two long and aligned to its length, as an MTRR must be.
    pub fn is_block(self) -> bool {
        self.is_page_aligned()
            && self.size_bytes().is_power_of_two()
            && u128::from(self.base) % self.size_bytes() == 0
    }
}

/// Splits `range` at every one of `cuts` that falls inside, a cut being the first address of a part.
pub(crate) fn split_at(range: PhysRange, cuts: impl IntoIterator<Item = u128>) -> Vec<PhysRange> {
    let inside = |cut: &u64| *cut > range.base && *cut <= range.last;
    let mut starts: Vec<u64> =
        cuts.into_iter().filter_map(|cut| u64::try_from(cut).ok()).filter(inside).collect();
    starts.push(range.base);
    starts.sort_unstable();
    starts.dedup();
    let lasts = starts.iter().skip(1).map(|next| next - 1).chain([range.last]);
    starts.iter().zip(lasts).map(|(&base, last)| PhysRange { base, last }).collect()
}

/// A number the way the kernel's `memparse` reads it, and the text behind it.
///
/// `0x` makes it hexadecimal and a leading `0` octal; K, M, G, T, P or E multiplies by 1024 and up.
/// `None` without a digit, or where 64 bits do not hold it (the kernel would wrap around).
pub fn parse_size(text: &str) -> Option<(u64, &str)> {
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, text.get(2..)?),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let digits_end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(digits_end);
    let number = u64::from_str_radix(digits, radix).ok()?;
    let Some(shift) = rest.chars().next().and_then(suffix_shift) else {
        return Some((number, rest));
    };
    Some((number.checked_mul(1 << shift)?, rest.get(1..)?))
}

/// The bits by which a suffix such as `K` or `M` shifts a number.
fn suffix_shift(suffix: char) -> Option<u32> {
    let place = "KMGTPE".find(suffix.to_ascii_uppercase())?;
    u32::try_from(place).ok().map(|place| 10 * (place + 1))
}

impl FromStr for PhysRange {
    type Err = RangeError;

    /// Accepts `BASE-LAST`, hexadecimal with or without `0x` and both included, so that a line of
    /// `/proc/iomem` can be pasted; or `BASE+SIZE`, numbers as in [`parse_size`]: `0x10000000+80M`.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let shown = || text.chars().take(60).collect::<String>();
        let numbers = from_first_and_last(text).or_else(|| from_base_plus_size(text));
        numbers.ok_or_else(|| RangeError::NotARange(shown()))?.ok_or_else(|| RangeError::Bounds(shown()))
    }
}

/// Parses `FIRST-LAST`. `None` if the text has another form, `Some(None)` if the last address is below the first.
fn from_first_and_last(text: &str) -> Option<Option<PhysRange>> {
    let (base, last) = text.split_once('-')?;
    Some(PhysRange::from_first_to_last(parse_hex(base.trim())?, parse_hex(last.trim())?))
}

/// Parses `BASE+SIZE`. `None` if the text has another form, `Some(None)` if the range is empty or ends beyond 2^64.
fn from_base_plus_size(text: &str) -> Option<Option<PhysRange>> {
    let (base, size) = text.split_once('+')?;
    let (base, "") = parse_size(base.trim())? else { return None };
    let (size, "") = parse_size(size.trim())? else { return None };
    Some(PhysRange::from_base_and_size(base, size))
}

/// Hexadecimal digits with or without `0x`, and nothing else (`from_str_radix` would take a sign).
pub fn parse_hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

impl fmt::Display for PhysRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}-{:#010x}", self.base, self.last)
    }
}

impl fmt::Debug for PhysRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The schema of what it serialises as.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for PhysRange {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl Serialize for PhysRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A length in the largest binary unit that leaves a whole number: `80 MiB`.
pub fn describe_bytes(bytes: u128) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes;
    let mut unit = 0;
    while unit + 1 < units.len() && value > 0 && value % 1024 == 0 {
        value /= 1024;
        unit += 1;
    }
    format!("{value} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(u64, u64)>) {
        let range = text.parse::<PhysRange>().ok().map(|r| (r.base(), r.last()));
        assert_eq!(range, expect, "{text}");
    }

    #[test]
    fn ranges() {
        check("0x10000000-0x14ffffff", Some((0x1000_0000, 0x14ff_ffff)));
        check("00100000-7ffcffff", Some((0x10_0000, 0x7ffc_ffff)));
        check("0x10000000+80M", Some((0x1000_0000, 0x14ff_ffff)));
        check("4G+4K", Some((1 << 32, (1 << 32) + 4095)));
        check("0-ffffffffffffffff", Some((0, u64::MAX)));
        check("0xffffffffffffffff+1", Some((u64::MAX, u64::MAX)));
        check("0xffffffffffffffff+2", None);
        check("2-1", None);
        check("1+0", None);
        check("-", None);
        check("+", None);
        check("10000000", None);
        check("0x1-+2", None);
        check("ffffffffffffffff0-1", None);
        check("16E+1", None);
    }

    #[test]
    fn numbers_as_the_kernel_reads_them() {
        assert_eq!(parse_size("64M$0x1"), Some((64 << 20, "$0x1")));
        assert_eq!(parse_size("0x10g"), Some((16 << 30, "")));
        assert_eq!(parse_size("010"), Some((8, "")));
        assert_eq!(parse_size("0"), Some((0, "")));
        assert_eq!(parse_size("0x"), Some((0, "x")));
        assert_eq!(parse_size("K"), None);
        assert_eq!(parse_size("18446744073709551616"), None);
        assert_eq!(parse_size("16384P"), None);
        assert_eq!(parse_size("1é"), Some((1, "é")));
    }

    #[test]
    fn the_top_of_the_address_space() {
        let all = PhysRange::from_first_to_last(0, u64::MAX).unwrap();
        assert_eq!(all.size_bytes(), 1 << 64);
        assert!(all.is_block());
        assert_eq!(split_at(all, [0, 4096, 1 << 64]).len(), 2);
    }

    #[test]
    fn blocks() {
        let block = |base, size| PhysRange::from_base_and_size(base, size).unwrap().is_block();
        assert!(block(0x1000_0000, 64 << 20));
        assert!(!block(0x1000_0000, 80 << 20));
        assert!(!block(0x0100_0000, 64 << 20));
        assert!(!block(0x800, 0x800));
    }

    #[test]
    fn lengths() {
        assert_eq!(describe_bytes(80 << 20), "80 MiB");
        assert_eq!(describe_bytes(1 << 64), "16 EiB");
        assert_eq!(describe_bytes(0), "0 bytes");
        assert_eq!(describe_bytes(1025), "1025 bytes");
    }
}
