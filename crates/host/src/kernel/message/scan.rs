//! Cutting numbers and words out of a message.

use crate::Bdf;

/// What stands before and behind the first `marker`. Most texts lack it, which `contains` tells with a fifth of the work.
pub(crate) fn split<'t>(text: &'t str, marker: &str) -> Option<(&'t str, &'t str)> {
    if text.contains(marker) { text.split_once(marker) } else { None }
}

/// What follows the first `marker`.
pub(super) fn after<'t>(text: &'t str, marker: &str) -> Option<&'t str> {
    split(text, marker).map(|(_, rest)| rest)
}

/// What stands between the first `start` and the next `end`.
pub(super) fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    after(text, start)?.split_once(end).map(|(inner, _)| inner)
}

/// The hexadecimal number that the text begins with, with or without `0x`.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let length = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
    u64::from_str_radix(digits.get(..length)?, 16).ok()
}

/// The 64-bit word with all its digits that the text begins with, as the kernel dumps records: `0x0000002000000010`.
pub(super) fn raw_word(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next()?;
    let digits = word.strip_prefix("0x").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// The decimal number that the text begins with.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..length)?.parse().ok()
}

/// The decimal number that the text begins with, which may be negative.
pub(super) fn signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(digits) => decimal(digits).and_then(|number| i64::try_from(number).ok()).map(|number| -number),
        None => decimal(text).and_then(|number| i64::try_from(number).ok()),
    }
}

/// The hexadecimal number after `marker`.
pub(super) fn hex_after(text: &str, marker: &str) -> Option<u64> {
    hex(after(text, marker)?)
}

/// The decimal number after `marker`.
pub(super) fn decimal_after(text: &str, marker: &str) -> Option<u64> {
    decimal(after(text, marker)?)
}

/// A decimal number that fits 32 bits.
pub(super) fn small(text: &str) -> Option<u32> {
    u32::try_from(decimal(text)?).ok()
}

/// A hexadecimal number that fits 32 bits.
pub(super) fn small_hex(text: &str) -> Option<u32> {
    u32::try_from(hex(text)?).ok()
}

/// A PCI address that the text begins with.
pub(super) fn bdf(text: &str) -> Option<Bdf> {
    let length = text.bytes().take_while(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')).count();
    text.get(..length)?.trim_end_matches([':', '.']).parse().ok()
}

/// What the NVMe driver says of a drive, whose number it has in place of an address: `nvme nvme0: text`.
pub(super) fn of_drive(body: &str) -> Option<&str> {
    let (number, text) = body.strip_prefix("nvme nvme")?.split_once(": ")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

/// Kernel text kept as it is, without the line's padding.
pub(super) fn words(text: &str) -> String {
    text.trim().to_owned()
}
