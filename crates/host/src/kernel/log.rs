//! The kernel's log: records out of every form in which a capture may hold them.

use crate::{Citation, Text};

/// A prefix is looked for in this many bytes only: host names are short, messages may be long.
const PREFIX_BYTES_MAX: usize = 200;

/// One record of the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'t> {
    /// Line in its file, counted from 1.
    pub line: u32,
    /// Seconds since boot, where the record says.
    pub seconds: Option<f64>,
    /// The message, without time, level, host name and caller.
    pub message: &'t str,
}

/// The records of the last boot that a text holds.
///
/// Understood are the outputs of `dmesg` with its options (`-T`, `-H`, `-r`, `-x`, `--time-format iso`),
/// `journalctl -k` in its short forms, syslog files, raw records of /dev/kmsg, and bare messages.
#[derive(Debug, Clone)]
pub struct Log<'t> {
    text: &'t Text,
    records: Vec<Record<'t>>,
    complete_from_boot: bool,
    covers_boot: bool,
    /// The last line of earlier boots.
    dropped: Option<u32>,
}

/// How messages of parts of the kernel begin that every boot prints and nobody looks for. A log that somebody filtered lacks
/// most of them.
const MILESTONES: [&str; 12] = [
    "Memory: ",
    "Calibrating delay loop",
    "NET: Registered ",
    "clocksource: ",
    "SCSI subsystem initialized",
    "usbcore: registered new ",
    "Mount-cache hash table",
    "Dentry cache hash table",
    "Kernel command line: ",
    "rcu: ",
    "random: ",
    "Console: ",
];
/// As many of them as a whole log has at least.
const MILESTONES_MIN: usize = 4;

/// Lines within which a boot's log has the kernel's banner: POWER and Arm print a few before it.
const BANNER_LINES_MAX: usize = 24;

/// Messages that a boot prints once.
const ONCE_A_BOOT: [&str; 5] = [
    "iommu: Default domain type: ",
    "iommu: DMA domain TLB invalidation policy: ",
    "DMAR: IOMMU enabled",
    "Kernel command line: ",
    "Command line: ",
];

impl Log<'_> {
    /// The message in one line of a log; `None` if the line is empty.
    pub fn message_of(line: &str) -> Option<&str> {
        let line = line.trim_end_matches('\r');
        let (_, message) = kmsg(line).unwrap_or_else(|| printed(line));
        (!message.is_empty()).then_some(message)
    }

    /// Whether a text is what `dmesg -t` prints of a whole boot: lines without times, the kernel's banner among the first.
    pub fn is_boot_without_times(text: &str) -> bool {
        let has_banner = text.lines().take(BANNER_LINES_MAX).any(|line| line.starts_with("Linux version "));
        let is_seen = |start: &&&str| text.lines().any(|line| line.starts_with(**start));
        has_banner && MILESTONES.iter().filter(is_seen).count() >= MILESTONES_MIN
    }

    /// Seconds since boot in one line of a log.
    pub fn seconds_of(line: &str) -> Option<f64> {
        kmsg(line).unwrap_or_else(|| printed(line)).0
    }

    /// The name of the host in a line of syslog or of the journal: `Nov 21 01:22:03 HOST kernel: ...`.
    pub fn host_of(line: &str) -> Option<&str> {
        let rest = after_kernel_word(line)?;
        let head = line.get(..line.len() - rest.len())?.strip_suffix(" kernel: ")?;
        head.rsplit(' ').next()
    }
}

/// How the messages begin that a kernel prints when its own drivers are initialised and user space starts
/// (init/main.c, `kernel_init`; before 3.x `free_initmem` of each architecture).
const USER_SPACE_STARTS: [&str; 4] =
    ["Freeing unused kernel ", "Freeing init memory", "Run /", "systemd[1]: "];

