//! Redacts kernel logs line by line: copies of the command line, messages of programs, and host names.

use super::diagnosed_option::is_diagnosed;
use super::pattern::Pattern;
use super::pseudonym::REDACTED;
use super::secrets::{self, Found};
use super::syslog_prefix::{SyslogPrefix, after_digits};
use super::{Redactor, Round, announced, arguments, boot, public, rules, sign};
use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// Text before a whole command line, in two messages of the kernel and in those of dracut and kexec; and before the arguments that the
/// kernel does not know, which it prints without their quotes (init/main.c).
pub(super) const COMMAND_LINE_MARKS: [&str; 4] =
    ["ommand line: ", "ommand line parameters: ", "arguments: ", UNKNOWN_MARK];
const UNKNOWN_MARK: &str = "kernel command line parameters \"";

/// What the first and last lines of keys have.
static DASHES: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("-----"));

/// Levels of a message; its priority is its facility, times these, and its level. The kernel's facility is 0.
const LEVELS: u32 = 8;

/// The first line of a key or certificate.
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";
/// Longer lines are redacted whole. No kernel writes any: its command line has at most 64 KiB.
const LINE_BYTES_MAX: usize = 128 << 10;
/// A key of 16,384 bits has some 200 lines.
const KEY_LINES_MAX: usize = 256;
/// Lines of a key's body have 64 characters, the last one may have fewer (RFC 7468, section 2).
const BASE64_CHARS_MIN: usize = 16;

/// The tag of a message that a program wrote into the log, such as `systemd[1]: `, behind the prefix of dmesg, /dev/kmsg or syslog.
static PROGRAM_TAG: Pattern = Pattern::new(|| {
    let level = r"(?:<[0-9]+>)?(?:[a-z0-9]+ *:[a-z]+ *: )?(?:[0-9]+,[0-9]+,[0-9]+,[^;]*;)?";
    let date = r"[0-9]{4}-[0-9]{2}-[0-9]{2}";
    let day = r"[A-Z][a-z]{2}";
    let clock = r"[0-9:.]{8,15}";
    let syslog =
        format!(r"(?:(?:{day} [ 0-9][0-9] {clock}|{date}T[^ ]+|{day} {date} {clock} [^ ]+) [^ ]+ )?");
    let kernel = r"(?:[^ ]*[^ :] )?(?:kernel: )?";
    let time = r"(?:\[[^\]]{1,40}\] ?(?:\[ *[TC][0-9]+\] ?)?)?";
    format!(r"^{level}{syslog}{time}{kernel}{time}([^\s\[\]:]+)\[([0-9]+)\]: ?")
});

/// Where the host's name is in a line of a journal or syslog file.
fn host_range(line: &str) -> Option<Range<usize>> {
    SyslogPrefix::of(line, None).map(|prefix| prefix.host)
}

/// The host's name, from the prefix of a line or from systemd's `Set hostname to <...>`.
pub(super) fn find_host_name(line: &str) -> Option<&str> {
    host_range(line).and_then(|range| line.get(range)).or_else(|| {
        let named = line.split_once("Set hostname to <").or_else(|| line.split_once("Hostname set to <"));
        named?.1.split_once('>').map(|(name, _)| name)
    })
}

impl Redactor {
    /// The log with secrets redacted, and identifiers too if the redactor has a key. The number of lines stays.
    ///
    /// A further round would leave all as it is if it left the lines that changed, if they had no other effect on the lines behind them,
    /// and if no secret that was found stands in lines before it.
    pub(super) fn redact_log(&mut self, text: &str) -> Round {
        let mut before = LinesBefore::default();
        let mut redacted_text = String::with_capacity(text.len());
        // The text before the line where the last new secret was found.
        let mut found_at = 0;
        let mut is_settled = true;
        for line in text.split_inclusive('\n') {
            let entering = before.clone();
            let known_secrets = self.secrets.count();
            let redacted = self.redact_log_line(line, &mut before);
            if self.secrets.count() > known_secrets {
                found_at = redacted_text.len();
            }
            if let Cow::Owned(redacted) = &redacted
                && redacted != line
            {
                is_settled = is_settled && self.leaves(redacted, entering, &before);
            }
            redacted_text.push_str(&redacted);
        }
        let is_last = is_settled && !self.secrets.is_any_within(&redacted_text[..found_at]);
        Round { text: redacted_text, is_last }
    }

