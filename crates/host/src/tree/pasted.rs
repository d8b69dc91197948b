//! Texts in place of a capture: what somebody saved, attached to a report, or pasted into a forum.
//!
//! ```text
//! text ──> lines without quotes and fences ──> parts by what they look like ──> files of a host
//!          (line)                              (this file)                      var/log/dmesg, lspci, proc/cmdline ...
//! ```
//!
//! A text may hold several outputs one after another, between sentences, prompts and code fences. Each line goes to the file of
//! the host in which it belongs; lines of prose belong in none. Citations name the text and its own line. Texts of several
//! hosts are refused, because facts of one would be taken for facts of another.
//!
//! Reports of vendors' tools are cut at their headings (`report`), and some files are known by their names (`named`).

mod bound;
mod earlier_boot;
mod hosts;
mod joined;
mod json_log;
mod line;
mod log_choice;
mod named;
mod prompt;
mod quoted_printable;
mod report;
mod torn;
mod within;

pub use hosts::SeveralHosts;
pub(super) use hosts::check_beside;

use super::memory::Memory;
use super::source::Refusal;
use crate::pci::lspci::{self, Format};
use line::{Kind, Shape};
use log_choice::Candidate;
use named::Named;
use report::Report;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use within::{Within, named_options, within};

/// Where the kernel's log lies in a capture.
pub(super) const LOG: &str = "var/log/dmesg";
/// Where lspci's output lies, by its format: each tells what the others do not.
const LISTINGS: [(Format, &str); 3] =
    [(Format::Listing, LISTING), (Format::MachineReadable, "lspci_-mm"), (Format::Tree, "lspci_-tv")];
pub(super) const LISTING: &str = "lspci";
/// Where the host's name lies.
const HOST_NAME: &str = "etc/hostname";
/// Where kernel options lie that a text names in sentences, one in a line.
pub(crate) const NAMED_OPTIONS: &str = "named-options";

/// What a text tells of a host, with the name that citations give the text.
pub(super) struct Pasted {
    pub(super) name: String,
    pub(super) cut: Cut,
}

/// Where the lines of an assembled file come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// The text's name.
    pub(super) file: Arc<str>,
    /// The text's line of each line of the file.
    pub(super) lines: Arc<[u32]>,
}

/// The files of a host that texts tell of.
#[derive(Debug, Default)]
pub(super) struct Assembled {
    pub(super) memory: Memory,
    /// Where each file comes from, by its path.
    pub(super) origins: BTreeMap<String, Origin>,
    /// Texts, or parts of them, that were left out, and why.
    pub(super) left_out: Vec<(String, Refusal)>,
}

impl Assembled {
    /// Adds a file of one line, or replaces it.
    pub(super) fn set(&mut self, path: &str, name: &str, line: &str) {
        self.memory.file(path, format!("{}\n", line.lines().next().unwrap_or_default()));
        let origin = Origin { file: Arc::from(name), lines: Arc::from([1]) };
        self.origins.insert(path.to_owned(), origin);
    }
}

/// What the text of the file at `path` tells of a host; `None` if no line of it tells of any.
pub(super) fn read(path: &str, bytes: &[u8]) -> Option<Cut> {
    let text = decoded(bytes);
    if text.contains('\0') {
        return None;
    }
    let cut = match named::by_name(path, &text) {
        Some(Named::Foreign) => return None,
        Some(Named::File(file)) => Cut::whole(file, &text),
        None => cut(&text),
    };
    let is_empty = cut.parts.is_empty() && cut.members.is_empty() && cut.logs.is_empty();
    (!is_empty).then_some(cut)
}

/// A text in UTF-8, or in UTF-16 as programs of Windows write it, without the zeros that a crash leaves at its end.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => Cow::Owned(wide(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Cow::Owned(wide(rest, u16::from_be_bytes)),
        bytes => {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes))
        }
    }
}

/// The lines of one file of a host, with their numbers in the text.
#[derive(Debug, Default, Clone)]
struct Part {
    numbers: Vec<u32>,
    body: String,
}

impl Part {
    /// A part of one line.
    fn of_line(number: u32, line: &str) -> Self {
        let mut part = Self::default();
        part.push(number, line);
        part
    }

    /// Adds a line.
    fn push(&mut self, number: u32, line: &str) {
        self.numbers.push(number);
        self.body.push_str(line);
        self.body.push('\n');
    }

    /// Adds to the last line what was wrapped off it.
    fn push_wrapped(&mut self, line: &str) {
        self.body.pop();
        self.body.push(' ');
        self.body.push_str(line.trim_start());
        self.body.push('\n');
    }