impl<'t> Log<'t> {
    /// Reads a log. Of a text that spans several boots only the last is kept: the facts of an earlier one
    /// may no longer hold.
    pub fn parse(text: &'t Text) -> Self {
        let mut records = all_records(text);
        let mut dropped = None;
        let mut drop_before = |records: &mut Vec<Record<'_>>, first: usize| {
            dropped = records.get(first.wrapping_sub(1)).map(|record| record.line).or(dropped);
            records.drain(..first);
        };
        let complete_from_boot = match last_boot(&records) {
            Some(first) => {
                drop_before(&mut records, first);
                true
            }
            None => false,
        };
        // Excerpts of two boots have no banner between them.
        if let Some(first) = second_boot(&records) {
            drop_before(&mut records, first);
        }
        let starts_user_space =
            |record: &Record<'_>| USER_SPACE_STARTS.iter().any(|start| record.message.starts_with(start));
        let is_seen = |start: &&&str| records.iter().any(|record| record.message.starts_with(**start));
        let is_whole = || MILESTONES.iter().filter(is_seen).count() >= MILESTONES_MIN;
        let covers_boot = complete_from_boot
            && records.iter().any(starts_user_space)
            && is_whole()
            && !records.iter().any(|record| is_elision(record.message));
        Self { text, records, complete_from_boot, covers_boot, dropped }
    }

    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = &Record<'t>> {
        self.records.iter()
    }

    /// Whether the log reaches back to the start of the boot. If not, the ring buffer has wrapped.
    pub fn complete_from_boot(&self) -> bool {
        self.complete_from_boot
    }

    /// Whether the log reaches from the start of the boot to the start of user space and nobody cut lines out of it.
    /// If not, the absence of a boot message proves nothing.
    pub fn covers_boot(&self) -> bool {
        self.covers_boot
    }

    /// The last line of earlier boots, which are not among the records.
    pub fn last_line_of_earlier_boots(&self) -> Option<u32> {
        self.dropped
    }

    /// Cites a record.
    pub fn cite(&self, record: &Record<'_>) -> Citation {
        self.text.cite(record.line, record.message)
    }

    /// The text that the records were read from.
    pub fn text(&self) -> &'t Text {
        self.text
    }
}

/// The records of a log of any number of boots.
fn all_records(text: &Text) -> Vec<Record<'_>> {
    let mut raw = false;
    let mut records = Vec::new();
    for (line, words) in text.lines() {
        let words = words.trim_end_matches('\r');
        // A raw record's dictionary follows on lines that begin with a space.
        if raw && words.starts_with(' ') {
            continue;
        }
        let record = kmsg(words);
        raw = record.is_some();
        let (seconds, message) = record.unwrap_or_else(|| printed(words));
        if !message.is_empty() {
            records.push(Record { line, seconds, message });
        }
    }
    records
}

