//! Reports that tools of vendors and distributions write: many outputs in one text, each below a heading.
//!
//! | tool | a section begins with | its heading |
//! |---|---|---|
//! | supportconfig of SUSE | `#==[ Command ]====#` | `# /sbin/lspci -vvv`, `# /proc/cmdline` |
//! | nvidia-bug-report.sh | `________________` | `/usr/bin/lspci -nn`, `*** /proc/iomem`, `dmesg:` |
//! | pvereport of Proxmox VE | an empty line | `# lspci -nnk` |
//!
//! Everything in a report has a heading. So what is below a heading of no use is passed over, whatever it looks like: it
//! may be the log of the X server, or of a guest. In a forum's post it is the other way round (`line`).

use super::{Cut, LISTING, LOG, Part, SectionLog, earlier_boot, is_single, line, prompt};
use crate::kernel::Log;

/// Columns of the rule between two sections of NVIDIA's report, at least.
const RULE_COLUMNS_MIN: usize = 40;
/// Sections of earlier boots that are named, at most.
const EARLIER_MAX: usize = 16;
/// Logs that are compared, at most; a report has some five.
const LOGS_MAX: usize = 64;
/// Characters of a heading that are kept.
const HEADING_CHARS_MAX: usize = 100;

/// The program that wrote a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Supportconfig,
    Nvidia,
    Proxmox,
}

/// What a section holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Content {
    /// A file of the host.
    File(&'static str),
    /// Messages of the kernel among those of programs.
    Journal,
    /// The log of an earlier boot.
    EarlierBoot,
    /// Links of sysfs, as `ls -l` prints them.
    Links,
    /// The host's name.
    HostName,
    /// Versions of packages, that of the running kernel among them.
    Packages,
    /// Nothing of use here.
    #[default]
    Other,
}

/// What a line is for the structure of a report.
enum Mark<'l> {
    /// A section ends, and a heading follows.
    Rule,
    /// The heading of a section.
    Heading(&'l str),
    /// The report ends.
    End,
    /// A line of a section.
    Body,
}

/// A report that is being read.
#[derive(Debug)]
pub(super) struct Report {
    tool: Tool,
    /// Whether the next line that is not empty is a heading.
    awaits_heading: bool,
    /// Whether the line before was empty.
    after_empty: bool,
    heading: String,
    content: Content,
    /// Lines of the section so far. A section replaces another one of the same file only if it has any.
    part: Part,
}

impl Report {
    /// The report that begins with a line.
    pub(super) fn begun_by(line: &str) -> Option<Self> {
        let tool = if line.starts_with("#==[ ") && line.ends_with("=#") {
            Tool::Supportconfig
        } else if line.starts_with("Start of NVIDIA bug report log file") {
            Tool::Nvidia
        } else if line.trim_end() == "==== general system info ====" {
            Tool::Proxmox
        } else {
            return None;
        };
        Some(Self {
            tool,
            awaits_heading: tool == Tool::Supportconfig,
            after_empty: false,
            heading: String::new(),
            content: Content::Other,
            part: Part::default(),
        })
    }

    /// Takes a line; false if the report ends with it.
    pub(super) fn take(&mut self, number: u32, line: &str, cut: &mut Cut) -> bool {
        match self.mark(line) {
            Mark::Rule => {
                self.close(cut);
                self.awaits_heading = true;
            }
            Mark::Heading(heading) => {
                self.close(cut);
                self.open(heading);
            }
            Mark::End => {
                self.close(cut);
                return false;
            }
            Mark::Body => self.take_body(number, line, cut),
        }
        self.after_empty = line.trim().is_empty();
        true
    }

