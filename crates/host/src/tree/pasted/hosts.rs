//! Whether a text, or several, hold the output of one host.

use super::{HOST_NAME, LISTINGS, LOG, Part, Parts};
use crate::kernel::Log;
use crate::pci::lspci;
use crate::{Text, Tree};
use std::collections::BTreeMap;

/// Names that a kernel's log has before the host knows its own.
const NAMELESS: [&str; 4] = ["localhost", "(none)", "kernel", "debian"];

/// What the kernel of an architecture, and of no other, says when it boots.
const BOOT_MESSAGES: [(&str, &[&str]); 3] = [
    ("x86", &["BIOS-e820: ", "x86/fpu: "]),
    ("POWER", &["radix-mmu: ", "hash-mmu: ", "OF stdout device is"]),
    ("Arm", &["Booting Linux on physical CPU", "GICv3: "]),
];

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
pub(super) fn check(name: &str, parts: &Parts, prompts: &[(u32, String)]) -> Result<(), SeveralHosts> {
    let of_uname = parts.get("uname").into_iter().flat_map(Part::lines);
    let of_uname = of_uname.filter_map(|(line, words)| Some((line, name_in_uname(words)?.to_owned())));
    let mut named: Vec<(u32, String)> = prompts.iter().cloned().chain(of_uname).collect();
    named.sort();
    let found = parts
        .get(LOG)
        .and_then(other_host_in_log)
        .or_else(|| other_name(&named))
        .or_else(|| other_device_in_text(parts));
    none_other(name, found)
}

/// Checks that a log, which is one section of a report, is of one host.
pub(super) fn check_log(name: &str, log: &Part) -> Result<(), SeveralHosts> {
    none_other(name, other_host_in_log(log))
}

/// Checks that logs are of one architecture.
pub(super) fn check_architectures<'l>(
    logs: impl Iterator<Item = (&'l str, &'l Part)>,
) -> Result<(), SeveralHosts> {
    let mut told = logs.filter_map(|(name, log)| Some((name, architectures(log).next()?.1)));
    let Some((known_name, known)) = told.next() else { return Ok(()) };
    match told.find(|(_, other)| *other != known) {
        Some((name, other)) => {
            let what = format!("the kernel of one is of {known}, and that of the other of {other}");
            Err(SeveralHosts { file: format!("{known_name}, {name}"), what, cut_after: None })
        }
        None => Ok(()),
    }
}

/// An error if another host was found in a text: what shows it, and the last line before it.
fn none_other(name: &str, found: Option<(String, u32)>) -> Result<(), SeveralHosts> {
    match found {
        Some((what, cut_after)) => {
            Err(SeveralHosts { file: name.to_owned(), what, cut_after: Some(cut_after) })
        }
        None => Ok(()),
    }
}

/// Checks that the parts chosen from several texts are of one host, as far as logs tell their host's name and listings their
/// devices.
pub(super) fn check_together(best: &BTreeMap<&'static str, (String, Part)>) -> Result<(), SeveralHosts> {
    match other_host(best).or_else(|| other_device_in_texts(best)) {
        Some((file, what)) => Err(SeveralHosts { file, what, cut_after: None }),
        None => Ok(()),
    }
}

/// Two texts, and the hosts that they name: the log, `uname`, and the file with the host's name.
fn other_host(best: &BTreeMap<&'static str, (String, Part)>) -> Option<(String, String)> {
    type NameOf = fn(&Part) -> Option<&str>;
    let sources: [(&str, NameOf, &str); 3] = [
        (LOG, |log| log.lines().find_map(|(_, line)| host_name(line)), "the log is of"),
        ("uname", |uname| name_in_uname(&uname.body), "uname printed"),
        (HOST_NAME, |name| Some(name.body.trim()), "the host's name is"),
    ];
    let mut named = sources.into_iter().filter_map(|(path, name_of, words)| {
        let (file, part) = best.get(path)?;
        Some((file, name_of(part)?, words))
    });
    let (file, name, words) = named.next()?;
    let (other_file, other, other_words) = named.find(|(_, other, _)| !is_same(name, other))?;
    let what = format!("{words} `{name}`, and {other_words} `{other}`");
    (file != other_file).then(|| (format!("{file}, {other_file}"), what))
}

