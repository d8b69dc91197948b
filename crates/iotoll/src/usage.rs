//! Parses the command line. A usage error shows the wrong arguments with control characters replaced.

use crate::cli::Cli;
use crate::output;
use clap::Parser;
use clap::error::Error;
use escape::terminal;
use report::Style;
use std::process::ExitCode;

/// Exit status of a wrong command line.
const USAGE_ERROR: u8 = 2;

/// Parses the arguments of this process. `Err` is the exit status after `--help`, `--version` or a usage error, which are printed here.
pub(crate) fn parse_arguments() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| match error.use_stderr() {
        true => {
            print_usage_error(&error);
            ExitCode::from(USAGE_ERROR)
        }
        // Help and version go to standard output.
        false => match output::print_text(&help_text(&error)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(USAGE_ERROR),
        },
    })
}

/// The text of `--help` or `--version`, in colour if the output is.
fn help_text(shown: &Error) -> String {
    match output::style() {
        Style::Plain => shown.render().to_string(),
        Style::Colour => shown.render().ansi().to_string(),
    }
}

/// Prints a usage error. clap quotes arguments unchanged, so arguments with control characters are parsed again without those, and the
/// error of that is printed.
fn print_usage_error(error: &Error) {
    let typed: Vec<String> = std::env::args_os().map(|one| one.to_string_lossy().into_owned()).collect();
    let plain: Vec<String> = typed.iter().map(|one| terminal::plain(one)).collect();
    let again = if plain == typed { None } else { Cli::try_parse_from(&plain).err() };
    output::print_note_lines(again.as_ref().unwrap_or(error).render().to_string().trim_end());
}