    /// Takes away the line break behind the last line if the text ended in it: that is how a listing that was cut ends.
    fn leave_open(&mut self, text: &str) {
        let is_last =
            |number: &u32| usize::try_from(*number).is_ok_and(|number| number >= text.lines().count());
        let has_words = self.body.lines().next_back().is_some_and(|line| !line.is_empty());
        if has_words && self.numbers.last().is_some_and(is_last) {
            self.body.pop();
        }
    }

    /// The lines with their numbers.
    fn lines(&self) -> impl Iterator<Item = (u32, &str)> {
        self.numbers.iter().copied().zip(self.body.lines())
    }
}

/// Parts of a text by the path of the host's file.
type Parts = BTreeMap<&'static str, Part>;

/// The log in one section of a report.
#[derive(Debug)]
struct SectionLog {
    heading: String,
    part: Part,
}

/// What was cut out of a text.
#[derive(Debug, Default)]
pub(super) struct Cut {
    parts: Parts,
    /// Logs of a report, of which one is read.
    logs: Vec<SectionLog>,
    /// Headings of a report's logs of earlier boots, which are not read.
    earlier_boots: Vec<String>,
    /// Members of IOMMU groups, with the group's number.
    members: Vec<(u32, String)>,
    /// Hosts that prompts name, with the line.
    hosts: Vec<(u32, String)>,
}

/// Where lspci's output in a format lies.
fn listing(format: Format) -> &'static str {
    LISTINGS.into_iter().find(|(known, _)| *known == format).map_or(LISTING, |(_, path)| path)
}

/// Whether a file is output of lspci.
fn is_listing(path: &str) -> bool {
    LISTINGS.into_iter().any(|(_, known)| known == path)
}

/// Members of groups that are kept: functions of a host.
const MEMBERS_MAX: usize = 1 << 16;

impl Cut {
    /// A text that is one file of the host.
    fn whole(path: &'static str, text: &str) -> Self {
        let mut part = Part::default();
        for (number, line) in (1..).zip(text.lines()) {
            match path == LOG {
                true => joined::messages(line).into_iter().for_each(|message| part.push(number, message)),
                false => part.push(number, line),
            }
        }
        Self { parts: Parts::from([(path, part)]), ..Self::default() }
    }

    /// Gives each line the number that `numbers` has for it, from the first line on.
    fn renumber(&mut self, numbers: &[u32]) {
        let renumber = |number: &mut u32| {
            let at = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
            *number = numbers.get(at).copied().unwrap_or(*number);
        };
        let parts = self.parts.values_mut().chain(self.logs.iter_mut().map(|log| &mut log.part));
        parts.flat_map(|part| &mut part.numbers).for_each(renumber);
        self.hosts.iter_mut().for_each(|(number, _)| renumber(number));
    }

    /// Sets a file of the host in place of what was known of it.
    fn replace(&mut self, path: &'static str, part: Part) {
        self.parts.insert(path, part);
    }

    /// Adds lines to a file of the host.
    fn append(&mut self, path: &'static str, lines: &Part) {
        let part = self.parts.entry(path).or_default();
        lines.lines().for_each(|(number, line)| part.push(number, line));
    }

    /// Adds a function in a group.
    fn add_member(&mut self, (group, name): (u32, &str)) {
        if self.members.len() < MEMBERS_MAX {
            self.members.push((group, name.to_owned()));
        }
    }
}

/// Whether a file has one line, of which a later one is newer.
fn is_single(path: &str) -> bool {
    matches!(path, "proc/cmdline" | "proc/version" | "uname")
}

/// Assembles a host from texts.
///
/// # Errors
/// If one of them holds the output of several hosts.
pub(super) fn assemble(texts: Vec<Pasted>) -> Result<Assembled, SeveralHosts> {
    let mut assembled = Assembled::default();
    let mut best: BTreeMap<&'static str, (String, Part)> = BTreeMap::new();
    let mut logs = Vec::new();
    for Pasted { name, cut: Cut { mut parts, logs: of_sections, earlier_boots, members, hosts } } in texts {
        hosts::check(&name, &parts, &hosts)?;
        for (group, member) in members {
            let path = format!("sys/kernel/iommu_groups/{group}/devices/{member}");
            assembled.memory.link(&path, &format!("../../../../devices/{member}"));
        }
        if let Some(part) = parts.remove(LOG) {
            logs.push(Candidate { text: name.clone(), shown: format!("{name} ({LOG})"), part });
        }
        for SectionLog { heading, part } in of_sections {
            hosts::check_log(&name, &part)?;
            logs.push(Candidate { text: name.clone(), shown: format!("{name} ({heading})"), part });
        }
        let earlier = earlier_boots.into_iter().map(|heading| format!("{name} ({heading})"));
        assembled.left_out.extend(earlier.map(|shown| (shown, Refusal::EarlierBoot)));
        for (path, part) in parts {
            hosts::check_name(&best, path, &name, &part)?;
            let other = keep_longer(&mut best, path, (name.clone(), part));
            let shown = other.map(|other| format!("{other} ({path})"));
            assembled.left_out.extend(shown.map(|shown| (shown, Refusal::AnotherIsRead)));
        }
    }
    hosts::check_architectures(logs.iter().map(|log| (log.text.as_str(), &log.part)))?;
    let (chosen, others) = log_choice::choose(logs);
    assembled.left_out.extend(others.into_iter().map(|log| (log.shown, Refusal::AnotherIsRead)));
    best.extend(chosen.map(|Candidate { text, part, .. }| (LOG, (text, part))));
    hosts::check_together(&best)?;
    for (path, (name, part)) in best {
        assembled.memory.file(path, part.body);
        let origin = Origin { file: Arc::from(name), lines: Arc::from(part.numbers) };
        assembled.origins.insert(path.to_owned(), origin);
    }
    Ok(assembled)
}