/// Checks that a text with the host's name has the same as the one before.
pub(super) fn check_name(
    best: &BTreeMap<&'static str, (String, Part)>,
    path: &str,
    file: &str,
    part: &Part,
) -> Result<(), SeveralHosts> {
    let Some((known_file, known)) = best.get(HOST_NAME).filter(|_| path == HOST_NAME) else { return Ok(()) };
    let (known, name) = (known.body.trim(), part.body.trim());
    if is_same(known, name) {
        return Ok(());
    }
    let what = format!("the host's name is `{known}` and `{name}`");
    Err(SeveralHosts { file: format!("{known_file}, {file}"), what, cut_after: None })
}

/// Functions of a listing that are compared: as many as one PCI segment has addresses.
const COMPARED_MAX: usize = 1 << 16;

/// Checks that a listing beside a capture shows no other device than the capture's sysfs has at the same address.
pub(in crate::tree) fn check_beside(capture: &Tree, listing: &Text) -> Result<(), SeveralHosts> {
    let id = |address: crate::Bdf, which: &str| {
        let value = capture.value(&format!("sys/bus/pci/devices/{address}/{which}"))?.value;
        u16::from_str_radix(value.trim_start_matches("0x"), 16).ok()
    };
    for record in lspci::joined(lspci::parse(listing)).into_iter().take(COMPARED_MAX) {
        let Some(listed) = record.vendor.zip(record.device) else { continue };
        let Some(captured) = id(record.bdf, "vendor").zip(id(record.bdf, "device")) else { continue };
        if listed != captured {
            let line = record.at.line.unwrap_or(1);
            let what = format!(
                "{} is {:04x}:{:04x} in line {line} and {:04x}:{:04x} in the capture beside it",
                record.bdf, listed.0, listed.1, captured.0, captured.1
            );
            return Err(SeveralHosts { file: listing.file().to_owned(), what, cut_after: None });
        }
    }
    Ok(())
}

/// What shows that a log is of two hosts, and the last line before the second.
fn other_host_in_log(log: &Part) -> Option<(String, u32)> {
    names_of_hosts(log).or_else(|| other_architecture(log))
}

/// Two names of hosts in a log, and the last line before the second. A host that is named anew while it starts goes on
/// counting the seconds since its boot.
fn names_of_hosts(log: &Part) -> Option<(String, u32)> {
    let mut first: Option<(&str, u32)> = None;
    let mut last_seconds = None;
    for (number, line) in log.lines() {
        let seconds = Log::seconds_of(line);
        let goes_on = last_seconds.zip(seconds).is_some_and(|(last, now): (f64, f64)| now >= last);
        last_seconds = seconds;
        let Some(name) = host_name(line) else { continue };
        match first {
            Some((known, at)) if !is_same(known, name) && !goes_on => {
                let what = format!("lines {at} and {number} are of the hosts `{known}` and `{name}`");
                return Some((what, number.saturating_sub(1)));
            }
            Some((known, _)) if is_same(known, name) => {}
            _ => first = Some((name, number)),
        }
    }
    None
}

/// The lines of a log that only one architecture's kernel says, each with that architecture.
fn architectures(log: &Part) -> impl Iterator<Item = (u32, &'static str)> {
    let of_line = |line: &str| {
        let says = |(_, messages): &&(&str, &[&str])| messages.iter().any(|one| line.contains(one));
        BOOT_MESSAGES.iter().find(says).map(|(architecture, _)| *architecture)
    };
    log.lines().filter_map(move |(number, line)| Some((number, of_line(line)?)))
}

