//! What leaves a host and should not: secrets, and identifiers of the host and its devices.
//!
//! Two things call this. `iotoll capture` passes every file and path through a [`Redactor`] before it writes them. And [`Tree`]
//! passes command lines and logs through `without_secrets` when it reads them, so that no document, page or terminal shows a
//! password: lines and their numbers stay, so evidence still cites them.
//!
//! ```
//! use host::redact::{Key, Redactor};
//! let mut redactor = Redactor::new(Key::new([7; Key::BYTES]));
//! let file = redactor.file("proc/cmdline", b"intel_iommu=on rd.iscsi.password=x ip=10.0.0.1:::::eth0:off\n".to_vec());
//! let words = String::from_utf8_lossy(&file);
//! assert!(words.starts_with("intel_iommu=on rd.iscsi.password=redacted ip=redacted-"));
//! assert_eq!(redactor.counts().to_string(), "1 secret, 1 boot source");
//! ```
//!
//! Pitfalls:
//! - Options that verdicts read are never touched (`data/kernel/options.toml` is the table), so that a redacted capture gives the same
//!   verdicts (test `redact`).
//! - A pseudonym is recognised by its mark and left as it is. So who makes a capture by hand can have up to 40 bits of
//!   its own data pass unchanged, by giving them a pseudonym's form; it cannot make another's data pass.
//! - Names of interfaces and disks, file systems and drivers stay: they are how users know their adapters.
//!
//! [`Tree`]: crate::Tree

mod announced;
mod arguments;
mod boot;
mod config;
mod diagnosed_option;
mod kind;
mod log;
mod pattern;
mod pseudonym;
mod public;
mod reads;
mod rules;
mod secrets;
mod sign;
mod syslog_prefix;

pub use kind::{Counts, Kind};
pub use pseudonym::Key;
pub use reads::{Content, READS, Read, content_of, manual, row_of};

use crate::kernel::grub;
use diagnosed_option::is_diagnosed;
use secrets::Found;
use std::collections::BTreeSet;
use std::ops::Range;

/// Names shorter than this are left alone outside the places where names of hosts stand: too many words look like them.
const HOST_CHARS_MIN: usize = 6;
/// Real files need two, of which the second changes nothing.
const ROUNDS_MAX: usize = 8;
/// A log of several hosts has some names, not one for each line.
const HOSTS_MAX: usize = 64;
/// Names that many hosts have, and that stand in logs for other reasons.
const COMMON_HOSTS: [&str; 12] = [
    "localhost",
    "debian",
    "ubuntu",
    "fedora",
    "centos",
    "archlinux",
    "raspberrypi",
    "proxmox",
    "kernel",
    "systemd",
    "opensuse",
    "manjaro",
];

/// Redacts the files and paths of one host.
#[derive(Clone)]
pub struct Redactor {
    /// `None`: identifiers are kept, only secrets go.
    key: Option<Key>,
    secrets: Found,
    hosts: BTreeSet<String>,
    counts: Counts,
}

impl Redactor {
    /// Redacts secrets and identifiers; pseudonyms depend on the key.
    pub fn new(key: Key) -> Self {
        Self { key: Some(key), ..Self::of_secrets() }
    }

    /// Redacts secrets alone.
    pub fn of_secrets() -> Self {
        Self { key: None, secrets: Found::default(), hosts: BTreeSet::new(), counts: Counts::default() }
    }

    /// How many places were redacted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Looks for secrets and the host's name in a file. Those found are redacted in every file afterwards, wherever they stand.
    pub fn learn(&mut self, path: &str, bytes: &[u8]) {
        let counts = self.counts.clone();
        let text = String::from_utf8_lossy(bytes);
        match content_of(path) {
            Content::CommandLine => {
                self.redact_command_line(&text);
            }
            Content::BootLoader => {
                self.redact_boot_loader(&text);
            }
            Content::Log => {
                for line in text.lines() {
                    self.learn_host(log::find_host_name(line));
                }
                self.redact_log(&text);
            }
            Content::Uname => {
                self.learn_host(host_name_in_uname(&text));
            }
            Content::HostName => text.split_whitespace().for_each(|name| self.learn_host(Some(name))),
            _ => {}
        }
        self.counts = counts;
    }

    /// Remembers a host name, if it is rare enough to be replaced wherever it stands.
    fn learn_host(&mut self, host: Option<&str>) {
        self.hosts
            .extend(host.filter(|host| self.hosts.len() < HOSTS_MAX && is_own_name(host)).map(str::to_owned));
    }