/// Index of the first record of the last boot; `None` if the log does not have its start.
///
/// `Linux version` is not always first: POWER and Arm print a few records before it, all at second 0.
fn last_boot(records: &[Record<'_>]) -> Option<usize> {
    let is_banner = |record: &Record<'_>| record.message.starts_with("Linux version ");
    let banner = records.iter().rposition(is_banner)?;
    let Some(previous) = records.get(..banner)?.iter().rposition(is_banner) else { return Some(0) };
    let early = records.get(previous + 1..banner)?;
    let before = early.iter().rev().take_while(|record| record.seconds == Some(0.0)).count();
    Some(banner - before)
}

/// Whether a line stands where somebody cut others out: `...`, `[...]`, `<snip>`, `--- cut ---`.
fn is_elision(message: &str) -> bool {
    let word = message.trim_matches(|c: char| !c.is_alphanumeric());
    let is_dots = word.is_empty() && (message.contains("..") || message.contains('\u{2026}'));
    is_dots
        || ["snip", "snipped", "cut", "omitted", "truncated"].iter().any(|cut| word.eq_ignore_ascii_case(cut))
}

/// Index at which a second boot begins that has no banner: time runs back, and what a boot prints once was printed before.
/// Time alone proves nothing: people paste the outputs of several filters one after another.
fn second_boot(records: &[Record<'_>]) -> Option<usize> {
    // Between the first and the last of such messages a boot ends.
    let spans = ONCE_A_BOOT.iter().filter_map(|start| {
        let is_one = |record: &Record<'_>| record.message.starts_with(start);
        Some((records.iter().position(is_one)?, records.iter().rposition(is_one)?))
    });
    let spans: Vec<(usize, usize)> = spans.collect();
    let mut last: Option<f64> = None;
    let mut found = None;
    for (at, record) in records.iter().enumerate() {
        let Some(seconds) = record.seconds else { continue };
        let runs_back = last.is_some_and(|last| seconds + 1e-3 < last);
        last = Some(seconds);
        if runs_back && spans.iter().any(|(first, last)| *first < at && at <= *last) {
            found = Some(at);
        }
    }
    found
}

/// A record of /dev/kmsg: `level,sequence,microseconds,flags[,...];message`.
fn kmsg(words: &str) -> Option<(Option<f64>, &str)> {
    if !words.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (head, message) = words.split_once(';')?;
    let mut fields = head.split(',');
    let _level: u32 = fields.next()?.parse().ok()?;
    let _sequence: u64 = fields.next()?.parse().ok()?;
    let microseconds: u64 = fields.next()?.parse().ok()?;
    fields.next()?;
    Some((Some(microseconds as f64 / 1e6), message))
}

/// A record as a program prints it.
fn printed(words: &str) -> (Option<f64>, &str) {
    let words = without_level(words.trim_start_matches('\u{feff}'));
    if let Some((seconds, rest)) = bracketed_time(words) {
        // journalctl -o short-monotonic puts host and "kernel:" after the time.
        let rest = after_kernel_word(rest).unwrap_or(rest);
        return (seconds, without_caller(rest));
    }
    let rest = after_kernel_word(words).or_else(|| after_iso_time(words)).unwrap_or(words);
    match bracketed_time(rest).or_else(|| unopened_time(rest)) {
        Some((seconds, message)) => (seconds, without_caller(message)),
        None => embedded_time(rest).unwrap_or((None, without_processor(rest))),
    }
}

/// Drops `    4.795291] `, a time whose bracket a copy lost, and `.017332] `, of which the seconds went with it.
fn unopened_time(words: &str) -> Option<(Option<f64>, &str)> {
    let (time, rest) = words.split_once("] ")?;
    if time.strip_prefix('.').is_some_and(is_microseconds) {
        return Some((None, rest));
    }
    is_kernel_time(time).then(|| (time.trim_start().parse().ok(), rest))
}

/// Whether it is a time of the kernel: seconds, and microseconds in six digits.
fn is_kernel_time(inner: &str) -> bool {
    let parts = inner.trim_start().split_once('.');
    parts.is_some_and(|(seconds, fraction)| {
        !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit()) && is_microseconds(fraction)
    })
}

/// Whether it is six digits.
fn is_microseconds(fraction: &str) -> bool {
    fraction.len() == 6 && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// The time of the kernel behind whatever a console, a log server or a line counter put before it:
/// `Tue Nov 21 01:22:03 2023 kern.info kernel: [    0.500000] `, `12:[    0.500000] `.
fn embedded_time(words: &str) -> Option<(Option<f64>, &str)> {
    for (at, _) in words.match_indices('[').take_while(|(at, _)| *at < PREFIX_BYTES_MAX) {
        let rest = words.get(at..)?;
        let inner = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(inner, _)| inner);
        if inner.is_some_and(is_kernel_time) {
            return bracketed_time(rest).map(|(seconds, message)| (seconds, without_caller(message)));
        }
    }
    None
}

/// Drops `<6>` (dmesg -r) or `kern  :info  : ` (dmesg -x).
fn without_level(words: &str) -> &str {
    if let Some((level, rest)) = words.strip_prefix('<').and_then(|inner| inner.split_once('>')) {
        let is_level = !level.is_empty() && level.len() <= 3 && level.bytes().all(|b| b.is_ascii_digit());
        return if is_level { rest } else { words };
    }
    let decoded = words.strip_prefix("kern").and_then(|rest| rest.trim_start().strip_prefix(':'));
    match decoded.and_then(|rest| rest.split_once(':')) {
        Some((level, rest)) if level.trim().bytes().all(|b| b.is_ascii_lowercase()) => rest.trim_start(),
        _ => words,
    }
}

/// Whether it is a time of `dmesg -H`: `Nov21 01:22` once a minute, else `+0.000012` since the message before.
fn is_human_time(inner: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let since = inner.strip_prefix('+').and_then(|since| since.split_once('.'));
    let minute = inner.split_once(' ').and_then(|(day, time)| Some((day, time.split_once(':')?)));
    since.is_some_and(|(seconds, fraction)| is_digits(seconds) && is_digits(fraction))
        || minute.is_some_and(|(day, (hour, minute))| {
            let (month, day) = day.split_at_checked(3).unwrap_or_default();
            month.bytes().all(|byte| byte.is_ascii_alphabetic())
                && [day, hour, minute].into_iter().all(is_digits)
        })
}

/// Drops `[   12.345678] ` (with the seconds), `[Sat Nov 21 01:22:03 2026] ` or a time of `dmesg -H`; leaves other brackets.
fn bracketed_time(words: &str) -> Option<(Option<f64>, &str)> {
    let (inner, rest) = words.strip_prefix('[')?.split_once(']')?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let inner = inner.trim();
    if inner.starts_with(|c: char| c.is_ascii_digit()) && inner.contains('.') {
        // The firmware of POWER writes nanoseconds, and a level behind them: `[ 1005.489389250,3] `.
        let inner = inner
            .strip_suffix(|c: char| c.is_ascii_digit())
            .and_then(|time| time.strip_suffix(','))
            .unwrap_or(inner);
        return inner.parse().ok().map(|seconds: f64| (Some(seconds), rest));
    }
    let year = inner.rsplit(' ').next().unwrap_or_default();
    let is_date =
        year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()) && inner.matches(':').count() == 2;
    // Consoles of virtual machines are logged with `[2025-05-25 19:05:04]`.
    let is_iso = inner.len() == 19
        && inner.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b' ' || byte == b'T',
            13 | 16 => byte == b':',
            _ => byte.is_ascii_digit(),
        });
    if !(is_date || is_iso || is_human_time(inner)) {
        return None;
    }
    // A console's time may stand before the kernel's own.
    Some(embedded_time(rest).filter(|_| rest.starts_with('[')).unwrap_or((None, rest)))
}

