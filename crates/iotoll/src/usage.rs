//! The command line as it was typed: read, or refused without echoing what a terminal would obey.

use crate::cli::Cli;
use crate::output;
use clap::Parser;
use clap::error::Error;
use escape::terminal;
use report::Style;
use std::process::ExitCode;

/// Exit status of a wrong command line.
const WRONG: u8 = 2;

/// Reads the arguments of this process; `Err` is how it ends without a command: help was asked for, or they are wrong.
pub(crate) fn arguments() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| match error.use_stderr() {
        true => {
            refuse(&error);
            ExitCode::from(WRONG)
        }
        // Help and version are iotoll's own text.
        false => match output::data(&help(&error)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(WRONG),
        },
    })
}

fn help(shown: &Error) -> String {
    match output::style() {
        Style::Plain => shown.render().to_string(),
        Style::Colour => shown.render().ansi().to_string(),
    }
}

/// clap quotes arguments as they are. Where one has characters that steer a terminal, or a line feed that would begin
/// a line of its own, the message is made anew from arguments without them.
fn refuse(error: &Error) {
    let typed: Vec<String> = std::env::args_os().map(|one| one.to_string_lossy().into_owned()).collect();
    let plain: Vec<String> = typed.iter().map(|one| terminal::plain(one)).collect();
    let again = if plain == typed { None } else { Cli::try_parse_from(&plain).err() };
    output::say_report(again.as_ref().unwrap_or(error).render().to_string().trim_end());
}