    /// A file's bytes as they may leave the host.
    pub fn file(&mut self, path: &str, bytes: Vec<u8>) -> Vec<u8> {
        match content_of(path) {
            Content::Property => match String::from_utf8(bytes) {
                Ok(text) => self
                    .until_nothing_changes(text, |redactor, text| redactor.redact_table(text).into())
                    .into_bytes(),
                Err(binary) => binary.into_bytes(),
            },
            Content::Config => self.redact_config(bytes),
            Content::Public => bytes,
            content => {
                let redact = redaction_of_secrets(content).unwrap_or(match content {
                    Content::Listing => |redactor, text| redactor.redact_listing(text).into(),
                    Content::Uname => |redactor, text| redactor.redact_uname(text).into(),
                    Content::HostName => |redactor, text| redactor.redact_host_name(text).into(),
                    Content::Partition => |redactor, text| redactor.redact_partition(text).into(),
                    _ => |redactor, text| redactor.redact_table(text).into(),
                });
                // As the tree reads them: bytes that are not UTF-8 could cut a secret in two.
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.until_nothing_changes(text, redact).into_bytes()
            }
        }
    }

    /// Redacts a text until nothing changes. Where a quote or a blank went with a secret, the rest may read differently; and a capture
    /// of a capture must be the same.
    fn until_nothing_changes(&mut self, mut text: String, redact: Redaction) -> String {
        for _ in 0..ROUNDS_MAX {
            let round = redact(self, &text);
            let is_last = round.is_last || round.text == text;
            text = round.text;
            if is_last {
                break;
            }
        }
        text
    }

    /// A path, or the target of a link, as it may leave the host: names may hold MAC addresses, UUIDs and location codes.
    pub fn path(&self, path: &str) -> String {
        match &self.key {
            Some(key) => rules::replace_by_form(key, path, &mut Counts::default()).text,
            None => path.to_owned(),
        }
    }

    /// The value of an argument of the command line, redacted.
    fn redact_argument(&mut self, name: &str, value: &str) -> String {
        let value = self.argument_without_secrets(name, value);
        let Some(key) = self.key.clone() else { return value };
        let value = match is_diagnosed(name) {
            true => value,
            false => self.replace_known_values(&value),
        };
        boot::without_identifiers(&key, name, &value, &mut self.counts)
    }

    /// The value of an argument without its secrets.
    fn argument_without_secrets(&mut self, name: &str, value: &str) -> String {
        let masked = secrets::without_secrets(name, value, &mut self.secrets);
        if masked != value {
            self.count_secret();
        }
        masked
    }

    /// Redacts the configuration of a boot loader. Lines without kernel options become empty, so that the others keep their numbers.
    fn redact_boot_loader(&mut self, text: &str) -> String {
        let redact = |line: &str| match grub::assignment(line) {
            Some(grub::Assignment { variable, quote, value }) => {
                format!("{variable}={quote}{}{quote}\n", self.redact_command_line(value).trim_end())
            }
            // What only a shell can read leaves the variable unknown.
            None => {
                grub::variable(line).map_or_else(|| "\n".to_owned(), |variable| format!("{variable}=$\n"))
            }
        };
        text.lines().map(redact).collect()
    }

    /// Counts a secret.
    fn count_secret(&mut self) {
        self.counts.add(Kind::Secret);
    }

    /// Redacts a table or a single value.
    fn redact_table(&mut self, text: &str) -> String {
        let Some(key) = &self.key else { return text.to_owned() };
        let text = rules::replace_by_form(key, text, &mut self.counts).text;
        let text = rules::replace_by_context(key, &text, &mut self.counts).text;
        self.replace_known_values(&text)
    }

    /// Redacts the output of lspci.
    fn redact_listing(&mut self, text: &str) -> String {
        let Some(key) = &self.key else { return text.to_owned() };
        let text = config::redact_dumps(key, text, &mut self.counts);
        self.redact_table(&text)
    }

    /// Redacts the output of `uname -a`, whose second word is the host's name.
    fn redact_uname(&mut self, text: &str) -> String {
        let at = host_name_in_uname(text)
            .and_then(|host| text.find(&format!(" {host} ")).map(|at| at + 1..at + 1 + host.len()));
        let text = match at {
            Some(range) => self.replace_host(text, range),
            None => text.to_owned(),
        };
        self.redact_table(&text)
    }

    /// Redacts a file that has the host's name alone: every line of it.
    fn redact_host_name(&mut self, text: &str) -> String {
        let line = |line: &str| {
            let name = line.trim();
            let start = line.len() - line.trim_start().len();
            if name.is_empty() { line.to_owned() } else { self.replace_host(line, start..start + name.len()) }
        };
        text.split_inclusive('\n').map(line).collect()
    }