/// Drops `000: `, the processor that real-time kernels of 5.x print before a message.
fn without_processor(message: &str) -> &str {
    let number = message.split_once(": ").filter(|(number, _)| number.len() == 3);
    number
        .filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(message, |(_, rest)| rest)
}

/// Drops `[    T0] ` or `[   C12] `, the caller that some kernels print after the time.
fn without_caller(message: &str) -> &str {
    let Some((inner, rest)) = message.strip_prefix('[').and_then(|inner| inner.split_once(']')) else {
        return message;
    };
    let number = inner.trim_start().strip_prefix(['T', 'C']);
    match number {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            rest.strip_prefix(' ').unwrap_or(rest)
        }
        _ => message,
    }
}

/// What follows `... kernel: ` if the words before it are a time and a host name.
fn after_kernel_word(words: &str) -> Option<&str> {
    let head_end = words.char_indices().map(|(at, _)| at).take_while(|at| *at < PREFIX_BYTES_MAX).last()?;
    // journalctl -o cat with a prefix of its own, and excerpts whose time and host were cut off.
    if let Some(rest) = words.strip_prefix("kernel: ") {
        return Some(rest);
    }
    let at = words.get(..=head_end).unwrap_or(words.get(..head_end)?).find(" kernel: ")?;
    let head = words.get(..at)?;
    let words_before = head.split_whitespace().count();
    // "host", "2026-11-21T01:22:03+0100 host" or "Nov 21 01:22:03 host".
    let is_prefix = match words_before {
        // The kernel itself says "Booting kernel: `x' invalid for parameter `y'".
        1 => !head.contains(':') && head != "Booting",
        2..=5 => head.contains(':') && !head.split_whitespace().any(|word| word.ends_with(':')),
        _ => false,
    };
    if is_prefix { words.get(at + 9..) } else { None }
}

