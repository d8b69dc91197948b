//! Secrets and names in a kernel log, line by line: copies of the command line, and what programs wrote.

use super::pseudonym::REDACTED;
use super::secrets::{self, Found};
use super::{Redactor, arguments, boot, rules};
use regex_lite::Regex;
use std::sync::LazyLock;

/// Before a whole command line: the kernel's own two lines, dracut's and kexec's.
const COMMAND_LINE_MARKS: [&str; 3] = ["ommand line: ", "ommand line parameters: ", "arguments: "];
/// Before the arguments that the kernel does not know, without the quotes that they had (init/main.c).
const UNKNOWN_MARK: &str = "kernel command line parameters \"";

/// The host's name in journals and syslog files: `Nov 21 01:22:03 web01 kernel: ...`.
static HOST_IN_PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"^(?:<[0-9]+>)?(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} ([^ ]+) [^ :]+: |(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[^ ]+|\[ *[0-9.]+\]) ([^ :\[\]]+) [a-z0-9.-]*kernel(?:\[[0-9]+\])?: )";
    Regex::new(pattern).ok()
});

/// The place of the host's name in a line of a journal.
fn host_in_prefix(line: &str) -> Option<std::ops::Range<usize>> {
    let captures = HOST_IN_PREFIX.as_ref()?.captures(line)?;
    captures.get(1).or_else(|| captures.get(2)).map(|name| name.range())
}

/// The host's name, if this line has it.
pub(super) fn host_of(line: &str) -> Option<&str> {
    host_in_prefix(line).and_then(|range| line.get(range)).or_else(|| {
        let named = line.split_once("Set hostname to <").or_else(|| line.split_once("Hostname set to <"));
        named?.1.split_once('>').map(|(name, _)| name)
    })
}

impl Redactor {
    /// A log without its secrets, and without identifiers if those are redacted. Lines stay lines.
    pub(super) fn log(&mut self, text: &str) -> String {
        text.split_inclusive('\n').map(|line| self.log_line(line)).collect()
    }

    fn log_line(&mut self, line: &str) -> String {
        let end = line.trim_end_matches(['\r', '\n']).len();
        let (line, line_end) = line.split_at(end);
        let (message, mark, arguments) = self.message_and_arguments(line);
        // The mark stays as it is: it must be found again in a capture of this capture.
        format!("{}{mark}{arguments}{line_end}", self.message(message))
    }

