//! Whether a text, or several, hold the output of one host.

use super::{LISTING, LOG, Part, Parts};
use crate::kernel::Log;
use crate::pci::lspci;
use std::collections::BTreeMap;

/// Names that a kernel's log has before the host knows its own.
const NAMELESS: [&str; 4] = ["localhost", "(none)", "kernel", "debian"];

/// Texts of several hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeveralHosts {
    /// The text; two, if one of them is of another host.
    pub(super) file: String,
    /// What shows it, with lines.
    pub(super) what: String,
    /// The last line of the first host, where the text can be cut.
    pub(super) cut_after: Option<u32>,
}

impl std::fmt::Display for SeveralHosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; expected the output of one host", self.file, self.what)?;
        match self.cut_after {
            Some(line) => write!(f, ": give its lines 1 to {line} and the rest by themselves"),
            None => write!(f, ": give each by itself"),
        }
    }
}

/// Checks that the parts of one text are of one host.
pub(super) fn check(name: &str, parts: &Parts) -> Result<(), SeveralHosts> {
    let found = parts.get(LOG).and_then(names_of_hosts).or_else(|| parts.get(LISTING).and_then(other_device));
    match found {
        Some((what, cut_after)) => {
            Err(SeveralHosts { file: name.to_owned(), what, cut_after: Some(cut_after) })
        }
        None => Ok(()),
    }
}

/// Checks that the parts chosen from several texts are of one host, as far as logs tell their host's name.
pub(super) fn check_together(best: &BTreeMap<&'static str, (String, Part)>) -> Result<(), SeveralHosts> {
    let (Some((log_name, log)), Some((uname_name, uname))) = (best.get(LOG), best.get("uname")) else {
        return Ok(());
    };
    let of_uname = uname.body.split_whitespace().nth(1);
    let of_log = log.lines().find_map(|(_, line)| host_name(line));
    match (of_log, of_uname) {
        (Some(one), Some(other)) if log_name != uname_name && one != short(other) => Err(SeveralHosts {
            file: format!("{log_name}, {uname_name}"),
            what: format!("the log is of `{one}`, and uname printed `{other}`"),
            cut_after: None,
        }),
        _ => Ok(()),
    }
}

/// Two hosts that a log is of, and the last line before the second.
fn names_of_hosts(log: &Part) -> Option<(String, u32)> {
    let mut first: Option<(&str, u32)> = None;
    for (number, line) in log.lines() {
        let Some(name) = host_name(line) else { continue };
        match first {
            None => first = Some((name, number)),
            Some((known, at)) if known != name => {
                let what = format!("lines {at} and {number} are of the hosts `{known}` and `{name}`");
                return Some((what, number.saturating_sub(1)));
            }
            Some(_) => {}
        }
    }
    None
}

/// The name of the host in a syslog line, `Nov 21 01:22:03 HOST kernel: ...`, without its domain.
fn host_name(line: &str) -> Option<&str> {
    let name = short(Log::host_of(line)?);
    (!NAMELESS.contains(&name)).then_some(name)
}

/// A host's name without its domain.
fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// An address at which a listing shows two devices, and the last line before the second.
fn other_device(listing: &Part) -> Option<(String, u32)> {
    let text = crate::Text::new(LISTING, listing.body.clone());
    let mut known: BTreeMap<crate::Bdf, lspci::Record> = BTreeMap::new();
    for record in lspci::parse(&text) {
        let number = |record: &lspci::Record| {
            let line = record.at.line.unwrap_or(1) as usize;
            listing.numbers.get(line.saturating_sub(1)).copied().unwrap_or(1)
        };
        match known.get(&record.bdf) {
            Some(earlier) if !earlier.may_be(&record) => {
                let (at, other) = (number(earlier), number(&record));
                let what = format!("{} is one device in line {at} and another in line {other}", record.bdf);
                return Some((what, other.saturating_sub(1)));
            }
            Some(_) => {}
            None => {
                known.insert(record.bdf, record);
            }
        }
    }
    None
}