/// Keeps the longer one of two texts of the same file; the name of the other one, if there are two.
fn keep_longer(
    best: &mut BTreeMap<&'static str, (String, Part)>,
    path: &'static str,
    (name, part): (String, Part),
) -> Option<String> {
    match best.get(path) {
        Some((_, known)) if known.numbers.len() >= part.numbers.len() => Some(name),
        _ => best.insert(path, (name, part)).map(|(other, _)| other),
    }
}

/// Cuts a text into the files of a host that its lines belong in.
fn cut(text: &str) -> Cut {
    if let Some(cut) = json_log::read(text) {
        return cut;
    }
    if let Some(decoded) = quoted_printable::decode(text) {
        let mut cut = cut_lines(&decoded.body);
        cut.renumber(&decoded.numbers);
        return cut;
    }
    cut_lines(text)
}

/// Cuts a text that is as its host printed it. Its last word may be torn.
fn cut_lines(text: &str) -> Cut {
    let whole = torn::without_torn_word(text);
    let mut cut = cut_whole_lines(whole);
    if let Some(listing) = cut.parts.get_mut(LISTING).filter(|_| whole.len() < text.len()) {
        listing.leave_open(whole);
    }
    cut
}

/// Cuts a text of whole words.
fn cut_whole_lines(text: &str) -> Cut {
    let shape = Shape::of(text);
    // Most texts are one log or one listing: then nothing is cut out of it, and messages without times stay.
    let whole = match shape {
        Shape { log: true, listing: None, mixed: false } => Some(LOG),
        Shape { log: false, listing: Some(format), mixed: false } => Some(listing(format)),
        _ => None,
    };
    if let Some(path) = whole {
        return Cut::whole(path, text);
    }
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line::clean(line);
        joined::messages(&line).into_iter().for_each(|message| reader.take(number, message));
    }
    reader.finish()
}

/// Cuts a text, line by line.
#[derive(Default)]
struct Reader {
    /// What was cut out so far.
    cut: Cut,
    /// Whether a code fence is open.
    in_fence: bool,
    /// The file that the next line may belong in.
    open: Option<&'static str>,
    /// The function that the last command asked lspci for, until its first line is seen, and the command's line.
    asked_for: Option<(u32, String)>,
    /// Whether a command was seen whose output this is: its lines need not look like anything.
    by_command: bool,
    /// Blanks before each line of the listing, which a forum's markup adds.
    indent: usize,
    /// The IOMMU group under whose heading functions are listed.
    group: Option<u32>,
    /// Columns of the last line of the log.
    last_columns: usize,
    /// The report that has begun and not ended.
    report: Option<Report>,
    /// The kernel's banner without a time, if it was the line before.
    banner: Option<(u32, String)>,
}

impl Reader {
    /// What was cut out.
    fn finish(mut self) -> Cut {
        if let Some(mut report) = self.report.take() {
            report.close(&mut self.cut);
        }
        self.cut
    }

