//! The prefix that a syslog daemon or journalctl writes before a message: when, on which host, by which program.
//!
//! Sources: RFC 3164; RFC 5424; journalctl(1), `--output=`; rsyslog's and busybox's templates.

use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// A line's prefix. Ranges are in bytes of the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyslogPrefix {
    pub(super) host: Range<usize>,
    pub(super) program: Range<usize>,
    /// Where the message begins.
    pub(super) message: usize,
}

/// Names of months and days may be localised; busybox writes facility and level behind the host.
static WITH_DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = r"[^\s\[\]<>:;,]{2,12}";
    let clock = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?";
    let date = r"[0-9]{4}-[0-9]{2}-[0-9]{2}";
    let short =
        format!(r"(?:{name} [ 0-9]?[0-9]|[ 0-9]?[0-9] {name})(?: [0-9]{{4}})? {clock}(?: [0-9]{{4}})?");
    let full = format!(r"(?:{name} )?{date} {clock}(?: [A-Z][A-Za-z0-9+-]{{0,9}}| [+-][0-9:]{{2,6}})?");
    let iso = format!(r"{date}T{clock}(?:Z|[+-][0-9:]{{2,6}})?");
    let time = format!(r"(?:{short}|{full}|{iso}|[0-9]{{10}}\.[0-9]{{1,9}})");
    Regex::new(&format!(r"^(?:<[0-9]{{1,3}}>)?{time} ([^\s\[\]]+) (?:[a-z0-9]+\.[a-z]+ )?{PROGRAM}")).ok()
});

/// `-o short-monotonic` and `-o short-delta`. The kernel's own messages in dmesg look alike, also with dmesg's ISO time, which has a comma.
static LIKE_DMESG: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let time =
        r"(?:\[ *[0-9]+\.[0-9]+(?: <[^>]{0,20}>)?\]|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8},[0-9]+[^\s]*)";
    Regex::new(&format!(r"^{time} ([^\s:\[\]]+) {PROGRAM}")).ok()
});

/// RFC 5424: version, time, host, program, process, kind of message.
static STRUCTURED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:<[0-9]{1,3}>)?1 [0-9]{4}-[0-9]{2}-[0-9]{2}T[^ ]+ ([^ ]+) ([^ ]+) [^ ]+ [^ ]+ ").ok()
});

/// A program's name, which has blanks only before a process ID, and the colon behind it.
const PROGRAM: &str = r"([^\s:\[\]]+|[^:\[\]]{1,64})(?:\[[0-9]+\])?: ?";

impl SyslogPrefix {
    /// The prefix of a line; `None` if it has none. `host` is the name that earlier lines had: a line that looks like dmesg's has a prefix
    /// only if it is of this host, of the kernel, or has a process ID.
    pub(super) fn of(line: &str, host: Option<&str>) -> Option<Self> {
        let found = |pattern: &LazyLock<Option<Regex>>| {
            let captures = pattern.as_ref()?.captures(line)?;
            let [all, host, program] = [captures.get(0)?, captures.get(1)?, captures.get(2)?];
            let has_process = all.as_str().trim_end().ends_with("]:");
            let prefix = Self { host: host.range(), program: program.range(), message: all.end() };
            // A name with blanks is one only with a process ID.
            (has_process || !program.as_str().contains(' ')).then_some((prefix, has_process))
        };
        // Most lines are those of dmesg, and no prefix: what they begin with and contain tells that sooner than a pattern.
        let is_like_dmesg = line.starts_with('[');
        if !is_like_dmesg && let Some((prefix, _)) = found(&WITH_DATE).or_else(|| found(&STRUCTURED)) {
            return Some(prefix);
        }
        let may_be_of_host = || host.is_some_and(|host| line.contains(host));
        if !line.contains("kernel") && !line.contains("]:") && !may_be_of_host() {
            return None;
        }
        let (prefix, has_process) = found(&LIKE_DMESG)?;
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

/// The kernel numbers hardware as programs are numbered: `IOAPIC[0]: `.
fn has_small_letter(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

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
