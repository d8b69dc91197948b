//! Today's date, which results carry.

use anyhow::bail;
use std::time::{SystemTime, UNIX_EPOCH};

/// Today's date in UTC, as YYYY-MM-DD.
pub(crate) fn today() -> anyhow::Result<String> {
    const DAY_SECONDS: u64 = 86_400;
    let Ok(since) = SystemTime::now().duration_since(UNIX_EPOCH) else { bail!("the clock is before 1970") };
    Ok(date(since.as_secs() / DAY_SECONDS))
}

/// The date in UTC of a time in microseconds since 1970.
#[cfg(feature = "fleet")]
pub(crate) fn of_microseconds(time: i64) -> String {
    const DAY_MICROSECONDS: u64 = 86_400_000_000;
    date(u64::try_from(time).unwrap_or(0) / DAY_MICROSECONDS)
}

/// The date `days` days after 1970-01-01, as YYYY-MM-DD. The calculation uses years from March to February, so a leap day is the last.
fn date(days: u64) -> String {
    const ERA_DAYS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + carry)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_since_1970_are_converted_to_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