    /// Takes a line.
    fn take(&mut self, number: u32, line: &str) {
        if let Some(report) = &mut self.report {
            if !report.take(number, line, &mut self.cut) {
                self.report = None;
            }
            return;
        }
        self.report = Report::begun_by(line);
        if self.report.is_some() {
            return self.close();
        }
        let banner = self.banner.take();
        match line::kind(line) {
            Kind::Fence => {
                self.close();
                self.group = None;
                self.in_fence = !self.in_fence;
            }
            Kind::Command { file, function, host } => {
                self.close();
                self.group = None;
                (self.open, self.by_command) = (file, file.is_some());
                self.asked_for = function.map(|function| (number, function.to_owned()));
                self.cut.hosts.extend(host.map(|host| (number, host.to_owned())));
                // Somebody who prints a file again shows what it holds now.
                if let Some(file) = file.filter(|file| is_single(file)) {
                    self.cut.parts.remove(file);
                }
            }
            Kind::GroupMember { group, listing } => {
                self.push(LISTING, number, listing);
                self.push(LISTING, number, &format!("\tIOMMU group: {group}"));
                self.indent = 0;
            }
            Kind::GroupHeading { group } => {
                self.close();
                self.group = Some(group);
            }
            Kind::Bound(record) => {
                record.iter().for_each(|line| self.push(listing(Format::MachineReadable), number, line));
                self.close();
            }
            Kind::GroupLink { group, name } => {
                self.close();
                self.cut.add_member((group, name));
            }
            Kind::Function { format, indent } => {
                self.asked_for = None;
                self.push(listing(format), number, line.get(indent..).unwrap_or(line));
                self.indent = indent;
                if let Some(group) = self.group.filter(|_| format == Format::Listing) {
                    self.push(LISTING, number, &format!("\tIOMMU group: {group}"));
                }
            }
            Kind::Log => {
                if let Some((number, line)) = banner {
                    self.push(LOG, number, &line);
                }
                let is_command_line = line.contains("ommand line: ");
                self.last_columns = if is_command_line { 0 } else { line.len() };
                self.push(LOG, number, line.trim_start());
            }
            // `dmesg -t` prints lines that other files have, too.
            Kind::File { .. } if self.by_command && self.open == Some(LOG) => {
                self.push(LOG, number, line.trim())
            }
            Kind::File { path, words } => {
                if is_single(path) && self.open != Some(path) {
                    self.cut.parts.remove(path);
                }
                self.push(path, number, words);
                self.banner = (path == "proc/version").then(|| (number, words.to_owned()));
            }
            Kind::Other => self.take_other(number, line),
        }
    }

    /// Takes a line that looks like nothing by itself.
    fn take_other(&mut self, number: u32, line: &str) {
        let is_blank = line.trim().is_empty();
        if is_blank {
            self.group = None;
        }
        match self.open {
            // What people leave out in the middle.
            Some(path) if is_listing(path) && line::is_elision(line) => {}
            Some(path) if is_listing(path) && lspci::continues_record(line) => {
                if let Some((number, function)) = self.asked_for.take_if(|_| !is_blank) {
                    self.push(LISTING, number, &function);
                }
                let text = line.get(self.indent..).filter(|_| line.len() > self.indent).unwrap_or("");
                self.push(path, number, text);
            }
            Some(LOG) if self.by_command && !is_blank => self.push(LOG, number, line.trim()),
            Some(LOG) if !is_blank && self.is_in_event() => {
                if let Some(log) = self.cut.parts.get_mut(LOG) {
                    log.push_wrapped(line);
                }
            }
            Some(LOG) if self.in_fence && line::is_wrapped(line, self.last_columns) => {
                if let Some(log) = self.cut.parts.get_mut(LOG) {
                    log.push_wrapped(line);
                }
            }
            Some(path) if self.by_command && !is_listing(path) && !is_blank && !self.is_complete(path) => {
                self.push(path, number, line.trim())
            }
            // Outputs begin after an empty line as often as not.
            Some(path) if self.by_command && !self.cut.parts.contains_key(path) => {}
            _ => self.take_within(number, line),
        }
    }

    /// Whether a file of one line has it.
    fn is_complete(&self, path: &str) -> bool {
        is_single(path) && self.cut.parts.contains_key(path)
    }

    /// Whether the last message is an event of AMD-Vi that a mail program wrapped: it ends in a bracket.
    fn is_in_event(&self) -> bool {
        let last = self.cut.parts.get(LOG).and_then(|log| log.body.lines().next_back());
        last.is_some_and(|last| last.contains("AMD-Vi: Event logged") && !last.trim_end().ends_with(']'))
    }

    /// Takes what stands inside of a line: messages, functions, kernel options.
    fn take_within(&mut self, number: u32, line: &str) {
        self.close();
        for found in within(line) {
            match found {
                Within::Message(text) => self.push(LOG, number, text),
                Within::Function(text) => self.push(LISTING, number, text),
            }
        }
        for option in named_options(line) {
            self.cut.parts.entry(NAMED_OPTIONS).or_default().push(number, option);
        }
    }

    /// Adds a line to a file, which stays open.
    fn push(&mut self, path: &'static str, number: u32, line: &str) {
        if self.open != Some(path) {
            self.close();
        }
        self.open = Some(path);
        self.cut.parts.entry(path).or_default().push(number, line);
    }

    /// Ends the output that is being read.
    fn close(&mut self) {
        (self.open, self.by_command, self.indent) = (None, false, 0);
        self.asked_for = None;
    }
}

#[cfg(test)]
mod tests;