/// Two architectures that a log is of, and the last line before the boot of the second.
fn other_architecture(log: &Part) -> Option<(String, u32)> {
    let mut told = architectures(log);
    let (at, known) = told.next()?;
    let (number, other) = told.find(|(_, other)| *other != known)?;
    let is_start =
        |(line, text): &(u32, &str)| *line > at && *line < number && text.contains("Linux version ");
    let start = log.lines().filter(is_start).last().map_or(number, |(line, _)| line);
    let what = format!("lines {at} and {number} are of kernels of {known} and {other}");
    Some((what, start.saturating_sub(1)))
}

/// Two hosts that prompts or `uname` name, and the last line before the second.
fn other_name(named: &[(u32, String)]) -> Option<(String, u32)> {
    let mut named = named.iter().filter(|(_, name)| !NAMELESS.contains(&short(name)));
    let (at, known) = named.next()?;
    let (number, name) = named.find(|(_, name)| !is_same(known, name))?;
    let what = format!("lines {at} and {number} are of the hosts `{known}` and `{name}`");
    Some((what, number.saturating_sub(1)))
}

/// Whether two names may be of one host.
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (short(one), short(other));
    one.eq_ignore_ascii_case(other) || NAMELESS.contains(&one) || NAMELESS.contains(&other)
}

/// The host's name in the output of `uname -a`: `Linux HOST 6.1.0-13-amd64 ...`.
fn name_in_uname(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let (system, name, release) = (words.next()?, words.next()?, words.next()?);
    let is_release = release.starts_with(|c: char| c.is_ascii_digit()) && release.contains('.');
    (system == "Linux" && is_release).then_some(name)
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

/// A function that lspci lists, and the line of the text that it stands in.
type Listed = (u32, lspci::Record);

/// The functions in a part, if it is output of lspci.
fn listed(part: &Part) -> impl Iterator<Item = Listed> {
    let text = crate::Text::new("lspci", part.body.clone());
    lspci::parse(&text).into_iter().map(|record| {
        let line = record.at.line.unwrap_or(1) as usize;
        (part.numbers.get(line.saturating_sub(1)).copied().unwrap_or(1), record)
    })
}

/// An address at which the listings of a text show two devices, and the last line before the second.
fn other_device_in_text(parts: &Parts) -> Option<(String, u32)> {
    let of_formats = LISTINGS.into_iter().filter_map(|(_, path)| parts.get(path));
    let mut functions: Vec<Listed> = of_formats.flat_map(listed).collect();
    functions.sort_by_key(|(line, _)| *line);
    let ((at, earlier), (other, _)) = two_devices(functions.iter().map(|listed| (listed, &listed.1)))?;
    let what = format!("{} is one device in line {at} and another in line {other}", earlier.bdf);
    Some((what, other.saturating_sub(1)))
}

/// Two texts whose listings show two devices at one address, and which.
fn other_device_in_texts(best: &BTreeMap<&'static str, (String, Part)>) -> Option<(String, String)> {
    let of_formats = LISTINGS.into_iter().filter_map(|(_, path)| best.get(path));
    let functions: Vec<(&str, Listed)> =
        of_formats.flat_map(|(name, part)| listed(part).map(move |listed| (name.as_str(), listed))).collect();
    let ((name, (at, earlier)), (other_name, (other, _))) =
        two_devices(functions.iter().map(|function| (function, &function.1.1)))?;
    let what = format!(
        "{} is one device in line {at} of {name} and another in line {other} of {other_name}",
        earlier.bdf
    );
    Some((format!("{name}, {other_name}"), what))
}

/// The first two functions with one address that cannot be the same device.
fn two_devices<'a, T: Copy>(functions: impl Iterator<Item = (T, &'a lspci::Record)>) -> Option<(T, T)> {
    let mut known: BTreeMap<crate::Bdf, (T, &lspci::Record)> = BTreeMap::new();
    for (place, record) in functions {
        match known.get(&record.bdf) {
            Some((earlier, known)) if !known.may_be(record) => return Some((*earlier, place)),
            Some(_) => {}
            None => {
                known.insert(record.bdf, (place, record));
            }
        }
    }
    None
}
