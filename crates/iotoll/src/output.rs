//! The one way out: data to standard output, talk to standard error, what the terminal can show, and how a command
//! ended. Nothing else of the program writes to a terminal (test `house`), so that what files and arguments hold is
//! shown here and never obeyed.

use anyhow::{Context, ensure};
use escape::terminal;
use host::Host;
use indicatif::ProgressBar;
use report::{Length, Style};
use serde::Serialize;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// How a command ended, when not in an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to complain of.
    Fine,
    /// There are findings, or something that they rest on could not be read: a script that goes on after exit
    /// status 0 expects that everything was looked at.
    Findings,
}

impl Outcome {
    pub(crate) fn of(findings: usize) -> Self {
        if findings == 0 { Self::Fine } else { Self::Findings }
    }

    /// What an inspection comes to, by the findings that concern the user.
    pub(crate) fn of_inspection(host: &Host, findings: usize) -> Self {
        if host.doubts().next().is_some() { Self::Findings } else { Self::of(findings) }
    }
}

/// Columns where standard output is no terminal and COLUMNS does not say.
const WIDTH_DEFAULT: usize = 100;
/// Narrower than this nothing reads well.
const WIDTH_MIN: usize = 40;

/// Columns of the output.
pub(crate) fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    asked.or_else(seen).filter(|columns| *columns > 0).unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN)
}

/// Colour on a terminal, unless the user's environment says otherwise (NO_COLOR, CLICOLOR).
pub(crate) fn style() -> Style {
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => Style::Plain,
        _ if io::stdout().is_terminal() => Style::Colour,
        anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => Style::Colour,
        anstream::ColorChoice::Auto => Style::Plain,
    }
}

/// Writes text: a report with its colours, or a document.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(terminal::screen(text).as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    Ok(stdout.flush()?)
}

/// Writes a report of lines, no more of them than anybody reads unless all were asked for.
pub(crate) fn report(text: String) -> anyhow::Result<()> {
    data(&length().of_report(text))
}

/// Whether all of each report was asked for.
static LENGTH: OnceLock<Length> = OnceLock::new();

/// Sets how long reports are, once.
pub(crate) fn set_length(length: Length) {
    // A second time would be a mistake of ours that harms nobody.
    let _ = LENGTH.set(length);
}

/// How long reports are.
pub(crate) fn length() -> Length {
    LENGTH.get().copied().unwrap_or(Length::Folded)
}

/// Writes one JSON document.
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document).context("can't write the document as JSON")?;
    data(&escape::json::ascii_controls(&text))
}

/// Standard output for bytes that are no text, which a terminal would obey.
pub(crate) fn bytes() -> anyhow::Result<io::StdoutLock<'static>> {
    let stdout = io::stdout();
    ensure!(
        !stdout.is_terminal(),
        "standard output is a terminal, and what would be written is no text; expected -o FILE, or a pipe as in `| hexdump -C`"
    );
    Ok(stdout.lock())
}

/// Talks to whoever started the command, in one line. If nobody listens, nothing is lost.
pub(crate) fn say(words: &str) {
    let _ = writeln!(io::stderr(), "{}", terminal::plain(words));
}

/// The same with a report of several lines.
pub(crate) fn say_report(report: &str) {
    let _ = writeln!(io::stderr(), "{}", terminal::screen(report));
}

/// Says why something failed: each cause once, in one line unless it is of [`Lines`].
pub(crate) fn complain(error: &anyhow::Error) {
    match error.downcast_ref::<Lines>() {
        Some(Lines(lines)) => {
            let lines: Vec<String> = lines.iter().map(|line| terminal::plain(line)).collect();
            let _ = writeln!(io::stderr(), "iotoll: {}", lines.join("\n"));
        }
        None => say(&format!("iotoll: {error:#}")),
    }
}

/// An error of several lines. What one of them holds from outside begins no other.
#[derive(Debug)]
pub(crate) struct Lines(pub(crate) Vec<String>);

impl Lines {
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

/// Shows what a bar is about.
pub(crate) fn show_progress(bar: &ProgressBar, what: &str) {
    bar.set_message(terminal::plain(what));
}

/// A reader that closes the pipe early has seen enough: no error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