    /// Splits at the mark before the arguments that a line ends with, and redacts those.
    fn message_and_arguments<'l>(&mut self, line: &'l str) -> (&'l str, &'l str, String) {
        let at = |mark: &str| line.find(mark).map(|at| (at, at + mark.len()));
        if let Some((start, end)) = at(UNKNOWN_MARK) {
            let (list, tail) = line[end..].rsplit_once('"').unwrap_or((&line[end..], ""));
            let quote = &line[end + list.len()..line.len() - tail.len()];
            let list = self.unquoted_arguments(list);
            return (&line[..start], &line[start..end], format!("{list}{quote}{tail}"));
        }
        match COMMAND_LINE_MARKS.iter().find_map(|mark| at(mark)) {
            Some((start, end)) => (&line[..start], &line[start..end], self.command_line(&line[end..])),
            None => (line, "", String::new()),
        }
    }

    /// A command line.
    pub(super) fn command_line(&mut self, words: &str) -> String {
        arguments::rewrite(words, &mut |name, value| self.argument(name, value))
    }

    /// Arguments whose quotes are lost: words without `=` may belong to the secret or the source before them. Flags that verdicts
    /// read stay.
    fn unquoted_arguments(&mut self, list: &str) -> String {
        let mut kept: Vec<String> = Vec::new();
        let mut words = list.split(' ').peekable();
        while let Some(word) = words.next() {
            let Some((name, value)) = word.split_once('=') else {
                kept.push(self.argument("", word));
                continue;
            };
            let mut value = value.to_owned();
            if secrets::is_secret(name) || boot::is_source(name) || value.contains("://") {
                while let Some(more) =
                    words.next_if(|word| !word.contains('=') && !secrets::is_understood(word))
                {
                    value = format!("{value} {more}");
                }
            }
            kept.push(format!("{name}={}", self.argument(name, &value)));
        }
        kept.join(" ")
    }

    /// What is left of a line.
    fn message(&mut self, words: &str) -> String {
        let words = self.assignments(words);
        let words = self.urls(&words);
        let Some(key) = self.key.clone() else { return self.known_values(&words) };
        let words = match host_in_prefix(&words) {
            Some(range) => self.replace_host(&words, range),
            None => words,
        };
        let words = rules::forms(&key, &words, &mut self.counts).text;
        let words = rules::addresses(&key, &words, &mut self.counts).text;
        let words = rules::contexts(&key, &words, &mut self.counts).text;
        self.known_values(&words)
    }

    /// `name=secret` anywhere in a message, as programs and the kernel's list of init's environment have it.
    fn assignments(&mut self, words: &str) -> String {
        let mut out = String::new();
        let mut copied = 0;
        for equals in memchr::memchr_iter(b'=', words.as_bytes()) {
            if equals < copied {
                continue;
            }
            let name = name_before(&words[copied..equals]);
            if name.is_empty() || !secrets::is_secret(name) {
                continue;
            }
            let value = value_after(words, equals + 1, name.len());
            if matches!(value, "" | REDACTED) {
                continue;
            }
            let mut found = Found::default();
            out.push_str(&words[copied..=equals]);
            out.push_str(&secrets::without_secrets(name, value, &mut found));
            self.count_secret();
            copied = equals + 1 + value.len();
        }
        out.push_str(&words[copied..]);
        let words = self.colons(out);
        self.refused_value(words)
    }

    /// ``Booting kernel: `VALUE' invalid for parameter `NAME'``
    fn refused_value(&mut self, words: String) -> String {
        let parts = words.split_once("' invalid for parameter `").and_then(|(before, name)| {
            let (before, value) = before.split_once('`')?;
            let is_secret = secrets::is_secret(name.trim_end_matches(['\'', '`', ' ']));
            (is_secret && value != REDACTED)
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

    /// `password: secret`.
    fn colons(&mut self, words: String) -> String {
        static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(
                r"(?i)\b(?:password|passwd|passphrase|secret|token|psk|vncpassword)(?: is)?: *([^ ].*)$",
            )
            .ok()
        });
        let value =
            PATTERN.as_ref().and_then(|pattern| pattern.captures(&words)?.get(1).map(|value| value.start()));
        match value {
            Some(at) if &words[at..] != REDACTED => {
                self.count_secret();
                format!("{}{REDACTED}", &words[..at])
            }
            _ => words,
        }
    }

    /// User names, passwords and queries in URLs.
    fn urls(&mut self, words: &str) -> String {
        if !words.contains("://") {
            return words.to_owned();
        }
        let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`');
        let part = |part: &str| {
            let word = part.trim_end_matches(is_end);
            match word.contains("://") {
                true => {
                    format!("{}{}", self.argument_without_secrets("url_in_log", word), &part[word.len()..])
                }
                false => part.to_owned(),
            }
        };
        words.split_inclusive(is_end).map(part).collect()
    }
}

/// The name that ends where a `=` stands.
fn name_before(words: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    &words[words.trim_end_matches(is_name).len()..]
}

/// The value that begins at `at`: up to its quote, or to a blank outside quotes. An argument that is all of a message may have had
/// quotes that are lost, and ends with the line.
fn value_after(words: &str, at: usize, name_bytes: usize) -> &str {
    let rest = &words[at..];
    let before = words[..at - 1 - name_bytes].trim_end();
    let is_all = before.is_empty() || before.ends_with([']', ';']) || before.ends_with("kernel:");
    if is_all {
        return rest;
    }
    // Inside a quotation, its end is the value's.
    let enclosing = before.chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`' | '('));
    let mut open: Option<char> = None;
    for (index, c) in rest.char_indices() {
        match open {
            Some(quote) if c == quote => open = None,
            Some(_) => {}
            None if c.is_whitespace() => return &rest[..index],
            None if matches!(
                (enclosing, c),
                (Some('"'), '"') | (Some('\'' | '`'), '\'') | (Some('('), ')')
            ) =>
            {
                return &rest[..index];
            }
            None if matches!(c, '"' | '\'') => open = Some(c),
            None => {}
        }
    }
    rest
}