    /// Whether a line that follows `before` is left as it is, and leads to `after`.
    fn leaves(&mut self, line: &str, mut before: LinesBefore, after: &LinesBefore) -> bool {
        let (counts, known_secrets) = (self.counts.clone(), self.secrets.count());
        let is_same = self.redact_log_line(line, &mut before) == line;
        self.counts = counts;
        is_same && before == *after && self.secrets.count() == known_secrets
    }

    /// Redacts one line of a log.
    fn redact_log_line<'l>(&mut self, line: &'l str, before: &mut LinesBefore) -> Cow<'l, str> {
        if line.trim_end().is_empty() {
            return line.into();
        }
        if line.len() > LINE_BYTES_MAX {
            return self.redact_from(line, 0).into();
        }
        before.add(line);
        if let Some(start) = before.block.item_start(line) {
            return self.redact_init_line(line, start, before.block).into();
        }
        let start =
            before.program_message.or_else(|| (before.key_lines > 0).then(|| key_body(line)).flatten());
        match start {
            Some(start) => self.redact_message_from(line, start).into(),
            None => self.redact_line(line),
        }
    }

    /// Redacts an argument or environment variable of init, which the kernel prints one per line (init/main.c,
    /// `run_init_process`).
    fn redact_init_line(&mut self, line: &str, start: usize, block: InitBlock) -> String {
        let variable = line[start..].split_once('=').filter(|_| matches!(block, InitBlock::Environment));
        let Some((name, value)) = variable else { return self.redact_message_from(line, start) };
        let value_start = start + name.len() + 1;
        let end = value_start + value.trim_end_matches(['\r', '\n']).len();
        let value = self.redact_argument(name, &line[value_start..end]);
        format!("{}{name}={value}{}", self.redact_message(&line[..start]), &line[end..])
    }

    /// Redacts a line of the kernel. Most hold nothing, and stay as they are.
    fn redact_line<'l>(&mut self, line: &'l str) -> Cow<'l, str> {
        let may_hold_secret = sign::may_be_in(line);
        if self.key.is_none() && !may_hold_secret && !self.secrets.is_any_within(line) {
            return line.into();
        }
        let end = line.trim_end_matches(['\r', '\n']).len();
        let (words, line_end) = line.split_at(end);
        let (message, mark, arguments) = match may_hold_secret {
            true => self.message_and_arguments(words),
            false => (words, "", String::new()),
        };
        // The text before the arguments is kept, because a capture of this capture must find it again.
        format!("{}{mark}{arguments}{line_end}", self.redact_message(message)).into()
    }

    /// Redacts a line from byte `start` to its line feed.
    fn redact_from(&mut self, line: &str, start: usize) -> String {
        let end = line.trim_end_matches(['\r', '\n']).len();
        let (kept, rest) = line.split_at(start.min(end));
        let (secret, line_end) = rest.split_at(end - kept.len());
        if matches!(secret, "" | REDACTED) {
            return line.to_owned();
        }
        self.count_secret();
        format!("{kept}{REDACTED}{line_end}")
    }

    /// Redacts a line from byte `start` on, and secrets and identifiers before it.
    fn redact_message_from(&mut self, line: &str, start: usize) -> String {
        let before = self.redact_message(&line[..start]);
        self.redact_from(&format!("{before}{}", &line[start..]), before.len())
    }

    /// Splits a line into message, text before the kernel arguments, and the arguments, which are redacted.
    fn message_and_arguments<'l>(&mut self, line: &'l str) -> (&'l str, &'l str, String) {
        let at = |mark: &str| line.find(mark).map(|at| (at, at + mark.len()));
        if let Some((start, end)) = at(UNKNOWN_MARK) {
            let (list, tail) = line[end..].rsplit_once('"').unwrap_or((&line[end..], ""));
            let quote = &line[end + list.len()..line.len() - tail.len()];
            let list = self.redact_unquoted_arguments(list);
            return (&line[..start], &line[start..end], format!("{list}{quote}{tail}"));
        }
        match COMMAND_LINE_MARKS.iter().find_map(|mark| at(mark)) {
            Some((start, end)) => (&line[..start], &line[start..end], self.redact_command_line(&line[end..])),
            None => (line, "", String::new()),
        }
    }

    /// A command line with its secrets and identifiers redacted.
    pub(super) fn redact_command_line(&mut self, words: &str) -> String {
        let mut before = PrecedingArgument::Other;
        arguments::rewrite(words, &mut |name, value| self.redact_argument_after(&mut before, name, value))
    }

    /// Redacts the value of one argument. It may belong to the flag before it, as in `--password x` and `-p x`.
    fn redact_argument_after(&mut self, before: &mut PrecedingArgument, name: &str, value: &str) -> String {
        if name == arguments::AFTER {
            return self.redact_value(value);
        }
        // `cc: {...} end_cc` is a configuration for cloud-init. `password = x` is no kernel argument, but is redacted too.
        if matches!(before, PrecedingArgument::CloudConfig) || (name.is_empty() && value == "cc:") {
            let ends = name.is_empty() && value == "end_cc";
            let is_mark = ends || !matches!(before, PrecedingArgument::CloudConfig);
            *before = if ends { PrecedingArgument::Other } else { PrecedingArgument::CloudConfig };
            return if is_mark { value.to_owned() } else { self.redact_value(value) };
        }
        if matches!(before, PrecedingArgument::Flag) && name.is_empty() && matches!(value, "" | "=") {
            return value.to_owned();
        }
        if value.is_empty() && secrets::is_secret(name) {
            *before = PrecedingArgument::Flag;
            return String::new();
        }
        let is_bare = name.is_empty() && !is_diagnosed(value);
        let is_flag = is_bare && (value.starts_with('-') || secrets::is_secret(value));
        let follows = std::mem::replace(
            before,
            if is_flag { PrecedingArgument::Flag } else { PrecedingArgument::Other },
        );
        // In `-px` the value is part of the flag.
        let holds_value = is_flag && value.len() > 2 && !value.starts_with("--") && value.starts_with('-');
        match is_bare && (holds_value || (matches!(follows, PrecedingArgument::Flag) && !is_flag)) {
            true => self.redact_value(value),
            false => self.redact_argument(name, value),
        }
    }

    /// Redacts a whole value and remembers it as a secret.
    fn redact_value(&mut self, value: &str) -> String {
        if value != REDACTED {
            self.secrets.add(value);
            self.count_secret();
        }
        REDACTED.to_owned()
    }

    /// Redacts arguments that were printed without their quotes. Words without `=` may belong to the secret or boot source
    /// before them. Options that the diagnosis reads are kept.
    fn redact_unquoted_arguments(&mut self, list: &str) -> String {
        let mut kept = String::with_capacity(list.len());
        let mut before = PrecedingArgument::Other;
        let mut words = list.split(' ').peekable();
        while let Some(word) = words.next() {
            let separator = if kept.is_empty() { "" } else { " " };
            let Some((name, value)) = word.split_once('=') else {
                kept.extend([separator, &self.redact_argument_after(&mut before, "", word)]);
                continue;
            };
            let mut value = value.to_owned();
            if secrets::is_secret(name)
                || boot::is_source(name)
                || value.contains("://")
                || !public::is_known(name)
            {
                while let Some(more) = words.next_if(|word| !word.contains('=') && !is_diagnosed(word)) {
                    value.push(' ');
                    value.push_str(more);
                }
            }
            kept.extend([separator, name, "=", &self.redact_argument_after(&mut before, name, &value)]);
        }
        kept
    }

    /// Redacts the text of a message.
    fn redact_message(&mut self, words: &str) -> String {
        let words = match sign::may_be_in(words) {
            true => self.redact_announced_secrets(words),
            false => words.to_owned(),
        };
        let Some(key) = self.key.clone() else { return self.replace_known_values(&words) };
        let words = match host_range(&words) {
            Some(range) => self.replace_host(&words, range),
            None => words,
        };
        let words = rules::replace_by_form(&key, &words, &mut self.counts).text;
        let words = rules::replace_addresses(&key, &words, &mut self.counts).text;
        let words = rules::replace_by_context(&key, &words, &mut self.counts).text;
        self.replace_known_values(&words)
    }

    /// Redacts the secrets that the words of a message announce, or that look like one.
    fn redact_announced_secrets(&mut self, words: &str) -> String {
        let words = self.redact_named_secret(words);
        let words = self.redact_invalid_value(words);
        let words = self.redact_urls(&words);
        self.redact_tokens(words)
    }

    /// Redacts a message behind the first name of a secret. The whole rest is redacted, because blanks, quotes and escapes may
    /// be part of the value.
    fn redact_named_secret(&mut self, words: &str) -> String {
        match secret_start(words) {
            Some(start) => self.redact_from(words, start),
            None => words.to_owned(),
        }
    }

    /// Redacts words that look like random tokens.
    fn redact_tokens(&mut self, words: String) -> String {
        let without = secrets::without_tokens(&words, &mut Found::default());
        if without != words {
            self.count_secret();
        }
        without
    }

    /// Redacts the value in ``Booting kernel: `VALUE' invalid for parameter `NAME'``.
    fn redact_invalid_value(&mut self, words: String) -> String {
        if !words.contains('`') {
            return words;
        }
        let parts = words.split_once("' invalid for parameter `").and_then(|(before, name)| {
            let (before, value) = before.split_once('`')?;
            let name_alone = name.trim_end_matches(['\'', '`', ' ']);
            let is_shown = public::is_known(name_alone) && !secrets::is_secret(name_alone);
            (!is_shown && value != REDACTED)
                .then(|| format!("{before}`{REDACTED}' invalid for parameter `{name}"))
        });
        match parts {
            Some(without) => {
                self.count_secret();
                without
            }
            None => words,
        }
    }

    /// Redacts user names, passwords and queries in URLs.
    fn redact_urls(&mut self, words: &str) -> String {
        let is_url = |word: &str| {
            word.contains("://")
                || word.contains('@') && secrets::SCHEMES.iter().any(|scheme| word.contains(scheme))
        };
        if !is_url(words) {
            return words.to_owned();
        }
        let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`');
        let part = |part: &str| {
            let word = part.trim_end_matches(is_end);
            match is_url(word) {
                true => {
                    format!("{}{}", self.redact_url(word), &part[word.len()..])
                }
                false => part.to_owned(),
            }
        };
        words.split_inclusive(is_end).map(part).collect()
    }

    /// Redacts the secrets of one URL.
    fn redact_url(&mut self, url: &str) -> String {
        let without = secrets::without_secrets_inside("", url, &mut self.secrets);
        if without != url {
            self.count_secret();
        }
        without
    }
}

/// What a line and those before it say of how to read it.
#[derive(Clone, Default, PartialEq, Eq)]
struct LinesBefore {
    /// How many lines the body of a key may still have.
    key_lines: usize,
    block: InitBlock,
    /// The name of the host in lines before, as a journal writes it.
    host: Option<String>,
    /// The byte at which the message of a program begins in this line.
    program_message: Option<usize>,
}

impl LinesBefore {
    /// Goes on to the next line.
    fn add(&mut self, line: &str) {
        let has_dashes = DASHES.find(line.as_bytes()).is_some();
        self.key_lines = match self.key_lines {
            left if !has_dashes => left.saturating_sub(1),
            _ if line.contains(KEY_BEGIN) => KEY_LINES_MAX,
            _ if line.contains(KEY_END) => 0,
            left => left.saturating_sub(1),
        };
        self.block = self.block.next(line);
        let prefix = SyslogPrefix::of(line, self.host.as_deref());
        self.program_message = match &prefix {
            // Further lines of a message are indented; those of /dev/kmsg's records, of the kernel alone, have a name.
            None if self.program_message.is_some() && is_further_line(line) => Some(indent(line)),
            Some(prefix) if !prefix.is_kernel(line) => {
                let program = line.get(prefix.program.clone()).unwrap_or_default();
                (!program.starts_with("dracut")).then_some(prefix.message)
            }
            _ => program_message(line),
        };
        if let Some(host) = prefix.and_then(|prefix| line.get(prefix.host)) {
            self.host = Some(host.to_owned());
        }
    }
}

/// How many bytes of blanks a line begins with.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line continues the message of the line before it.
fn is_further_line(line: &str) -> bool {
    indent(line) > 0 && ![" SUBSYSTEM=", " DEVICE="].iter().any(|name| line.starts_with(name))
}

/// Whether a line is in the kernel's list of init's arguments or environment.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum InitBlock {
    #[default]
    Outside,
    Arguments,
    Environment,
}

impl InitBlock {
    /// The state for `line`, which follows.
    fn next(self, line: &str) -> Self {
        match line.trim_end() {
            line if line.ends_with("  with arguments:") => Self::Arguments,
            line if line.ends_with("  with environment:") => Self::Environment,
            _ if self != Self::Outside && line.contains(Self::INDENT) => self,
            _ => Self::Outside,
        }
    }

    /// Indentation of each item.
    const INDENT: &str = "    ";

    /// The byte at which the item of a line begins; `None` outside the lists.
    fn item_start(self, line: &str) -> Option<usize> {
        let is_head = line.trim_end().ends_with(':');
        let indent = (self != Self::Outside && !is_head)
            .then(|| line.find(&format!(" {}", Self::INDENT)))
            .flatten()?;
        let item = line[indent..].trim_start();
        (!item.is_empty()).then(|| line.len() - item.len())
    }
}

/// The argument before, if it affects the next one.
#[derive(Clone, Copy)]
enum PrecedingArgument {
    /// A flag whose value may follow as an argument of its own.
    Flag,
    /// A configuration for cloud-init, which ends with `end_cc`.
    CloudConfig,
    Other,
}

/// The byte at which a program's message begins, by its tag or its facility; `None` for lines of the kernel, and of dracut, which print
/// the command line.
fn program_message(line: &str) -> Option<usize> {
    // A cheap check first: the tag ends in a process ID in brackets and a colon.
    let bytes = line.as_bytes();
    let ends_number =
        |at: usize| matches!(bytes.get(at.wrapping_sub(1)..at + 2), Some([b'0'..=b'9', _, b':']));
    if memchr::memchr_iter(b']', bytes).any(ends_number)
        && let Some(tag) = tag(line)
    {
        // The kernel numbers hardware in the same form: `IOAPIC[0]: `.
        let is_upper = !tag.name.bytes().any(|byte| byte.is_ascii_lowercase());
        let is_index = tag.digits < 3 && is_upper && !tag.name.ends_with("CRON");
        if tag.name == "kernel" || tag.name.starts_with("dracut") {
            return None;
        }
        if !is_index {
            return Some(tag.message);
        }
    }
    foreign_message(line)
}

/// The tag of a program in a line.
#[derive(Debug, PartialEq, Eq)]
struct Sender<'l> {
    name: &'l str,
    /// Digits of the process ID.
    digits: usize,
    /// Where the message begins.
    message: usize,
}

/// The tag of a line, by hand where it can only stand directly after the time.
fn tag(line: &str) -> Option<Sender<'_>> {
    let Some(words) = after_time(line).or_else(|| after_record_head(line)) else {
        return tag_by_pattern(line);
    };
    let (first, message) = words.split_once(' ').unwrap_or((words, ""));
    let Some(first) = first.strip_suffix(':') else { return tag_by_pattern(line) };
    match first.split_once('[') {
        Some((name, number)) if is_program_name(name) && after_digits(number) == Some("]") => {
            Some(Sender { name, digits: number.len() - 1, message: line.len() - message.len() })
        }
        // Before a tag may stand a host's name, which ends in no colon, and `kernel:`. Before a colon the number in brackets was
        // no time.
        None if first != "kernel" && first.starts_with(|c: char| c != ':') => None,
        _ => tag_by_pattern(line),
    }
}

fn tag_by_pattern(line: &str) -> Option<Sender<'_>> {
    let [all, name, number] = PROGRAM_TAG.groups(line)?;
    Some(Sender { name: line.get(name?)?, digits: number?.len(), message: all?.end })
}

/// What follows the time in brackets that a line begins with, and the caller after it: `[    1.0] `, `[    1.0][    T1] `.
fn after_time(line: &str) -> Option<&str> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    (1..=40).contains(&time.chars().count()).then_some(())?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let caller = rest.strip_prefix('[').and_then(|caller| {
        let number = caller.trim_start_matches(' ').strip_prefix(['T', 'C'])?;
        let after = after_digits(number)?.strip_prefix(']')?;
        Some(after.strip_prefix(' ').unwrap_or(after))
    });
    Some(caller.unwrap_or(rest))
}

/// What follows the head of a record of `/dev/kmsg`: `6,1234,1000,-;`, with a time in brackets after it in some copies.
fn after_record_head(line: &str) -> Option<&str> {
    let (head, rest) = line.split_once(';')?;
    let mut numbers = head.splitn(4, ',');
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_head = numbers.by_ref().take(3).all(is_number) && numbers.next().is_some();
    // A date of syslog may follow.
    let is_date = rest.starts_with(|c: char| c.is_ascii_digit());
    (is_head && !is_date).then(|| after_time(rest).unwrap_or(rest))
}

/// Whether it can be the name before a process ID.
fn is_program_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || matches!(c, ']' | ':'))
}

/// The byte at which a message begins whose facility is not the kernel's. Programs can't use the kernel's (kernel/printk/printk.c,
/// `devkmsg_write`).
fn foreign_message(line: &str) -> Option<usize> {
    let (is_kernel, words) = facility(line)?;
    let message = after_time(words).unwrap_or(words);
    let is_foreign = !is_kernel && !message.trim_start().starts_with("dracut");
    is_foreign.then(|| line.len() - message.len())
}

/// Whether the facility before a message is the kernel's, and what follows facility and level: `<30>` (dmesg -r), `30,12,1000,-;`
/// (/dev/kmsg), `daemon:info  : ` (dmesg -x).
fn facility(line: &str) -> Option<(bool, &str)> {
    const NAMES: [&str; 12] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    ];
    // No level stands before a time in brackets, which most lines begin with.
    if line.starts_with('[') {
        return None;
    }
    let number = |digits: &str| digits.parse::<u32>().is_ok_and(|number| number < LEVELS);
    let is_number = |digits: &str| (1..=3).contains(&digits.len()) && after_digits(digits) == Some("");
    if let Some((digits, rest)) = line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return is_number(digits).then(|| (number(digits), rest));
    }
    if let Some((digits, rest)) = line.split_once(',').filter(|(digits, _)| is_number(digits)) {
        let rest = after_digits(rest).and_then(|rest| after_digits(rest.strip_prefix(',')?))?;
        let (_, message) = rest.strip_prefix(',')?.split_once(';')?;
        return Some((number(digits), message));
    }
    let (name, rest) = line.split_at(line.find([' ', ':'])?);
    let level = rest.trim_start_matches(' ').strip_prefix(':')?;
    let behind = level.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let message = behind.trim_start_matches(' ').strip_prefix(": ").filter(|_| behind.len() < level.len())?;
    let is_local =
        name.strip_prefix("local").is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'7']));
    (is_local || NAMES.contains(&name)).then_some((name == "kern", message))
}

/// The byte at which the first secret of a message begins, by the name or words before it.
fn secret_start(words: &str) -> Option<usize> {
    let mut values = std::iter::successors(next_value(words, 0), |(_, start)| next_value(words, *start));
    let named = values.find(|(name, start)| is_secret_value(words, name, *start));
    named.map(|(_, value)| value).into_iter().chain(announced::value_start(words)).min()
}

/// The next name with a separator behind it, `name=`, `"name": "`, `name := `, `name => `, `<name>`, at or after a byte; and where its
/// value begins.
fn next_value(words: &str, from: usize) -> Option<(Range<usize>, usize)> {
    let mut start = from;
    loop {
        start += words.get(start..)?.find(|c: char| c.is_ascii_alphanumeric())?;
        let rest = words.get(start..)?;
        let behind = rest.trim_start_matches(sign::is_name_char);
        let name = start..words.len() - behind.len();
        if let Some(value) = sign::after_separator(behind) {
            return Some((name, words.len() - value.len()));
        }
        start = name.end;
    }
}

/// Whether the value that begins at a byte is a secret by the name before it.
fn is_secret_value(words: &str, name: &Range<usize>, value_start: usize) -> bool {
    let (separator, value) = (&words[name.end..value_start], &words[value_start..]);
    let name = &words[name.clone()];
    // Before a colon, words such as `pin` and `session` are usually no secrets.
    let is_secret = match separator.contains('=') {
        true => secrets::is_secret(name),
        false => secrets::is_secret_anywhere(name),
    };
    is_secret && !value.is_empty() && !secrets::is_stream_id(name, value)
}

/// The byte at which the base64 text of a key begins: behind the dashes of the key's first line, else the last word.
fn key_body(line: &str) -> Option<usize> {
    if let Some(begin) = line.find(KEY_BEGIN) {
        let label = begin + KEY_BEGIN.len();
        return line[label..].find("-----").map(|dashes| label + dashes + 5);
    }
    let words = line.trim_end();
    let word = words.rsplit(char::is_whitespace).next().unwrap_or_default();
    let start = words.len() - word.len();
    let is_base64 =
        word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    (is_base64 && (word.len() >= BASE64_CHARS_MIN || word.ends_with('='))).then_some(start)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::redact::{Key, ROUNDS_MAX};
    use regex::Regex;

    proptest::proptest! {
        #[test]
        fn no_line_with_a_secret_is_passed_over(
            line in "([a-z]{0,3}(password|Token|api key|pin|user|dm|bearer|-u|-p|sshpass -|ſecret|K|key|%61|auth|=|:| is | |\t|\"|\\]|x|y|://|iscsi:|@|\\?|`|' invalid for parameter `|\\$6\\$|npm_|[a-zA-Z0-9_+]{21}|ommand line: ){1,1}){0,9}"
        ) {
            let redacted = Redactor::of_secrets().redact_announced_secrets(&line);
            let (_, mark, _) = Redactor::of_secrets().message_and_arguments(&line);
            proptest::prop_assert!(sign::may_be_in(&line) || (redacted == line && mark.is_empty()));
        }
    }

    proptest::proptest! {
        #[test]
        fn a_log_that_is_settled_stays(
            lines in proptest::collection::vec(
                "(web01 |\\[    1.0\\] |Nov 21 01:22:03 web01 )?(systemd\\[1\\]: |-----BEGIN |-----END |KEY-----|  with arguments:|  with environment:|    |ommand line: |-- |\\?a=|kernel command line parameters \"|password=|token: |iommu=pt |hunter2hunter2|\"|' invalid for parameter `x`|`|a:b@|://| ){0,6}",
                0..6,
            ),
            is_keyed: bool,
        ) {
            let log = lines.join("\n");
            let redactor = || if is_keyed { Redactor::new(Key::new([7; Key::BYTES])) } else { Redactor::of_secrets() };
            let mut one = redactor();
            let settled = one.until_nothing_changes(log.clone(), Redactor::redact_log);
            let mut other = redactor();
            let mut text = log;
            for _ in 0..ROUNDS_MAX {
                text = other.redact_log(&text).text;
            }
            proptest::prop_assert_eq!(&settled, &text);
        }
    }

    #[test]
    fn tags_after_unusual_heads_are_found() {
        for line in [
            "[.][X]name[0]: x",
            "0,12,100,-;[0]: x",
            "0,12,100,-;[0]:: x",
            "0,12,100,-;2026-11-21T01:22:03: web01 a[0]: x",
        ] {
            assert!(tag_by_pattern(line).is_some(), "{line}");
            assert_eq!(tag(line), tag_by_pattern(line), "{line}");
        }
    }

    /// What `next_value` finds.
    const NAME_AND_SEPARATOR: &str = r#"([A-Za-z0-9][A-Za-z0-9_./%-]*)["'\]]?\s*(?::=|=>|[=:>])\s*["'`]?"#;

    /// What `facility` reads, and the time after it, as a pattern.
    fn foreign_by_pattern(line: &str) -> Option<usize> {
        let names = "kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]";
        let level =
            format!(r"(?:<([0-9]{{1,3}})>|([0-9]{{1,3}}),[0-9]+,[0-9]+,[^;]*;|({names}) *:[a-z]+ *: )");
        let pattern =
            Regex::new(&format!(r"^{level}(?:\[[^\]]{{1,40}}\] ?(?:\[ *[TC][0-9]+\] ?)?)?")).unwrap();
        let captures = pattern.captures(line)?;
        let number =
            captures.get(1).or(captures.get(2)).map(|digits| digits.as_str().parse::<u32>().unwrap());
        let is_kernel = number.map_or_else(|| &captures[3] == "kern", |number| number < LEVELS);
        let message = captures.get(0).unwrap().end();
        (!is_kernel && !line[message..].trim_start().starts_with("dracut")).then_some(message)
    }

    proptest::proptest! {
        #[test]
        fn facilities_are_read_as_the_pattern_does(
            line in "(<[0-9x]{0,4}>|[0-9]{0,4},[0-9]{0,2},[0-9]{0,2},?[-c,]{0,2};|(kern|daemon|auth|authpriv|local[0-9]|ftpd|) {0,2}:?[a-zA]{0,2} {0,2}:? ?)?(\\[[0-9. ä\\]]{0,4}\\] ?(\\[ {0,2}[TCX][0-9]{0,2}\\] ?)?)?(x| dracut)"
        ) {
            proptest::prop_assert_eq!(foreign_message(&line), foreign_by_pattern(&line));
        }

        #[test]
        fn names_before_values_are_found_as_the_pattern_does(
            line in "(password|x|[.:=%\"'`\\]>a-z0-9 \t\u{b}-]|\\[[0-9]\\]:| |=| : ){0,12}"
        ) {
            let names = Regex::new(NAME_AND_SEPARATOR).unwrap();
            let all = names.captures_iter(&line).map(|captures| (captures.get(1).unwrap().range(), captures.get(0).unwrap().end()));
            let by_hand = std::iter::successors(next_value(&line, 0), |(_, start)| next_value(&line, *start));
            proptest::prop_assert_eq!(by_hand.collect::<Vec<_>>(), all.collect::<Vec<_>>());
            let [small, fast] = PROGRAM_TAG.both::<3>(&line);
            proptest::prop_assert_eq!(small, fast);
        }

        #[test]
        fn tags_are_read_as_the_pattern_does(
            line in "([0-9],12,100,-;)?(2026-11-21T01:22:03:? )?(\\[[0-9. ]{0,4}\\] ?(\\[ {0,2}[TCX][0-9]{0,2}\\] ?)?)?(web01 |kernel: |\\[1\\] |a: |b\\[2\\]:){0,2}[a-zA-Zä:]{0,4}(\\[[0-9x]{0,3}\\])?:{0,1} ?[x\t]?"
        ) {
            proptest::prop_assert_eq!(tag(&line), tag_by_pattern(&line));
        }
    }

    #[test]
    fn tells_messages_of_programs_from_those_of_the_kernel() {
        for tag in [
            "[    1.0] systemd[1]: ",
            "<30>[    1.0] systemd[1]: ",
            "30,1234,1000,-;systemd[1]: ",
            "daemon:info : [    1.0] systemd[1]: ",
            "[Mon Nov 21 01:22:03 2026] (sd-executor)[7]: ",
            "[    1.0][    T1] cloud-init[900]: ",
            "Nov 21 01:22:03 web01 CRON[1234]: ",
            "Nov 21 01:22:03 web01 kernel: [    1.0] systemd[1]: ",
            "2026-11-21T01:22:03+0100 web01 sshd[12]: ",
            "systemd[1]: ",
            "<14>[    1.0] ",
            "12,1234,1000,-;",
            "user  :warn  : [    1.0] ",
            "local0:info  : [Sat Nov 21 01:22:03 2026] ",
        ] {
            assert_eq!(program_message(&format!("{tag}text [1]: more")), Some(tag.len()), "{tag}");
        }
        for line in [
            "[    0.05] IOAPIC[0]: apic_id 32, version 32, address 0xfec00000, GSI 0-23",
            "[    0.23] x86/fpu: xstate_offset[2]:  576, xstate_sizes[2]:  256",
            "Nov 21 01:22:03 web01 kernel[1]: e1000e 0000:00:19.0: fault",
            "[    1.0] pci 0000:00:00.0: [8086:1237] type 00",
            "[    1.0] DMAR: [DMA Read] Request device [00:02.0]: x",
            "<6>[    1.0] pci 0000:00:00.0: [8086:1237] type 00",
            "6,1234,1000,-;pci 0000:00:00.0: [8086:1237] type 00",
            "kern  :info  : [    1.0] pci 0000:00:00.0: x",
            "<30>[    1.0] dracut: rd.neednet=1",
            "iommu: Default domain type: Translated",
        ] {
            assert_eq!(program_message(line), None, "{line}");
        }
    }
}
