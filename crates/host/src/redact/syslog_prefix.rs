//! The prefix that a syslog daemon or journalctl writes before a message: when, on which host, by which program.
//!
//! Sources: RFC 3164; RFC 5424; journalctl(1), `--output=`; rsyslog's and busybox's templates.

use super::pattern::Pattern;
use std::ops::Range;

/// A line's prefix. Ranges are in bytes of the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyslogPrefix {
    pub(super) host: Range<usize>,
    pub(super) program: Range<usize>,
    /// Where the message begins.
    pub(super) message: usize,
}

/// Names of months and days may be localised; busybox writes facility and level behind the host.
static WITH_DATE: Pattern = Pattern::new(|| {
    let name = r"[^\s\[\]<>:;,]{2,12}";
    let clock = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?";
    let date = r"[0-9]{4}-[0-9]{2}-[0-9]{2}";
    let short =
        format!(r"(?:{name} [ 0-9]?[0-9]|[ 0-9]?[0-9] {name})(?: [0-9]{{4}})? {clock}(?: [0-9]{{4}})?");
    let full = format!(r"(?:{name} )?{date} {clock}(?: [A-Z][A-Za-z0-9+-]{{0,9}}| [+-][0-9:]{{2,6}})?");
    let iso = format!(r"{date}T{clock}(?:Z|[+-][0-9:]{{2,6}})?");
    let time = format!(r"(?:{short}|{full}|{iso}|[0-9]{{10}}\.[0-9]{{1,9}})");
    format!(r"^(?:<[0-9]{{1,3}}>)?{time} ([^\s\[\]]+) (?:[a-z0-9]+\.[a-z]+ )?{PROGRAM}")
});

/// RFC 5424: version, time, host, program, process, kind of message.
static STRUCTURED: Pattern = Pattern::new(|| {
    r"^(?:<[0-9]{1,3}>)?1 [0-9]{4}-[0-9]{2}-[0-9]{2}T[^ ]+ ([^ ]+) ([^ ]+) [^ ]+ [^ ]+ ".to_owned()
});

/// A longer name with blanks is none.
const PROGRAM_CHARS_MAX: usize = 64;
/// Between the brackets of `-o short-delta`.
const DELTA_CHARS_MAX: usize = 20;
/// A program's name, which has blanks only before a process ID, and the colon behind it.
const PROGRAM: &str = r"([^\s:\[\]]+|[^:\[\]]{1,64})(?:\[[0-9]+\])?: ?";

impl SyslogPrefix {
    /// The prefix of a line; `None` if it has none. `host` is the name that earlier lines had: a line that looks like dmesg's has a prefix
    /// only if it is of this host, of the kernel, or has a process ID.
    pub(super) fn of(line: &str, host: Option<&str>) -> Option<Self> {
        let found = |pattern: &Pattern| {
            let [all, host, program] = pattern.groups(line)?;
            let prefix = Self { host: host?, program: program?, message: all?.end };
            let has_process = line.get(..prefix.message)?.trim_end().ends_with("]:");
            // A name with blanks is one only with a process ID.
            (has_process || !line.get(prefix.program.clone())?.contains(' ')).then_some(prefix)
        };
        // Most lines are those of dmesg, and no prefix: what they begin with and contain tells that sooner than a pattern.
        if may_have_date(line)
            && let Some(prefix) = found(&WITH_DATE).or_else(|| found(&STRUCTURED))
        {
            return Some(prefix);
        }
        let may_be_of_host = || host.is_some_and(|host| line.contains(host));
        if !line.contains("kernel") && !line.contains("]:") && !may_be_of_host() {
            return None;
        }
        let (prefix, has_process) = like_dmesg(line)?;
        let of_host = host.is_some_and(|host| line.get(prefix.host.clone()) == Some(host));
        // parse_args in kernel/params.c: "Booting kernel: `x' invalid for parameter `y'".
        let of_kernel = prefix.is_kernel(line) && line.get(prefix.host.clone()) != Some("Booting");
        (of_host || of_kernel || (has_process && has_small_letter(line.get(prefix.program.clone())?)))
            .then_some(prefix)
    }

    /// Whether the kernel wrote the message.
    pub(super) fn is_kernel(&self, line: &str) -> bool {
        line.get(self.program.clone()).is_some_and(|program| program.ends_with("kernel"))
    }
}

