//! Messages of a log that a forum or a chat joined on one line, because it takes line breaks for blanks.

use std::iter::once;

/// Messages of one log are no further apart: 30 days.
const SECONDS_APART_MAX: f64 = 30.0 * 86_400.0;
/// Bytes of `[%5lu.%06lu]` and of `[Sat Nov 21 01:22:03 2026]`, with room for uptimes of years.
const BRACKET_BYTES_MAX: usize = 28;
/// Bytes of `Nov 21 01:22:03 HOST` before ` kernel: `.
const HEAD_BYTES_MAX: usize = 96;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time with which a message begins.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Time {
    /// Seconds since boot, with microseconds: `[    1.234567] `.
    Uptime(f64),
    /// A date, of `dmesg -T`: `[Sat Nov 21 01:22:03 2026] `.
    Date,
    /// Syslog's date and host: `Nov 21 01:22:03 HOST kernel: `.
    Syslog,
}

impl Time {
    /// Whether a message with this time may follow one with that. Times in a message's own text are earlier or have another form.
    fn follows(self, last: Self) -> bool {
        match (last, self) {
            (Self::Uptime(last), Self::Uptime(next)) => (0.0..=SECONDS_APART_MAX).contains(&(next - last)),
            (last, next) => last == next,
        }
    }
}

/// The messages that a line holds; the line itself if it holds no more than one.
pub(super) fn messages(line: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = Vec::new();
    let mut last: Option<Time> = None;
    for (at, time) in times(line) {
        match last {
            // Whatever stands before the first time belongs to it.
            None => last = Some(time),
            Some(before) if time.follows(before) => {
                starts.push(at);
                last = Some(time);
            }
            Some(_) => {}
        }
    }
    let ends = starts.iter().copied().chain(once(line.len()));
    let pieces =
        once(0).chain(starts.iter().copied()).zip(ends).filter_map(|(start, end)| line.get(start..end));
    pieces.map(|piece| if starts.is_empty() { piece } else { piece.trim_end() }).collect()
}

/// The times in a line with the bytes at which they begin, in order.
fn times(line: &str) -> Vec<(usize, Time)> {
    let mut found: Vec<(usize, Time)> = Vec::new();
    // The end of the last `HOST kernel: `: a bracket right behind it is the same message's.
    let mut head_end = None;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'k' => {
                if let Some(start) = syslog_head(line, at) {
                    found.push((start, Time::Syslog));
                    head_end = Some(at + "kernel: ".len());
                }
            }
            b'[' if head_end != Some(at) => found.extend(bracket(line, at).map(|time| (at, time))),
            _ => {}
        }
    }
    found
}

/// Where a syslog line begins whose `kernel: ` stands at this byte.
fn syslog_head(line: &str, at: usize) -> Option<usize> {
    line.get(at..)?.starts_with("kernel: ").then_some(())?;
    let from = (at.saturating_sub(HEAD_BYTES_MAX)..=at).find(|from| line.is_char_boundary(*from))?;
    let before = line.get(from..at)?;
    let mut words = before.rsplit(' ').filter(|word| !word.is_empty());
    let (_host, time, day, month) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let is_time = time.len() >= 8
        && time.bytes().enumerate().all(|(at, byte)| match at {
            2 | 5 => byte == b':',
            8 => byte == b'.',
            _ => byte.is_ascii_digit(),
        });
    let is_day = day.len() <= 2 && day.bytes().all(|byte| byte.is_ascii_digit());
    (is_time && is_day && MONTHS.contains(&month)).then_some(())?;
    // `rsplit` gives parts of the line itself.
    let start = from + before.rfind(month)?;
    is_at_word(line, start).then_some(start)
}

/// The time in the bracket that opens at this byte.
fn bracket(line: &str, at: usize) -> Option<Time> {
    is_at_word(line, at).then_some(())?;
    let end = line.bytes().skip(at).take(BRACKET_BYTES_MAX).position(|byte| byte == b']')? + at;
    // What follows is a message, or the caller that some kernels print.
    line.get(end + 1..)?.starts_with([' ', '[']).then_some(())?;
    let inner = line.get(at + 1..end)?;
    uptime(inner).map(Time::Uptime).or_else(|| is_date(inner).then_some(Time::Date))
}

/// `    1.234567`: seconds, and microseconds in six digits.
fn uptime(inner: &str) -> Option<f64> {
    let number = inner.trim_start();
    let (seconds, fraction) = number.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(seconds) && is_number(fraction) && fraction.len() == 6).then(|| number.parse().ok()).flatten()
}

/// `Sat Nov 21 01:22:03 2026`.
fn is_date(inner: &str) -> bool {
    let mut words = inner.split_whitespace().skip(1);
    let month = words.next().is_some_and(|month| MONTHS.contains(&month));
    let year = words.nth(2).is_some_and(|year| year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()));
    month && year && inner.matches(':').count() == 2
}

/// Whether a word begins at this byte.
fn is_at_word(line: &str, at: usize) -> bool {
    line.get(..at).is_some_and(|before| before.is_empty() || before.ends_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_messages() {
        for (line, expect) in [
            ("[    1.234567] a: b [    1.235000] c: d", vec!["[    1.234567] a: b", "[    1.235000] c: d"]),
            ("It says: [ 1.000000] a [ 1.000000] b", vec!["It says: [ 1.000000] a", "[ 1.000000] b"]),
            (
                "[    1.000000][    T1] a [    2.000000][    T1] b",
                vec!["[    1.000000][    T1] a", "[    2.000000][    T1] b"],
            ),
            (
                "[Sat Nov 21 01:22:03 2026] a [Sat Nov 21 01:22:04 2026] b",
                vec!["[Sat Nov 21 01:22:03 2026] a", "[Sat Nov 21 01:22:04 2026] b"],
            ),
            (
                "Nov 21 01:22:03 host kernel: [    1.000000] a Nov 21 01:22:03 host kernel: [    2.000000] b",
                vec![
                    "Nov 21 01:22:03 host kernel: [    1.000000] a",
                    "Nov 21 01:22:03 host kernel: [    2.000000] b",
                ],
            ),
            (
                "Nov  1 01:22:03 host kernel: a Nov  1 01:22:04 host kernel: b",
                vec!["Nov  1 01:22:03 host kernel: a", "Nov  1 01:22:04 host kernel: b"],
            ),
        ] {
            assert_eq!(messages(line), expect, "{line}");
        }
    }

    #[test]
    fn lines_of_one_message() {
        for line in [
            "",
            "[    1.234567] a: b ",
            // A time in a message's own text is earlier, or of another form.
            "[   12.234567] pstore: [    1.000000] a message of the last boot",
            "[    1.000000] next event [99999999.000000] in years",
            "[    1.234567] took [    2.5] seconds",
            "[    1.234567] x[    2.500000] y",
            "[    1.234567] [drm] Initialized [mem 0x0-0x1] DMAR: [DMA Read] fault addr 0",
            "[    1.234567] the end [    2.500000]",
            "[    1.234567] on [Sat Nov 21 01:22:04 2026] b",
            "[2023-11-21 01:22:03] [    0.500000] iommu: x",
            "Nov 21 01:22:03 host kernel: [    0.500000] the kernel: b",
            "Nov 21 01:22:03 host kernel: \u{e9} kernel: b",
        ] {
            assert_eq!(messages(line), [line]);
        }
    }
}
