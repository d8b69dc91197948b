//! Numbers and sizes as fio writes them.

/// What fio holds a number of jobs or of blocks in.
const NUMBER_MAX: u64 = i32::MAX as u64;

pub(super) const NUMBER: &str = "a number from 1 to 2147483647";
pub(super) const PERCENT: &str = "0 to 100";
pub(super) const FLAG: &str = "0 or 1";
pub(super) const SIZE: &str = "one size for reads and writes, a multiple of 512 up to 4m such as 4k; ki and kib are other sizes by other settings of fio";

/// A block of the model at most.
const BLOCK_BYTES_MAX: u64 = 4 << 20;
/// What a block is a multiple of: a disk's sector.
const SECTOR_BYTES: u64 = 512;

/// A number of at least one.
pub(super) fn number(text: &str) -> Option<u32> {
    let number = decimal(text).filter(|number| (1..=NUMBER_MAX).contains(number))?;
    u32::try_from(number).ok()
}

/// A share of 100.
pub(super) fn percent(text: &str) -> Option<u32> {
    decimal(text).and_then(|number| u32::try_from(number).ok()).filter(|percent| *percent <= 100)
}

/// Yes or no.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Bytes of a block. Where reads, writes and trims have sizes of their own, behind commas, they must be the same.
pub(super) fn block(text: &str) -> Option<u64> {
    let mut sizes = text.split(',').map(size);
    let first = sizes.next()??;
    let is_block = first % SECTOR_BYTES == 0 && (SECTOR_BYTES..=BLOCK_BYTES_MAX).contains(&first);
    (is_block && sizes.all(|size| size == Some(first))).then_some(first)
}

/// Each suffix is so many powers of 1024, which is what fio has it mean unless it is told otherwise.
fn size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        _ => return None,
    };
    decimal(digits)?.checked_mul(1 << shift)
}

/// Digits and nothing else.
fn decimal(text: &str) -> Option<u64> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        let good = ["512", "4k", "4K", "4kb", "1m", "4MB", "4096b", "4k,4k", "4k,4096,4kb"];
        let blocks = [512, 4096, 4096, 4096, 1 << 20, 4 << 20, 4096, 4096, 4096].map(Some);
        assert_eq!(good.map(block), blocks);
        for text in
            ["", "k", "0", "4ki", "4kib", "1g", "5m", "511", "4k,8k", "4k,", ",4k", "4k-8k", "+4k", "0x1000"]
        {
            assert_eq!(block(text), None, "{text}");
        }
        assert_eq!(block(&"9".repeat(400)), None);
        assert_eq!(block("18446744073709551615m"), None);
    }

    #[test]
    fn numbers_are_digits() {
        assert_eq!(["1", "32", "2147483647"].map(number), [1, 32, i32::MAX as u32].map(Some));
        assert_eq!(
            ["", "0", "-1", "+1", "2147483648", "1k", " 1", "99999999999999999999"].map(number),
            [None; 8]
        );
        assert_eq!(["0", "70", "100", "101", ""].map(percent), [Some(0), Some(70), Some(100), None, None]);
        assert_eq!(["0", "1", "2", ""].map(flag), [Some(false), Some(true), None, None]);
    }
}