/// Whether a line may begin with a date: a quick look that passes over most lines.
fn may_have_date(line: &str) -> bool {
    // A clock follows a level, a date and names of at most 12 characters.
    const CLOCK_BYTES_MAX: usize = 128;
    let start = line.as_bytes().get(..CLOCK_BYTES_MAX).unwrap_or(line.as_bytes());
    let is_clock = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(at, byte)| match at {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    };
    let has_clock = || {
        memchr::memchr_iter(b':', start).any(|at| start.get(at.wrapping_sub(2)..at + 6).is_some_and(is_clock))
    };
    let level = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let words = level.map_or(line, |(_, rest)| rest);
    // Seconds since 1970, and the version of a structured prefix.
    let is_number = |count: usize, end: &str| {
        let (digits, rest) = words.split_at_checked(count).unwrap_or_default();
        rest.starts_with(end) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    // The head of a record of /dev/kmsg has commas.
    let is_record = || words.split(' ').next().is_some_and(|first| first.contains(','));
    // Before a day may stand a blank, and so do the names below a record.
    let is_indented =
        words.strip_prefix(' ').is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    !line.starts_with('[')
        && !is_indented
        && (is_number(10, ".") || is_number(1, " ") || has_clock())
        && !is_record()
}

/// The prefix of `-o short-monotonic` and `-o short-delta`, and whether it has a process ID. The kernel's own messages in dmesg look
/// alike, also with dmesg's ISO time, which has a comma. Each line of a log of dmesg is looked at, so it is read by hand.
fn like_dmesg(line: &str) -> Option<(SyslogPrefix, bool)> {
    let words = after_bracketed_time(line).or_else(|| after_comma_time(line))?;
    let start = line.len() - words.len();
    let (host, rest) = words.split_once(' ')?;
    let is_name =
        !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || matches!(c, ':' | '[' | ']'));
    let end = rest.find([':', '[', ']']).filter(|_| is_name)?;
    let (program, behind) = rest.split_at(end);
    let is_program = !program.is_empty()
        && (!program.contains(char::is_whitespace) || program.chars().count() <= PROGRAM_CHARS_MAX);
    let after_number = process_id(behind);
    let message = after_number.unwrap_or(behind).strip_prefix(':').filter(|_| is_program)?;
    let message = message.strip_prefix(' ').unwrap_or(message);
    let program_start = start + host.len() + 1;
    let prefix = SyslogPrefix {
        host: start..start + host.len(),
        program: program_start..program_start + program.len(),
        message: line.len() - message.len(),
    };
    Some((prefix, after_number.is_some()))
}

/// What follows `[    1.000000] `, or `[    1.000000 <    0.1 >] `.
fn after_bracketed_time(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('[')?.trim_start_matches(' ');
    let rest = after_digits(rest)?.strip_prefix('.').and_then(after_digits)?;
    let rest = match rest.strip_prefix(" <") {
        Some(delta) => {
            let (inner, rest) = delta.split_once('>')?;
            (inner.chars().count() <= DELTA_CHARS_MAX).then_some(rest)?
        }
        None => rest,
    };
    rest.strip_prefix("] ")
}

/// What follows `2026-11-21T01:22:03,123456+01:00 `.
fn after_comma_time(line: &str) -> Option<&str> {
    const FORM: &[u8; 10] = b"0000-00-00";
    let (date, rest) = line.split_once('T')?;
    let is_digit = |c: &u8, form: &u8| if *form == b'0' { c.is_ascii_digit() } else { c == form };
    let is_date = date.len() == FORM.len() && date.bytes().zip(FORM).all(|(c, form)| is_digit(&c, form));
    let clock = rest.get(..8).filter(|_| is_date)?;
    let is_clock = clock.bytes().all(|c| c.is_ascii_digit() || c == b':');
    let fraction = rest.get(8..)?.strip_prefix(',').filter(|_| is_clock).and_then(after_digits)?;
    let end = fraction.find(char::is_whitespace)?;
    fraction.get(end..)?.strip_prefix(' ')
}

/// What follows digits, of which there is one at least.
pub(super) fn after_digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// What follows `[812]`.
fn process_id(text: &str) -> Option<&str> {
    after_digits(text.strip_prefix('[')?)?.strip_prefix(']')
}