    /// Redacts `/proc/powerpc/lparcfg`, lines of `name=value`.
    fn redact_partition(&mut self, text: &str) -> String {
        const OWN: [&str; 5] = ["serial_number", "partition_name", "system_id", "group_name", "host_serial"];
        let Some(key) = self.key.clone() else { return text.to_owned() };
        let line = |line: &str| match line.trim_end().split_once('=') {
            Some((name, value)) if OWN.contains(&name) && !value.is_empty() => {
                let word = key.word(value);
                if word != value {
                    self.counts.add(if name == "partition_name" { Kind::Name } else { Kind::SerialNumber });
                }
                format!("{name}={word}{}", &line[line.trim_end().len()..])
            }
            _ => line.to_owned(),
        };
        text.split_inclusive('\n').map(line).collect()
    }

    /// Redacts a configuration space in binary form.
    fn redact_config(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(key) = &self.key {
            config::redact(key, &mut bytes, &mut self.counts);
        }
        bytes
    }

    /// The text with the host name at `range` replaced by its pseudonym.
    fn replace_host(&mut self, text: &str, range: Range<usize>) -> String {
        let Some(key) = &self.key else { return text.to_owned() };
        let host = &text[range.clone()];
        let pseudonym = match host {
            "(none)" | "localhost" => host.to_owned(),
            host => key.host(host),
        };
        if pseudonym != host {
            self.counts.add(Kind::Name);
        }
        format!("{}{pseudonym}{}", &text[..range.start], &text[range.end..])
    }

    /// Replaces the secrets and host names found before, where they stand as words of their own.
    fn replace_known_values(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.within(&text) {
            if let Some(without) = replace_word(&text, &secret, |_| pseudonym::REDACTED.to_owned()) {
                text = without;
                self.counts.add(Kind::Secret);
            }
        }
        let Some(key) = &self.key else { return text };
        for host in self.hosts.iter().rev() {
            if let Some(without) = replace_word(&text, host, |host| key.host(host)) {
                text = without;
                self.counts.add(Kind::Name);
            }
        }
        text
    }
}

/// The host's name in the output of `uname -a`.
fn host_name_in_uname(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    words.next().filter(|first| *first == "Linux").and_then(|_| words.next())
}

/// Whether a host's name is rare enough to be redacted wherever it stands. One of hexadecimal digits could be part of an address.
fn is_own_name(host: &str) -> bool {
    let lower = host.to_ascii_lowercase();
    host.len() >= HOST_CHARS_MIN
        && !pseudonym::is_word(host)
        && !COMMON_HOSTS.contains(&lower.as_str())
        && lower.bytes().any(|byte| matches!(byte, b'g'..=b'z'))
        && !is_diagnosed(host)
}

/// Replaces a word where neither side is a letter or digit; `None` if it is not there.
fn replace_word(text: &str, word: &str, pseudonym: impl Fn(&str) -> String) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    for (at, found) in text.match_indices(word) {
        let end = at + found.len();
        if is_inside(text[..at].chars().next_back()) || is_inside(text[end..].chars().next()) {
            continue;
        }
        out.push_str(&text[copied..at]);
        out.push_str(&pseudonym(found));
        copied = end;
    }
    (copied > 0).then(|| {
        out.push_str(&text[copied..]);
        out
    })
}

/// A text after a round of redaction.
struct Round {
    text: String,
    /// A further round is known to change nothing.
    is_last: bool,
}

impl From<String> for Round {
    fn from(text: String) -> Self {
        Self { text, is_last: false }
    }
}

/// How a text is redacted.
type Redaction = fn(&mut Redactor, &str) -> Round;

/// How texts are redacted that may hold secrets; `None` of those that hold none.
fn redaction_of_secrets(content: Content) -> Option<Redaction> {
    match content {
        Content::CommandLine => Some(|redactor, text| redactor.redact_command_line(text).into()),
        Content::BootLoader => Some(|redactor, text| redactor.redact_boot_loader(text).into()),
        Content::Log => Some(Redactor::redact_log),
        Content::Listing
        | Content::Uname
        | Content::HostName
        | Content::Partition
        | Content::Property
        | Content::Config
        | Content::Text
        | Content::Public => None,
    }
}

/// A text of this path without its secrets: what every reader of a host sees.
pub(crate) fn without_secrets(path: &str, text: String) -> String {
    match redaction_of_secrets(content_of(path)) {
        Some(redact) => Redactor::of_secrets().until_nothing_changes(text, redact),
        None => text,
    }
}
