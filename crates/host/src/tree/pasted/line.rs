//! What a line of a pasted text looks like.

use super::bound;
use super::prompt;
use super::report::Report;
use super::within::within;
use crate::kernel::message::{DriverMessage, Message};
use crate::kernel::{Log, grub, message};
use crate::pci::lspci::{self, Format};
use std::borrow::Cow;

/// Lines looked at to tell what a text is.
const LINES_MAX: usize = 100_000;
/// Lines shorter than this were not wrapped by any mail program or terminal.
const WRAPPED_COLUMNS_MIN: usize = 60;

/// What a text holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Lines with the time, level or host of a log.
    pub(super) log: bool,
    /// Output of lspci, by its format.
    pub(super) listing: Option<Format>,
    /// Fences, quotes, prompts or files of a host, several formats of lspci, or neither of the two above: it is read line by line.
    pub(super) mixed: bool,
}

impl Shape {
    /// A log from the first line to the last.
    const LOG: Self = Self { log: true, listing: None, mixed: false };

    /// The shape of a text.
    pub(super) fn of(text: &str) -> Self {
        let mut shape = Self::default();
        // Fences, prompts, headings: what a log does not have.
        let mut has_commands = false;
        for line in text.lines().take(LINES_MAX) {
            let plain = clean(line);
            match kind(&plain) {
                Kind::Function { format, indent: 0 } => {
                    shape.mixed |= shape.listing.replace(format).is_some_and(|known| known != format);
                }
                Kind::Log => shape.log |= has_prefix(line),
                // A sentence among the lines of a log quotes a message.
                Kind::Other => shape.mixed |= !within(&plain).is_empty(),
                Kind::File { .. } => shape.mixed = true,
                _ => has_commands = true,
            }
            has_commands |= Report::begun_by(&plain).is_some();
            shape.mixed |= plain.len() != line.trim_end_matches(['\r', '\n']).len();
        }
        if !shape.log && shape.listing.is_none() && !has_commands && Log::is_boot_without_times(text) {
            return Self::LOG;
        }
        shape.mixed |= has_commands || (!shape.log && shape.listing.is_none());
        shape
    }
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'l> {
    /// The fence of a code block.
    Fence,
    /// A command after a prompt; the file of the host that its output belongs in, the function that it asks lspci for, and the
    /// host that the prompt names.
    Command { file: Option<&'static str>, function: Option<&'l str>, host: Option<&'l str> },
    /// The line of a script that lists IOMMU groups: `IOMMU Group 13 07:00.0 Ethernet controller ...`.
    GroupMember { group: u32, listing: &'l str },
    /// The line of such a script above the members of a group: `IOMMU Group 13:`.
    GroupHeading { group: u32 },
    /// A function with its driver, as `dpdk-devbind.py` prints it, in lspci's words.
    Bound([String; 4]),
    /// The first line of one of lspci's records or trees, after so many blanks.
    Function { format: Format, indent: usize },
    /// A message of the kernel.
    Log,
    /// A function in a group, as `find /sys/kernel/iommu_groups` prints it.
    GroupLink { group: u32, name: &'l str },
    /// Words that stand in this file of the host.
    File { path: &'static str, words: &'l str },
    /// Something else.
    Other,
}

/// What a line is, by itself.
pub(super) fn kind(line: &str) -> Kind<'_> {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return Kind::Other;
    }
    if is_fence(trimmed) {
        return Kind::Fence;
    }
    if let Some(record) = bound::record(trimmed) {
        return Kind::Bound(record);
    }
    if let Some(format) = Format::of(trimmed) {
        return Kind::Function { format, indent: line.len() - line.trim_start().len() };
    }
    if let Some(command) = prompt::command(trimmed) {
        let is_lspci = prompt::program(command) == "lspci";
        let function = if is_lspci { lspci::asked_for(command) } else { None };
        return Kind::Command {
            file: prompt::file_of_output(command),
            function,
            host: prompt::host(trimmed),
        };
    }
    if let Some(member) = group_member(trimmed).or_else(|| group_heading(trimmed)) {
        return member;
    }
    if let Some(link) = group_link(trimmed) {
        return link;
    }
    if has_prefix(trimmed) {
        return Kind::Log;
    }
    // apport has the command line as a field of its report.
    if let Some(words) = trimmed.strip_prefix("ProcKernelCmdLine: ") {
        return Kind::File { path: "proc/cmdline", words };
    }
    if let Some(path) = file(trimmed) {
        return Kind::File { path, words: trimmed };
    }
    // An indented line or a field is the body of a record, not a message, whatever its words are.
    let is_body = line.starts_with([' ', '\t']) || lspci::is_field(line);
    if !is_body && is_message(trimmed) { Kind::Log } else { Kind::Other }
}

/// Whether a line opens or closes a block of code in a forum, a chat or an issue.
fn is_fence(line: &str) -> bool {
    const TAGS: [&str; 8] =
        ["[code]", "[/code]", "<pre>", "</pre>", "<code>", "</code>", "{code}", "{noformat}"];
    line.starts_with("```")
        || line.starts_with("~~~")
        || TAGS.iter().any(|tag| line.eq_ignore_ascii_case(tag))
}

/// Whether a line stands for others that somebody left out: `...`, `[...]`.
pub(super) fn is_elision(line: &str) -> bool {
    let mark = line.trim();
    !mark.is_empty() && mark.trim_matches(['.', '[', ']']).is_empty()
}

/// Whether a line begins as lines of a log do: with a time, a level, or `HOST kernel:`.
fn has_prefix(line: &str) -> bool {
    Log::message_of(line).is_some_and(|message| message.len() < line.trim_end().len())
        && !is_of_x_server(line)
}

/// Whether a line begins with a time of the X server's log, `[    12.345] `: the kernel's have six digits behind the point.
fn is_of_x_server(line: &str) -> bool {
    let time =
        line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map(|(time, _)| time.trim_start());
    time.and_then(|time| time.split_once('.')).is_some_and(|(seconds, fraction)| {
        fraction.len() == 3
            && [seconds, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Whether a message is told by words that people use in sentences too: `what fails is pci_alloc_consistent`.
pub(super) fn is_loose(message: &Message) -> bool {
    matches!(message, Message::Driver(DriverMessage::AllocationFailed(_)))
}

/// Whether a line without a time is a message of the kernel; `dmesg -t` and people leave times out.
fn is_message(line: &str) -> bool {
    let names_function = || message::split_device(line).0.is_some_and(|device| device.bdf.is_some());
    let is_command_line = line.starts_with("Command line: ") || line.starts_with("Kernel command line: ");
    // The head of a call trace names the kernel and the machine.
    let is_trace =
        line.starts_with("CPU: ") && line.contains(" Comm: ") || line.starts_with("Hardware name: ");
    is_command_line
        || is_trace
        || names_function()
        || message::read(line).is_some_and(|(_, message)| !is_loose(&message))
}

/// `IOMMU Group 13 07:00.0 Ethernet controller [0200]: ...`, also with a colon after the number.
fn group_member(line: &str) -> Option<Kind<'_>> {
    let rest = line.strip_prefix("IOMMU Group ").or_else(|| line.strip_prefix("IOMMU group "))?;
    let (group, listing) = rest.split_once([' ', ':'])?;
    let listing = listing.trim_start_matches([':', ' ', '\t', '-']);
    let is_record = Format::of(listing) == Some(Format::Listing);
    Some(Kind::GroupMember { group: group.parse().ok()?, listing }).filter(|_| is_record)
}

/// `IOMMU Group 13:`, `IOMMU group 13`.
fn group_heading(line: &str) -> Option<Kind<'_>> {
    let rest = line.strip_prefix("IOMMU Group ").or_else(|| line.strip_prefix("IOMMU group "))?;
    Some(Kind::GroupHeading { group: rest.trim_end_matches(':').parse().ok()? })
}

/// `/sys/kernel/iommu_groups/1/devices/0000:01:00.0`.
fn group_link(line: &str) -> Option<Kind<'_>> {
    let rest = line.strip_prefix("/sys/kernel/iommu_groups/")?;
    let (group, name) = rest.split_once("/devices/")?;
    let name = name.split_whitespace().next()?;
    let is_name = !name.contains('/') && name.len() <= 64;
    Some(Kind::GroupLink { group: group.parse().ok()?, name }).filter(|_| is_name)
}

/// A function in a group, in a list of links that `ls -l` printed: `lrwxrwxrwx ... /sys/kernel/iommu_groups/1/devices/...`.
pub(super) fn listed_group_link(line: &str) -> Option<(u32, &str)> {
    let path = line.get(line.find(" /sys/kernel/iommu_groups/")?..)?;
    match group_link(path.trim_start())? {
        Kind::GroupLink { group, name } => Some((group, name)),
        _ => None,
    }
}

/// The file of the host that a line can only stand in.
fn file(line: &str) -> Option<&'static str> {
    let starts = |start: &str| line.starts_with(start);
    if starts("BOOT_IMAGE=") || (starts("root=") && line.contains(' ')) {
        return Some("proc/cmdline");
    }
    if starts("Linux version ") && line.contains('(') {
        return Some("proc/version");
    }
    if starts("Linux ") && line.contains('#') && (line.ends_with("GNU/Linux") || line.ends_with("Linux")) {
        return Some("uname");
    }
    if starts("GRUB_CMDLINE_LINUX") {
        return Some(grub::FILE);
    }
    if starts("reg") && line.contains(": base=0x") && line.contains("size=") {
        return Some("proc/mtrr");
    }
    if is_iomem(line) {
        return Some("proc/iomem");
    }
    starts("PRETTY_NAME=").then_some("etc/os-release")
}

/// `100000000-c7fffffff : System RAM`.
fn is_iomem(line: &str) -> bool {
    let Some((range, _)) = line.split_once(" : ") else { return false };
    let Some((first, last)) = range.split_once('-') else { return false };
    let is_hex = |text: &str| text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex(first) && is_hex(last)
}

/// Whether a line is the rest of the one before it, of so many columns, which somebody's program wrapped.
pub(super) fn is_wrapped(line: &str, columns_before: usize) -> bool {
    let word = line.trim();
    columns_before >= WRAPPED_COLUMNS_MIN && !word.is_empty() && word.len() < columns_before
}

/// A line without what mail programs, forums and web pages put into it: quotes, hard blanks, tags at its ends.
pub(super) fn clean(line: &str) -> Cow<'_, str> {
    if line.contains('\u{1b}') {
        return Cow::Owned(clean(&without_colours(line)).into_owned());
    }
    let mut rest = line.trim_matches(['\r', '\n']);
    // A quote in a list is indented.
    while let Some(quoted) = rest.trim_start().strip_prefix('>') {
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    // Quotation marks and emphasis around a line.
    for mark in ["\"", "**", "\u{201c}"] {
        if let Some(inner) = rest.strip_prefix(mark).filter(|inner| inner.starts_with(['[', '<'])) {
            rest = inner.trim_end().trim_end_matches(mark).trim_end_matches('\u{201d}');
        }
    }
    if is_fence(rest.trim()) {
        return Cow::Borrowed(rest);
    }
    for (open, close) in [("[code]", "[/code]"), ("[CODE]", "[/CODE]"), ("<pre>", "</pre>"), ("`", "`")] {
        if rest.len() > open.len() + close.len() {
            rest = rest.strip_prefix(open).unwrap_or(rest);
            rest = rest.strip_suffix(close).unwrap_or(rest);
        }
    }
    let mut plain = Cow::Borrowed(rest);
    if rest.contains("**") && !rest.contains("***") {
        plain = Cow::Owned(plain.replace("**", ""));
    }
    if rest.contains('\u{a0}') {
        plain = Cow::Owned(plain.replace('\u{a0}', " "));
    }
    plain
}

/// A line without the escape sequences by which `dmesg --color` and serial consoles paint it.
fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let sequence = part
            .strip_prefix('[')
            .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        match sequence {
            // The letter that ends the sequence.
            Some(rest) => plain.extend(rest.chars().skip(1)),
            None => plain.push_str(part),
        }
    }
    plain
}