    /// What a line is, by the forms that the tool's script prints.
    fn mark<'l>(&self, line: &'l str) -> Mark<'l> {
        let words = line.trim();
        match self.tool {
            Tool::Supportconfig if line.starts_with("#==[ ") => Mark::Rule,
            Tool::Supportconfig if self.awaits_heading && line.starts_with("# ") => {
                Mark::Heading(line[2..].trim())
            }
            Tool::Nvidia if words.len() >= RULE_COLUMNS_MIN && words.bytes().all(|byte| byte == b'_') => {
                Mark::Rule
            }
            Tool::Nvidia if words.starts_with("End of NVIDIA bug report log file") => Mark::End,
            Tool::Nvidia if words.starts_with("*** /") => Mark::Heading(&words[4..]),
            Tool::Nvidia if self.awaits_heading && !words.is_empty() => {
                Mark::Heading(words.trim_end_matches(':'))
            }
            Tool::Proxmox if line.starts_with("==== ") && words.ends_with(" ====") => Mark::Rule,
            Tool::Proxmox if self.after_empty && line.starts_with("# ") => Mark::Heading(line[2..].trim()),
            _ => Mark::Body,
        }
    }

    /// Begins the section below a heading.
    fn open(&mut self, heading: &str) {
        self.awaits_heading = false;
        self.content = content_of(heading);
        self.heading = heading.chars().take(HEADING_CHARS_MAX).collect();
    }

    /// Takes a line of a section.
    fn take_body(&mut self, number: u32, line: &str, cut: &mut Cut) {
        // What `ls` says of a file that NVIDIA's report holds.
        let is_about_file = self.tool == Tool::Nvidia && line.starts_with("*** ls: ");
        match self.content {
            _ if is_about_file => {}
            Content::File(LISTING) => self.part.push(number, line),
            Content::File(path) if is_single(path) && !self.part.numbers.is_empty() => {}
            Content::File(_) if line.trim().is_empty() => {}
            Content::File(_) => self.part.push(number, line.trim_end()),
            Content::Journal if Log::host_of(line).is_some() => self.part.push(number, line.trim_end()),
            Content::EarlierBoot
                if Log::message_of(line).is_some() && cut.earlier_boots.len() < EARLIER_MAX =>
            {
                cut.earlier_boots.push(std::mem::take(&mut self.heading));
                self.content = Content::Other;
            }
            Content::Links => {
                if let Some(link) = line::listed_group_link(line) {
                    cut.add_member(link);
                }
            }
            Content::HostName if !line.trim().is_empty() => {
                cut.hosts.push((number, line.trim().to_owned()));
                self.content = Content::Other;
            }
            Content::Packages => {
                if let Some(release) = running_kernel(line) {
                    cut.replace("uname", Part::of_line(number, release));
                }
            }
            // The head of NVIDIA's report.
            Content::Other if self.tool == Tool::Nvidia => {
                if let Some(uname) = line.strip_prefix("uname: ") {
                    cut.replace("uname", Part::of_line(number, uname));
                }
            }
            _ => {}
        }
    }

    /// Ends a section.
    pub(super) fn close(&mut self, cut: &mut Cut) {
        let part = std::mem::take(&mut self.part);
        match std::mem::take(&mut self.content) {
            _ if part.numbers.is_empty() => {}
            Content::Journal | Content::File(LOG) if cut.logs.len() < LOGS_MAX => {
                cut.logs.push(SectionLog { heading: std::mem::take(&mut self.heading), part });
            }
            Content::File(LISTING) => cut.append(LISTING, &part),
            Content::Journal | Content::File(LOG) => {}
            Content::File(path) => cut.replace(path, part),
            _ => {}
        }
    }
}

/// How headings end whose file could not be read.
const NOT_THERE: [&str; 3] = ["File not found", "does not exist", "is not readable"];

/// What a section holds, by its heading: a command, or a file's path.
fn content_of(heading: &str) -> Content {
    let program = prompt::program(heading);
    let is_filtered = heading.contains("| grep");
    match program {
        _ if NOT_THERE.iter().any(|end| heading.ends_with(end)) => Content::Other,
        "dmesg" if !is_filtered => Content::File(LOG),
        "journalctl" if is_filtered || !is_whole_journal(heading) => Content::Other,
        "journalctl" if earlier_boot::is_asked_for(heading) => Content::EarlierBoot,
        "journalctl" => Content::Journal,
        "lspci" if !prompt::is_tree(heading) => Content::File(LISTING),
        // `uname -r` says less.
        "uname" if heading.contains("-a") => Content::File("uname"),
        "find" if heading.contains(" /sys") => Content::Links,
        "hostname" => Content::HostName,
        "pveversion" => Content::Packages,
        "cat" => heading.split(' ').nth(1).map_or(Content::Other, content_of_file),
        _ if heading.starts_with('/') => heading.split(' ').next().map_or(Content::Other, content_of_file),
        _ => Content::Other,
    }
}

/// Whether `journalctl` prints the journal, not what one program wrote into it or which boots it has.
fn is_whole_journal(command: &str) -> bool {
    !command.split(' ').any(|word| {
        ["-u", "-t", "--disk-usage"].contains(&word)
            || ["--unit", "--identifier", "--list-boot", "_", "SYSLOG_"]
                .iter()
                .any(|start| word.starts_with(start))
    })
}

/// What a copy of a file holds, by the file's path.
fn content_of_file(path: &str) -> Content {
    match path {
        path if earlier_boot::is_named_by(path) => Content::EarlierBoot,
        "/var/log/messages" | "/var/log/syslog" => Content::Journal,
        "/var/log/dmesg" | "/var/log/kern.log" | "/var/log/boot.msg" => Content::File(LOG),
        path => prompt::copied_file(path).map_or(Content::Other, Content::File),
    }
}

/// The running kernel's release in the output of `pveversion -v`: `proxmox-ve: 8.2.0 (running kernel: 6.8.12-2-pve)`.
fn running_kernel(line: &str) -> Option<&str> {
    line.split_once("(running kernel: ")?.1.split(')').next()
}
