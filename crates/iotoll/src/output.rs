//! The only module that writes to standard output and standard error. It replaces control characters that come from files and
//! arguments, so that a terminal never obeys them; the test `house` checks that no other module writes. It also has the terminal's
//! properties (width, colour) and a command's outcome, which becomes the exit status.

use anyhow::{Context, ensure};
use escape::terminal;
use host::Host;
use indicatif::ProgressBar;
use report::{Length, Page, Style};
use serde::Serialize;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

/// The result of a command that did not fail; it becomes the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No findings: exit status 0.
    Fine,
    /// Findings, or something that they rest on could not be read: exit status 1. A script that continues after status 0 may
    /// rely on everything having been read.
    Findings,
}

impl Outcome {
    /// The outcome of a command with so many findings.
    pub(crate) fn of_findings(findings: usize) -> Self {
        if findings == 0 { Self::Fine } else { Self::Findings }
    }

    /// The outcome of an inspection with so many findings about the adapters shown, problems in the log that no finding is
    /// about among them.
    pub(crate) fn of_inspection(host: &Host, findings: usize) -> Self {
        if host.doubts().next().is_some() { Self::Findings } else { Self::of_findings(findings) }
    }
}

/// Columns if standard output is no terminal and COLUMNS is not set.
const WIDTH_DEFAULT: usize = 100;
/// Minimum, because narrower tables are unreadable.
const WIDTH_MIN: usize = 40;

/// Width of the output in columns: COLUMNS, else the terminal's.
pub(crate) fn width() -> usize {
    let from_environment = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let from_terminal =
        || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    from_environment
        .or_else(from_terminal)
        .filter(|columns| *columns > 0)
        .unwrap_or(WIDTH_DEFAULT)
        .max(WIDTH_MIN)
}

/// Colour if standard output is a terminal; NO_COLOR and CLICOLOR override that.
pub(crate) fn style() -> Style {
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => Style::Plain,
        _ if io::stdout().is_terminal() => Style::Colour,
        anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => Style::Colour,
        anstream::ColorChoice::Auto => Style::Plain,
    }
}

/// Writes text to standard output: a report with its colours, or a document.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(terminal::screen(text).as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    Ok(stdout.flush()?)
}

/// Writes a report to standard output, cut to its first lines unless `--full` was given.
pub(crate) fn print_report(text: String) -> anyhow::Result<()> {
    print_text(&report_length().cut_report(text))
}

/// Lays a page out and writes it to standard output.
pub(crate) fn print_page(page: &Page) -> anyhow::Result<()> {
    print_report(page_text(page))
}

/// A page as text, with the width and colours of standard output.
pub(crate) fn page_text(page: &Page) -> String {
    report::text(page, width(), style(), report_length())
}

/// Whether `--full` was given; set once in `main`.
static LENGTH: OnceLock<Length> = OnceLock::new();

/// Sets whether reports are cut. Only the first call has an effect.
pub(crate) fn set_report_length(length: Length) {
    let _ = LENGTH.set(length);
}

/// Whether reports are cut to their first lines.
pub(crate) fn report_length() -> Length {
    LENGTH.get().copied().unwrap_or(Length::Folded)
}

/// Writes one JSON document to standard output, with control characters escaped.
pub(crate) fn print_json(document: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document).context("can't write the document as JSON")?;
    print_text(&escape::json::ascii_controls(&text))
}

/// Standard output, for binary data. Fails if it is a terminal, which would obey control characters.
pub(crate) fn stdout_for_binary() -> anyhow::Result<io::StdoutLock<'static>> {
    let stdout = io::stdout();
    ensure!(
        !stdout.is_terminal(),
        "standard output is a terminal, and the output is binary; expected -o FILE, or a pipe as in `| hexdump -C`"
    );
    Ok(stdout.lock())
}

/// Standard error as another command's standard output, where this program's has a document. What it writes there is its own.
pub(crate) fn stderr_for_command() -> anyhow::Result<std::process::Stdio> {
    Ok(rustix::io::dup(rustix::stdio::stderr())?.into())
}

/// Writes one line to standard error. Write errors are ignored.
pub(crate) fn print_note(words: &str) {
    let _ = writeln!(io::stderr(), "{}", terminal::plain(words));
}

/// Says on standard error that a file was written. Nobody looks for what went to a device or a pipe.
pub(crate) fn print_written(file: &Path) {
    if file.is_file() {
        print_note(&format!("{} written", file.display()));
    }
}

/// Writes several lines to standard error, with the report's colours. Write errors are ignored.
pub(crate) fn print_note_lines(report: &str) {
    let _ = writeln!(io::stderr(), "{}", terminal::screen(report));
}

/// Writes an error and its causes to standard error, in one line unless the error is of [`Lines`].
pub(crate) fn print_error(error: &anyhow::Error) {
    match error.downcast_ref::<Lines>() {
        Some(Lines(lines)) => {
            let lines: Vec<String> = lines.iter().map(|line| terminal::plain(line)).collect();
            let _ = writeln!(io::stderr(), "iotoll: {}", lines.join("\n"));
        }
        None => print_note(&format!("iotoll: {}", with_causes(error))),
    }
}

/// An error and its causes in one line. A cause that the text before already ends with, as those of some libraries do, is not said again.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |text, cause| {
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// An error of several lines. Line feeds inside a line are replaced, so text from outside can't begin a line of its own.
#[derive(Debug)]
pub(crate) struct Lines(pub(crate) Vec<String>);

impl Lines {
    /// An error of one line.
    pub(crate) fn one(words: &impl Display) -> Self {
        Self(vec![words.to_string()])
    }
}

impl Display for Lines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Lines {}

/// Sets the message of a progress bar, with control characters replaced.
pub(crate) fn set_bar_message(bar: &ProgressBar, message: &str) {
    bar.set_message(terminal::plain(message));
}

/// Whether the error is a closed output pipe, as after `| head`. The program then ends with status 0.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn a_cause_is_said_once() {
        let error = anyhow::Error::new(Error::other("External: no space")).context("out.parquet");
        assert_eq!(with_causes(&error), "out.parquet: External: no space");
        let error = anyhow::Error::new(Error::other("no space")).context("External: no space").context("out");
        assert_eq!(with_causes(&error), "out: External: no space");
    }
}