/// The kernel numbers hardware as programs are numbered: `IOAPIC[0]: `.
fn has_small_letter(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use regex::Regex;

    /// The same as a pattern, which is slow to build.
    fn pattern() -> Regex {
        let time =
            r"(?:\[ *[0-9]+\.[0-9]+(?: <[^>]{0,20}>)?\]|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8},[0-9]+[^\s]*)";
        Regex::new(&format!(r"^{time} ([^\s:\[\]]+) {PROGRAM}")).unwrap()
    }

    proptest::proptest! {
        #[test]
        fn lines_like_those_of_dmesg_are_read_as_the_pattern_does(
            line in "(\\[ {0,2}[0-9]{0,2}\\.?[0-9]{0,3}( <.{0,3}>)?\\] ?|2026-11-2[1a]T0[1:]:22:03,?[0-9]{0,2}.{0,3} )?([a-zä :\\[\\]0-9]{0,6}){0,4}(\\[[0-9]{0,2}\\])?:? ?x?"
        ) {
            let by_pattern = pattern().captures(&line).map(|captures| {
                let (all, host, program) = (captures.get(0).unwrap(), captures.get(1).unwrap(), captures.get(2).unwrap());
                let prefix = SyslogPrefix { host: host.range(), program: program.range(), message: all.end() };
                (prefix, all.as_str().trim_end().ends_with("]:"))
            });
            proptest::prop_assert_eq!(like_dmesg(&line), by_pattern);
        }
    }

    proptest::proptest! {
        #[test]
        fn lines_that_are_passed_over_have_no_date(
            line in "(<[0-9]{1,2}>|6,1,2,-;)?([A-Z][a-zä,]{1,3} |2026-11-21[T ]|1 |1763688123\\.[0-9]|[ 0-9]{2} [a-z]{3} )?([ 0-9]{2} )?(01:22:03)?(Z|\\.[0-9]{1,2})?( 2026)? web01 [a-z]{1,3}(\\[[0-9]{1,2}\\])?: x"
        ) {
            let [by_small, by_fast] = WITH_DATE.both::<3>(&line);
            proptest::prop_assert!(!line.is_ascii() || by_small == by_fast);
            let [structured, by_fast_too] = STRUCTURED.both::<3>(&line);
            proptest::prop_assert!(!line.is_ascii() || structured == by_fast_too);
            proptest::prop_assert!(may_have_date(&line) || (by_fast.is_none() && by_fast_too.is_none()));
        }
    }

    #[test]
    fn prefixes_of_daemons_and_journalctl() {
        for (prefix, host, program) in [
            ("Nov 21 01:22:03 web01 sudo: ", "web01", "sudo"),
            ("Nov  1 01:22:03 web01 kernel: ", "web01", "kernel"),
            ("nov. 21 01:22:03 web01 sshd[12]: ", "web01", "sshd"),
            ("Mär 03 01:22:03 web01 sshd[12]: ", "web01", "sshd"),
            ("11月 21 01:22:03 web01 kernel: ", "web01", "kernel"),
            ("<30>Nov 21 01:22:03 web01 app: ", "web01", "app"),
            ("Nov 21 01:22:03 web01 daemon.info sshd[12]: ", "web01", "sshd"),
            ("Nov 21 01:22:03 web01 my app[12]: ", "web01", "my app"),
            ("Sat 2026-11-21 01:22:03 CET web01 su: ", "web01", "su"),
            ("2026-11-21T01:22:03.123456+01:00 web01 kernel: ", "web01", "kernel"),
            ("2026-11-21T01:22:03Z web01 /USR/SBIN/CRON[7]: ", "web01", "/USR/SBIN/CRON"),
            ("1763688123.123456 web01 sudo: ", "web01", "sudo"),
            ("[    1.000000] web01 kernel: ", "web01", "kernel"),
            ("[    1.000000 <    0.1 >] web01 kernel: ", "web01", "kernel"),
            ("[    1.000000] web01 sshd[12]: ", "web01", "sshd"),
            ("[    1.000000] known sudo: ", "known", "sudo"),
            ("<30>1 2026-11-21T01:22:03Z web01 app 12 - ", "web01", "app"),
        ] {
            let line = format!("{prefix}text: more");
            let found = SyslogPrefix::of(&line, Some("known")).unwrap();
            assert_eq!(
                (&line[found.host], &line[found.program], found.message),
                (host, program, prefix.len()),
                "{line}"
            );
        }
    }

    #[test]
    fn messages_of_the_kernel_have_none() {
        for line in [
            "[    1.000000] usb hub: text",
            "[    1.000000] pci 0000:00:00.0: [8086:1237] type 00",
            "[    1.000000] Booting kernel: `x' invalid for parameter `y'",
            "[    0.05] Some IOAPIC[0]: apic_id 32",
            "Nov 21 01:22:03 web01 e1000e 0000:00:19.0: a fault",
            "DMAR: IOMMU enabled",
            "2026-11-21T01:22:03,123456+00:00 usb hub: text",
        ] {
            assert_eq!(SyslogPrefix::of(line, Some("known")), None, "{line}");
        }
    }
}