/// What follows `2026-11-21T01:22:03,123456+00:00 ` (dmesg --time-format iso).
fn after_iso_time(words: &str) -> Option<&str> {
    let (time, rest) = words.split_once(' ')?;
    let bytes = time.as_bytes();
    let is_iso = bytes.len() >= 19 && bytes.get(4) == Some(&b'-') && bytes.get(10) == Some(&b'T');
    is_iso.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(body: &str, expect: &[(u32, Option<f64>, &str)]) {
        let text = Text::new("dmesg", body);
        let got: Vec<_> = Log::parse(&text).records().map(|r| (r.line, r.seconds, r.message)).collect();
        assert_eq!(got, expect, "{body}");
    }

    #[test]
    fn every_form() {
        check("[    0.871959] iommu: x", &[(1, Some(0.871959), "iommu: x")]);
        check("[Sat Nov 21 01:22:03 2026] iommu: x", &[(1, None, "iommu: x")]);
        check("<6>[    0.50] iommu: x\r\n", &[(1, Some(0.5), "iommu: x")]);
        check("<6>iommu: x", &[(1, None, "iommu: x")]);
        check("kern  :info  : [    0.500000] iommu: x", &[(1, Some(0.5), "iommu: x")]);
        check("Nov 21 01:22:03 host kernel: iommu: x", &[(1, None, "iommu: x")]);
        check("kernel: [    0.500000] iommu: x", &[(1, Some(0.5), "iommu: x")]);
        let openwrt = "Tue Nov 21 01:22:03 2023 kern.info kernel: [    0.500000] iommu: x";
        check(openwrt, &[(1, Some(0.5), "iommu: x")]);
        check("12:[    0.500000] iommu: x", &[(1, Some(0.5), "iommu: x")]);
        check("[2023-11-21 01:22:03] [    0.500000] iommu: x", &[(1, Some(0.5), "iommu: x")]);
        check("[2025-05-25 19:05:04] iommu: x", &[(1, None, "iommu: x")]);
        check("Nov 21 01:22:03 host kernel: [    0.500000] iommu: x", &[(1, Some(0.5), "iommu: x")]);
        check("2026-11-21T01:22:03+0100 host kernel: iommu: x", &[(1, None, "iommu: x")]);
        check("[    0.500000] host kernel: iommu: x", &[(1, Some(0.5), "iommu: x")]);
        check("2026-11-21T01:22:03,123456+00:00 iommu: x", &[(1, None, "iommu: x")]);
        check("[    0.500000][    T0] iommu: x", &[(1, Some(0.5), "iommu: x")]);
        check("[    0.500000][   C12] iommu: x", &[(1, Some(0.5), "iommu: x")]);
        check(
            "6,1234,567890,-;iommu: x\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:1f.0\n6,1235,600000,-;y",
            &[(1, Some(0.56789), "iommu: x"), (4, Some(0.6), "y")],
        );
        check("iommu: x\n\ny", &[(1, None, "iommu: x"), (3, None, "y")]);
    }

    #[test]
    fn brackets_and_words_of_messages_stay() {
        check("[Firmware Bug]: the BIOS", &[(1, None, "[Firmware Bug]: the BIOS")]);
        check("[mem 0x0-0x1] x", &[(1, None, "[mem 0x0-0x1] x")]);
        check("[    0.1] [drm] x", &[(1, Some(0.1), "[drm] x")]);
        check("[    0.1]   DMA      empty", &[(1, Some(0.1), "  DMA      empty")]);
        check("Booting the kernel: now", &[(1, None, "Booting the kernel: now")]);
        check("[    0.1] a: the kernel: b", &[(1, Some(0.1), "a: the kernel: b")]);
    }

    #[test]
    fn only_the_last_boot_is_kept() {
        let boots = "[    0.000000] Linux version 5.10.0\n[    9.0] old\n[    0.000000] ppc iommu: disabling ddw.\n[    0.000000] Linux version 6.1.0\n[    1.0] new";
        check(
            boots,
            &[
                (3, Some(0.0), "ppc iommu: disabling ddw."),
                (4, Some(0.0), "Linux version 6.1.0"),
                (5, Some(1.0), "new"),
            ],
        );
        let text = Text::new("dmesg", boots);
        assert!(Log::parse(&text).complete_from_boot());
        let text = Text::new("dmesg", "[  900.0] wrapped");
        assert!(!Log::parse(&text).complete_from_boot());
        let log = "[    0.5] iommu: Default domain type: Translated\n[    1.5] x\n\
                   [    0.5] iommu: Default domain type: Passthrough\n";
        check(log, &[(3, Some(0.5), "iommu: Default domain type: Passthrough")]);
        assert_eq!(Log::parse(&Text::new("dmesg", log)).last_line_of_earlier_boots(), Some(2));
        // The outputs of two filters, of one boot.
        check("[    1.5] x\n[    0.5] y\n", &[(1, Some(1.5), "x"), (2, Some(0.5), "y")]);
    }

    #[test]
    fn a_log_covers_the_boot_if_it_goes_from_the_banner_to_user_space_without_a_gap() {
        let covers = |body: &str| Log::parse(&Text::new("dmesg", body)).covers_boot();
        let milestones = "Memory: 1K\nConsole: colour\nrcu: x\nKernel command line: quiet";
        assert!(covers(&format!("Linux version 6.1.0\n{milestones}\nRun /init as init process")));
        assert!(covers(&format!(
            "Linux version 2.6.32\n{milestones}\nFreeing unused kernel memory: 1288k freed"
        )));
        assert!(!covers(&format!("Linux version 6.1.0\n{milestones}")));
        assert!(!covers(&format!("{milestones}\nRun /init as init process")));
        assert!(!covers("Linux version 6.1.0\nConsole: colour\nsystemd[1]: Welcome"), "a filter kept these");
        for gap in ["...", "[...]", "[    0.5] \u{2026}", "<snip>", "--- cut ---"] {
            let log = format!("Linux version 6.1.0\n{milestones}\n{gap}\nRun /init as init process");
            assert!(!covers(&log), "{gap}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(body in "(?s)[\\[\\]<>;:, .0-9a-zT\u{e9}\n-]{0,120}( kernel: )?.{0,40}") {
            let text = Text::new("dmesg", body);
            prop_assert!(Log::parse(&text).records().all(|r| !r.message.is_empty()));
        }
    }
}
